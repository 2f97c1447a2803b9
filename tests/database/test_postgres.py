"""PostgreSQL -> Delta: every row once, by whatever ranges tasks share them."""

from __future__ import annotations

import pytest

from tests.database.kit import Schema

MANY = """
CREATE TABLE t AS SELECT i AS id, md5(i::text) AS token, date '2020-01-01' + i % 700 AS day,
  timestamptz '2020-01-01 00:00:00+00' + i * interval '1 minute' AS changed,
  (i % 977)::numeric(9,2) / 4 AS amount, CASE WHEN i % 10 > 0 THEN i % 1000 END AS part
FROM generate_series(1, 30000) i
"""


@pytest.mark.parametrize(
    "how",
    [
        {},
        pytest.param({"splits": 1}, marks=pytest.mark.soak),
        {"splits": 7},
        pytest.param({"splits": 5, "split_by": "id"}, marks=pytest.mark.soak),
        pytest.param({"splits": 4, "split_by": "day"}, marks=pytest.mark.soak),
        {"splits": 3, "split_by": "changed"},
        {"splits": 3, "split_by": "part"},
        pytest.param({"splits": 6, "split_by": "amount"}, marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_every_row_lands_once(schema: Schema, how: dict[str, object]) -> None:
    schema.sql(MANY)
    report = schema.land(source=schema.source(**how))
    assert report.rows == 30_000
    rows = schema.rows()
    assert [row["id"] for row in rows] == list(range(1, 30_001))
    assert sum(row["part"] is None for row in rows) == 3000


def test_a_run_that_is_repeated_adds_nothing(schema: Schema) -> None:
    schema.sql("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    assert schema.land(run_id="monday").rows == 2
    schema.sql("INSERT INTO t VALUES (3)")
    assert schema.land(run_id="monday").rows == 0
    assert schema.land(run_id="tuesday").rows == 3
    assert len(schema.rows()) == 5


def test_the_primary_key_is_what_a_merge_goes_by(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    )
    schema.land(mode="merge")
    schema.sql("UPDATE t SET v = 'c' WHERE id = 2", "INSERT INTO t VALUES (3, 'd')")
    assert schema.land(mode="merge").streams[0].merged["inserted"] == 1
    assert [row["v"] for row in schema.rows()] == ["a", "c", "d"]


def test_views_and_names_that_need_quotes(schema: Schema) -> None:
    schema.sql(
        'CREATE TABLE "Odd.Table" ("Id" int PRIMARY KEY, "Group" text)',
        """INSERT INTO "Odd.Table" VALUES (1, 'x')""",
        'CREATE VIEW v AS SELECT * FROM "Odd.Table"',
    )
    for name in ('"Odd.Table"', "v"):
        schema.land("odd", source=schema.source(name), mode="overwrite")
        assert schema.read("odd").to_pylist() == [{"Id": 1, "Group": "x"}]


def test_all_partitions_and_children_land_once(schema: Schema) -> None:
    schema.sql(
        "CREATE TABLE t (id int, part int) PARTITION BY LIST (part)",
        "CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
        "INSERT INTO t SELECT i, i % 2 FROM generate_series(1, 20000) i",
        "CREATE TABLE parent (id int)",
        "CREATE TABLE child () INHERITS (parent)",
        "INSERT INTO parent SELECT i FROM generate_series(1, 9000) i",
        "INSERT INTO child SELECT i FROM generate_series(9001, 20000) i",
    )
    for name in ("t", "parent"):
        schema.land(name, source=schema.source(name, splits=5))
        assert [row["id"] for row in schema.rows(name)] == list(range(1, 20_001))
