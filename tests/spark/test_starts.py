"""Folders to start from that take Spark: a lake of files and a stream, as their READMEs say."""

from __future__ import annotations

import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakeport.cli.app import main
from lakeport.engine.spark.session import DriverSession
from tests.unit.cli.test_guide import commands_of


def rows(folder: Path, table: str) -> int:
    return DeltaTable(str(folder / "lake" / table)).to_pyarrow_table().num_rows


def test_files_and_a_table_made_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "begin"
    assert main(["init", "files", "--into", str(folder)]) == 0
    monkeypatch.chdir(folder)
    commands = commands_of(folder / "README.md")
    assert commands
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
    assert (rows(folder, "orders"), rows(folder, "by_country")) == (3, 3)


def test_a_stream_begins_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], driver: DriverSession, soak: bool
) -> None:
    folder = tmp_path / "begin"
    assert main(["init", "streaming", "--into", str(folder)]) == 0
    script = folder / "stream.py"
    if soak:
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "2 rows landed\n"), done.stderr
    else:
        capsys.readouterr()
        runpy.run_path(str(script))
        assert capsys.readouterr().out == "2 rows landed\n"
    assert rows(folder, "events") == 2
    (folder / "inbox" / "2.json").write_text('{"id": 3, "name": "Emmy"}\n')
    capsys.readouterr()
    runpy.run_path(str(script))
    assert capsys.readouterr().out == "1 rows landed\n"
    assert rows(folder, "events") == 3
