"""Parquet values that Arrow's reader takes on trust: far and fine INT96, texts, ENUM, checksums."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeport.errors import SourceError
from lakeport.sources.frames import frame_flushes
from tests.unit.sources.file_batch import planned, read_table

MARKS = [datetime(2001, 2, 3, 4, 5, 6, n) for n in range(1, 9)]  # found in the file by their bytes
EPOCH_DAY = 2_440_588  # Julian day number of 1970-01-01
DAY = 86_400 * 10**9


def int96(day: int, nanoseconds: int) -> bytes:
    return struct.pack("<QI", nanoseconds, day)


def of(moment: datetime, nanoseconds: int = 0) -> bytes:
    past = moment - datetime(1970, 1, 1)
    fine = (past.seconds * 10**6 + past.microseconds) * 1000 + nanoseconds
    return int96(EPOCH_DAY + past.days, fine)


def write(path: Path, column: pa.Array, *values: bytes) -> None:
    """Write a column of `MARKS` as INT96, with other values in place of the first ones."""
    pq.write_table(
        pa.table({"t": column}),
        path,
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    data = path.read_bytes()
    for mark, value in zip(MARKS, values, strict=False):
        assert data.count(of(mark)) == 1
        data = data.replace(of(mark), value)
    path.write_bytes(data)


def read(path: Path) -> list[dict[str, Any]]:
    return read_table(planned(path)).to_pylist()


FAR = [
    datetime(1, 1, 1),
    datetime(1600, 2, 29, 1, 2, 3, 4),
    datetime(1816, 3, 30, 5, 56, 8, 66277),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2262, 4, 11, 23, 47, 16, 854776),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
SHAPES: dict[str, Any] = {
    "flat": lambda marks: marks,
    "list": lambda marks: pa.ListArray.from_arrays([0, len(marks)], marks),
    "struct": lambda marks: pa.StructArray.from_arrays([marks], ["x"]),
    "map": lambda marks: pa.MapArray.from_arrays(
        [0, len(marks)], pa.array([str(n) for n in range(len(marks))]), marks
    ),
}
PATHS = {"flat": "t", "list": "t.element", "struct": "t.x", "map": "t.value"}


def marks(count: int) -> pa.Array:
    return pa.array(MARKS[:count], pa.timestamp("us"))


@pytest.mark.parametrize("shape", SHAPES)
def test_int96_holds_microseconds_of_all_years(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "t.parquet"
    write(path, SHAPES[shape](marks(len(FAR))), *map(of, FAR))
    rows = [row["t"] for row in read(path)]
    inner = {"flat": rows, "struct": [row["x"] for row in rows if isinstance(row, dict)]}
    values = inner.get(shape) or [v[1] if shape == "map" else v for v in rows[0]]
    assert values == [moment.replace(tzinfo=UTC) for moment in FAR]


def test_times_without_a_zone_are_told_and_int96_has_one(tmp_path: Path) -> None:
    path, columns = tmp_path / "t.parquet", {"t": marks(1), "s": pa.array([{"x": MARKS[0]}])}
    pq.write_table(pa.table(columns), path)
    told = "timestamps without a zone are taken as UTC: 't', 's.x'"
    assert planned(path).notes == (told,)
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True)
    assert planned(path).notes == ()


def test_int96_with_a_day_and_more_of_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path, marks(2), int96(EPOCH_DAY, DAY + 1000))
    assert read(path)[0]["t"] == datetime(1970, 1, 2, tzinfo=UTC) + timedelta(microseconds=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("moment", FAR)
def test_finer_int96_is_refused_by_name(tmp_path: Path, shape: str, moment: datetime) -> None:
    path = tmp_path / "t.parquet"
    write(path, SHAPES[shape](marks(3)), of(moment), of(moment, 900))
    with pytest.raises(SourceError) as caught:
        read(path)
    assert str(path) in caught.value.message
    assert f"column {PATHS[shape]!r} holds timestamps that are finer" in caught.value.message


@pytest.mark.parametrize("day", [1, 1_721_425, 5_373_485, 2**31, 2**32 - 1])
def test_int96_of_other_years_is_refused(tmp_path: Path, day: int) -> None:
    path = tmp_path / "t.parquet"
    write(path, marks(2), int96(day, 0))
    with pytest.raises(SourceError, match=r"t\.parquet': column 't' holds a date outside"):
        read(path)


def test_int96_beside_columns_of_other_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a.b": pa.array([datetime(1, 1, 1)], pa.timestamp("us")),
            "a": pa.array([{"b": 5, "c": datetime(9999, 1, 1)}]),
            "n": pa.array([None], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    (row,) = read(tmp_path / "t.parquet")
    assert row["a.b"] == datetime(1, 1, 1, tzinfo=UTC)
    assert row["a"] == {"b": 5, "c": datetime(9999, 1, 1, tzinfo=UTC)}
    assert row["n"] is None


def broken() -> pa.Array:
    data = b"goodb\xffd"
    offsets = pa.py_buffer(struct.pack("<4i", 0, 4, 7, 7))
    return pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(data)])


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (broken(), "c"),
        (broken().dictionary_encode(), "c"),
        (broken().cast(pa.large_string()), "c"),
        (pa.StructArray.from_arrays([broken()], ["x"]), "c.x"),
        (pa.ListArray.from_arrays([0, 1, 3, 3], broken()), "c.element"),
        (pa.MapArray.from_arrays([0, 1, 2, 3], broken(), pa.array([1, 2, 3])), "c.key"),
        (pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), broken()), "c.value"),
    ],
    ids=["text", "dictionary", "large", "struct", "list", "key", "value"],
)
def test_text_that_is_not_utf8_names_file_and_column(
    tmp_path: Path, column: pa.Array, path: str
) -> None:
    pq.write_table(pa.table({"n": range(len(column)), "c": column}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match=rf"t\.parquet': column '{path}' holds text that is not"):
        read(tmp_path / "t.parquet")


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_of_a_frame_that_is_not_utf8_names_the_column(tmp_path: Path, type_: Any) -> None:
    columns = {"c": broken().cast(type_), "r": pc.run_end_encode(broken())}
    for name, column in columns.items():
        (flush,) = frame_flushes(pa.table({name: column}), "t", tmp_path)
        (batch,) = flush.batches
        assert batch.reader is not None
        with pytest.raises(SourceError, match=f"column '{name}' holds text that is not UTF-8"):
            list(batch.reader.read(batch.splits[0]))
        Path(batch.splits[0].uri).unlink()


def test_an_enum_is_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    content = {"b": [b"x"], "s": ["ok"], "l": [["a", None]], "o": [{"k": b"y", "e": "z"}]}
    pq.write_table(pa.table(content), path, store_schema=False)
    # String (converted type 0, logical type 1) -> Enum (4 and 4), in Thrift's compact protocol
    data = path.read_bytes()
    assert data.count(b"%\x00L\x1c\x00") == 3
    path.write_bytes(data.replace(b"%\x00L\x1c\x00", b"%\x08L\x4c\x00"))
    assert {pq.ParquetFile(path).schema.column(i).converted_type for i in (1, 2, 4)} == {"ENUM"}
    assert read(path) == [{"b": b"x", "s": "ok", "l": ["a", None], "o": {"k": b"y", "e": "z"}}]


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_wrong_page_checksum_names_the_file(tmp_path: Path, dictionary: bool) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"a": ["unmistakable", "text"]})
    pq.write_table(
        table,
        path,
        write_page_checksum=True,
        compression="none",
        use_dictionary=dictionary,
        write_statistics=False,
    )
    assert read(path) == table.to_pylist()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"unmistakable", b"unmistakeble", 1))
    with pytest.raises(SourceError, match=r"t\.parquet' can't be read as Parquet: .*CRC"):
        read(path)
