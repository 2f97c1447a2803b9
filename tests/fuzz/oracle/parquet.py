"""Parquet: what DuckDB reads has to land; a damaged file is refused, or lands whole."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from lakeport.errors import LakeportError
from lakeport.schema.types import check_column_names
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.typed.typed_plan import (
    TypedReader,
    merge_schemas,
    read_checked_footer,
    split_at_parts,
)
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.kernels import MEMORY, Held, rows_of
from tests.fuzz.oracle.model import EPOCH

_MOST = 1 << 20  # rows that a damaged file may claim to be worth the time of reading it


def check(case: Case) -> None:
    file = SourceFile("held", "t.parquet", "parquet", len(case.data), Held(case.data), "t")  # type: ignore[arg-type]
    try:
        footers = read_checked_footer(file)
        schema, _ = merge_schemas(footers, {})
        check_column_names("t", schema.names)
        reader = TypedReader(schema, "parquet")
        splits = split_at_parts(footers, 1)
        if footers[0].rows > _MOST:
            return
        counted = sum(reader.scan(split).rows for split in splits)
        rows = [row for split in splits for row in rows_of(reader, split)]
    except LakeportError:
        return
    if len(rows) != counted or counted != footers[0].rows:
        raise Changed("another number of rows than the footer tells", len(rows), counted)
    if not case.options["broken"]:
        _check_duckdb(case.data, schema.names, rows)


def _check_duckdb(data: bytes, names: Sequence[str], rows: list[dict[str, Any]]) -> None:
    with tempfile.NamedTemporaryFile(suffix=".parquet", dir=MEMORY) as file:
        file.write(data)
        file.flush()
        try:
            found = _session().execute(f"from read_parquet('{file.name}')").fetchall()
        except (duckdb.Error, ValueError, OverflowError):
            return
    if len(found) != len(rows):
        raise Changed("another number of rows than DuckDB reads", len(rows), len(found))
    for row, wanted in zip(rows, found, strict=True):
        for name, value in zip(names, wanted, strict=True):
            if not _same(row[name], value):
                raise Changed(
                    f"a {type(value).__name__} differs from DuckDB's", name, row[name], value
                )


_SESSIONS: list[duckdb.DuckDBPyConnection] = []


def _session() -> duckdb.DuckDBPyConnection:
    if not _SESSIONS:
        _SESSIONS.append(duckdb.connect(config={"threads": 1}))
        _SESSIONS[0].execute("set TimeZone = 'UTC'")
    return _SESSIONS[0]


def _same(got: Any, wanted: Any) -> bool:
    if got is None or wanted is None:
        return got is None and wanted is None
    if isinstance(wanted, datetime):
        return isinstance(got, datetime) and _micros(got) == _micros(wanted)
    if isinstance(wanted, time) or (isinstance(wanted, str) and not isinstance(got, str)):
        return True  # DuckDB cuts nanoseconds off, and shows far dates as text
    if isinstance(wanted, float):
        return got == wanted or (got != got and wanted != wanted)
    if isinstance(wanted, (int, Decimal)):
        return bool(Decimal(got) == Decimal(wanted))
    if isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    if isinstance(wanted, dict):
        pairs = got.items() if isinstance(got, dict) else got
        return len(got) == len(wanted) and all(_same(v, wanted.get(k)) for k, v in pairs)
    if isinstance(wanted, date):
        return bool(got == wanted) or isinstance(got, datetime)
    return bool(got == wanted)


def _micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=moment.tzinfo or EPOCH.tzinfo) - EPOCH) // timedelta(
        microseconds=1
    )
