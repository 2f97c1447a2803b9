"""What a plan of a lake's file tells of `sql` and `python`, which Spark is asked."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeport
from lakeport.cli.app import main

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

EACH, WHOLE = "each batch on its own", "the whole input at once"
UNREAD = "its source's columns are known once it is read"
LAKE = """
target: {destination: local, path: ./lake, file_type: delta}
defaults: {internal_columns: false}
loads:
  plain:
    from: {files: people.csv}
  rows:
    from: {files: people.csv}
    sql: SELECT id * 2 AS twice, upper(`a.b`) AS ab FROM source WHERE name LIKE 'A%'
  sums:
    from: {files: people.csv}
    sql: SELECT count(*) AS n FROM source
  lists:
    from: {files: people.csv}
    sql: SELECT explode(items) AS item FROM source
  checked:
    from: {files: people.csv}
    sql: SELECT id FROM source
    expect: [{unique: [id]}]
  function:
    from: {files: people.csv}
    python: plan_functions:limited
  orders:
    from: {database: "sqlite:///shop.db", table: orders}
    sql: SELECT id, total * 2 AS twice FROM source
    rename: {twice: double}
  down:
    from: {database: "postgresql://me:sesame@127.0.0.1:9/shop", table: orders}
    sql: SELECT * FROM source
  best:
    from: {tables: [orders]}
    python: plan_functions:limited
  copies:
    from: {tables: [orders]}
    sql: SELECT `double` + 1 AS more FROM source
  joined:
    from: {tables: [orders]}
    sql: SELECT o.id, n FROM orders o JOIN sums ON o.id = sums.n
  wrong:
    from: {tables: [orders]}
    sql: SELECT prise FROM source
"""


@pytest.fixture
def lake(tmp_path: Path, driver: DriverSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake's file of which nothing has landed yet."""
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
    shop.close()
    (tmp_path / "plan_functions.py").write_text("def limited(frame):\n    return frame.limit(1)\n")
    (tmp_path / "people.csv").write_text("id,name,a.b\n1,Ada,x\n2,Bob,y\n")
    (tmp_path / "lake.yaml").write_text(LAKE)
    (tmp_path / "lake.yaml").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["run", "lake.yaml", "--plan", "--json", *options]) == 0
    return {load["load"]: load for load in json.loads(capsys.readouterr().out)["loads"]}


def test_a_plan_says_what_takes_the_whole_input(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = planned(capsys)
    assert {name: (load["runs"], load["unknown"]) for name, load in loads.items()} == {
        "plain": ("", ""),
        "rows": (EACH, UNREAD),
        "sums": (WHOLE, UNREAD),
        "lists": ("", UNREAD),
        "checked": (WHOLE, UNREAD),
        "function": ("", UNREAD),
        "orders": (EACH, ""),
        "down": (EACH, loads["down"]["unknown"]),
        "best": (WHOLE, ""),
        "copies": (EACH, ""),
        "joined": (WHOLE, f"'{lake / 'lake' / 'sums'}' is no Delta table"),
        "wrong": (EACH, loads["wrong"]["unknown"]),
    }
    assert loads["orders"]["result"] == {"id": "integer", "double": "double"}
    assert loads["best"]["result"] == loads["orders"]["result"]
    assert loads["copies"]["result"] == {"more": "double"}
    assert loads["wrong"]["unknown"].startswith("`sql`: ")
    assert "prise" in loads["wrong"]["unknown"]
    assert "127.0.0.1:9" in loads["down"]["unknown"]
    assert "sesame" not in json.dumps(loads)
    assert not (lake / "lake").exists()


def test_a_plan_goes_by_tables_as_they_will_be(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lakeport.run(lake / "lake.yaml", only=["orders", "sums"]).ok
    loads = planned(capsys, "--only", "joined")
    assert loads["joined"]["result"] == {"id": "integer", "n": "integer"}
    text = (lake / "lake.yaml").read_text().replace("id, total * 2", "id AS key, id, total * 2")
    (lake / "lake.yaml").write_text(text.replace("SELECT `double` + 1 AS more", "SELECT *"))
    copies = {"key": "integer", "id": "integer", "double": "double"}
    result = planned(capsys, "--only", "orders,copies")["copies"]["result"]
    assert dict(sorted(result.items())) == dict(sorted(copies.items()))
    assert planned(capsys, "--only", "copies")["copies"]["result"] == {
        name: copies[name] for name in ("id", "double")
    }


def test_a_plan_in_words(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "lake.yaml", "--plan", "--only", "orders,sums"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"makes of it sql, {EACH}" in lines
    assert "which gives id integer, double double" in lines
    assert f"makes of it sql, {WHOLE}" in lines
    assert f"not known {UNREAD}" in lines
