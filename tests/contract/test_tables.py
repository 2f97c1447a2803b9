"""Tables as the source of others, in every store that has Delta tables."""

from __future__ import annotations

import pytest

import lakeport
from tests.contract.conftest import Land
from tests.contract.targets import Target

TABLES = pytest.mark.parametrize(
    "target", ["local-delta", "delta_s3-delta", "delta_azure-delta"], indirect=True
)


@TABLES
def test_new_rows_of_a_table_land_once(target: Target, land: Land) -> None:
    place = land([{"id": 1}, {"id": 2}], table="events").streams[0].table
    source = lakeport.TablesSource(tables=place, incremental=True)
    assert land(source, table="copy").rows == 2
    assert land(source, table="copy").rows == 0
    land([{"id": 3}], table="events")
    land([{"id": 4}], table="events")
    assert land(source, table="copy").rows == 2
    assert target.ids("copy") == [1, 2, 3, 4]


@TABLES
def test_a_whole_table_replaces_another(target: Target, land: Land) -> None:
    place = land([{"id": 1}, {"id": 2}], table="events").streams[0].table
    for _ in range(2):
        land(lakeport.TablesSource(tables=place), table="copy", mode="overwrite")
    assert target.ids("copy") == [1, 2]
