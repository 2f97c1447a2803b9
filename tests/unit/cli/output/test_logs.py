"""`--log-format json`: lines of JSON alone on standard error, whatever a command does."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeport.cli import singer
from lakeport.cli.app import main, run
from lakeport.cli.output import logs

Lines = list[dict[str, Any]]
RECORDS = b"""\
{"type": "SCHEMA", "stream": "o", "schema": {"properties": {"id": {"type": "integer"}}}, \
"key_properties": []}
{"type": "RECORD", "stream": "o", "record": {"id": 1}}
{"type": "RECORD", "stream": "o", "record": {"id": "hunter22"}}
{"type": "STATE", "value": {"at": "hunter22"}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,name\n1,Ada\n")
    keys = {"destination": "local", "path": "lake", "engine": "threads"}
    Path("lake.json").write_text(json.dumps({**keys, "on_bad_record": "quarantine"}))
    return tmp_path


@pytest.fixture
def call(folder: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, Lines]]:
    """Run a command; return its exit code, its output and its lines on standard error."""

    def run_command(*arguments: str, program: str = "lakeport") -> tuple[int, str, Lines]:
        if program == "lakeport":
            code = main(list(arguments))
        else:
            code = run(singer.app, program, list(arguments))
        out, err = capfd.readouterr()
        lines = [json.loads(line) for line in err.splitlines()]
        for line in lines:
            assert datetime.fromisoformat(line["time"]).tzinfo is not None
            assert line["level"] in ("INFO", "WARNING", "ERROR")
        return code, out, lines

    return run_command


LAND = ("land", "people.csv", "--to", "lake", "--engine", "threads")


def events(lines: Lines) -> list[str]:
    return [line["event"] for line in lines]


def test_a_load_is_lines_and_its_output_as_without(
    folder: Path, call: Callable[..., tuple[int, str, Lines]]
) -> None:
    code, out, lines = call(*LAND, "--json", "--log-format", "json")
    report = json.loads(out)
    assert code == 0
    assert events(lines) == ["load.begin", "batch.landed", "load.end"]
    assert {line["run"] for line in lines} == {report["run_id"]}
    batch = lines[1]
    assert (batch["stream"], batch["batch"], batch["rows"], batch["version"]) == ("people", 0, 1, 0)
    assert batch["seconds"] > 0
    assert DeltaTable("lake/people").to_pyarrow_table().num_rows == 1
    assert not logs.is_on()
    assert logging.getLogger("lakeport").level == logging.NOTSET


def test_the_environment_asks_for_lines_and_an_option_wins(
    call: Callable[..., tuple[int, str, Lines]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LAKEPORT_LOG_FORMAT", "json")
    code, out, lines = call(*LAND)
    assert (code, events(lines)[-1]) == (0, "load.end")
    assert "people" in out
    assert main(["land", "gone.csv", "--to", "lake", "--log-format=text"]) == 3
    assert capfd.readouterr().err.startswith("Error: ")
    monkeypatch.setenv("LAKEPORT_LOG_FORMAT", "xml")
    assert main(["version"]) == 2
    assert "LAKEPORT_LOG_FORMAT is 'xml'\n\nHint: write text or json" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (("land", "gone.csv", "--to", "lake", "--engine", "threads"), "SourceError", 3),
        (("land", "gone.csv", "--to", "lake", "--engine", "threads", "--json"), "SourceError", 3),
        (("run", "gone.yaml"), "ConfigError", 2),
        (("land", "people.csv", "--too", "lake"), "ConfigError", 2),
        (("quarantine", "replay", "lake", "people"), "SourceError", 3),
    ],
)
def test_the_final_error_is_a_line(
    call: Callable[..., tuple[int, str, Lines]], arguments: tuple[str, ...], error: str, code: int
) -> None:
    found, _, lines = call(*arguments, "--log-format", "json")
    last = lines[-1]
    assert (found, last["event"], last["level"]) == (code, "error", "ERROR")
    assert (last["error_type"], last["exit_code"]) == (error, code)
    assert last["message"]
    assert last["hint"]


def test_singer_and_mage_write_lines_and_states_alone(
    call: Callable[..., tuple[int, str, Lines]],
) -> None:
    Path("o.jsonl").write_bytes(RECORDS)
    Path("stray.jsonl").write_bytes(RECORDS + b"Ada says hunter22\n")
    mage = ("target", "local", "--config", "lake.json", "--log-format", "json")
    singer = ("--config", "lake.json", "--log-format=json", "--input", "o.jsonl")
    land = ("land", "o.jsonl", "--to", "lake.json", "--log-format", "json", "--state", "s.json")
    for code, out, lines in (
        call(*mage, "--input_file_path", "stray.jsonl"),
        call(*singer, program="target-lakeport"),
        call(*land),
    ):
        assert code == 0
        assert "hunter22" in out or "1 row" in out
        assert [event for event in events(lines) if event != "note"] == [
            "load.begin",
            "batch.landed",
            "state.emitted",
            "records.rejected",
            "load.end",
        ]
        assert "hunter22" not in json.dumps(lines)


def test_warnings_of_python_and_of_the_library_are_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with logs.write_lines(["--log-format", "json"], sys.stderr):
            assert logs.is_on()
            warnings.warn("old", stacklevel=1)
            logging.getLogger("lakeport.sources").warning("100%")
            logging.getLogger("lakeport.sources").debug("nothing")
    first, second = map(json.loads, capfd.readouterr().err.splitlines())
    assert "UserWarning: old" in first["message"]
    assert (second["message"], second["logger"]) == ("100%", "lakeport.sources")
