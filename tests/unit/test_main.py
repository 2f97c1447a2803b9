"""The two programs, as the scripts that pip makes start them."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from lakeport import __main__ as programs
from lakeport.cli.signals import Terminated, raise_on_signals
from lakeport.errors import ConfigError
from lakeport.warm import client


def code_of(program: str) -> object:
    with pytest.raises(SystemExit) as ended:
        getattr(programs, program)()
    return ended.value.code


@pytest.mark.parametrize(
    ("program", "argument", "told"),
    [("main", "version", "lakeport"), ("singer", "--version", "target-lakeport v")],
)
def test_runs_here_without_a_session(
    program: str,
    argument: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["program", argument])
    assert code_of(program) == 0
    assert capsys.readouterr().out.startswith(told)


def test_ends_with_the_code_of_a_session_s_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "run_in_session", lambda program, arguments: (5, arguments, None))
    assert code_of("main") == 5


def test_says_why_a_session_can_t_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = ConfigError("no session", "do without")
    monkeypatch.setattr(sys, "argv", ["program", "check", "--to", "lake"])
    monkeypatch.setattr(
        client, "run_in_session", lambda program, arguments: (None, arguments, problem)
    )
    assert code_of("main") == 2
    assert capsys.readouterr().err == "Error: no session\n\nHint: do without\n"


@pytest.mark.parametrize(
    ("number", "code", "word", "raised"),
    [
        (signal.SIGTERM, 143, "terminated", Terminated),
        (signal.SIGINT, 130, "interrupted", KeyboardInterrupt),
    ],
)
def test_ends_by_a_signal_with_a_word_before_its_command_begins(
    number: signal.Signals,
    code: int,
    word: str,
    raised: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def run(program: str, arguments: list[str]) -> int:
        with pytest.raises(raised), raise_on_signals():
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr(programs, "_run", run)
    try:
        assert code_of("main") == code
        assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == handlers
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == f"Error: {word}\n"
