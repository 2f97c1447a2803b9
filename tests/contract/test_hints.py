# ruff: noqa: E501 - a situation is a line
"""What a hint names is run in the situation that printed it: a command, or an option with it."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lakeport
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
NARROW = f"{LAND} --set max_columns=9"
ASIDE = f"{LAND} --on-bad-record quarantine"
ALTER = "table alter {lake}/t --column v --type"
COMMAND = "`lakeport ([^`]+)`"

# What was landed before, what is landed then (`NAME|` before it is the file's), the command, and
# what of the printed hint is tried: the groups of a pattern, of which an option is added to the
# command; behind it the value that the hint leaves to the user.
SITUATIONS: dict[str, tuple[str, ...]] = {
    "wider": (jsonl({"v": 1}), jsonl({"v": 7.5}), LAND, "`lakeport (table alter [^`]+)`"),
    "text of integers": (jsonl({"v": "a"}), jsonl({"v": 7}), LAND, "`(--column v=string)`"),
    "text of Singer": (singer("string", "a"), singer("integer", 7), LAND, "`(--column v=string)`"),
    "list to text": (jsonl({"v": [1]}), "", f"{ALTER} string", COMMAND),
    "number to boolean": (jsonl({"v": 7}), "", f"{ALTER} boolean", COMMAND),
    "mixed to plain": (jsonl({"v": "b"}), jsonl({"v": "a"}, {"v": 7}), LAND, COMMAND),
    "undeclared": ("", singer(None, "a", 7), LAND, "`(--column v=json)`"),
    "wide object": ("", jsonl(*WIDE), NARROW, "`(--column attrs=json)`"),
    "wide object, taken": ("", jsonl(*WIDE), NARROW, "`(--set [^`]+)`"),
    "wide records": ("", jsonl(WIDE[0]["attrs"]), NARROW, "`(--set [^`]+)`"),
    "twins, renamed": ("", "userId,userid\n1,2\n", LAND, "`(--rename [^`]+)`"),
    "twins, dropped": ("", jsonl({"userId": 1, "userid": 2}), LAND, "`(--drop [^`]+)`"),
    "format by no name": ("", "a.dat|v\n1\n", LAND, "`(--source-format)`.*such as (csv);"),
    "format in a folder": ("", "a.dat|v\n1\n", "land {folder} --to {lake}", "`(--source-format)", "csv"),
    "format by content": ("", 'a.csv|{"v": 1}\n', LAND, "`(--source-format json)`"),
    "no workbook": ("", "a.xlsx|v\n1\n", LAND, "`(--source-format)`.*such as (csv) for text"),
    "objects over lines": ("", 'a.jsonl|{\n"v": 1}\n', LAND, "`(--source-format json)`"),
    "wrapped": ("", 'a.json|{"my d": [{"v": 1}, {"v": 2}]}', LAND, "`(--records-path [^`]+)`"),
    "not UTF-8": ("", "v,w\n1,\udce9\n", f"{LAND} --encoding utf-8", "`(--encoding)`.*as (cp1252)"),
    "bad encoding": ("", "v,w\n1,Á\n", f"{LAND} --encoding cp1252", "`(--encoding)`", "utf-8"),
    "one column": ("", "a:b\nx:1\ny:2\nz:3\n", LAND, "`(--delimiter [^`]+)` makes 2"),
    "fields": ("", "a;b\n1,2;3\n", f"{LAND} --no-detect", "`(--delimiter)`", ";"),
    "no quotes": ("", 'a,b\n"x,1\n', f"{LAND} --no-detect", "`(--quote '')` that"),
    "same names": ("", "a,a\n1,2\n", LAND, "`(--skip-rows 1)` and give all names with `(--columns)`", "x,y"),
    "same names, none": ("", "a,a\n1,2\n", LAND, "`(--no-header)`"),
    "columns": ("", "1,2\n", f"{LAND} --no-header --columns a", "`(--columns)`", "a,b"),
    "header landed": ("", "id,name\n1,x\n2,y\n", f"{LAND} --no-header", "`(--skip-rows 1)`"),
    "short dates": ("", "d,c\n01/02/24,x\n03/04/24,y\n", LAND, "`(--date-format [^`]+)` or"),
    "days or months": ("", "d,c\n01/02/2024,x\n", LAND, "`(--date-format)`.*such as ([^ ;]+);"),
    "null": ("", "n,c\n1,x\nNULL,y\n2,z\n", LAND, "`(--null-value '' --null-value NULL)`"),
    "codes": ("", "n,c\n1E5,x\n2E5,y\n", LAND, "`(--column n=number)`"),
    "decimals": ("", "n;c\n1,500;x\n2,250;y\n", LAND, "`(--decimal)`", ","),
    "thousands": ("", "n;c\n1.500;x\n2.250;y\n", LAND, "`(--thousands [^`]+)`"),
    "bad number": ("", "n\n1\nx\n", f"{LAND} --column n=integer", "`(--on-bad-record quarantine)`"),
    "bad record, plan": ("", "n\n1\nx\n", f"{LAND} --column n=integer --plan", "`(--on-bad-record quarantine)`"),
    "bad values of another type": (jsonl({"v": 1}), jsonl({"v": 2}), f"{LAND} --mode merge", "`(--merge-keys)`", "v"),
    "had before": ("v\n1\n", "v\n1\n", LAND, "`(--once)`"),
    "nothing aside": ("v\n1\n", "", "quarantine replay {lake} t", "`lakeport (quarantine show [^`]+)`"),
    "undone": ("v\n1\n", "v\n2\n", f"{LAND} --run-id r; table undo {{lake}}/t r; table undo {{lake}}/t r", COMMAND),
    "a table has no runs": ("v\n1\n", "", "runs {lake}/t", "`lakeport (table history [^`]+)`"),
    "its lake has": ("v\n1\n", "", "runs {lake}/t", "`lakeport (runs [^`]+)`"),
    "no such page": ("", "", "docs nope", "`lakeport (docs)` lists"),
    "there already": ("", "", "init --into {folder}/x; init --into {folder}/x", "`(--into)`", "{folder}/y"),
    "files of a table": ("v\n1\n", "v\nx\n", f"{LAND} --format parquet", "`(--schema-evolution loose)`"),
}  # fmt: skip

# The modules of src that name a command or an option in backticks: those with situations above,
# then those without one, by the reason.
NAMING = {
    "tried": """cli/guide/init cli/guide/pages loading/conflicts loading/plan loading/replay/replay
        loading/stream schema/width shape/columns sources/csv/detection/doubts sources/csv/hints
        sources/csv/inference sources/csv/telling sources/files/discovery sources/files/signature
        sources/input/plain sources/json/reader sources/json/wrapped tables/lake tables/undo
        writers/delta/commit/known_content writers/delta/merge/merger writers/files/writer""",
    "words of help, not a hint": """cli/app cli/output/page cli/target config/base config/lake/read
        config/lake/schema cli/tables/opened""",
    "says which option of the command is wrong": """cli/jars cli/options cli/rows/quarantine
        cli/rows/transforms cli/sources/choice cli/sources/new_files cli/sources/others
        cli/tables/table mage/flags sources/files/declared sources/open""",
    "names the command in general": """cli/tables/lake tables/location config/lake/mistakes
        pages/server/site cli/output/console cli/output/errors errors""",
    "needs a value that only the user knows": """schema/casting sources/csv/plan sources/excel/plan
        sources/json/documents loading/replay/shares loading/replay/target""",
    "needs a server or a terminal": """cli/page cli/ui pages/server/address pages/server/gate""",
    "needs Spark or a warm session": """cli/warm host/warm/start loading/check pipeline/session
        schema/calendars spark/failures spark/jvm/fetching spark/lease spark/sql/values
        spark/table_files spark/workers tables/maintenance warm/client""",
    "needs a store or a database that fails": """pipeline/kept sources/database/cursor
        sources/database/jdbc storage/azure/errors storage/gcs/errors
        writers/delta/commit/outcome writers/delta/log/bookmarks""",
    "has no situation here yet": """cli/pipeline/run pages/preview pipeline/run schema/named
        sources/new_files/compare tables/overview/delta tables/runs/listing tables/views
        sources/parquet/reader""",
}


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module that are no docstrings; an f-string without what is filled in."""
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command":
            yield "`lakeport command"


def test_modules_that_name_commands_have_situations_or_a_reason() -> None:
    root = Path(lakeport.__file__).parent
    named = {
        path.relative_to(root).with_suffix("").as_posix()
        for path in root.rglob("*.py")
        if any(re.search("`lakeport [a-z]|`--[a-z]", t) for t in texts(ast.parse(path.read_text())))
    }
    listed = [module for modules in NAMING.values() for module in modules.split()]
    assert sorted(named) == sorted(listed)


def run(command: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "10000"})
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_hint_names_works(tmp_path: Path, name: str) -> None:
    before, then, commands, pattern, *value = SITUATIONS[name]
    folder = tmp_path / "it's in"
    folder.mkdir()
    places = {"lake": shlex.quote(f"{tmp_path}/my lake's"), "folder": shlex.quote(str(folder))}
    *first, command = commands.split("; ")
    for number, content in enumerate((before, then)):
        kind = "singer" if "SCHEMA" in content else "jsonl" if content[:1] == "{" else "csv"
        file, _, text = content.rpartition("|")
        path = folder / (file or f"{number}.{kind}")
        places["in"] = shlex.quote(str(path))
        if content:
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        if content == before and content:
            same = " --format parquet" * ("--format parquet" in command)
            assert run(LAND.format(**places) + same)[0] == 0
    for each in first:
        assert run(each.format(**places))[0] == 0
    failed, words = run(command.format(**places))
    found = re.search(pattern, words)
    assert found, words
    named = " ".join((*found.groups(), *value)).format(**places)
    if not named.startswith("--"):
        done, said = run(named)
        assert done == 0, (named, said)
        if not (failed and command == LAND):
            return
        named = ""
    again = command.format(**places)
    given = re.findall(r"--[a-z-]+", named)
    for option in {*given} & {"--set", "--encoding", "--columns", "--into"}:
        again = re.sub(rf"{option} \S+", "", again, count=1)
    if not failed:
        again = again.replace("--table t", "--table t2") if "--once" not in named else again
    done, said = run(f"{again} {named}")
    assert done == 0, (named, said)


def test_parts_of_columns_are_no_hint(tmp_path: Path) -> None:
    places = {"lake": str(tmp_path / "lake"), "in": str(tmp_path / "in.jsonl")}
    for record in ({"t": ["a"], "o": {"p": "a"}}, {"t": [7], "o": {"p": 7}}):
        Path(places["in"]).write_text(jsonl(record))
        failed, words = run(LAND.format(**places))
    assert failed
    assert "--column" not in words
