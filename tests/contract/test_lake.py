"""The tables and the runs of a lake, on every destination."""

from __future__ import annotations

import pytest

import lakeport
from lakeport.config.load import load_target
from lakeport.errors import SourceError
from lakeport.lake.facts import read_table_facts
from lakeport.lake.tables import list_tables, open_lake
from tests.contract.conftest import Land
from tests.contract.targets import INTEGER, Target, records, schema, singer


def test_tables_and_runs_are_listed(target: Target, land: Land) -> None:
    for name in ("users", "visits"):
        lines = singer(schema(name, {"id": INTEGER}), *records(name, [{"id": 1}, {"id": 2}]))
        land(lines, run_id=f"run-{name}")
    rows = None if target.format == "csv" else 2
    found = lakeport.tables(target.keys)
    assert [(t.name, t.format, t.rows, t.files) for t in found] == [
        ("users", target.format, rows, 1),
        ("visits", target.format, rows, 1),
    ]
    assert all(table.bytes and table.last_change and not table.problem for table in found)
    runs = lakeport.runs(target.keys)
    assert [(run.run_id, run.rows, run.streams, run.ok) for run in runs] == [
        ("run-visits", 2, ("visits",), True),
        ("run-users", 2, ("users",), True),
    ]
    with pytest.raises(SourceError, match="did you mean users") as caught:
        lakeport.Table("user", target.config()).describe()
    assert "users, visits" in caught.value.hint


def test_pages_tell_what_tables_hold(target: Target, land: Land) -> None:
    for numbers in ([1, 2], [3]):
        lines = singer(
            schema("users", {"id": INTEGER}), *records("users", [{"id": n} for n in numbers])
        )
        land(lines)
    storage, folder = open_lake(load_target(target.config(), {}))
    (line,) = list_tables(storage, folder, 10)
    assert (line.name, line.files, [rows for _, rows in line.growth]) == ("users", 2, [2, 3])
    told = read_table_facts(storage, f"{folder}/users".lstrip("/"), "users")[0]
    assert (told.format, told.rows, len(told.file_sizes)) == (target.format, 3, 2)
    assert [version.rows for version in told.versions] == [2, 3] * (target.format == "delta")
    (ident,) = (column for column in told.columns if column.name == "id")
    bounds = (ident.nulls, ident.minimum, ident.maximum)
    assert bounds == ((None, None, None) if target.format == "csv" else (0, "1", "3"))
