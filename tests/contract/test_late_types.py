"""Types that come later, on every destination with Delta tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport.errors import SchemaConflict
from tests.contract.conftest import LOCAL, STORES
from tests.contract.targets import Target

DELTA = [name for name in (*LOCAL, *STORES) if name.endswith("-delta")]
pytestmark = pytest.mark.parametrize("target", DELTA, indirect=True)


def values(target: Target) -> list[object]:
    return [row["c"] for row in sorted(target.rows("t"), key=lambda row: row["id"])]


def test_a_type_comes_and_is_altered(target: Target) -> None:
    def land(frame: pa.Table) -> lakeport.LandingReport:
        return lakeport.land(frame, target.config(table="t", internal_columns=False))

    land(pa.table({"id": [1], "c": pa.nulls(1)}))
    land(pa.table({"id": [2], "c": [7]}))
    assert values(target) == [None, 7]
    with pytest.raises(SchemaConflict) as failure:
        land(pa.table({"id": [3], "c": [7.5]}))
    table = land(pa.table({"id": [4]})).streams[0].table
    assert f"`lakeport table alter {table} --column c --type double`" in failure.value.hint
    done = lakeport.Table(table, target.config()).alter("c", "double")
    assert (done.before, done.type, done.files, done.rows) == ("integer", "double", 2, 2)
    land(pa.table({"id": [3], "c": [7.5]}))
    assert values(target) == [None, 7.0, 7.5, None]


def test_an_overwrite_without_values_keeps_the_types(target: Target, tmp_path: Path) -> None:
    (tmp_path / "full.csv").write_text("id,c,at\n1,7,2024-01-01\n2,8,2024-01-02\n")
    (tmp_path / "header.csv").write_text("id,c,at\n")
    (tmp_path / "nulls.csv").write_text("id,c,at\n5,,\n")
    config = target.config(table="t", internal_columns=False)
    lakeport.land(tmp_path / "full.csv", config)
    types = target.delta("t").to_pyarrow_table().schema.types
    for source, rows in (
        (tmp_path / "nulls.csv", 1),
        (tmp_path / "full.csv", 2),
        (tmp_path / "header.csv", 0),
        (pa.table({"id": pa.nulls(0), "c": pa.nulls(0), "at": pa.nulls(0)}), 0),
    ):
        report = lakeport.land(source, config, mode="overwrite")
        found = target.delta("t").to_pyarrow_table()
        assert (found.schema.types, len(found)) == (types, rows)
        assert bool(report.streams[0].warnings) == (rows == 0)
    header = lakeport.land(tmp_path / "full.csv", config)
    assert header.rows == 2
    emptied = lakeport.land(tmp_path / "header.csv", config, mode="overwrite")
    assert "rows that the table had went" in emptied.streams[0].warnings[0]


def test_a_list_that_was_empty_gets_its_type(target: Target) -> None:
    config = target.config(table="t", internal_columns=False)
    lakeport.land([{"id": 1, "c": []}, {"id": 2, "c": [None]}], config)
    lakeport.land([{"id": 3, "c": [{"x": 1}]}], config)
    lakeport.land([{"id": 2, "c": [{}]}], {**config, "mode": "merge", "merge_keys": "id"})
    assert values(target) == [[], [{"x": None}], [{"x": 1}]]
