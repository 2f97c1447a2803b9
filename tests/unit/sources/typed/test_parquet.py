from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.errors import SourceError
from lakeport.model import Batch
from tests.unit.sources.file_batch import planned, read_table


def load(tmp_path: Path, *tables: pa.Table, row_group_size: int = 1000, **settings: int) -> Batch:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=row_group_size)
    return planned(folder, **settings)


def test_splits_are_row_groups(tmp_path: Path) -> None:
    table = pa.table({"a": range(10_000)})
    batch = load(tmp_path, table, row_group_size=500, split_bytes=20_000)
    assert read_table(batch).equals(table)
    assert batch.records == 10_000
    assert batch.output_ratio == 1.0
    assert 1 < len(batch.splits) < 20
    assert batch.reader is not None
    assert sum(batch.reader.scan(split).rows for split in batch.splits) == 10_000


def test_the_schema_is_the_union_by_name(tmp_path: Path) -> None:
    first = pa.table({"a": pa.array([1], pa.int32()), "d": pa.array([Decimal("1.5")])})
    second = pa.table(
        {
            "d": pa.array([Decimal("12.25")]),
            "b": ["x"],
            "a": pa.array([2**40], pa.int64()),
        }
    )
    batch = load(tmp_path, first, second, pa.table({"b": ["y"]}))
    assert [tuple(row.values()) for row in read_table(batch).to_pylist()] == [
        (1, Decimal("1.50"), None),
        (2**40, Decimal("12.25"), "x"),
        (None, None, "y"),
    ]


def test_types_that_no_table_has_are_normalised(tmp_path: Path) -> None:
    table = pa.table(
        {
            "u": pa.array([2**64 - 1], pa.uint64()),
            "t": pa.array([datetime(2020, 1, 2, 3)], pa.timestamp("ns")),
            "d": pa.array(["x"]).dictionary_encode(),
            "l": pa.array([["x"]], pa.large_list(pa.large_string())),
        }
    )
    assert read_table(load(tmp_path, table)).to_pylist() == [
        {"u": 2**64 - 1, "t": datetime(2020, 1, 2, 3, tzinfo=UTC), "d": "x", "l": ["x"]}
    ]


def test_nanoseconds_are_not_cut_off(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(SourceError, match="column 't'"):
        read_table(load(tmp_path, table))


def test_names_that_clash(tmp_path: Path) -> None:
    load(tmp_path, pa.table({"a": [1]}), pa.table({"A": [1]}))  # one may be renamed
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SourceError, match=r"file '0.parquet' has 2 columns with the name 'a'"):
        load(tmp_path, twice)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(SourceError, match=r"x.parquet' can't be read as Parquet"):
        planned(tmp_path)


def test_a_column_whose_name_is_not_unicode(tmp_path: Path) -> None:
    path = Path(load(tmp_path, pa.table({"name": [1]})).splits[0].uri)
    path.write_bytes(path.read_bytes().replace(b"name", b"n\xc3me"))
    with pytest.raises(SourceError, match=r"0.parquet' can't be read as Parquet"):
        planned(path)


def test_decimals_beyond_their_type(tmp_path: Path) -> None:
    wide = pa.array([10**12], pa.decimal128(38, 0)).view(pa.decimal128(10, 0))
    batch = load(tmp_path, pa.table({"a": wide}))
    with pytest.raises(SourceError, match="column 'a' holds decimals of more digits") as caught:
        read_table(batch)
    assert "0.parquet" in caught.value.message


def test_rows_that_are_told_and_are_not_there(tmp_path: Path) -> None:
    batch = load(tmp_path, pa.table({"a": [1, 2, 3, 4, 5]}))
    path = Path(batch.splits[0].uri)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(footer, len(data) - 8):  # 10 stands for 5 in the footer, and 12 for 6
        if data[at] == 10:
            changed = data[:at] + b"\x0c" + data[at + 1 :]
            with suppress(pa.ArrowInvalid, OSError):
                if pq.ParquetFile(pa.BufferReader(changed)).metadata.row_group(0).num_rows == 6:
                    path.write_bytes(changed)
    with pytest.raises(SourceError, match=r"0.parquet' holds 5 rows where its footer tells 6"):
        read_table(batch)


def test_a_damaged_page(tmp_path: Path) -> None:
    batch = load(tmp_path, pa.table({"a": [str(n) for n in range(1000)]}))
    path = Path(batch.splits[0].uri)
    data = bytearray(path.read_bytes())
    data[4:400] = b"\xff" * 396
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"0.parquet' can't be read as Parquet"):
        read_table(batch)
