"""DuckDB's columns with places that have no type: they take the one that comes later."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

import lakeport

QUERIES = (
    "SELECT 1::BIGINT id, [] l, {'a': NULL} s, MAP {} m, NULL v",
    "SELECT 2::BIGINT id, [7] l, {'a': 3} s, MAP {'k': 5} m, 5 v",
)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_places_without_a_type_fit_any(order: tuple[int, int], tmp_path: Path) -> None:
    for which in order:
        database = f"duckdb:///{tmp_path}/shop.duckdb"
        with duckdb.connect(str(tmp_path / "shop.duckdb")):
            pass
        source = lakeport.DatabaseSource(database=database, query=QUERIES[which])
        lakeport.land(source, tmp_path / "lake", table="t", internal_columns=False)
    rows = DeltaTable(str(tmp_path / "lake" / "t")).to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "l": [], "s": {"a": None}, "m": [], "v": None},
        {"id": 2, "l": [7], "s": {"a": 3}, "m": [("k", 5)], "v": 5},
    ]
