"""How a client waits for its run, and what it makes of the answers."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeport.host.warm import Channel, WarmStartFailed
from lakeport.warm import client
from lakeport.warm.child import CommandLine
from lakeport.warm.client import SessionLost, split_warm_option


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
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
    assert split_warm_option(arguments) == found


@pytest.fixture
def session(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> tuple[Channel, Channel]:
    """The two ends of a session that every client finds, and may use."""
    monkeypatch.setenv("LAKEPORT_WARM", "auto")
    for name in ("start_session", "find_session"):
        monkeypatch.setattr(client, name, lambda: ends[0])
    return ends


def take_command(theirs: Channel) -> None:
    """Give a client its turn, and take its command."""
    assert theirs.receive(10)[0] == {"do": "run"}
    theirs.send({"turn": True})
    for file in theirs.receive(10)[1]:
        os.close(file)


def test_a_run_can_be_lost(session: tuple[Channel, Channel]) -> None:
    def serve() -> None:
        take_command(session[1])
        session[1].close()

    thread = threading.Thread(target=serve)
    thread.start()
    code, arguments, problem = client.run_in_session("lakeport", ["land"])
    thread.join()
    assert (code, arguments) == (None, ["land"])
    assert isinstance(problem, SessionLost) and "in the middle of the run" in problem.message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_go_on(session: tuple[Channel, Channel], number: signal.Signals) -> None:
    _, theirs = session
    heard: list[object] = []

    def serve() -> None:
        take_command(theirs)
        while signal.getsignal(number) in (signal.SIG_DFL, before):
            pass
        signal.raise_signal(number)
        heard.append(theirs.receive(10)[0])
        theirs.send({"exit": 130})

    before = signal.getsignal(number)
    thread = threading.Thread(target=serve)
    thread.start()
    assert client.run_in_session("lakeport", ["land"])[0] == 130
    thread.join()
    assert heard == [{"signal": number}]


def test_a_command_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLY_HERE", "ä")
    sent = CommandLine.of_this_process("lakeport", ["land", "--to", "s3://lake"])
    command = CommandLine.deserialise(sent.serialise())
    assert command.arguments == ["land", "--to", "s3://lake"]
    assert command.environment["ONLY_HERE"] == "ä"
    assert command.title == "lakeport land"
    assert len(command.files) == sum(each is not None for each in command.streams)
    command.close()


@pytest.mark.parametrize("change", [{"program": "rm"}, {"streams": []}])
def test_what_is_no_command_is_refused(change: dict[str, Any]) -> None:
    sent = replace(CommandLine.of_this_process("lakeport", ["land"]), **change)
    with pytest.raises(ValueError, match="no command"):
        CommandLine.deserialise(sent.serialise())
    sent.close()


@pytest.mark.parametrize(
    ("line", "answers", "code"),
    [
        (["land"], [{"wait": "for the run"}], None),
        (["land", "--warm"], [{"wait": "for the run"}], None),
        (["table"], [{"wait": "for the run"}], None),
        (["land", "--warm"], [{"wait": "for Spark"}, {"turn": True}, {"exit": 4}], 4),
        (["land", "--warm=require"], [{"wait": "for the run"}, {"turn": True}, {"exit": 4}], 4),
        (["land"], [{"turn": True}, {"exit": 4}], 4),
        (["land"], [{"turn": True}, {"killed": int(signal.SIGURG)}], 128 + signal.SIGURG),
    ],
)
def test_who_waits_for_a_turn(
    session: tuple[Channel, Channel],
    line: list[str],
    answers: list[dict[str, object]],
    code: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, theirs = session
    monkeypatch.setattr(client, "_TURN_SECONDS", 0.01)
    before = signal.getsignal(signal.SIGTERM)
    for answer in answers:
        theirs.send(answer)
    assert client.run_in_session("lakeport", line)[0] == code
    assert theirs.receive(5)[0] == {"do": "run"}
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_session_that_ends_before_the_turn(session: tuple[Channel, Channel]) -> None:
    session[1].close()
    assert client.run_in_session("lakeport", ["land"]) == (None, ["land"], None)
    assert isinstance(client.run_in_session("lakeport", ["land", "--warm"])[2], WarmStartFailed)


def test_a_command_that_cannot_be_sent_leaves_no_file_open(
    session: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    session[1].send({"turn": True})
    send = Channel.send

    def refuse(self: Channel, message: dict[str, Any], files: Any = ()) -> None:
        if files:
            raise ConnectionResetError
        send(self, message, files)

    monkeypatch.setattr(Channel, "send", refuse)
    before = open_files()
    assert client.run_in_session("lakeport", ["land"])[0] is None
    assert open_files() == before - 1  # the connection
