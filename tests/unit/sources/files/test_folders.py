"""Folders `name=value` of a source's files as columns."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.config.load import load_target
from lakeport.errors import ConfigError, SourceError, UnknownFields
from lakeport.model import Batch, UnknownPolicy
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.files.discovery import discover
from tests.unit.sources.file_batch import planned, read_table

Row = dict[str, Any]


def write(root: Path, files: dict[str, list[Row]]) -> None:
    """Write files by path and rows, each in the format that its suffix tells."""
    for name, rows in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        match path.name.partition(".")[2]:
            case "csv":
                path.write_text("\n".join(lines))
            case "csv.gz":
                path.write_bytes(gzip.compress("\n".join(lines).encode()))
            case "jsonl":
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            case "json":
                path.write_text(json.dumps(rows, indent=1))
            case "parquet":
                pq.write_table(pa.Table.from_pylist(rows), path)


def batch_of(source: Path | str, **settings: Any) -> Batch:
    spool = Path(discover([str(source)])[0].uri).parent / "_spool"
    spool.mkdir(exist_ok=True)
    return planned(Path(source), spool, **settings)


def rows(source: Path | str, **settings: Any) -> list[Row]:
    return read_table(batch_of(source, **settings)).to_pylist()  # type: ignore[no-any-return]


def typed(root: Path, *values: str, **settings: Any) -> tuple[str, list[Any]]:
    write(root, {f"k={value}/1.csv": [{"a": 1}] for value in values})
    column = read_table(batch_of(root, **settings)).column("k")
    return str(column.type), sorted(column.to_pylist(), key=str)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "json", "parquet"])
def test_folders_are_columns_behind_the_files_own(tmp_path: Path, suffix: str) -> None:
    one, two = f"year=2023/city=Den%20Haag/x.{suffix}", f"year=2024/city=a%3Db/x.{suffix}"
    write(tmp_path, {one: [{"a": 1}, {"a": 2}], two: [{"a": 3}]})
    expected = [
        {"a": 1, "year": 2023, "city": "Den Haag"},
        {"a": 2, "year": 2023, "city": "Den Haag"},
        {"a": 3, "year": 2024, "city": "a=b"},
    ]
    assert rows(tmp_path) == expected
    assert rows(tmp_path / "year=*" / "*" / "*") == expected
    assert rows(tmp_path / "year=2024") == expected[2:]
    assert rows(tmp_path / one) == expected[:2]
    assert rows(tmp_path, partition_columns="off") == [{"a": 1}, {"a": 2}, {"a": 3}]
    batch = batch_of(tmp_path, split_bytes=1)
    assert batch.reader is not None
    assert [batch.reader.scan(split).rows for split in batch.splits][-1] == 1
    assert read_table(batch).to_pylist() == expected


def test_what_is_no_column(tmp_path: Path) -> None:
    write(tmp_path, {"=x/plain/y/b=1.csv": [{"a": 1}]})
    assert rows(tmp_path) == [{"a": 1}]


@pytest.mark.parametrize(
    ("values", "type_", "found"),
    [
        (["1", "-2"], "int64", [-2, 1]),
        (["01", "02"], "string", ["01", "02"]),
        (["1", "01"], "string", ["01", "1"]),
        (["1", "1.5"], "double", [1.0, 1.5]),
        (["true", "false"], "bool", [False, True]),
        (["2024-02-29"], "date32[day]", [date(2024, 2, 29)]),
        (
            ["2024-02-29 01%3A02%3A03"],
            "timestamp[us, tz=UTC]",
            [datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)],
        ),
        (["7", "__HIVE_DEFAULT_PARTITION__"], "int64", [7, None]),
        (["__HIVE_DEFAULT_PARTITION__"], "string", [None]),
        (["7", ""], "int64", [7, None]),
        (["x", ""], "string", ["", "x"]),
        (["99999999999999999999"], "string", ["99999999999999999999"]),
        (["NA", "é%E2%82%AC%25"], "string", ["NA", "é€%"]),
    ],
)
def test_a_folders_column_has_the_type_that_loses_nothing(
    tmp_path: Path, values: list[str], type_: str, found: list[Any]
) -> None:
    assert typed(tmp_path, *values) == (type_, found)


def test_types_that_are_declared_win(tmp_path: Path) -> None:
    assert typed(tmp_path, "1", schema={"k": "string"}) == ("string", ["1"])
    assert typed(tmp_path, "1", csv=CsvOptions(infer_types=False)) == ("string", ["1"])
    schema = {"required": ["k", "a"], "properties": {"k": {"type": "number"}, "a": {}}}
    assert typed(tmp_path, "1", schema=schema) == ("double", [1.0])
    with pytest.raises(SourceError, match="folder 'k=x' is not a value of the column 'k'"):
        typed(tmp_path, "x", schema={"k": "integer"})
    with pytest.raises(SourceError, match="'k' is required, but not every file"):
        typed(tmp_path, "__HIVE_DEFAULT_PARTITION__", schema=schema)


def test_a_schema_that_does_not_declare_the_folder(tmp_path: Path) -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    for suffix in ("csv", "jsonl"):
        write(
            tmp_path / suffix,
            {f"k=1/x.{suffix}": [{"a": 1}], f"k=2/x.{suffix}": [{"a": 2, "k": 2}]},
        )
        source = tmp_path / suffix
        assert rows(source, schema=schema) == [{"a": 1, "k": 1}, {"a": 2, "k": 2}]
        drop = UnknownPolicy.DROP
        assert rows(source, schema=schema, unknown_fields=drop) == [{"a": 1}, {"a": 2}]
        with pytest.raises(UnknownFields, match="does not declare as columns: 'k'"):
            rows(source, schema=schema, unknown_fields=UnknownPolicy.FAIL)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_files_own_column_may_say_the_same(tmp_path: Path, suffix: str) -> None:
    write(
        tmp_path,
        {
            f"k=1/x.{suffix}": [{"k": 1, "a": 1}, {"k": 1, "a": 2}],
            f"k=2/x.{suffix}": [{"a": 3}],
            f"x.{suffix}": [{"k": 7, "a": 4}],
        },
    )
    assert sorted((r["a"], r["k"]) for r in rows(tmp_path)) == [(1, 1), (2, 1), (3, 2), (4, 7)]
    write(tmp_path, {f"k=3/x.{suffix}": [{"k": 3, "a": 1}, {"k": 4, "a": 2}]})
    with pytest.raises(SourceError, match=rf"column 'k' of file .*k=3/x\.{suffix}' has another"):
        rows(tmp_path)
    assert len(rows(tmp_path, partition_columns="off")) == 6
    write(tmp_path, {f"k=3/x.{suffix}": [{"k": 3, "a": 1}]})
    write(tmp_path, {f"k=__HIVE_DEFAULT_PARTITION__/x.{suffix}": [{"k": 4, "a": 2}]})
    with pytest.raises(SourceError, match="has another value than the folder"):
        rows(tmp_path)


def test_a_folder_that_does_not_fit_the_files_column(tmp_path: Path) -> None:
    columns = {"n": pa.array([1], pa.int8()), "l": pa.array([[1]]), "f": pa.array([1.5], "float32")}
    (tmp_path / "f=1.5").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "f=1.5" / "x.parquet")
    assert str(read_table(batch_of(tmp_path)).schema.field("f").type) == "float"
    for folder in ("n=1000", "n=x", "l=1", "f=y"):
        path = tmp_path / "other" / folder / "x.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(columns), path)
        with pytest.raises(SourceError, match=f"folder '{folder}' is not a value of the column"):
            rows(path.parent)


def test_names_that_clash(tmp_path: Path) -> None:
    write(tmp_path, {"K=1/x.csv": [{"a": 1}], "k=2/x.csv": [{"a": 1}]})
    assert [*rows(tmp_path)[0]] == ["a", "K", "k"]  # which a table refuses, if neither is renamed
    write(tmp_path / "c", {"k=1/k=2/x.csv": [{"a": 1}]})
    with pytest.raises(SourceError, match=r"two folders of file .* give the column 'k'"):
        rows(tmp_path / "c")
    write(tmp_path / "d", {"k=%FF/x.csv": [{"a": 1}]})
    with pytest.raises(SourceError, match=r"folder 'k=%FF' of file .* is not UTF-8"):
        rows(tmp_path / "d")


def test_a_file_without_header(tmp_path: Path) -> None:
    write(tmp_path, {"k=1/x.csv": [{"1": 2}]})
    plain = CsvOptions(header=False)
    declared = {"n": "integer", "k": "string"}
    assert rows(tmp_path, csv=plain, schema=declared)[0] == {"n": 1, "k": "1"}


def test_the_digest_tells_the_folders(tmp_path: Path) -> None:
    write(tmp_path, {"p/k=1/x.csv": [{"a": 1}], "q/k=2/x.csv": [{"a": 1}], "r/x.csv": [{"a": 1}]})
    digests = {batch_of(tmp_path / name, run_id="r").digest for name in "pqr"}
    assert len(digests) == 3
    off = {batch_of(tmp_path / name, run_id="r", partition_columns="off").digest for name in "pqr"}
    assert len(off) == 1


def test_the_config_key() -> None:
    assert load_target("./lake").partition_columns == "auto"
    for value in ("off", False):  # a bare `off` of YAML is false
        assert load_target("./lake", {"partition_columns": value}).partition_columns == "off"
    with pytest.raises(ConfigError, match="partition_columns"):
        load_target("./lake", {"partition_columns": "on"})
