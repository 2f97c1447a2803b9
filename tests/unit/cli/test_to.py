"""The lake or table of a command: its argument, `--to`, or the environment's target."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

import lakeport
from lakeport.cli.app import app, main
from lakeport.errors import ConfigError

Cap = pytest.CaptureFixture[str]
ABOUT_NO_LAKE = ("run", "target", "jars", "init", "explain", "docs", "version", "warm")


def commands(command: Any, path: str = "") -> dict[str, Any]:
    found = {}
    for name, each in command.commands.items():
        inner = f"{path} {name}".strip()
        found |= commands(each, inner) if hasattr(each, "commands") else {inner: each}
    return found


COMMANDS = commands(typer.main.get_command(app))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes")
    for table, lake in (("t", "lake"), ("u", "other")):
        lakeport.land([{"v": 1}, {"v": 2}], folder / lake, table=table, engine="threads")
    (folder / "lake.yaml").write_text("destination: local\npath: ./lake\ntable: t\n")
    return folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, lakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(lakes, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEPORT_ENGINE", "threads")
    for name in ("LAKEPORT_TO", "LAKEPORT_DESTINATION", "LAKEPORT_PATH"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys: Cap, *words: str) -> Any:
    assert main([*words, "--json"]) == 0, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_about_a_lake_has_to(path: str, capsys: Cap) -> None:
    assert main([*path.split(), "--help"]) == 0
    options = capsys.readouterr().out.partition("\nOptions:\n")[2].splitlines()
    has_to = any(line.startswith("  --to") for line in options)
    assert has_to == (path.split()[0] not in ABOUT_NO_LAKE)


@pytest.mark.parametrize("words", [["./lake"], ["--to", "./lake"], ["--config", "lake.yaml"]])
def test_a_lake_is_an_argument_or_to(capsys: Cap, words: list[str]) -> None:
    assert [each["name"] for each in printed(capsys, "tables", *words)] == ["t"]
    assert printed(capsys, "runs", *words)[0]["rows"] == 2
    assert printed(capsys, "quarantine", "show", *words) == []
    assert printed(capsys, "page", *words, "-o", "p.html")["pages"] > 1
    assert all(item["status"] != "failed" for item in printed(capsys, "check", *words))


@pytest.mark.parametrize(
    "words", [["./lake/t"], ["t", "--to", "./lake"], ["--to", "./lake/t"], ["--to", "lake.yaml"]]
)
def test_a_table_is_an_argument_or_to(capsys: Cap, words: list[str]) -> None:
    assert printed(capsys, "table", "show", *words)["rows"] == 2
    assert len(printed(capsys, "table", "history", *words)) == 1


@pytest.mark.parametrize("to", ["./lake", "lake.yaml"])
def test_the_environment_names_the_default(
    capsys: Cap, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.setenv("LAKEPORT_TO", to)
    assert [each["name"] for each in printed(capsys, "tables")] == ["t"]
    assert [each["name"] for each in printed(capsys, "tables", "./other")] == ["u"]
    assert [each["name"] for each in printed(capsys, "tables", "--to", "./other")] == ["u"]
    assert printed(capsys, "table", "show", "t")["rows"] == 2
    assert printed(capsys, "table", "show", "./other/u")["rows"] == 2
    assert printed(capsys, "table", "show", "u", "--to", "./other")["rows"] == 2
    assert lakeport.land([{"v": 1}], table="w").rows == 1
    assert {each.name for each in lakeport.tables()} == {"t", "w"}


def test_the_environments_keys_are_a_target(capsys: Cap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_DESTINATION", "local")
    monkeypatch.setenv("LAKEPORT_PATH", "./lake")
    assert [each["name"] for each in printed(capsys, "tables")] == ["t"]
    assert printed(capsys, "table", "show", "t")["rows"] == 2
    assert [each.name for each in lakeport.tables({"path": "./other"})] == ["u"]


# A lake may be left out before SQL and before a table's name.
@pytest.mark.parametrize(
    ("variable", "line", "words"),
    [
        ("", "sql --to ./none 'SELECT 1'", "there is no folder"),
        ("./none", "sql 'SELECT 1/2 FROM t'", "there is no folder"),
        ("", "table query --to ./none/t 'SELECT 1'", "none/t"),
        ("./none", "table query t 'SELECT 1'", "none/t"),
        ("", "quarantine replay --to ./lake raw/x", "nothing was set aside of table 'raw/x'"),
        ("./lake", "quarantine replay x", "nothing was set aside of table 'x'"),
        ("", "sql --to ./lake", "Missing argument 'SQL'"),
        ("", "table query ./lake/t", "Missing argument 'SQL'"),
        ("./lake", "table query ./lake/t", "Missing argument 'SQL'"),
        ("", "quarantine replay ./lake", "Missing argument 'TABLE'"),
        ("", "table show", "no table is named"),
        ("", "tables", "no target is named"),
        ("./lake", "tables ''", "the target is empty"),
        ("", "tables ./lake --to ./lake", "both name the lake"),
        ("", "quarantine show ./lake --to ./lake", "both name the lake"),
        ("", "quarantine replay ./lake x --to ./lake", "both name the lake"),
        ("", "sql ./lake 'SELECT 1' --to ./lake", "both name the lake"),
        ("", "table show ./lake/t --to ./lake", "'./lake/t' is a path"),
    ],
)
def test_what_a_command_line_leaves_out(
    capsys: Cap, monkeypatch: pytest.MonkeyPatch, variable: str, line: str, words: str
) -> None:
    if variable:
        monkeypatch.setenv("LAKEPORT_TO", variable)
    assert main(shlex.split(line)) != 0
    assert words in capsys.readouterr().err


def test_a_lake_file_without_target_lands_in_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("files").mkdir()
    Path("files/lake.yaml").write_text("loads: {n: {from: {files: n.csv}}}\n")
    Path("files/n.csv").write_text("a\n1\n")
    with pytest.raises(ConfigError, match="the key `target` is missing"):
        lakeport.run("files/lake.yaml")
    monkeypatch.setenv("LAKEPORT_TO", "./lake")
    lakeport.run("files/lake.yaml")
    assert {each.name for each in lakeport.tables("./lake")} == {"t", "n"}
