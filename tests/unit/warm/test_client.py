"""How a client waits for its run, and what it makes of the answers."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeport.host.warm.channel import Channel
from lakeport.host.warm.folder import Session
from lakeport.warm.child import Command
from lakeport.warm.client import Lost, _ask, _Waiting, option_of


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["land", "a.csv"], ("", ["land", "a.csv"])),
        (["--warm=off", "land"], ("off", ["land"])),
        (["land", "--warm"], ("start", ["land"])),
        (["land", "--warm=no"], ("no", ["land"])),
        (["land", "--warm", "auto", "--warm", "off"], ("off", ["land"])),
    ],
)
def test_the_option(arguments: list[str], found: tuple[str, list[str]]) -> None:
    assert option_of(arguments) == found


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([{"begun": True}, {"exit": 3}], 3),
        ([{"exit": 0}], 0),
        ([{"declined": True}], None),
        ([], None),
        ([{"killed": int(signal.SIGURG)}], 128 + signal.SIGURG),  # which does nothing
    ],
)
def test_how_it_ends(
    ends: tuple[Channel, Channel], answers: list[dict[str, object]], code: int | None
) -> None:
    ours, theirs = ends
    for answer in answers:
        theirs.send(answer)
    theirs.hang_up()
    before = signal.getsignal(signal.SIGTERM)
    assert _Waiting(ours).wait() == code
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_that_has_begun_can_be_lost(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    theirs.send({"begun": True})
    theirs.hang_up()
    with pytest.raises(Lost, match="ended in the middle of the run"):
        _Waiting(ours).wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_go_on(ends: tuple[Channel, Channel], number: signal.Signals) -> None:
    ours, theirs = ends
    heard: list[object] = []

    def session() -> None:
        theirs.send({"begun": True})
        while signal.getsignal(number) in (signal.SIG_DFL, before):
            pass
        signal.raise_signal(number)
        heard.append(theirs.receive(10)[0])
        theirs.send({"exit": 130})

    before = signal.getsignal(number)
    thread = threading.Thread(target=session)
    thread.start()
    assert _Waiting(ours).wait() == 130
    thread.join()
    assert heard == [{"signal": number}]


def told(ends: tuple[Channel, Channel], change: Callable[[dict[str, object]], None]) -> Command:
    """What a session makes of a client's command line."""
    ours, theirs = ends
    session = Session(Path("/nowhere"), 1, "token", 0.0, 900.0, "2g", "1", {})
    _ask(ours, session, "lakeport", ["land", "--to", "s3://lake"])
    message, files = theirs.receive(10)
    try:
        change(message)
        return Command.of(message, files)
    finally:
        for file in files:
            os.close(file)


def test_a_command_arrives(ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLY_HERE", "ä")
    command = told(ends, lambda message: None)
    assert command.arguments == ["land", "--to", "s3://lake"]
    assert command.environment["ONLY_HERE"] == "ä"
    assert command.shown == "lakeport land"
    assert len(command.files) == sum(each is not None for each in command.streams)


@pytest.mark.parametrize("change", [{"program": "rm"}, {"streams": []}])
def test_what_is_no_command_is_refused(
    ends: tuple[Channel, Channel], change: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="no command"):
        told(ends, lambda message: message.update(change))
