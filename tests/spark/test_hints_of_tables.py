"""What hints about tables name is run in the situation that printed it, by Spark."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.contract.test_hints import COMMAND, LAND, jsonl, run, try_hint

V = jsonl({"v": 1})
MANY = "; ".join([f"{LAND} --engine threads"] * 20)


@pytest.mark.parametrize(
    ("commands", "pattern"),
    [
        (f"{MANY}; table show {{lake}}/t", COMMAND),
        ("table vacuum {lake}/t --retain 1", "`(--force)`"),
        (f"{MANY}; table query {{lake}}/t 'OPTIMIZE t'", COMMAND),
        ("table query t 'vacuum t RETAIN 168 HOURS' --to {lake} --set give_up_after=9", COMMAND),
    ],
)
def test_what_a_hint_names_works(tmp_path: Path, commands: str, pattern: str) -> None:
    try_hint(tmp_path, V, V, commands, pattern)


def test_rows_that_only_spark_reads(tmp_path: Path) -> None:
    lake, source = f"'{tmp_path}/my lake'", tmp_path / "1.jsonl"
    source.write_text(jsonl({"my v": "it's"}))
    for command in (
        f"land {source} --to {lake} --table t",
        f"page {lake} -o {tmp_path}/page.html",
    ):
        assert run(command)[0] == 0
    page = html.unescape((tmp_path / "page.html").read_text())
    found = re.search(f"Only Spark can read its files: {COMMAND} does", page)
    assert found
    done, words = run(found[1])
    assert done == 0 and "it's" in words


def test_a_log_that_is_too_large_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1.jsonl").write_text(V)
    assert run(f"land {tmp_path}/1.jsonl --to '{tmp_path}/my lake' --table t")[0] == 0
    monkeypatch.setattr("lakeport.lake.facts._LOG_BYTES", 1)
    failed, words = run(f"page '{tmp_path}/my lake/t' -o {tmp_path}/page.html")
    found = re.search(f"{COMMAND} reads a log of any size", words)
    assert failed and found, words
    done, words = run(found[1])
    assert done == 0 and "rows 1" in words
