"""Lineage of columns: of real runs, and held against what Spark's analysed plan tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeport
from lakeport.pipeline.lineage import trace_columns
from tests.unit.pipeline.hooks import endpoint

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

LAKE = """
target: {destination: local, path: ./lake, file_type: delta}
defaults: {mode: overwrite}
loads:
  sales:
    from: {files: "in/*.csv"}
    rename: {qty: Quantity}
    drop: [price]
    columns: {id: text}
  airlines:
    from: {files: airlines.csv}
    column_header_format: upper
    internal_columns_prefix: _own_
    constant_columns: {origin: csv}
  rows:
    from: {files: "in/*.csv"}
    sql: |
      SELECT id, price * qty AS total, upper(NAME) AS `Who`, `a.b` AS ab FROM source WHERE qty > 0
    rename: {ab: letter}
    drop: [id]
  joined:
    from: {tables: [sales]}
    sql: |
      WITH s AS (SELECT id, Quantity * 2 AS q FROM source)
      SELECT a.name, sum(s.q) AS q, count(*) AS n
      FROM s JOIN airlines a ON s.id = a.code GROUP BY a.name
  all:
    from: {tables: [sales]}
    sql: SELECT *, 1 AS own FROM sales
  copy:
    from: {tables: [sales]}
  opaque:
    from: {files: airlines.csv}
    python: as_it_is:function
"""


def fields(facet: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            Path(each["name"]).name,
            each["field"],
            *((kind["type"], kind.get("subtype")) for kind in each["transformations"]),
        )
        for each in facet["inputFields"]
    ]


@pytest.fixture
def lake(tmp_path: Path, driver: DriverSession) -> Path:
    """A lake's file that has just been written; its runs use the session of these tests."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(
        'id,Name,price,qty,"a.b"\n1,Ada,2.5,2,x\n2,Bob,3.5,1,y\n'
    )
    (tmp_path / "airlines.csv").write_text("code,name\n1,AA\n2,BB\n")
    (tmp_path / "as_it_is.py").write_text("def function(frame):\n    return frame\n")
    (tmp_path / "lake.yaml").write_text(LAKE)
    return tmp_path / "lake.yaml"


SAME, MADE = ("DIRECT", "IDENTITY"), ("DIRECT", "TRANSFORMATION")


def test_the_columns_of_tables_have_their_origins(lake: Path) -> None:
    lake.write_text(f"lineage: {{file: {lake.parent / 'events'}}}{LAKE}")
    assert lakeport.run(lake).ok
    ended = [json.loads(line) for line in (lake.parent / "events").read_text().splitlines()]
    told = {each["job"]["name"]: each for each in ended if each["eventType"] == "COMPLETE"}
    found = {}
    for name, event in told.items():
        (output,) = event["outputs"]
        facet = output["facets"].get("columnLineage", {"fields": {}})
        columns = {column: fields(origins) for column, origins in facet["fields"].items()}
        found[name.removeprefix("lake.")] = columns
    file, of_sales = "airlines.csv", ("id", "Name", "Quantity", "a.b")
    assert found == {
        "sales": {
            "id": [("in", "id", MADE)],
            "Name": [("in", "Name", SAME)],
            "Quantity": [("in", "qty", SAME)],
            "a.b": [("in", "a.b", SAME)],
        },
        "airlines": {"CODE": [(file, "code", SAME)], "NAME": [(file, "name", SAME)]},
        "rows": {
            "total": [("in", "price", MADE), ("in", "qty", MADE)],
            "Who": [("in", "Name", MADE)],
            "letter": [("in", "a.b", SAME)],
        },
        "joined": {
            "name": [("airlines", "NAME", SAME)],
            "q": [("sales", "Quantity", ("DIRECT", "AGGREGATION"))],
        },
        "all": {each: [("sales", each, SAME)] for each in of_sales},
        "copy": {each: [("sales", each, SAME)] for each in of_sales},
        "opaque": {},
    }
    assert "columnLineage" not in told["lake.opaque"]["outputs"][0]["facets"]
    inputs = {Path(each["name"]).name: each for each in told["lake.joined"]["inputs"]}
    assert inputs.keys() == {"sales", "airlines"}
    types = {each["name"]: each["type"] for each in inputs["sales"]["facets"]["schema"]["fields"]}
    assert types["Quantity"] == "integer"
    (source,) = told["lake.sales"]["inputs"]
    types = {each["name"]: each["type"] for each in source["facets"]["schema"]["fields"]}
    assert (types["qty"], types["id"]) == ("integer", "string")


def test_an_endpoint_is_told_origins_without_secrets(lake: Path) -> None:
    import sqlite3

    with sqlite3.connect(lake.parent / "shop.db") as db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
        db.execute("INSERT INTO orders VALUES (1, 2.5)")
    db.close()
    with endpoint() as marquez:
        lake.write_text(
            f"""
lineage: {{url: "{marquez.url}", api_key: sesame}}
target: {{destination: local, path: ./lake, file_type: delta}}
loads:
  orders:
    from: {{database: "sqlite:///shop.db", table: orders}}
    sql: SELECT id, total * 2 AS twice, 'sesame' AS word FROM source
"""
        )
        lake.chmod(0o600)
        assert lakeport.run(lake).ok
    start, end = marquez.bodies
    assert "facets" not in start["inputs"][0] or not start["inputs"][0]["facets"]
    facet = end["outputs"][0]["facets"]["columnLineage"]
    assert {name: fields(each) for name, each in facet["fields"].items()} == {
        "id": [("orders", "id", SAME)],
        "twice": [("orders", "total", MADE)],
    }
    assert "sesame" not in json.dumps(marquez.bodies)


TABLES = {
    "source": ["id", "name", "price", "qty", "a.b", "items", "place", "ym"],
    "air": ["code", "name", "id"],
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT *, price * qty AS total FROM source WHERE id > 1",
        "SELECT s.*, a.code, a.name AS title FROM source s LEFT JOIN air a ON s.id = a.id",
        "SELECT * EXCEPT (items, place) FROM source",
        "SELECT id AS ym, ym AS id, ym + 1 AS next, next * 2 AS more FROM source ORDER BY ym",
        "SELECT ym, count(*) AS n, avg(price) AS p FROM source GROUP BY ym HAVING n > 1",
        "SELECT ym AS m, any(price > 1) AS p, try_sum(qty) AS q FROM source GROUP BY m",
        "SELECT `a.b` AS x, source.`A.B` AS y, place.lat AS z, Source.Place.Lat AS w FROM source",
        "SELECT coalesce(name, 'x') AS n, if(qty > 1, price, NULL) AS p FROM source",
        "SELECT CASE qty WHEN 1 THEN price ELSE ym END AS c FROM source",
        "WITH a AS (SELECT id, qty * 2 AS q FROM source), b AS (SELECT id AS i, q FROM a) "
        "SELECT i, sum(q) AS total FROM b GROUP BY i",
        "WITH air AS (SELECT qty AS code FROM source) SELECT code FROM air",
        "SELECT id, name FROM (SELECT id, name FROM source) s (name, id)",
        "SELECT id, s.name AS n FROM source s FULL JOIN air USING (id)",
        "SELECT code AS c, qty FROM source NATURAL JOIN air",
        "SELECT code FROM air UNION SELECT ym FROM source",
        "SELECT id, item FROM source LATERAL VIEW explode(items) t AS item",
        "SELECT id, explode(items) AS item FROM source",
        "SELECT transform(items, x -> x + ym) AS t, filter(items, id -> id > 1) AS f FROM source",
        "SELECT timestampdiff(MONTH, to_date(name), current_date) AS m FROM source",
        "SELECT max_by(name, price) AS best, percentile(price, 0.5) AS mid FROM source",
        "SELECT id FROM source LEFT ANTI JOIN air ON source.name = air.name",
    ],
)
def test_columns_come_from_what_spark_says(driver: DriverSession, sql: str) -> None:
    spark = driver.spark.newSession()
    types = {"items": "array<int>", "place": "struct<lat:double>", "name": "string"}
    for name, columns in TABLES.items():
        schema = ", ".join(f"`{each}` {types.get(each, 'int')}" for each in columns)
        spark.createDataFrame([], schema).createOrReplaceTempView(name)
    found = trace_columns(sql, TABLES)
    assert found is not None
    assert {name: set(origins) for name, origins in found.items()} == of_plan(spark.sql(sql))


def of_plan(frame: Any) -> dict[str, set[tuple[str, str]]]:
    """Column -> the columns of views that its expressions in the analysed plan refer to."""
    origins: dict[str, set[tuple[str, str]]] = {}
    definitions: dict[str, Any] = {}

    def visit(node: Any) -> None:
        kind = node.getClass().getSimpleName()
        if kind == "View":
            view = node.desc().identifier().table()
            origins.update((key(each), {(view, each.name())}) for each in each_of(node.output()))
            return
        for child in each_of(node.children()):
            visit(child)
        if kind == "CTERelationDef":
            definitions[str(node.id())] = node.child()
        if kind == "CTERelationRef":
            copy(definitions[str(node.cteId())], node)
        if kind == "Union":
            for child in each_of(node.children()):
                copy(child, node)
        if kind == "Generate":
            refs = referred(node.generator())
            origins.update((key(each), refs) for each in each_of(node.generatorOutput()))
        for expression in each_of(node.expressions()):
            if expression.getClass().getSimpleName() == "Alias":
                origins[key(expression)] = referred(expression)

    def copy(child: Any, node: Any) -> None:
        for one, other in zip(each_of(child.output()), each_of(node.output()), strict=True):
            origins.setdefault(key(other), set()).update(origins[key(one)])

    def referred(expression: Any) -> set[tuple[str, str]]:
        attributes = each_of(expression.references().toSeq())
        return {origin for each in attributes for origin in origins[key(each)]}

    plan = frame._jdf.queryExecution().analyzed()
    visit(plan)
    return {each.name().lower(): origins[key(each)] for each in each_of(plan.output())}


def key(attribute: Any) -> str:
    return str(attribute.exprId())


def each_of(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))
