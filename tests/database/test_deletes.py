"""`deletes: compare`: rows that the source does not have any more are marked, or go."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import DatabaseSource
from lakeport.errors import ConfigError
from tests.database.kit import Schema

pytestmark = pytest.mark.spark  # which merges and compares
MARK = "_sdc_deleted_at"


def land(schema: Schema, **keys: Any) -> Any:
    return schema.land(source=schema.source(deletes="compare"), mode="merge", **keys)


def state(schema: Schema) -> dict[int, tuple[str, bool]]:
    """Key -> value, and whether it is marked as deleted."""
    return {row["id"]: (row["v"], row.get(MARK) is not None) for row in schema.rows()}


@pytest.fixture
def filled(schema: Schema) -> Schema:
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5) i",
    )
    return schema


def test_rows_that_are_gone_are_marked_and_keep_their_values(filled: Schema) -> None:
    land(filled)
    filled.sql("DELETE FROM t WHERE id IN (2, 4)", "INSERT INTO t VALUES (6, 'v6')")
    land(filled)
    assert state(filled) == {
        **{i: (f"v{i}", False) for i in (1, 3, 5, 6)},
        **{i: (f"v{i}", True) for i in (2, 4)},
    }


@pytest.mark.parametrize("sql", ["", "SELECT id, v FROM source WHERE v IS NOT NULL"])
def test_nothing_is_made_or_expected_of_rows_that_are_gone(filled: Schema, sql: str) -> None:
    expect = [{"not_null": "v"}, {"check": "v LIKE 'v%'"}, {"rows": {"at_most": 5}}]
    for gone in ("0", "2, 4"):
        filled.sql(f"DELETE FROM t WHERE id IN ({gone})")
        report = land(filled, sql=sql, expect=expect)
    assert state(filled) == {i: (f"v{i}", i in (2, 4)) for i in range(1, 6)}
    assert {one.checked for one in report.streams[0].expectations} == {3}


@pytest.mark.parametrize("sql", ["", "SELECT * FROM source"])
def test_rows_that_are_gone_are_told_where_nothing_is_new(filled: Schema, sql: str) -> None:
    source = filled.source(deletes="compare", cursor="id")
    for gone in ("0", "2, 4"):
        filled.sql(f"DELETE FROM t WHERE id IN ({gone})")
        expect = [{"rows": {"at_least": 1}}]
        report = filled.land(source=source, mode="merge", sql=sql, expect=expect)
    assert state(filled) == {i: (f"v{i}", i in (2, 4)) for i in range(1, 6)}
    (stream,) = report.streams
    assert "nothing new: no row has another 'id' than those that have landed" in stream.notes


def test_a_mark_stays_as_it_is_and_goes_when_its_row_is_back(filled: Schema) -> None:
    land(filled)
    filled.sql("DELETE FROM t WHERE id IN (2, 4)")
    land(filled)
    first = {row["id"]: row[MARK] for row in filled.rows()}
    filled.sql("INSERT INTO t VALUES (4, 'new')")
    land(filled)
    second = {row["id"]: row[MARK] for row in filled.rows()}
    assert second[2] == first[2] is not None
    assert state(filled)[4] == ("new", False)


def test_rows_that_are_gone_are_removed_if_so_wanted(filled: Schema) -> None:
    land(filled, hard_delete=True)
    filled.sql("DELETE FROM t WHERE id IN (2, 4)", "UPDATE t SET v = 'new' WHERE id = 1")
    report = land(filled, hard_delete=True)
    assert {i: v for i, (v, _) in state(filled).items()} == {1: "new", 3: "v3", 5: "v5"}
    assert report.streams[0].merged["deleted"] == 2


def test_all_rows_may_go(filled: Schema) -> None:
    land(filled, hard_delete=True)
    filled.sql("DELETE FROM t")
    land(filled, hard_delete=True)
    assert state(filled) == {}


def test_nothing_is_committed_for_keys_where_none_is_gone(filled: Schema) -> None:
    land(filled)
    assert land(filled).streams[0].batches == 1


def test_keys_of_several_columns_and_other_types(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int, at timestamptz, n numeric(9,2), v text, PRIMARY KEY (n, at, id))",
        "INSERT INTO t SELECT i, '2024-01-01', i / 4.0, 'v' FROM generate_series(1, 5) i",
    )
    land(schema, hard_delete=True)
    schema.sql("DELETE FROM t WHERE id = 3")
    land(schema, hard_delete=True)
    assert list(state(schema)) == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"mode": "append"}, "needs `mode: merge` and a Delta table"),
        ({"merge_keys": ["v"]}, "compares the primary key id"),
        ({"rename": {"id": "key"}}, "keys that `rename` or `drop` change"),
        ({"column_header_format": "upper"}, "`column_header_format` changes"),
    ],
)
def test_what_can_not_be_compared(filled: Schema, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        filled.land(source=filled.source(deletes="compare"), **({"mode": "merge"} | keys))
    assert words in caught.value.message
    assert not (filled.lake / "t").exists()


def test_a_source_without_a_key(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    with pytest.raises(ConfigError, match="needs a primary key in the source"):
        land(schema)
    land(schema, merge_keys=["id"])
    schema.sql("DELETE FROM t WHERE id = 1")
    land(schema, merge_keys=["id"])
    assert state(schema) == {1: ("a", True), 2: ("b", False)}


def test_a_file_is_compared(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "c")])
    connection.commit()
    uri = f"sqlite:///{tmp_path}/shop.db"
    source = DatabaseSource(database=uri, table="t", deletes="compare")
    keys: Any = {"table": "t", "mode": "merge", "hard_delete": True}
    lakeport.land(source, str(tmp_path / "lake"), file_type="delta", **keys)
    connection.execute("DELETE FROM t WHERE id = 2")
    connection.commit()
    connection.close()
    lakeport.land(source, str(tmp_path / "lake"), file_type="delta", **keys)
    table = pa.table(DeltaTable(str(tmp_path / "lake" / "t")).to_pyarrow_table())
    assert sorted(table["id"].to_pylist()) == [1, 3]
