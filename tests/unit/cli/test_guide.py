"""Folders to start from, and the pages that tell of errors and all else."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable
from jsonschema import Draft202012Validator

from lakeport import errors
from lakeport.cli.app import main
from lakeport.cli.guide.init import Start
from lakeport.cli.guide.pages import pages
from lakeport.config.lake.schema import lake_schema
from lakeport.config.sources import DatabaseSource, FilesSource, TapSource
from tests.unit.config.kit import read_lake

CLASSES = [
    name
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and issubclass(found, Exception)
]


def commands_of(readme: Path) -> list[str]:
    """The commands of a README that need nothing else."""
    found = re.findall(r"^    (.+?)(?:  +#.*)?$", readme.read_text(), re.MULTILINE)
    return [line for line in found if not re.match(r"some-tap|meltano|python", line)]


def _as_one(commands: list[str]) -> str:
    """A command that does the same in one process."""
    code = (
        "import shlex, sys; from lakeport.cli.app import main; "
        "sys.exit(max(main(shlex.split(each)[1:]) for each in sys.argv[1:]))"
    )
    return shlex.join([sys.executable, "-c", code, *commands])


LAKES = (Start.FILES, Start.DATABASE, Start.TAP)


@pytest.mark.parametrize("start", LAKES)
def test_a_lake_to_start_from_is_one(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "begin"
    assert main(["init", start, "--into", str(folder)]) == 0
    lake = read_lake(folder / "lake.yaml", environ={})
    schema = json.loads((folder / "lake.schema.json").read_text())
    assert schema == lake_schema()
    text = (folder / "lake.yaml").read_text()
    assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []
    assert "# yaml-language-server: $schema=lake.schema.json" in text.splitlines()
    for load in lake.loads.values():
        load.check()
        if isinstance(load.source, FilesSource):
            assert len(list(folder.glob("inbox/*.csv"))) == 2
        if isinstance(load.source, DatabaseSource):
            with closing(sqlite3.connect(folder / "shop.db")) as database:
                assert len(database.execute(f"SELECT * FROM {load.source.table}").fetchall()) == 2
        if isinstance(load.source, TapSource):
            done = subprocess.run(load.source.tap, cwd=folder, capture_output=True, check=True)
            kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
            assert kinds == ["SCHEMA", "RECORD", "RECORD", "STATE"]
            (folder / "state.json").write_bytes(b'{"seen": "2024-03-04T10:00:00Z"}')
            again = [*load.source.tap, "--state", "state.json"]
            done = subprocess.run(again, cwd=folder, capture_output=True, check=True)
            assert done.stdout.count(b"RECORD") == 1


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == lake_schema()


ROWS = {  # of each table that a README's commands make
    Start.CSV: {"people": 3},
    Start.DATABASE: {"customers": 2, "orders": 2},
    Start.TAP: {"users": 2},
}


BY_SPARK = (Start.FILES, Start.STREAMING)  # `tests/spark/test_starts.py` has them


@pytest.mark.parametrize("start", [each for each in Start if each not in BY_SPARK])
def test_a_folder_to_start_from_does_what_its_readme_says(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "begin"
    assert main(["init", start, "--into", str(folder)]) == 0
    commands = commands_of(folder / "README.md")
    assert commands
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in [_as_one(commands)] if start in LAKES else commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path, "LAKEPORT_ENGINE": "threads"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (command, done.stderr)
    tables = [each for each in (folder / "lake").iterdir() if each.name[0] != "_"]
    landed = {each.name: DeltaTable(str(each)).to_pyarrow_table().num_rows for each in tables}
    if start in ROWS:
        assert landed == ROWS[start]
    else:
        assert [*landed.values()] == [2]


@pytest.mark.parametrize("start", Start)
def test_every_folder_explains_itself(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "begin"
    assert main(["init", start, "--into", str(folder)]) == 0
    readme = (folder / "README.md").read_text()
    assert len(readme.splitlines()) <= 14
    for page in re.findall(r"lakeport docs ([\w-]+)", readme):
        assert page in pages()
    for config in folder.glob("*.y*ml"):
        text = config.read_text()
        assert text.startswith("#") and "#internal#" not in text and yaml.safe_load(text)


def test_a_folder_remembers_what_is_said_of_internal_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--no-internal-columns"]) == 0
    assert yaml.safe_load(Path("lakeport-csv/lake.yaml").read_text())["internal_columns"] is False
    assert main(["init", "mage", "--internal-columns", "_lp_"]) == 0
    config = yaml.safe_load(Path("lakeport-mage/config.yaml").read_text())["config"]
    assert config["internal_columns_prefix"] == "_lp_"
    assert main(["init", "--internal-columns", "x", "--no-internal-columns", "--into", "y"]) == 2
    assert main(["init", "--internal-columns", "", "--into", "y"]) == 2
    assert not Path("y").exists()
    assert main(["init", "--internal-columns", 'a: "b', "--into", "odd"]) == 0
    assert yaml.safe_load(Path("odd/lake.yaml").read_text())["internal_columns_prefix"] == 'a: "b'


@pytest.mark.parametrize("start", Start)
def test_every_config_remembers_it(tmp_path: Path, start: Start) -> None:
    assert (
        main(["init", start, "--into", str(tmp_path / "begin"), "--internal-columns", "_lp"]) == 0
    )
    configs = [*(tmp_path / "begin").glob("*.y*ml"), *(tmp_path / "begin").glob("*.py")]
    assert configs
    for config in configs:
        text = config.read_text()
        if start in LAKES:
            if config.suffix != ".py":
                assert yaml.safe_load(text)["defaults"]["internal_columns_prefix"] == "_lp"
        elif config.suffix == ".py":
            assert "internal_columns_prefix='_lp'," in text and compile(text, config, "exec")
        else:
            loaders = yaml.safe_load(text).get("plugins", {}).get("loaders")
            keys = loaders[0]["config"] if loaders else yaml.safe_load(text)
            assert keys.get("config", keys)["internal_columns_prefix"] == "_lp"


def test_nothing_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lake.yaml").write_text("mine")
    assert main(["init", "--into", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["lake.yaml"]
    (tmp_path / "file").write_text("")
    assert main(["init", "--into", str(tmp_path / "file" / "x")]) == 2


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_has_a_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name.lower()]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"# {name}: ")
    assert f"Exit code {getattr(errors, name).exit_code}." in page


def test_an_exit_code_is_explained_by_all_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "4"]) == 0
    assert capsys.readouterr().out.startswith("# SchemaConflict")
    assert main(["explain", "3"]) == 0
    page = capsys.readouterr().out
    assert all(f"# {name}: " in page for name in ("BadRecords", "InputError", "SourceError"))
    assert main(["explain", "SchemaConflicts"]) == 2
    assert "there are SchemaConflict" in capsys.readouterr().err


def test_pages_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"^  sources +Sources", listed, re.MULTILINE) and "adr/" not in listed
    assert main(["docs", "sources"]) == 0
    assert capsys.readouterr().out == pages()["sources"].read_text()
    assert main(["docs", "sources.md", "--path"]) == 0
    assert capsys.readouterr().out.strip() == str(pages()["sources"])
    assert main(["docs", "sorces"]) == 2
    assert "sources" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("local", "destinations/local"),
        ("docs/reports.md", "reports"),
        ("../types.md", "types"),
        ("schemaconflict", "errors/SchemaConflict"),
    ],
)
def test_a_page_is_found_by_the_last_part_of_its_name(
    name: str, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", name]) == 0
    assert capsys.readouterr().out == pages()[page].read_text()


def test_errors_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:]} == set(CLASSES)
    about = ["SchemaConflict", "4", "the columns do not fit the table's"]
    assert about in [line.split(None, 2) for line in lines]
