"""What the log tells of tables that were made by real loads, as independent readers tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

import lakeport
from lakeport.lake.facts import read_table_facts
from lakeport.lake.records import TableFacts
from lakeport.storage.local import LocalStorage

DAYS = [date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 3)]


def rows(start: int, count: int, **more: Any) -> pa.Table:
    """Rows with a value of every kind; some of the values are null."""
    numbers = range(start, start + count)
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    columns: dict[str, pa.Array] = {
        "id": pa.array(numbers, pa.int64()),
        "text": pa.array([None if n % 5 == 0 else str(n) for n in numbers]),
        "amount": pa.array([Decimal(n * 7 % 31) / 4 for n in numbers], pa.decimal128(9, 2)),
        "ratio": pa.array([None if n % 3 == 0 else n / 8 - 2 for n in numbers], pa.float64()),
        "at": pa.array(
            [at + timedelta(milliseconds=n) for n in numbers], pa.timestamp("us", "UTC")
        ),
        "on": pa.array([date(1969, 12, 30) + timedelta(days=n) for n in numbers]),
        "inner": pa.array([{"a": n, "b": {"c": f"c{n}"}} for n in numbers]),
        "never": pa.array([None] * count, pa.string()),
        "day": pa.array([DAYS[n % 3] for n in numbers]),
    }
    return pa.table({**columns, **{name: pa.array([v] * count) for name, v in more.items()}})


@dataclass
class Grown:
    """A table, and what its log told after each step.

    Attributes:
        path: the table.
        steps: the rows, as delta-rs reads them, and what the log tells of them.
    """

    path: Path
    steps: list[tuple[pa.Table, TableFacts]] = field(default_factory=list)

    @property
    def facts(self) -> TableFacts:
        """What its log tells at the end."""
        return self.steps[-1][1]

    def look(self) -> None:
        """Look at the table as it is now."""
        told = read_table_facts(LocalStorage(str(self.path.parent)), "t", "t")[0]
        self.steps.append((DeltaTable(self.path).to_pyarrow_table(), told))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """A table of many kinds of versions."""
    root = tmp_path_factory.mktemp("lake")
    grown = Grown(root / "t")
    how = {"partition_keys": ["day"], "internal_columns": False, "table": "t"}
    later = Field("later", PrimitiveType("long"))

    def land(data: pa.Table, **keys: Any) -> None:
        lakeport.land(data, root, **{**how, **keys})

    def itself() -> DeltaTable:
        return DeltaTable(grown.path)

    some = rows(60, 9).filter(pa.array([n % 3 == 0 for n in range(9)]))
    steps: list[Callable[[], object]] = [
        lambda: land(rows(0, 30), run_id="first"),
        lambda: land(rows(30, 30, extra=1.5)),
        lambda: land(some, mode="overwrite"),
        lambda: itself().delete("id % 7 = 0"),
        lambda: itself().update(updates={"text": "'changed'"}, predicate="id = 31"),
        lambda: land(rows(300, 6, extra=0.5)),
        lambda: land(rows(306, 6, extra=0.5)),
        lambda: itself().optimize.compact(),
        lambda: itself().restore(1),
        lambda: itself().alter.add_columns([later]),
        lambda: write_deltalake(grown.path, rows(100, 12, extra=2.0, later=5), mode="overwrite"),
        lambda: itself().create_checkpoint(),
        lambda: land(rows(200, 4, extra=0.25)),
        lambda: land(rows(204, 4, extra=0.75), mode="merge", merge_keys=["id"]),
    ]
    for step in steps:
        step()
        grown.look()
    return grown


def test_each_version_has_the_rows_files_and_bytes_that_others_tell(
    table: Grown,
) -> None:
    facts = table.facts
    newest = DeltaTable(table.path).version()
    assert [version.number for version in facts.versions] == list(range(newest + 1))
    for version in facts.versions:
        other = DeltaTable(table.path, version=version.number)
        adds = pa.table(other.get_add_actions())
        assert version.files == len(adds)
        assert version.bytes == sum(adds["size_bytes"].to_pylist())
        assert version.rows == len(other.to_pyarrow_table())


def test_what_came_and_went_adds_up(table: Grown) -> None:
    facts = table.facts
    files = rows = 0
    for version in facts.versions:
        assert version.rows_removed is not None and version.rows_added is not None
        files += version.files_added - version.files_removed
        rows += version.rows_added - version.rows_removed
        assert (files, rows) == (version.files, version.rows)
    assert (files, rows) == (len(facts.file_sizes), facts.rows)


def test_each_version_says_what_it_did(table: Grown) -> None:
    facts = table.facts
    assert [version.operation for version in facts.versions] == [
        "WRITE, Append",
        "WRITE, Append",
        "WRITE, Overwrite",
        "DELETE",
        "UPDATE",
        *["WRITE, Append"] * 2,
        "OPTIMIZE",
        "RESTORE",
        "ADD COLUMN",
        "WRITE, Overwrite",
        "WRITE, Append",
        "MERGE",
    ]
    assert facts.versions[0].run_id == "first"
    assert facts.versions[3].run_id is None
    assert facts.versions[1].columns == ("new: extra, double",)
    assert facts.versions[9].columns == ("new: later, integer",)
    assert {column.name: column.since for column in facts.columns}["later"] == 9
    assert facts.older_versions == 0


def test_columns_have_the_nulls_and_bounds_of_the_rows(table: Grown) -> None:
    for data, facts in table.steps:
        for column in facts.columns:
            path = ".".join(f'"{part}"' for part in column.name.split("."))
            ((nulls, least, greatest),) = duckdb.sql(
                f"SELECT count(*) - count({path}), min({path}), max({path}) FROM data"
            ).fetchall()
            assert column.nulls == nulls, column
            assert (column.minimum, column.maximum) == (text(least), text(greatest)), column
        assert len(data) == facts.rows


def text(value: Any) -> str | None:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds").rstrip("0").rstrip(".") + "Z"
    return None if value is None else str(value)


def test_partitions_hold_what_others_count(table: Grown) -> None:
    for data, facts in table.steps:
        counted = duckdb.sql(
            "SELECT 'day=' || day, count(*) FROM data GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert [(one.name, one.rows) for one in facts.by_partition] == counted
        assert len(data) == facts.rows
        assert sum(one.files for one in facts.by_partition) == len(facts.file_sizes)
