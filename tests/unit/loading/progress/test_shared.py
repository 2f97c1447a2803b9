"""Loads tell the pages of the same user how far they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakeport.host.activity import Activity, attribute_to_load
from lakeport.loading import progress
from lakeport.loading.progress import (
    ProgressState,
    SharedProgress,
    list_running_loads,
    share_progress,
)
from lakeport.model import EngineReport


@pytest.fixture(autouse=True)
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    monkeypatch.delenv("LAKEPORT_PROGRESS", raising=False)
    return tmp_path / "running"


def report() -> EngineReport:
    return EngineReport("spark", "4.2.0", ui="http://here:4040")


def draw(shared: SharedProgress, *activities: Activity) -> None:
    now = time.monotonic()
    shared.draw(ProgressState("landing", now, now + 2, activities))


def test_a_load_is_listed_while_it_runs() -> None:
    now = time.monotonic()
    with attribute_to_load("people"):
        shared = SharedProgress("monday", "/lake", report)
    draw(
        shared,
        Activity("reading", "a.csv", now, total=8, done=4, load="people"),
        Activity("reading", "b.csv", now, load="other"),
    )
    (load,) = list_running_loads()
    assert (load.process, load.run_id, load.target) == (os.getpid(), "monday", "/lake")
    assert (load.load, load.engine, load.ui) == ("people", "Spark 4.2.0", "http://here:4040")
    ((words, share),) = load.lines
    assert words.startswith("reading a.csv: 4 of 8 B (50%)")
    assert share == 0.5
    shared.clear()
    assert list_running_loads() == []


def test_a_short_load_writes_nothing(running: Path) -> None:
    with share_progress("monday", "/lake", report):
        pass
    assert not running.exists()


def test_a_load_goes_on_where_nothing_can_be_written(running: Path) -> None:
    running.write_text("a file")
    with pytest.raises(OSError):
        draw(SharedProgress("monday", "/lake", report))
    with share_progress("monday", "/lake", report):
        pass
    assert list_running_loads() == []


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_PROGRESS", "off")
    monkeypatch.setattr(progress, "Progress", None)
    with share_progress("monday", "/lake", report):
        pass


def test_a_killed_load_is_gone_and_a_silent_one_is_not_shown(
    running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(SharedProgress("monday", "/lake", report))
    (file,) = running.glob("*.json")
    told = json.loads(file.read_text())
    with monkeypatch.context() as patch:
        patch.setattr(progress, "_SILENT_SECONDS", -1.0)
        assert list_running_loads() == []
    assert file.exists()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    file.write_text(json.dumps(told | {"process": ended.pid}))
    assert list_running_loads() == []
    assert not file.exists()


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"process": "x"}'])
def test_a_file_of_others_is_no_load(running: Path, torn: str) -> None:
    draw(SharedProgress("monday", "/lake", report))
    (file,) = running.glob("*.json")
    file.write_text(torn)
    assert list_running_loads() == []
