"""What may be asked of OPTIMIZE and VACUUM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import ConfigError
from lakeport.lake.maintenance import build_compact_report, parse_hours, quote_sort_columns
from lakeport.lake.snapshots import check_query_start
from tests.unit.writers.delta.support import contents


def test_sort_columns_are_the_tables_own() -> None:
    assert quote_sort_columns(contents([]), ["ID"]) == ["`id`"]
    with pytest.raises(ConfigError, match="no column 'idd'; did you mean 'id'"):
        quote_sort_columns(contents([]), ["idd"])
    with pytest.raises(ConfigError, match="partition column"):
        quote_sort_columns(contents([]), ["p"])
    clustered = contents([], keys=(), clustering=("id",))
    assert build_compact_report(clustered).note
    with pytest.raises(ConfigError, match="clustered by id"):
        quote_sort_columns(clustered, ["p"])
    for text in ("soon", "1.5h", "-1h", ""):
        with pytest.raises(ConfigError, match="no retention"):
            parse_hours(text)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda table: table.optimize(zorder=["idd"]), "no column 'idd'; did you mean 'id'"),
        (lambda table: table.optimize(where="id = 1"), "the table has no partitions"),
        (lambda table: table.vacuum(retain_hours=12), "12 hours only, less than 168"),
        (lambda table: table.vacuum(retain_hours=-1, force=True), "-1 is no retention"),
        (lambda table: table.query("slect 1"), "it begins with 'slect'"),
        (lambda table: table.query("-- newest\n(DROP TABLE t)"), "it begins with 'DROP'"),
        (lambda table: table.query(" -- SELECT 1"), "it is empty"),
        (
            lambda table: table.query("OPTIMIZE t"),
            "`lakeport table optimize .*/t` does that; here,",
        ),
    ],
)
def test_mistakes_do_not_wait_for_spark(
    ask: Callable[[lakeport.Table], Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lakeport.land([{"id": 1}], tmp_path, table="t")
    monkeypatch.delattr(DriverSession, "acquire")
    with pytest.raises(ConfigError, match=said):
        ask(lakeport.Table(tmp_path / "t"))


@pytest.mark.parametrize(
    "sql", ["/* DROP */ SELECT 1", "`t`", "-- a \\\nDROP\nselect 1", "((FROM t))"]
)
def test_what_may_be_a_query_is_left_to_spark(sql: str) -> None:
    check_query_start(sql, "t")


@pytest.mark.parametrize(
    ("sql", "command"),
    [
        ("OPTIMIZE delta.`s3://b/t`", "optimize t"),
        (
            "optimize t WHERE day = '2026-01-01';",
            "optimize t --where 'day = '\"'\"'2026-01-01'\"'\"''",
        ),
        (
            "OPTIMIZE t WHERE a > 1\nZORDER BY (user_id, event_date);",
            "optimize t --where 'a > 1' --zorder 'user_id, event_date'",
        ),
        ("VACUUM t RETAIN 168 HOURS DRY RUN", "vacuum t --retain 168 --dry-run"),
        ("RESTORE TABLE t TO VERSION AS OF 3", "restore t --version 3"),
        ("DESCRIBE HISTORY t LIMIT 2", "history t"),
        ("desc detail t", "show t"),
        ("UPDATE t SET a = 1", ""),
        ("RESTORE t TO TIMESTAMP AS OF '2026-01-01'", ""),
    ],
)
def test_statements_with_a_command(sql: str, command: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_query_start(sql, "t")
    said = f"`lakeport table {command}` does that; here, " if command else ""
    assert caught.value.hint == f"{said}write a single SELECT on `t`; nothing else runs."
