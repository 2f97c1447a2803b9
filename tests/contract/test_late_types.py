"""Types that come later, on every destination with Delta tables."""

from __future__ import annotations

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
