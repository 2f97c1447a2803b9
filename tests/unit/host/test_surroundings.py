"""A process's environment and folder, taken along to a worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeport.host.process import ProcessContext


def test_a_worker_has_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONLY_THERE", "1")
    monkeypatch.setenv("SPARK_OWN", "worker")
    given = ProcessContext({"PATH": "/bin", "NEW": "x", "SPARK_OWN": "run"}, "/")
    before = dict(os.environ)
    try:
        given.apply()
        assert os.environ["PATH"] == "/bin"
        assert os.environ["NEW"] == "x"
        assert "ONLY_THERE" not in os.environ
        assert os.environ["SPARK_OWN"] == "worker"
        assert Path.cwd() == Path("/")
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_folder_that_is_gone_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    here = ProcessContext.current()
    assert here.folder == ""
    assert here.environment == dict(os.environ)
    here.apply()
    ProcessContext(here.environment, str(gone)).apply()
    monkeypatch.chdir(tmp_path)
