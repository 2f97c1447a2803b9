"""Values with holes at every depth land, by every source and in any order, as they are.

A hole is a null, a member that is missing, a list or an object without anything in it. Two values
are the same if they are but for members that are null, which one may have and the other lack.
Every value of an example fits one type, so that nothing may be refused.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

import lakeport
from lakeport.schema.nested import restore_untyped
from lakeport.schema.spark_schema import apply_untyped_marks, from_spark_json
from tests.unit.loading.test_holes import without_nulls

Row = dict[str, Any]
MISSING = object()


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Values of a shape: a strategy of values, a list of one shape, or an object of several."""
    if isinstance(shape, list):
        return st.none() | st.lists(values(shape[0]), max_size=2)
    if isinstance(shape, dict):
        members = {name: values(inner) | st.just(MISSING) for name, inner in shape.items()}
        return st.none() | st.fixed_dictionaries(members).map(present)
    return st.none() | shape


def present(value: Row) -> Row:
    return {name: part for name, part in value.items() if part is not MISSING}


LEAVES = st.sampled_from(
    [
        st.integers(-3, 3),
        st.sampled_from([0.5, -1.25]),
        st.text("ab{}", max_size=2),
        st.booleans(),
    ]
)
SHAPES = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(lambda one: [one])
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    ),
    max_leaves=4,
)


@st.composite
def loads(draw: st.DrawFn) -> list[list[Row]]:
    """The rows of one, two or three loads: an id, and values of one shape."""
    shape = {"v": draw(SHAPES), "w": draw(SHAPES)}
    record = st.fixed_dictionaries(
        {name: values(inner) | st.just(MISSING) for name, inner in shape.items()}
    ).map(present)
    rows = draw(st.lists(st.lists(record, min_size=1, max_size=3), min_size=1, max_size=3))
    numbers = iter(range(99))
    return [[{"id": next(numbers), "n": 1, **row} for row in part] for part in rows]


def lines(rows: Iterable[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def jsonl(folder: Path, rows: list[Row]) -> str:
    (folder / "f.jsonl").write_text(lines(rows))
    return str(folder / "f.jsonl")


def document(folder: Path, rows: list[Row]) -> str:
    (folder / "f.json").write_text(json.dumps(rows, indent=1))
    return str(folder / "f.json")


def files(folder: Path, rows: list[Row]) -> str:
    place = Path(tempfile.mkdtemp(dir=folder))
    for number, row in enumerate(rows):
        (place / f"{number}.jsonl").write_text(lines([row]))
    return str(place)


def records(folder: Path, rows: list[Row]) -> list[Row]:
    return rows


def arrow(folder: Path, rows: list[Row]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def ipc(folder: Path, rows: list[Row]) -> str:
    table = arrow(folder, rows)
    with pa.ipc.new_file(str(folder / "f.arrow"), table.schema) as writer:
        writer.write_table(table)
    return str(folder / "f.arrow")


def parquet(folder: Path, rows: list[Row]) -> Any:
    try:
        pq.write_table(arrow(folder, rows), folder / "f.parquet")
    except pa.ArrowNotImplementedError:  # Parquet has no objects without members
        return arrow(folder, rows)
    return str(folder / "f.parquet")


def pandas(folder: Path, rows: list[Row]) -> pd.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame(
        {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    )


def polars(folder: Path, rows: list[Row]) -> Any:
    table = arrow(folder, rows)
    try:
        frame = pl.DataFrame(table)
    except pl.exceptions.PolarsError:
        return table
    same = without_nulls(frame.to_dicts()) == without_nulls(table.to_pylist())
    return frame if same else table  # it has no objects without members, either


SOURCES: list[Callable[[Path, list[Row]], Any]] = [
    jsonl,
    document,
    files,
    records,
    arrow,
    ipc,
    parquet,
    pandas,
    polars,
]
FILES: dict[str, Any] = {"file_type": "parquet", "internal_columns": False}
MODES: list[dict[str, str]] = [
    {},
    {"mode": "merge", "merge_keys": "id"},
    {"mode": "overwrite", "partition_keys": "id"},
]


def read(table: Path) -> list[Row]:
    """The rows in order; text that stands for an object of which nothing is known is one."""
    delta = DeltaTable(str(table))
    text = delta.schema().to_json()
    columns = apply_untyped_marks(json.loads(text), from_spark_json(text))
    found = delta.to_pyarrow_table().sort_by("id").combine_chunks()
    arrays = [
        restore_untyped(found.column(f.name).combine_chunks(), f.type).to_pylist() for f in columns
    ]
    rows = (dict(zip(columns.names, row, strict=True)) for row in zip(*arrays, strict=True))
    return [without_nulls(row) for row in rows]


@given(loads(), st.lists(st.sampled_from(SOURCES), min_size=3, max_size=3), st.sampled_from(MODES))
def test_rows_come_back(
    parts: list[list[Row]], sources: list[Callable[[Path, list[Row]], Any]], mode: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for source, rows in zip(sources, parts, strict=False):
            frame = source(Path(folder), rows)
            lakeport.land(frame, f"{folder}/lake", table="t", internal_columns=False, **mode)
        wanted = [without_nulls(row) for rows in parts for row in rows]
        assert read(Path(folder, "lake", "t")) == wanted


@given(loads(), st.sampled_from([jsonl, records, arrow]))
def test_batches_of_one_load(
    parts: list[list[Row]], source: Callable[[Path, list[Row]], Any]
) -> None:
    """The rows of all parts in one load, as Parquet files: one schema, and the same rows."""
    rows = [row for part in parts for row in part]
    with tempfile.TemporaryDirectory() as folder:
        frame = source(Path(folder), rows)
        lakeport.land(frame, f"{folder}/lake", table="t", **FILES)
        found = [pq.read_table(path) for path in Path(folder, "lake", "t").glob("*.parquet")]
    assert sum(len(table) for table in found) == len(rows)
    if rows and all("{}" not in json.dumps(without_nulls(row)) for row in rows):
        read_back = [without_nulls(row) for table in found for row in table.to_pylist()]
        assert read_back == [without_nulls(row) for row in rows]


@given(loads(), st.lists(st.sampled_from(SOURCES), min_size=3, max_size=3))
@example(
    [[{"id": 0, "n": 1, "w": [{"a": None}]}], [{"id": 1, "n": 1, "w": [{"a": 0}]}]], [jsonl] * 3
)
def test_files_of_several_loads(
    parts: list[list[Row]], sources: list[Callable[[Path, list[Row]], Any]]
) -> None:
    """A folder of Parquet files is one table to DuckDB, which has one type for each place."""
    with tempfile.TemporaryDirectory() as folder:
        for source, rows in zip(sources, parts, strict=False):
            lakeport.land(source(Path(folder), rows), f"{folder}/lake", table="t", **FILES)
        files = f"read_parquet('{folder}/lake/t/*.parquet', union_by_name=true)"
        found = duckdb.sql(f"FROM {files} ORDER BY id").to_arrow_table().to_pylist()
        types = [pq.read_schema(path) for path in Path(folder, "lake", "t").glob("*.parquet")]
    wanted = [without_nulls(row) for rows in parts for row in rows]
    assert len(found) == len(wanted)
    if "{}" not in json.dumps(wanted):
        assert [without_nulls(row) for row in found] == wanted
    assert len({found for schema in types for found in leaves(pa.struct(list(schema)))}) == len(
        {path for schema in types for path, _ in leaves(pa.struct(list(schema)))}
    )


def leaves(type_: pa.DataType, path: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """The places of a type that hold values, each with its type; a list stands for its items."""
    if type_.num_fields == 0:
        yield path, type_
    for number in range(type_.num_fields):
        part = type_.field(number)
        name = part.name if pa.types.is_struct(type_) else "[]"
        yield from leaves(part.type, f"{path}.{name}")
