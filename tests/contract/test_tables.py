"""Tables as the source of others, in every store that has Delta tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeport
from lakeport.errors import ConfigError
from tests.contract.conftest import Land
from tests.contract.targets import Target

pytestmark = pytest.mark.spark

STORES = ("delta_s3-delta", "delta_azure-delta")
TABLES = pytest.mark.parametrize("target", ["local-delta", *STORES], indirect=True)
# A query reads tables of each store; what else is asked of a table is decided by its log.
LOCAL_TABLES = pytest.mark.parametrize(
    "target",
    ["local-delta", *(pytest.param(store, marks=pytest.mark.soak) for store in STORES)],
    indirect=True,
)


@LOCAL_TABLES
def test_new_rows_of_a_table_land_once(target: Target, land: Land) -> None:
    place = land([{"id": 1}, {"id": 2}], table="events").streams[0].table
    source = lakeport.TablesSource(tables=place, incremental=True)
    assert land(source, table="copy").rows == 2
    assert land(source, table="copy").rows == 0
    land([{"id": 3}], table="events")
    land([{"id": 4}], table="events")
    assert land(source, table="copy").rows == 2
    assert target.ids("copy") == [1, 2, 3, 4]


@LOCAL_TABLES
def test_a_whole_table_replaces_another(target: Target, land: Land) -> None:
    place = land([{"id": 1}, {"id": 2}], table="events").streams[0].table
    for _ in range(2):
        land(lakeport.TablesSource(tables=place), table="copy", mode="overwrite")
    assert target.ids("copy") == [1, 2]


@TABLES
def test_sql_calls_tables_by_their_names(target: Target, land: Land) -> None:
    flights = land([{"id": 1, "c": "UA"}, {"id": 2, "c": "XX"}], table="flights").streams[0].table
    carriers = land([{"c": "UA", "name": "United"}], table="carriers").streams[0].table
    source = lakeport.TablesSource(tables=[flights, carriers])
    sql = "SELECT id, name FROM flights JOIN carriers USING (c)"
    config = target.config(table="joined")
    assert lakeport.plan(source, config, sql=sql).streams[0].columns[1].name == "name"
    assert lakeport.land(source, config, sql=sql).rows == 1
    assert target.rows("joined")[0]["name"] == "United"
    with pytest.raises(ConfigError, match="the source has 2 tables, and nothing says"):
        lakeport.land(source, config)


@pytest.mark.parametrize("target", ["local-parquet"], indirect=True)
def test_a_table_becomes_files(target: Target, land: Land, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "events", pa.table({"id": [1, 2]}))
    source = lakeport.TablesSource(tables=str(tmp_path / "events"), incremental=True)
    assert [land(source, table="t").rows for _ in range(2)] == [2, 0]
    assert target.ids("t") == [1, 2]
