from __future__ import annotations

import pytest

from lakeport.config.lake.model import find_query_tables


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT flights FROM source", {"source"}),
        ("SELECT 'FROM a' /* FROM b */ FROM c -- JOIN d", {"c"}),
        ("WITH A AS (SELECT * FROM x) SELECT * FROM a", {"x"}),
        ("WITH flights AS (SELECT * FROM flights) SELECT * FROM flights", {"flights"}),
        ("SELECT * FROM a LEFT ANTI JOIN `b-c` USING (id)", {"a", "b-c"}),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.i = a.i)", {"a", "b"}),
        ("SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c)", {"a", "b", "c"}),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", {"a", "b"}),
        ("SELECT * FROM db.a LATERAL VIEW explode(xs) t AS x", {"db.a"}),
        ("SELECT * FROM range(10)", set()),
    ],
)
def test_only_tables_are_named(sql: str, names: set[str]) -> None:
    assert set(find_query_tables(sql)) == names


def test_where_a_query_cannot_be_read_every_word_counts() -> None:
    assert {"a", "b"} <= set(find_query_tables("SELECT FROM FROM a JOIN (b"))
