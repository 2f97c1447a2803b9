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
        {"splits": 1},
        {"splits": 7},
        {"splits": 5, "split_by": "id"},
        {"splits": 4, "split_by": "day"},
        {"splits": 3, "split_by": "changed"},
        {"splits": 3, "split_by": "part"},
        {"splits": 6, "split_by": "amount"},
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
