"""The tables and the runs of a lake, on every destination."""

from __future__ import annotations

import pytest

import lakeport
from lakeport.errors import SourceError
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
