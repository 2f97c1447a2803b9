from __future__ import annotations

import datetime as dt
import gzip
import io
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pytest
import zstandard

import lakeport
from lakeport.errors import SourceError
from lakeport.sources.input import decompression
from tests.unit.sources.file_batch import planned, read_table
from tests.unit.sources.landed import landed

TABLE = pa.table({"id": pa.array([1, 2, None]), "name": ["a", None, "c"]})
ODD = pa.table(
    {
        "u64": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "u8": pa.array([255, 0, None], pa.uint8()),
        "half": pa.array([1.5, None, -2], pa.float16()),
        "text": pa.array(["a", "b", None]).dictionary_encode(),
        "large": pa.array(["x" * 40, None, ""], pa.large_string()),
        "view": pa.array(["x" * 40, None, "y"], pa.string_view()),
        "at": pa.array([dt.datetime(2024, 7, 1)] * 3, pa.timestamp("ns", "Europe/Berlin")),
        "time": pa.array([dt.time(1, 2, 3)] * 3, pa.time64("us")),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date64()),
        "list": pa.array([[1], None, []], pa.large_list(pa.int8())),
        "few": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array(
            [{"d": Decimal("1.20")}, None, {"d": None}], pa.struct([("d", pa.decimal128(5, 2))])
        ),
        "uuid": pa.array([uuid.UUID(int=7).bytes, None, None], pa.uuid()),
        "bytes": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "none": pa.nulls(3),
    }
)
EXPECTED = {
    "u64": [Decimal(2**64 - 1), Decimal(0), None],
    "u8": [255, 0, None],
    "half": [1.5, None, -2.0],
    "text": ["a", "b", None],
    "large": ["x" * 40, None, ""],
    "view": ["x" * 40, None, "y"],
    "at": [dt.datetime(2024, 7, 1, tzinfo=dt.UTC)] * 3,
    "time": ["01:02:03.000000"] * 3,
    "day": [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)],
    "list": [[1], None, []],
    "few": [[1, 2], None, [3, 4]],
    "map": [[("k", 1)], None, []],
    "struct": [{"d": Decimal("1.20")}, None, {"d": None}],
    "uuid": ["00000000-0000-0000-0000-000000000007", None, None],
    "bytes": [b"ab", None, b"cd"],
    "none": [None] * 3,
}


def ipc(table: pa.Table, kind: str, rows: int | None = None, compression: str = "") -> bytes:
    target = io.BytesIO()
    opener = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression or None)
    with opener(target, table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return target.getvalue()


@pytest.mark.parametrize("file_type", ["parquet", "delta"])
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", ["", "zstd", "lz4"])
def test_types_are_those_of_frames(
    tmp_path: Path, file_type: str, kind: str, compression: str
) -> None:
    (tmp_path / "t.arrow").write_bytes(ipc(ODD, kind, 1, compression))
    table = landed(tmp_path / "t.arrow", tmp_path / "lake", file_type=file_type)
    none = {} if file_type == "parquet" else {"none": EXPECTED["none"]}  # is in no file
    assert table.to_pydict() == {n: v for n, v in EXPECTED.items() if n != "none"} | none


@pytest.mark.parametrize("suffix", ["feather", "arrow", "arrows", "ipc", "feather.gz", "arrow.zst"])
def test_suffixes(tmp_path: Path, suffix: str) -> None:
    content = io.BytesIO()
    feather.write_feather(TABLE, content)
    packed = {"gz": gzip.compress, "zst": zstandard.compress}
    pack = packed.get(suffix.rpartition(".")[2], bytes)
    (tmp_path / f"t.{suffix}").write_bytes(pack(content.getvalue()))
    assert landed(tmp_path / f"t.{suffix}", tmp_path / "lake") == TABLE


def test_batches_are_split(tmp_path: Path) -> None:
    table = pa.table({"n": range(1000)})
    (tmp_path / "t.arrow").write_bytes(ipc(table, "file", 10))
    batch = planned(tmp_path / "t.arrow", split_bytes=2000)
    assert batch.reader is not None and len(batch.splits) > 3
    assert read_table(batch) == table
    assert sum(batch.reader.scan(split).rows for split in batch.splits) == 1000


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_zero_rows_keep_their_columns(tmp_path: Path, kind: str) -> None:
    (tmp_path / "t.arrow").write_bytes(ipc(TABLE.slice(0, 0), kind))
    lakeport.land(tmp_path / "t.arrow", tmp_path / "lake", table="t")
    assert lakeport.Table(tmp_path / "lake/t").preview(1).column_names[:2] == ["id", "name"]


def feather_1() -> bytes:
    return b"FEA1" + bytes(100) + b"FEA1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"id\n1\n", "can't be read as Arrow IPC"),
        (b"PAX1" * 20, "can't be read as Arrow IPC"),
        (ipc(TABLE, "file")[:-9], "can't be read as Arrow IPC"),
        (ipc(TABLE, "file")[: len(ipc(TABLE, "file")) // 2], "can't be read as Arrow IPC"),
        (ipc(TABLE, "stream")[:-100], "can't be read as Arrow IPC"),
        (b"ARROW1\0\0", "can't be read as Arrow IPC"),
        (feather_1(), "is a Feather file of version 1"),
        (ipc(pa.table({"d": pa.array([1], pa.duration("s"))}), "file"), "'d' has type duration"),
        (
            ipc(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), "file"),
            r"t\.arrow': column 't' holds a value that",
        ),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.arrow").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        lakeport.land(tmp_path / "t.arrow", tmp_path / "lake")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    data = ipc(pa.table({"s": ["abcdefghi"]}), "file").replace(b"abcdefghi", b"abcd\xfffghi")
    (tmp_path / "t.arrow").write_bytes(data)
    with pytest.raises(SourceError, match=r"UTF8|UTF-8"):
        lakeport.land(tmp_path / "t.arrow", tmp_path / "lake")


def test_what_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", 1 << 16)
    table = pa.table({"n": pa.array([0] * (1 << 20))})
    (tmp_path / "t.arrow").write_bytes(ipc(table, "file", compression="zstd"))
    batch = planned(tmp_path / "t.arrow", max_unpack_ratio=10)
    with pytest.raises(SourceError, match="more than 10 times its size"):
        read_table(batch)


def test_damage_anywhere_is_an_error_and_no_crash(tmp_path: Path) -> None:
    """Bytes set to 0xFF one after another: the rows, other rows or an error, never an end."""
    good = ipc(TABLE, "file")
    path = tmp_path / "t.arrow"
    refused = 0
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + b"\xff" + good[place + 1 :])
        try:
            read_table(planned(path))
        except lakeport.errors.InputError:
            refused += 1
    assert refused
