"""Help, versions, completion, and `tables` and `runs` as commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import pytest
import typer

import lakeport
from lakeport.cli import singer
from lakeport.cli.app import app, main
from lakeport.errors import InputError

Cap = pytest.CaptureFixture[str]


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for name, each in getattr(command, "commands", {}).items():
        found += commands(each, (*path, name))
    return found


PATHS = commands(typer.main.get_command(app))


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_fits_60_columns_and_ends_with_examples(
    path: tuple[str, ...], capsys: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main([*path, "--help"]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert [line for line in lines if len(line) > 60 or ("..." in line and "[" not in line)] == []
    if path not in {path[:-1] for path in PATHS if path}:
        examples = lines[lines.index("  Examples:") + 1 :]
        assert any(f"lakeport {' '.join(path)}" in line for line in examples)


def test_commands_are_in_groups(capsys: Cap) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n{group}:\n") for group in ("Land", "Look", "Keep in order", "Set up")]
    assert places == sorted(places)
    assert places[1] < out.index("\n  table show ") < places[2] < out.index("\n  table vacuum ")


@pytest.mark.parametrize("line", ["", "table", "state", "warm"])
def test_a_name_alone_shows_what_there_is(line: str, capsys: Cap) -> None:
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    assert f"lakeport {line}".strip() in out and err == ""


def test_version(capsys: Cap) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lakeport {lakeport.__version__}\n"


def completed(words: str, count: int) -> list[str]:
    environ = {
        **os.environ,
        "_LAKEPORT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
    }
    command = [sys.executable, "-m", "lakeport"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_commands_and_options() -> None:
    assert completed("lakeport ta", 1) == ["target", "tables", "table"]
    assert completed("lakeport table pre", 2) == ["preview"]
    assert "--partition-by" in completed("lakeport land a.csv --pa", 3)


def test_completion_loads_nothing_heavy() -> None:
    program = (
        "import sys; from lakeport.cli import app;"
        "app.complete(); print(*{name.partition('.')[0] for name in sys.modules})"
    )
    environ = {
        **os.environ,
        "_LAKEPORT_COMPLETE": "complete_bash",
        "COMP_WORDS": "l",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert not {"numpy", "pandas", "pyarrow", "pyspark"} & set(done.stdout.split())


@pytest.mark.parametrize("name", ["land", "docs", "explain", "table query", "warm start"])
def test_what_a_command_takes_has_a_name(name: str, capsys: Cap) -> None:
    assert main([*name.split(), "--help"]) == 0
    page = re.sub(r"`[^`]*`", "", capsys.readouterr().out)
    assert not re.search(r"<\w+|[{}]|\blist\[", page), page


def test_an_old_typer_can_read_every_annotation() -> None:
    def walk(program: typer.Typer) -> Iterator[Any]:
        for command in program.registered_commands:
            yield command.callback
        for group in program.registered_groups:
            assert group.typer_instance is not None
            yield from walk(group.typer_instance)

    callbacks = [*walk(app), *walk(singer.app), app.registered_callback.callback]  # type: ignore[union-attr]
    kinds = [p.annotation for each in callbacks for p in signature(each).parameters.values()]
    assert len(kinds) > 50
    for kind in kinds:
        inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        assert not isinstance(inner, str)
        # Python 3.14 has one class for both ways to write a union.
        assert type(inner) is not UnionType or sys.version_info >= (3, 14)


def test_options_stay_without_docstrings() -> None:
    command = [sys.executable, "-OO", "-m", "lakeport", "land", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--delimiter DELIMITER" in done.stdout and "--table TABLE" in done.stdout


def test_completion_can_be_shown(capsys: Cap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "zsh")
    with pytest.raises(SystemExit) as ended:
        main(["--show-completion"])
    assert ended.value.code == 0 and "_LAKEPORT_COMPLETE=complete_zsh" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_the_shell_that_is_named(
    shell: str, tmp_path: Path, capsys: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "none of these")
    monkeypatch.setenv("HOME", str(tmp_path))
    for option in ("--show-completion", "--install-completion"):
        with pytest.raises(SystemExit) as ended:
            main([option, shell])
        assert ended.value.code == 0
    assert f"complete_{shell}" in capsys.readouterr().out
    written = (path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert any(f"complete_{shell}" in text for text in written)
    assert main(["--show-completion", "tcsh"]) == 1
    assert "tcsh not supported" in capsys.readouterr().err


def test_help_has_a_short_name(capsys: Cap) -> None:
    for line in ("-h", "land -h", "table show -h"):
        assert main(line.split()) == 0
        assert capsys.readouterr().out.startswith("Usage: lakeport")


def test_tab_in_a_python_shell_shows_the_names_without_spark() -> None:
    program = (
        "import lakeport, rlcompleter, sys;"
        "found = rlcompleter.Completer({'lakeport': lakeport}).attr_matches('lakeport.');"
        "print(*found); print('pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names, spark = done.stdout.splitlines()
    assert {name.removeprefix("lakeport.").rstrip("()") for name in names.split()} == {
        name for name in lakeport.__all__ if not name.startswith("_")
    }
    assert spark == "False"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for table in ("people", "places"):
        lakeport.land([{"id": 1}], tmp_path / "lake", table=table, run_id=table)
    return tmp_path / "lake"


def test_tables_and_show_of_a_lake(lake: Path, capsys: Cap) -> None:
    assert main(["tables", str(lake)]) == 0
    told = capsys.readouterr().out
    assert [line.split()[:3] for line in told.splitlines()] == [
        ["name", "format", "rows"],
        ["people", "delta", "1"],
        ["places", "delta", "1"],
    ]
    assert main(["table", "show", str(lake)]) == 0
    assert capsys.readouterr().out == told
    assert main(["tables", str(lake), "--json"]) == 0
    assert [table["name"] for table in json.loads(capsys.readouterr().out)] == ["people", "places"]
    (lake / "empty").mkdir()
    assert main(["tables", str(lake / "empty")]) == 0
    assert "there is no table in" in capsys.readouterr().out
    assert main(["tables", str(lake / "none")]) == main(["runs", str(lake / "none")]) == 3
    assert capsys.readouterr().err.count("Error: there is no folder ") == 2


def test_runs_of_a_lake(lake: Path, capsys: Cap) -> None:
    (lake / "bad.csv").write_text('id\n"1\n')
    with pytest.raises(InputError):
        lakeport.land(lake / "bad.csv", lake, run_id="broken")
    assert main(["runs", str(lake)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:4]] == ["broken", "places", "people"]
    assert lines[1].endswith("failed") and lines[4].startswith("  broken: BadRecords: ")
    assert main(["runs", str(lake), "--json", "--limit", "2"]) == 0
    assert [run["ok"] for run in json.loads(capsys.readouterr().out)] == [False, True]
    assert main(["runs", str(lake), "--last"]) == 0
    assert "run broken" in capsys.readouterr().out
    assert main(["runs", str(lake), "--last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "BadRecords"
    (lake / "empty").mkdir()
    assert main(["runs", str(lake / "empty")]) == 0
    assert "manifest" in capsys.readouterr().out
    assert main(["runs", str(lake / "empty"), "--last", "--json"]) == 0
    assert capsys.readouterr().out == "null\n"
    assert main(["runs", str(lake / "people")]) == 3
    assert f"`lakeport runs {lake}`" in capsys.readouterr().err


def test_what_a_report_holds_drives_no_terminal(lake: Path, capsys: Cap) -> None:
    newest = lakeport.runs(lake, 1)[0].report
    forged = {**newest, "run_id": "\x1b[2J", "ok": False, "\x1b[3J": 1}
    forged["error"] = {"type": "X", "message": "\x1b[4J", "hint": ""}
    (lake / "_lakeport" / "reports" / "29990101-000000-ab.json").write_text(json.dumps(forged))
    for more in ([], ["--last"]):
        assert main(["runs", str(lake), *more]) == 0
    assert "\x1b" not in capsys.readouterr().out
    (lake / "people").rename(lake / "\x1b[5Jpeople")
    assert main(["table", "show", str(lake / "peple")]) == 3
    err = capsys.readouterr().err
    assert "\x1b" not in err and r"\x1b[5Jpeople" in err


def test_a_failed_load_is_one_document(tmp_path: Path, capsys: Cap) -> None:
    (tmp_path / "bad.csv").write_text('id\n"1\n')
    assert main(["land", str(tmp_path / "bad.csv"), "--to", str(tmp_path / "lake"), "--json"]) == 3
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["ok"], report["error"]["type"], err) == (False, "BadRecords", "")
