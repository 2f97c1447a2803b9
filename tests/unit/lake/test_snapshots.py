"""The first rows of tables that others wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.cli.app import main
from lakeport.errors import SourceError
from tests.unit.sources.typed.test_parquet_values import marks as marked
from tests.unit.sources.typed.test_parquet_values import of, write

COLUMN = {"name": "t", "type": "timestamp", "nullable": True, "metadata": {}}


def log(
    table: Path,
    columns: list[Any],
    reader: int = 1,
    writer: int = 2,
    partition: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Make a folder with `part-0.parquet` a Delta table."""
    actions = [
        {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}},
        {
            "metaData": {
                "id": "0",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": columns}),
                "partitionColumns": [*partition],
            }
        },
        {
            "add": {
                "path": "part-0.parquet",
                "partitionValues": dict(partition),
                "size": (table / "part-0.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_int96_of_a_delta_table(tmp_path: Path) -> None:
    """Spark writes INT96 with `spark.sql.parquet.outputTimestampType`, and reads microseconds."""
    far, fine = datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1)
    write(tmp_path / "part-0.parquet", marked(2), of(far), of(fine, 900))
    log(tmp_path, [COLUMN])
    rows = lakeport.Table(str(tmp_path)).preview().column("t").to_pylist()
    assert rows == [far.replace(tzinfo=UTC), fine.replace(tzinfo=UTC)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [("date", "+10001-02-03"), ("timestamp", "+10001-02-04T00:00:00.000000Z")],
)
def test_a_partition_beyond_the_year_9999(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], type_: str, value: str
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), folder / "part-0.parquet")
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("p", type_), ("id", "integer"))
    ]
    log(folder, columns, partition={"p": value})
    table = lakeport.Table(folder)
    shown = pc.cast(table.preview()["p"], pa.string()).to_pylist()
    assert shown == [value.lstrip("+").replace("T", " ")]
    lakeport.page(folder, tmp_path / "page.html")
    assert shown[0] in (tmp_path / "page.html").read_text()
    assert main(["table", "preview", str(folder), "--json"]) == 0
    assert shown[0] in capsys.readouterr().out
    assert table.describe().partitions == len(table.compact_report().partitions) == 1
    rows = pa.table({"p": pa.array([0], table.preview().schema.field("p").type), "id": [2]})
    merge: Any = {"mode": "merge", "merge_keys": ["id"], "partition_keys": ["p"]}
    lakeport.land(rows, tmp_path, table="t", internal_columns=False, engine="threads", **merge)
    assert table.describe().partitions == table.preview().num_rows == 2
    assert (folder / "part-0.parquet").exists()


def test_a_table_with_types_that_can_not_be_written_is_shown(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"")
    nested = {"type": "struct", "fields": [{"name": "a", "type": "variant"}]}
    types = {
        "id": "long",
        "v": "variant",
        "s": nested,
        "l": {"type": "array", "elementType": nested},
        "m": {"type": "map", "keyType": "string", "valueType": "variant"},
    }
    columns = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in types.items()
    ]
    log(tmp_path, columns, 5, 7)
    facts = lakeport.Table(str(tmp_path)).describe()
    assert facts.protocol == "reader 5, writer 7"
    assert {item.name: item.type for item in facts.columns} == {
        "id": "integer",
        "v": "variant",
        "s": "struct<a: variant>",
        "l": "array<struct<a: variant>>",
        "m": "map<string, variant>",
    }
    assert lakeport.Table(str(tmp_path)).compact_report().files == 1


def test_damaged_files_are_named(tmp_path: Path) -> None:
    files = {
        "a/x.parquet": b"PAR1",
        "b/x.csv": b"id,name\n1,2,3\n",
        "c/x.csv": b"",
        "d/x.csv.gz": b"no gzip",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(data)
        for ask in ("describe", "preview"):
            with pytest.raises(SourceError, match=rf"{name} is damaged, or no (Parquet|CSV) file"):
                getattr(lakeport.Table((tmp_path / name).parent), ask)()


def test_files_of_other_types_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"b\.parquet does not fit the files before it"):
        lakeport.Table(tmp_path).preview()
    assert lakeport.Table(tmp_path).preview(1).to_pylist() == [{"id": 1}]


def test_texts_of_csv_files_stay_as_they_are(tmp_path: Path) -> None:
    """What looks like a number may be none."""
    rows = [{"id": "007", "text": 'a\n"b"'}, {"id": "1.0", "text": None}]
    lakeport.land(rows, tmp_path, table="t", file_type="csv", internal_columns=False)
    table = lakeport.Table(tmp_path / "t")
    assert table.preview().to_pylist() == rows
    assert {column.type for column in table.describe().columns} == {"string"}


@pytest.mark.parametrize(("file_type", "mended"), [("delta", True), ("parquet", False)])
def test_many_small_files_are_told_with_what_mends_them(
    tmp_path: Path, file_type: str, mended: bool
) -> None:
    for number in range(20):
        rows = pa.table({"id": [number]})
        lakeport.land(rows, tmp_path, table="t", file_type=file_type)
    warning = lakeport.Table(tmp_path / "t").describe().warning
    assert warning is not None and warning.startswith("20 of 20 files are smaller than 32 MB")
    assert ("lakeport table optimize" in warning) is mended
