"""What a hint names is run in the situation that printed it: a command, or an option with it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeport.cli.app import app

SCHEMA = {"type": "SCHEMA", "stream": "t", "key_properties": []}
WIDE = [{"id": 1, "attrs": {f"k{n}": n for n in range(12)}}]


def jsonl(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def singer(kind: str | None, *values: Any) -> str:
    declared = {} if kind is None else {"v": {"type": kind}}
    records = [{"type": "RECORD", "stream": "t", "record": {"v": value}} for value in values]
    return jsonl({**SCHEMA, "schema": {"properties": declared}}, *records)


LAND = "land {in} --to {lake} --table t --no-internal-columns"
ALTER = "table alter {lake}/t --column v --type"

# What was landed before, what is landed then, the command, and how the hint begins that is tried.
SITUATIONS = {
    "wider": (jsonl({"v": 1}), jsonl({"v": 7.5}), LAND, "table alter"),
    "text of integers": (jsonl({"v": "a"}), jsonl({"v": 7}), LAND, "--column v=string"),
    "text of Singer": (singer("string", "a"), singer("integer", 7), LAND, "--column v=string"),
    "list to text": (jsonl({"v": [1]}), "", f"{ALTER} string", "table alter"),
    "number to boolean": (jsonl({"v": 7}), "", f"{ALTER} boolean", "table alter"),
    "mixed to plain": (jsonl({"v": "b"}), jsonl({"v": "a"}, {"v": 7}), LAND, "table alter"),
    "undeclared": ("", singer(None, "a", 7), LAND, "--column v=json"),
    "wide object": ("", jsonl(*WIDE), f"{LAND} --set max_columns=9", "--column attrs=json"),
    "wide object, taken": ("", jsonl(*WIDE), f"{LAND} --set max_columns=9", "--set"),
    "wide records": ("", jsonl(WIDE[0]["attrs"]), f"{LAND} --set max_columns=9", "--set"),
    "twins, renamed": ("", "userId,userid\n1,2\n", LAND, "--rename"),
    "twins, dropped": ("", jsonl({"userId": 1, "userid": 2}), LAND, "--drop"),
}


def run(command: str, folder: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "10000"})
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_hint_names_works(tmp_path: Path, name: str) -> None:
    before, then, command, part = SITUATIONS[name]
    places = {"lake": str(tmp_path / "lake"), "in": ""}
    for number, content in enumerate((before, then)):
        suffix = "singer" if "SCHEMA" in content else "jsonl" if content[:1] == "{" else "csv"
        places["in"] = str(tmp_path / f"{number}.{suffix}")
        Path(places["in"]).write_text(content)
        if content == before and content:
            assert run(LAND.format(**places), tmp_path)[0] == 0
    failed, words = run(command.format(**places), tmp_path)
    assert failed or name in ("mixed to plain", "undeclared")
    hints = set(re.findall("`([^`]+)`", words))
    (named,) = {hint for hint in hints if hint.removeprefix("lakeport ").startswith(part)}
    if named.startswith("lakeport "):
        assert run(named.removeprefix("lakeport "), tmp_path)[0] == 0, named
        if command == LAND:
            assert run(command.format(**places), tmp_path)[0] == 0
        return
    again = command.format(**places).replace(
        "--table t", "--table t2" if name == "undeclared" else "--table t"
    )
    if "--set" in named:
        again = again.replace(" --set max_columns=9", "")
    assert run(f"{again} {named}", tmp_path)[0] == 0, named


def test_parts_of_columns_are_no_hint(tmp_path: Path) -> None:
    places = {"lake": str(tmp_path / "lake"), "in": str(tmp_path / "in.jsonl")}
    for record in ({"t": ["a"], "o": {"p": "a"}}, {"t": [7], "o": {"p": 7}}):
        Path(places["in"]).write_text(jsonl(record))
        failed, words = run(LAND.format(**places), tmp_path)
    assert failed
    assert "--column" not in words
