# ruff: noqa: E501 - a situation is a line
"""What a hint names is run in the situation that printed it: a command, or an option with it."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeport
from lakeport.cli.app import app
from tests.contract.targets import Target

SCHEMA = {"type": "SCHEMA", "stream": "t", "key_properties": []}
KEYED = '{"type":"SCHEMA","stream":"t","schema":{"properties":{"v":{"type":"integer"}}},"key_properties":["v"]}\n{"type":"RECORD","stream":"t","record":{"v":1}}\n'
WIDE = [{"id": 1, "attrs": {f"k{n}": n for n in range(12)}}]


def jsonl(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def singer(kind: str | None, *values: Any) -> str:
    declared = {} if kind is None else {"v": {"type": kind}}
    records = [{"type": "RECORD", "stream": "t", "record": {"v": value}} for value in values]
    return jsonl({**SCHEMA, "schema": {"properties": declared}}, *records)


def parquet(value: Any, name: str = "v") -> str:
    return _binary(lambda file: pq.write_table(pa.table({name: [value]}), file))


def workbook(**sheets: list[list[Any]]) -> str:
    book = openpyxl.Workbook()
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.active = book.index(book[next(iter(sheets))])
    del book["Sheet"]
    return _binary(book.save)


def _binary(write: Callable[[io.BytesIO], object]) -> str:
    file = io.BytesIO()
    write(file)
    return file.getvalue().decode("utf-8", "surrogateescape")


LAND = "land {in} --to {lake} --table t --no-internal-columns"
NARROW = f"{LAND} --set max_columns=9"
ASIDE = f"{LAND} --on-bad-record quarantine"
NEW = "land {folder} --to {lake} --table t --new-only"
BOTH = "land {folder} --to {lake} --table u"
NOT_NULL = f"{LAND} --expect '{{{{not_null: v, otherwise: quarantine}}}}'"
LAKE = """lake.yaml|target: {destination: local, path: ./it's lake, manifest: false}
loads: {one: {from: {files: 0.csv}}}
"""
OUT = "left out"
ALTER = "table alter {lake}/t --column v --type"
COMMAND = "`lakeport ([^`]+)`"

# What was landed before, what is landed then (`NAME|` before it is the file's), the command, and
# what of the printed hint is tried: the groups of a pattern, of which an option is added to the
# command, or left out of it; behind it the value that the hint leaves to the user. A step `>> text`
# adds a line to the file.
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
    "twins in snake case": ("", "a %,a $\n1,2\n", f"{LAND} --set column_header_format=snake", "`(--rename [^`]+)`"),
    "no name in snake case": ("", "%,a\n1,2\n", f"{LAND} --set column_header_format=snake", "`(--rename [^`]+)`"),
    "a space in a new table": ("", "Unit Price,w\n1,2\n", f"{LAND} --engine threads", "`(--set column_header_format=snake)`"),
    "a space in a new column": ("v\n1\n", "v,Unit Price\n1,2\n", LAND, "`(--rename [^`]+)`"),
    "a space in a member": (jsonl({"v": 1}), jsonl({"v": 1, "o": {"a b": 2}}), LAND, "`(--column [^`]+)`"),
    "format by no name": ("", "a.dat|v\n1\n", LAND, "`(--source-format)`.*such as (csv);"),
    "format in a folder": ("", "a.dat|v\n1\n", "land {folder} --to {lake}", "`(--source-format)", "csv"),
    "format by content": ("", 'a.csv|{"v": 1}\n', LAND, "`(--source-format json)`"),
    "no workbook": ("", "a.xlsx|v\n1\n", LAND, "`(--source-format)`.*such as (csv) for text"),
    "objects over lines": ("", 'a.jsonl|{\n"v": 1}\n', LAND, "`(--source-format json)`"),
    "wrapped": ("", 'a.json|{"my d": [{"v": 1}, {"v": 2}]}', LAND, "`(--records-path [^`]+)`"),
    "not UTF-8": ("", "v,w\n1,\udce9\n", f"{LAND} --encoding utf-8", "`(--encoding)`.*as (cp1252)"),
    "bad encoding": ("", "v,w\n1,Á\n", f"{LAND} --encoding cp1252", "`(--encoding)`", "utf-8"),
    "fields": ("", "a:b\n1,2:3\n", f"{LAND} --no-detect", "`(--delimiter)`", ":"),
    "no quotes": ("", 'a,b\n"x,1\n', f"{LAND} --no-detect", "`(--quote '')` that"),
    "same names": ("", "a,a\n1,2\n", LAND, "`(--skip-rows 1)` and give all names with `(--columns)`", "x,y"),
    "same names, none": ("", "a,a\n1,2\n", LAND, "`(--no-header)`"),
    "columns": ("", "1,2\n", f"{LAND} --no-header --columns a", "`(--columns)`", "a,b"),
    "header landed": ("", "id,name\n1,x\n2,y\n", f"{LAND} --no-header", "`(--skip-rows 1)`"),
    "one column": ("", "a:b\nx:1\ny:2\nz:3\n", LAND, "`(--delimiter [^`]+)` makes 2"),
    "short dates": ("", "d,c\n01/02/24,x\n03/04/24,y\n", LAND, "`(--date-format [^`]+)` or"),
    "days or months": ("", "d,c\n01/02/2024,x\n", LAND, "`(--date-format)`.*such as ([^ ;]+);"),
    "null": ("", "n,c\n1,x\nNULL,y\n2,z\n", LAND, "`(--null-value '' --null-value NULL)`"),
    "dates in JSON": ("", jsonl({"v": "2024-01-01", "o": {"at": "2024-01-01T10:00Z"}}), LAND, "`(--infer-dates)`"),
    "a date in JSON": ("", jsonl({"it's": "2024-01-01"}), LAND, "`(--column [^`]+)`"),
    "codes": ("", "n,c\n1E5,x\n2E5,y\n", LAND, "`(--column n=number)`"),
    "decimals": ("", "n;c\n1,500;x\n2,250;y\n", LAND, "`(--decimal)`", ","),
    "thousands": ("", "n;c\n1.500;x\n2.250;y\n", LAND, "`(--thousands [^`]+)`"),
    "amounts": ("", "n;c\n€ 1.500,00;x\n€ 2;y\n", LAND, "`(--column 'n=decimal[^`]+)`"),
    "an unknown currency": ("", "n;c\n5 Taler;x\n", f"{LAND} --column n=number", "`(--currency)`", "Taler"),
    "other marks": ("", "n;c\n€ 1,500;x\n", f"{LAND} --column n=number", "`(--decimal)`", ","),
    "bad number": ("", "n\n1\nx\n", f"{LAND} --column n=integer", "`(--on-bad-record quarantine)`"),
    "bad record, plan": ("", "n\n1\nx\n", f"{LAND} --column n=integer --plan", "`(--on-bad-record quarantine)`"),
    "bad values of another type": (jsonl({"v": 1}), jsonl({"v": 2}), f"{LAND} --mode merge", "`(--merge-keys)`", "v"),
    "had before": ("v\n1\n", "v\n1\n", LAND, "`(--once)`"),
    "nothing aside": ("v\n1\n", "", "quarantine replay {lake} t", "`lakeport (quarantine show [^`]+)`"),
    "undone": ("v\n1\n", "v\n2\n", f"{LAND} --run-id r; table undo {{lake}}/t r; table undo {{lake}}/t r", COMMAND),
    "undo says yes": ("v\n1\n", "v\n2\n", f"{LAND}; table undo {{lake}}/t", COMMAND),
    "drop says yes": ("v\n1\n", "", "table drop {lake}/t", "`lakeport (table drop [^`]+)`"),
    "dropped": ("v\n1\n", "", "table drop {lake}/t --yes", COMMAND, "--yes"),
    "made by the run": ("v\n1\n", "", "table undo {lake}/t", COMMAND, "--yes"),
    "a table has no runs": ("v\n1\n", "", "runs {lake}/t", "`lakeport (table history [^`]+)`"),
    "a table is no lake": ("v\n1\n", "", "sql {lake}/t 'SELECT * FROM t'", COMMAND),
    "its lake has": ("v\n1\n", "", "runs {lake}/t", "`lakeport (runs [^`]+)`"),
    "no such page": ("", "", "docs nope", "`lakeport (docs)` lists"),
    "there already": ("", "", "init --into {folder}/x; init --into {folder}/x", "`(--into)`", "{folder}/y"),
    "member": (jsonl({"o": {"p": "a"}}), jsonl({"o": {"p": 7}}), LAND, COMMAND),
    "item": (jsonl({"my t": ["a"]}), jsonl({"my t": [7]}), LAND, COMMAND),
    "object for text": (jsonl({"it's v": "a"}), jsonl({"it's v": {"p": 7}}), LAND, COMMAND),
    "bytes": ("0.parquet|" + parquet(b"\xff"), "1.parquet|" + parquet("a"), LAND, COMMAND),
    "long decimal": (jsonl({"v": 7.5}), "1.parquet|" + parquet(Decimal("1.23456789012345678901")), LAND, COMMAND),
    "password": (jsonl({"password": "a"}), jsonl({"password": 7}), LAND, "`(--column [^`]+)`"),
    "names of passwords": ("", jsonl({"password": 1, "Password": 2}), LAND, "`(--rename [^`]+)`"),
    "member declared": ("", jsonl({"my o": {"p": 7}}), f"{LAND} --column 'my o.p=string'", "`(--column [^`]+)`"),
    "item declared": ("", singer("array", [7]), f"{LAND} --column v.element=string", "`(--column [^`]+)`"),
    "member declared, Parquet": ("", "1.parquet|" + parquet({"p": 7}), f"{LAND} --column v.p=string", "`(--column [^`]+)`"),
    "member altered": (jsonl({"o": {"p": 7}}), "", "table alter {lake}/t --column O.p --type string", COMMAND),
    "JSON for an object": (jsonl({"v": {"p": 7}}), jsonl({"v": {"p": "a"}}), f"{LAND} --column v=json", COMMAND),
    "types of files": ("0.parquet|" + parquet(7, "it's v"), "1.parquet|" + parquet("a", "it's v"), BOTH, "`(--column [^`]+)`"),
    "objects of files": ("0.parquet|" + parquet({"p": 7}), "1.parquet|" + parquet({"p": "a"}), BOTH, "`(--column [^`]+)`"),
    "digits of files": ("0.parquet|" + parquet(2**53 + 1), "1.parquet|" + parquet(0.5), BOTH, "`(--column)`", "v=string"),
    "empty sheet": ("", "a.xlsx|" + workbook(Empty=[], Data=[["v"], [1]]), LAND, "`(--sheet)`", "Data"),
    "sheets in one table": ("", "a.xlsx|" + workbook(A=[["v"], [1]], B=[["v"], [2]]), f"{LAND} --sheet '*'", "`(--sheet-column sheet)`"),
    "sheets in one table, apart": ("", "a.xlsx|" + workbook(A=[["v"], [1]], B=[["v"], [2]]), f"{LAND} --sheet '*'", "`{stream}`.*in `(--table)`", "{{stream}}"),
    "the sheet's name is there": ("", "a.xlsx|" + workbook(A=[["v"], [1]]), f"{LAND} --sheet-column V", "`(--sheet-column)`", "w"),
    "new files of sheets": ("", "a.xlsx|" + workbook(A=[["v"], [1]]), f"{LAND} --new-only --sheet '*'", "`(--sheet-column sheet)`"),
    "changed file": ("", "v\n1\n", f"{NEW}; >> 2; {NEW}", "`(--again land)`"),
    "again what": ("", "v\n1\n", f"{NEW} --again land; >> 2; {LAND} --again land", "`(--new-only)`"),
    "no source": ("v\n1\n", "", "land --to {lake}/other", "`(--from-table)`", "{lake}/t"),
    "no target": ("", "v\n1\n", "land {in} --table t", "`(--to)`", "{lake}"),
    "run of no report": ("v\n1\n", "", "runs {lake} --run nope", COMMAND),
    "nothing to resume": ("v\n1\n", LAKE, "run {in} --resume", "leave `(--resume)` out", OUT),
    "moment": ("v\n1\n", "", "table preview {lake}/t --version 0 --timestamp 2024-01-01", "and `(--timestamp)`", OUT),
    "key twice": ("", "v\n1\n", f"{LAND} --mode append --set mode=append", "`(--set) mode`", OUT),
    "internal columns": ("", "v\n1\n", f"{LAND} --internal-columns x_", "`(--no-internal-columns)`", OUT),
    "sheet of none": ("", "v\n1\n", f"{LAND} --sheet Data", "`(sheet)` is", OUT),
    "aside by an expectation": ("v\n1\n", "v,w\n,1\n", f"{NOT_NULL}; quarantine replay {{lake}} t", "`(--no-expect)`"),
    "expected or not": ("v\n1\n", "v,w\n,1\n", f"{NOT_NULL}; quarantine replay {{lake}} t --expect 'not_null: w' --no-expect", "`(--expect)`", OUT),
    "no mapping": ("", "id,name\n1,a\n", f"{LAND} --expect id", "(--expect '[^']+')"),
    "no table yet": ("", jsonl({"v": 1}), "tables {folder}", "`lakeport (land)` makes", "{in} --to {lake}"),
    "a file for a table": ("", "v\n1\n", "table show {in}", "`lakeport (land)` makes", "{in} --to {lake}"),
    "files of a table": ("v\n1\n", "v\nx\n", f"{LAND} --format parquet", "`(--schema-evolution loose)`"),
    "a misspelt column": ("id,amount\n1,2\n", "id,amout\n2,3\n", LAND, "`(--rename [^`]+)`"),
    "new columns": ("id\n1\n", "id,b\n2,3\n", LAND, "`(--schema-evolution strict)`"),
    "other columns": ("id\n1\n", "id,b\n2,3\n", LAND, "`(--expect 'columns: same')`"),
    "rows with keys": (KEYED, KEYED, LAND, "`(--mode merge)`"),
    "a Delta table among files": ("", "v\n1\n", f"{LAND} --format parquet; {LAND}", "`(--set [^`]+)`"),
}  # fmt: skip

# Those whose commands, or the named ones, only Spark runs.
BY_SPARK = (
    "wrapped",
    "item",
    "object for text",
    "member declared",
    "types of files",
    "no source",
    "a table is no lake",
)

# The modules of src that name a command or an option in backticks: those with situations above,
# or in tests of their own below and in `tests/spark`, then those without one, by the reason.
NAMING = {
    "tried": """cli/guide/init cli/guide/pages cli/options cli/output/console cli/pipeline
        config/load
        cli/land cli/quarantine cli/tables destinations errors loading/batches loading/conflicts loading/plan
        loading/replay loading/scan pages/lake pipeline/run schema/casting schema/hints
        schema/types shape sources/csv/detection sources/csv/csv_plan
        sources/csv/reader sources/database/database_source sources/excel/excel_plan
        sources/files/discovery sources/files/new_files sources/files/source_file
        sources/input/plain_files sources/json/reader sources/json/json_plan sources/open
        sources/typed/typed_plan lake/tables lake/location
        lake/maintenance lake/facts lake/query lake/runs lake/undo lake/snapshots
        writers/delta/alter writers/delta/commit writers/delta/merge writers/delta/plan writers/delta/writer
        writers/files/writer""",
    "words of help, not a hint": """cli/singer cli/app cli/output/formatting cli/target
        config/base config/lake/read""",
    "says which option of the command is wrong": """cli/jars mage/flags
        sources/files/declared_columns""",
    "names the command in general": """pages/serve cli/output/help
        loading/corrections writers/files/journal""",
    "needs a server or a terminal": """cli/pages pages/address""",
    "needs another Spark, or a warm session": """cli/warm host/warm loading/check
        engine/threads schema/rebase engine/failures
        engine/spark/jvm/jars engine/spark/lease engine/sql/query delta_log/paths
        engine/spark/workers warm/client warm/session""",
    "needs a store that fails, or a file of others": """pipeline/report sources/database/jdbc
        storage/azure/errors storage/gcs/errors writers/delta/bookmarks
        writers/delta/files""",
}


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module that are no docstrings; an f-string without what is filled in."""
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("command"):
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


def without(command: str, option: str) -> str:
    """A command without an option and its value."""
    words = shlex.split(command)
    at = words.index(f"--{option.removeprefix('--')}")
    flag = words[at + 1 : at + 2] == [] or words[at + 1].startswith("--")
    return shlex.join(words[:at] + words[at + 1 + (not flag) :])


@pytest.mark.by_threads
@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in BY_SPARK])
def test_what_a_hint_names_works(tmp_path: Path, name: str) -> None:
    try_hint(tmp_path, *SITUATIONS[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_SPARK)
def test_what_a_hint_about_sparks_work_names_works(tmp_path: Path, name: str) -> None:
    try_hint(tmp_path, *SITUATIONS[name])


def try_hint(
    tmp_path: Path, before: str, then: str, commands: str, pattern: str, *value: str
) -> None:
    folder = tmp_path / "it's in"
    folder.mkdir()
    places = {"lake": shlex.quote(f"{tmp_path}/my lake's"), "folder": shlex.quote(str(folder))}
    *first, command = commands.split("; ")
    path = folder
    for number, content in enumerate((before, then)):
        kind = "singer" if "SCHEMA" in content else "jsonl" if content[:1] == "{" else "csv"
        file, named, text = content.partition("|")
        path = folder / (file if named else f"{number}.{kind}")
        places["in"] = shlex.quote(str(path))
        if content:
            path.write_bytes((text if named else content).encode("utf-8", "surrogateescape"))
        if content == before and content:
            same = " --format parquet" * ("--format parquet" in command)
            assert run(LAND.format(**places) + same)[0] == 0
    for each in first:
        if each.startswith(">>"):
            path.write_text(f"{path.read_text()}{each[3:]}\n")
        else:
            assert run(each.format(**places))[0] == 0
    failed, words = run(command.format(**places))
    found = re.search(pattern, words)
    assert found, words
    again = command.format(**places)
    if value == (OUT,):
        done, said = run(without(again, found[1]))
        assert done == 0, said
        return
    named = " ".join((*found.groups(), *value)).format(**places)
    if not named.startswith("--"):
        done, said = run(named)
        assert done == 0, (named, said)
        if not (failed and command.startswith(LAND)):
            return
        also = re.search("With `(--column [^`]+)` this load", words)
        named = also[1] if also else ""
    given = re.findall(r"--[a-z-]+", named)
    for option in {*given} & {"--set", "--encoding", "--columns", "--into", "--expect"}:
        again = without(again, option) if option in shlex.split(again) else again
    if re.search(r"--column '?[^'=]+[.]", again):
        again = without(again, "--column")
    if not failed:
        again = again.replace("--table t", "--table t2") if "--once" not in named else again
    done, said = run(f"{again} {named}")
    assert done == 0, (named, said)


@pytest.mark.parametrize("target", ["delta_s3-delta", "delta_azure-delta"], indirect=True)
def test_commands_about_a_config_files_table_name_the_file(tmp_path: Path, target: Target) -> None:
    config = tmp_path / "my store.yaml"
    keys = target.config()
    endpoint = next(key for key in keys if key.endswith("_endpoint"))
    config.write_text(json.dumps({**keys, endpoint: "http://localhost:1"}))
    config.chmod(0o600)
    source = tmp_path / "in.jsonl"
    land = f"land {source} --to '{config}' --table t --set {endpoint}={keys[endpoint]}"
    for value, code in ((1, 0), (7.5, 4)):
        source.write_text(jsonl({"v": value}))
        done, words = run(land)
        assert done == code, words
    found = re.search(COMMAND, words)
    assert found and "--to" in found[1]
    done, words = run(found[1])
    assert done == 0, words
    assert run(land)[0] == 0


def test_rows_that_a_cursor_does_not_tell_apart(tmp_path: Path) -> None:
    database = tmp_path / "my.db"
    land = (
        f"land --from-database 'sqlite:///{database}' --table-of t --cursor at "
        f"--to {tmp_path}/lake --table t"
    )
    with sqlite3.connect(database) as session:
        session.execute("CREATE TABLE t (id INTEGER, at INTEGER, v TEXT)")
        session.execute("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    assert run(land)[0] == 0
    with sqlite3.connect(database) as session:
        session.execute("INSERT INTO t VALUES (2, 2, 'b')")
    session.close()
    done, words = run(land)
    assert done == 0 and "`--full-refresh` lands them" in words, words
    done, words = run(f"{land} --full-refresh")
    assert done == 0 and "3 rows" in words, words


def test_a_run_that_is_ended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "it's lake.yaml"
    target = {"destination": "local", "path": str(tmp_path / "lake")}
    loads = {name: {"from": {"files": f"{name}.csv"}} for name in ("one", "two")}
    file.write_text(json.dumps({"target": target, "loads": loads}))
    (tmp_path / "one.csv").write_text("v\n1\n")
    command = f"run {shlex.quote(str(file))}"
    with monkeypatch.context() as patch:
        patch.setattr("lakeport.pipeline.run.run_lake", end)
        _, words = run(command)
    found = re.search(COMMAND, words)
    assert found
    failed, words = run(found[1])
    assert failed and "`--resume` does what failed" in words, words
    (tmp_path / "two.csv").write_text("v\n1\n")
    _, words = run(f"{command} --resume")
    assert "1 row landed by 1 load" in words, words
    moved = file.rename(tmp_path / "moved.yaml")
    failed, words = run(f"run {moved} --resume")
    assert failed and "leave `--resume` out" in words
    assert run(f"run {moved}")[0] == 0


def end(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
