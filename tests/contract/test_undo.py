"""A run, and then a table, are taken away and brought back on every destination."""

from __future__ import annotations

import pytest

import lakeport
from lakeport.errors import SourceError
from tests.contract.conftest import Land
from tests.contract.targets import Target


def test_a_run_is_undone_and_a_table_dropped(target: Target, land: Land) -> None:
    place = land([{"id": 1}], table="t", run_id="a").streams[0].table
    land([{"id": 2}], table="t", run_id="b")
    land([{"id": 3}], table="other")
    table = lakeport.Table(place, target.config(table="t"))
    undone = table.undo()
    assert (undone.run_id, undone.rows_before, undone.rows_after) == ("b", 2, 1)
    assert target.ids("t") == [1]
    marked = [run.run_id for run in lakeport.runs(target.config()) if run.result == "undone"]
    assert marked == ["b"]
    assert land([{"id": 2}], table="t", run_id="b").rows == 1
    assert target.ids("t") == [1, 2]

    dropped = table.drop()
    assert not target.exists("t")
    assert target.ids("other") == [3]
    assert (dropped.kept_until is not None) == target.name.startswith("local")
    if dropped.kept_until is None:
        assert not [key for key in target.files.keys() if "/t/" in f"/{key}"]  # noqa: SIM118
        with pytest.raises(SourceError, match="there is no table"):
            table.undo()
    else:
        table.undo()
        assert target.ids("t") == [1, 2]
        table.drop()
    assert land([{"id": 2}], table="t", run_id="b").rows == 1
    assert target.ids("t") == [2]
