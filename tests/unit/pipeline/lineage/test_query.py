"""What the text of a query tells of its columns; `tests/spark/test_lineage.py` asks Spark, too."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.pipeline.lineage import trace_columns

TABLES = {
    "source": ["id", "Name", "price", "qty", "a.b", "items", "place", "ym"],
    "air": ["code", "name", "id"],
}


def traced(sql: str) -> dict[str, dict[str, str]] | None:
    found = trace_columns(sql, TABLES)
    return found and {
        name: {".".join(field): kind for field, kind in origins.items()}
        for name, origins in found.items()
    }


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT id AS i FROM source", {"i": {"source.id": "IDENTITY"}}),
        (
            "SELECT price * qty AS total, upper(NAME) n FROM source;",
            {
                "total": {"source.price": "TRANSFORMATION", "source.qty": "TRANSFORMATION"},
                "n": {"source.Name": "TRANSFORMATION"},
            },
        ),
        (
            "SELECT `a.b` AS x, SOURCE.`A.B` AS y, place.lat AS z FROM source",
            {
                "x": {"source.a.b": "IDENTITY"},
                "y": {"source.a.b": "IDENTITY"},
                "z": {"source.place": "TRANSFORMATION"},
            },
        ),
        (
            "SELECT count(*) AS n, sum(price) FILTER (WHERE qty > 1) AS p FROM source",
            {"n": {}, "p": {"source.price": "AGGREGATION", "source.qty": "AGGREGATION"}},
        ),
        (
            "SELECT CASE WHEN qty > 1 THEN price ELSE 0 END AS p FROM source",
            {"p": {"source.price": "TRANSFORMATION", "source.qty": "TRANSFORMATION"}},
        ),
        # A name is a column of the tables first, then one from before; a new name hides nothing.
        (
            "SELECT price + 1 AS b, b * 2 AS c, qty AS price, price AS d FROM source",
            {
                "b": {"source.price": "TRANSFORMATION"},
                "c": {"source.price": "TRANSFORMATION"},
                "price": {"source.qty": "IDENTITY"},
                "d": {"source.price": "IDENTITY"},
            },
        ),
        ("SELECT mine(id) AS u FROM source", {"u": {"source.id": "TRANSFORMATION"}}),
        (
            "WITH a AS (SELECT id, price * qty AS t FROM source) SELECT max(t) + 1 AS m FROM a",
            {"m": {"source.price": "AGGREGATION", "source.qty": "AGGREGATION"}},
        ),
        (
            "WITH air AS (SELECT qty FROM source) SELECT * FROM air",
            {"qty": {"source.qty": "IDENTITY"}},
        ),
        (
            "SELECT code FROM air UNION ALL SELECT id FROM source",
            {"code": {"air.code": "IDENTITY", "source.id": "IDENTITY"}},
        ),
        (
            "SELECT k, v FROM source LATERAL VIEW explode(place) t AS k, v",
            {"k": {"source.place": "TRANSFORMATION"}, "v": {"source.place": "TRANSFORMATION"}},
        ),
        (
            "SELECT source.id AS one, air.id AS two FROM source FULL JOIN air USING (id)",
            {"one": {"source.id": "IDENTITY"}, "two": {"air.id": "IDENTITY"}},
        ),
        (
            "SELECT id FROM source FULL JOIN air USING (id)",
            {"id": {"source.id": "TRANSFORMATION", "air.id": "TRANSFORMATION"}},
        ),
        (
            "SELECT (SELECT max(name) FROM air WHERE air.id = source.id) AS m FROM source",
            {"m": {"air.name": "AGGREGATION"}},
        ),
        ("FROM air |> WHERE id > 1 |> SELECT code", {"code": {"air.code": "IDENTITY"}}),
    ],
)
def test_columns(sql: str, columns: dict[str, Any]) -> None:
    assert traced(sql) == columns


def test_all_columns() -> None:
    columns = traced("SELECT * EXCEPT (items, Id, name) FROM source JOIN air ON qty = code")
    left = ("price", "qty", "a.b", "place", "ym")
    assert columns == {
        **{each: {f"source.{each}": "IDENTITY"} for each in left},
        "code": {"air.code": "IDENTITY"},
    }
    assert (traced("SELECT air.* FROM source JOIN air USING (id)") or {}).keys() == {
        "code",
        "name",
        "id",
    }


@pytest.mark.parametrize(
    "sql",
    [
        "no query",
        "SELECT * FROM elsewhere",
        "SELECT * FROM parquet.`/data`",
        "SELECT * FROM range(3)",
        "SELECT id, nowhere AS n FROM source",
        "SELECT id FROM source WHERE nowhere = 1",
        "SELECT * FROM source PIVOT (sum(qty) FOR ym IN (1, 2))",
    ],
)
def test_a_query_that_is_not_resolved_has_no_lineage(sql: str) -> None:
    assert traced(sql) is None
