"""What the text of a query tells of its columns; `tests/spark/test_lineage.py` asks Spark, too."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.pipeline.lineage import lineage_of

TABLES = {
    "source": ["id", "Name", "price", "qty", "a.b", "items", "place", "ym"],
    "air": ["code", "name", "id"],
}


def told(sql: str) -> tuple[dict[str | None, Any], dict[str, str]]:
    found = lineage_of(sql, TABLES)
    assert found is not None
    return (
        {name: None if origins is None else short(origins) for name, origins in found.columns},
        short(found.rows),
    )


def short(origins: Any) -> dict[str, str]:
    return {".".join(field): "/".join(sorted(kinds)) for field, kinds in origins.items()}


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
            {"n": {}, "p": {"source.price": "AGGREGATION", "source.qty": "CONDITIONAL"}},
        ),
        (
            "SELECT CASE WHEN qty > 1 THEN price ELSE 0 END AS p FROM source",
            {"p": {"source.price": "TRANSFORMATION", "source.qty": "CONDITIONAL"}},
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
        # Whether a function of the user's own aggregates is not known.
        ("SELECT mine(id) AS u FROM source", {"u": {"source.id": ""}}),
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
            "SELECT posexplode(items) AS (at, item) FROM source",
            {"at": {"source.items": "TRANSFORMATION"}, "item": {"source.items": "TRANSFORMATION"}},
        ),
        (
            "SELECT lag(price) OVER (ORDER BY qty) AS p, transform(items, x -> x + ym) AS t "
            "FROM source",
            {
                "p": {"source.price": "TRANSFORMATION"},
                "t": {"source.items": "TRANSFORMATION", "source.ym": "TRANSFORMATION"},
            },
        ),
        (
            "SELECT source.id AS one, air.id AS two FROM source FULL JOIN air USING (id)",
            {"one": {"source.id": "IDENTITY"}, "two": {"air.id": "IDENTITY"}},
        ),
        (
            "SELECT id FROM source FULL JOIN air USING (id)",
            {"id": {"source.id": "TRANSFORMATION", "air.id": "TRANSFORMATION"}},
        ),
        ("SELECT id FROM source RIGHT JOIN air USING (id)", {"id": {"air.id": "IDENTITY"}}),
        (
            "SELECT (SELECT max(name) FROM air WHERE air.id = source.id) AS m FROM source",
            {"m": {"air.name": "AGGREGATION"}},
        ),
        ("FROM air |> WHERE id > 1 |> SELECT code", {"code": {"air.code": "IDENTITY"}}),
        # Of one column it can't be told; the others are.
        (
            "SELECT name, code, nowhere AS n FROM source JOIN air ON source.id = air.id",
            {"name": None, "code": {"air.code": "IDENTITY"}, "n": None},
        ),
    ],
)
def test_columns(sql: str, columns: dict[str, Any]) -> None:
    assert told(sql)[0] == columns


def test_all_columns() -> None:
    columns, _ = told("SELECT * EXCEPT (items, Id, name) FROM source JOIN air ON qty = code")
    left = ("price", "qty", "a.b", "place", "ym")
    assert columns == {
        **{each: {f"source.{each}": "IDENTITY"} for each in left},
        "code": {"air.code": "IDENTITY"},
    }
    assert told("SELECT air.* FROM source JOIN air USING (id)")[0].keys() == {"code", "name", "id"}


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT id FROM source WHERE qty > 0 AND id > 1",
            {"source.qty": "FILTER", "source.id": "FILTER"},
        ),
        ("SELECT ym AS m, count(*) AS n FROM source GROUP BY 1", {"source.ym": "GROUP_BY"}),
        ("SELECT ym AS m, count(*) AS n FROM source GROUP BY m", {"source.ym": "GROUP_BY"}),
        ("SELECT ym, max(qty) AS q FROM source GROUP BY ALL", {"source.ym": "GROUP_BY"}),
        (
            "SELECT ym, max(qty) AS q FROM source GROUP BY ym HAVING q > 1",
            {"source.ym": "GROUP_BY", "source.qty": "FILTER"},
        ),
        # What is sorted by is first looked for among the columns that come out.
        ("SELECT id AS ym, ym AS id FROM source ORDER BY ym", {"source.id": "SORT"}),
        ("SELECT id FROM source ORDER BY qty DESC LIMIT 1", {"source.qty": "SORT"}),
        ("SELECT DISTINCT id FROM source", {"source.id": "GROUP_BY"}),
        (
            "SELECT code FROM source s JOIN air USING (id)",
            {"source.id": "JOIN", "air.id": "JOIN"},
        ),
        (
            "SELECT ym FROM source LEFT SEMI JOIN air ON source.name = air.code",
            {"source.Name": "JOIN", "air.code": "JOIN"},
        ),
        (
            "SELECT rank() OVER w AS n FROM source WINDOW w AS (PARTITION BY ym ORDER BY qty)",
            {"source.ym": "WINDOW", "source.qty": "WINDOW"},
        ),
        (
            "SELECT ym FROM source WHERE id IN (SELECT id FROM air WHERE code = 1)",
            {"source.id": "FILTER", "air.id": "FILTER", "air.code": "FILTER"},
        ),
        ("SELECT id FROM source EXCEPT SELECT id FROM air", {"air.id": "FILTER"}),
        # A query that nobody reads decides nothing.
        ("WITH a AS (SELECT * FROM air WHERE code = 1) SELECT id FROM source", {}),
    ],
)
def test_rows(sql: str, rows: dict[str, str]) -> None:
    assert told(sql)[1] == rows


@pytest.mark.parametrize(
    "sql",
    [
        "no query",
        "SELECT * FROM elsewhere",
        "SELECT * FROM parquet.`/data`",
        "SELECT * FROM range(3)",
        "SELECT id FROM source WHERE nowhere = 1",
        "SELECT place.* FROM source",
        "SELECT explode(place) FROM source",
        "SELECT * FROM source PIVOT (sum(qty) FOR ym IN (1, 2))",
        "SELECT id FROM source UNION BY NAME SELECT id FROM air",
        "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT n FROM a",
        "SELECT s.id FROM source, LATERAL (SELECT source.id) s",
        # The name is one thing among the columns, and another in the table.
        "SELECT max(qty) AS price, ym FROM source GROUP BY ym HAVING max(price) > 1",
    ],
)
def test_what_is_not_certain_is_not_told(sql: str) -> None:
    assert lineage_of(sql, TABLES) is None
