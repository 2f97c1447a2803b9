"""`lakeport warm` and a client of it, in the test's own process."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.cli.app import main
from lakeport.cli.warm import _ask
from lakeport.host.warm import WarmSessionUnavailable, connect_sessions
from lakeport.warm import client
from tests.faults.kit import BY_SPARK, PATIENCE, Lake
from tests.warm.kit import Warm, cache

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Warm:
    """The sessions of these tests; none runs yet."""
    return Warm(cache(tmp_path_factory.mktemp("commands")))


@pytest.fixture(autouse=True)
def here(warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds them, as one of theirs would."""
    for name, value in warm.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,name\n1,Ada\n")


def told(captured: Captured, *arguments: str) -> object:
    captured.readouterr()
    code = main([*arguments, "--json"])
    said = captured.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def test_from_its_start_to_its_end(warm: Warm, tmp_path: Path, capfd: Captured) -> None:
    land = ["land", "people.csv", "--to", "lake", "--table", "people", "--format", "delta"]
    with warm:
        assert told(capfd, "warm", "status") == []
        assert client.run_in_session("lakeport", land) == (None, land, None)
        started = told(capfd, "warm", "start", "--idle", "2m", "--memory", "1g")
        assert started == told(capfd, "warm", "start")  # the one that runs
        code, arguments, problem = client.run_in_session("lakeport", [*land, "--warm"])
        assert (code, arguments, problem) == (0, [*land, "--set", "warm=auto"], None)
        assert "1 row landed" in capfd.readouterr().out
        code, _, _ = client.run_in_session("lakeport", ["table", "show", "lake/people"])
        assert code == 0
        assert "Ada" not in capfd.readouterr().out
        assert client.run_in_session("lakeport", ["land", "absent.csv", "--to", "lake"])[0] == 3
        assert "'absent.csv' matches no file" in capfd.readouterr().err
        assert client.run_in_session("target-lakeport", ["--version"])[0] is None
        (session,) = told(capfd, "warm", "status")
        assert session["suits"] == "yes"
        assert session["served"] == 3
        assert told(capfd, "warm", "stop") == {"ended": 1, "ending with their last run": 0}
        assert connect_sessions() == []
    assert [row["name"] for row in Lake(tmp_path / "lake", "delta").rows("people")] == ["Ada"]


def test_a_session_that_does_not_come_up_is_told(warm: Warm, capfd: Captured) -> None:
    with warm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-agentlib:absent")
        land = ["land", "people.csv", "--to", "lake", "--warm"]
        _, _, problem = client.run_in_session("lakeport", land)
        assert problem is not None
        assert "a warm session can't be started: Spark's Java process ended" in str(problem)
        assert connect_sessions() == []


def terminate_the_run() -> None:
    """Have this process, as its client, told to end once a run has Spark.

    Before that, the run may be importing what handles the signal, and ends by it.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any(_ask(session, "status").get("running") for session in connect_sessions()):
            time.sleep(2.0)
            signal.raise_signal(signal.SIGTERM)
            return
        time.sleep(0.1)


@pytest.fixture
def outlived(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process goes on where a client would end: by a signal that came too late, or its run's.

    A test that failed would take all others along.
    """
    monkeypatch.setattr(client._RunFollower, "_exit_by_signal", lambda _, number: -number)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.soak  # `test_is_asked_to_end` shows it of a client that is a process
@pytest.mark.usefixtures("outlived")
def test_a_run_that_waits_is_interrupted(warm: Warm, tmp_path: Path, capfd: Captured) -> None:
    land = ["land", "-", "--to", "lake", "--warm", "--source-format", "singer", *BY_SPARK]
    with warm:
        told(capfd, "warm", "start")
        teller = threading.Thread(target=terminate_the_run)
        ours, theirs = os.pipe()
        before = os.dup(0)
        os.dup2(ours, 0)
        teller.start()
        try:
            code, _, _ = client.run_in_session("lakeport", land)
        finally:
            os.dup2(before, 0)
            for descriptor in (ours, theirs, before):
                os.close(descriptor)
            teller.join()
    assert code == 143
    assert "terminated; nothing was landed" in capfd.readouterr().err


def test_what_no_session_can_be_started_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit() -> dict[str, str]:
        raise WarmSessionUnavailable("warm sessions are for Linux")

    monkeypatch.setattr("lakeport.host.warm.process_facts", unfit)
    _, _, problem = client.run_in_session("lakeport", ["check", "--to", "lake", "--warm"])
    assert problem is not None
    assert str(problem).startswith("a warm session can't be started: warm sessions are for Linux")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--idle", "soon"], "`--idle` is 'soon'"),
        (["--idle", "0"], "`--idle` is '0'"),
        (["--memory", "much"], "`spark.driver.memory` is 'much'"),
    ],
)
def test_options_that_are_none(options: list[str], words: str, capfd: Captured) -> None:
    assert main(["warm", "start", *options]) == 2
    assert words in capfd.readouterr().err
    assert connect_sessions() == []
