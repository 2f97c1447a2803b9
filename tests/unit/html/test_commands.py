"""Pages name the commands that help, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeport.html.facts import RunFacts, parse_run_facts
from lakeport.html.run import list_undo_commands, render_run_page, render_run_part
from lakeport.html.table import Preview, render_table_page
from tests.unit.html import kit


def commands(**others: Any) -> str:
    page = render_table_page(replace(kit.table(), **others), Preview())
    return page.partition('aria-label="Commands"')[2]


def run(**others: Any) -> RunFacts:
    report = kit.report("orders")
    report["streams"][0] |= others.pop("stream", {})
    found = parse_run_facts(report | others)
    assert found is not None
    return found


def test_small_tables_get_no_advice_to_merge_their_files() -> None:
    assert "table optimize" not in commands(warning=None)
    assert "Merge its 3 small files" in commands()


def test_maintenance_is_passed_over_by_commands_that_undo() -> None:
    idle = [kit.version(n, "VACUUM", run_id=None, changed=False) for n in (2, 3)]
    told = commands(versions=[kit.version(0), kit.version(1, "monday"), *idle])
    assert "undo /lake/t monday" in told
    assert "--version 0" in told


@pytest.mark.parametrize("first", [{}, {"changed": False}])
def test_nothing_is_brought_back_where_no_older_version_differs(first: dict[str, Any]) -> None:
    idle = [kit.version(number, "VACUUM", changed=False) for number in (1, 2)]
    told = commands(versions=[kit.version(0, **first), *idle])
    assert "restore" not in told
    assert "undo" not in told


def test_a_run_is_undone_table_by_table() -> None:
    assert list_undo_commands(run()) == [
        ("Take its rows out of orders", "lakeport table undo /lake/orders orders")
    ]
    assert list_undo_commands(run(stream={"first_version": 0})) == [
        ("Take away orders, which the run made", "lakeport table drop /lake/orders")
    ]


@pytest.mark.parametrize(
    "others",
    [
        {"streams": []},
        {"stream": {"rows": 0}},
        {"undone": [{"table": "/lake/orders", "at": "2026-03-01T10:30:00+00:00"}]},
    ],
)
def test_what_is_undone_or_landed_nothing_has_no_undo(others: dict[str, Any]) -> None:
    assert list_undo_commands(run(**others)) == []


def test_the_undo_of_a_lake_files_run_is_that_of_its_loads() -> None:
    assert list_undo_commands(run(), ["/lake/orders"]) == []


def test_links_to_spark_are_those_that_may_lead_somewhere() -> None:
    pages = {"ui": "http://driver:4040", "history": "http://old:18080/history/a"}
    facts = run(engine={"name": "spark", "version": "4.2.0", **pages})
    page, part = render_run_page(facts, (), str, {}), render_run_part(facts)
    assert "Spark 4.2.0" in page
    assert 'href="http://old:18080/history/a"' in page
    assert "driver:4040" not in page  # the application may have ended
    assert 'href="http://driver:4040"' in part
    odd = run(engine={"name": "spark", "ui": "javascript:a", "history": "javascript:b"})
    assert "javascript" not in render_run_part(odd)
