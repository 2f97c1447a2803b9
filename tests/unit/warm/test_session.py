"""What a session does while nobody waits."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from lakeport.host.warm import Channel
from lakeport.warm import session
from lakeport.warm.child import CommandLine


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_what_runs_import_is_imported_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(session, "import_module", done.append)
    monkeypatch.setattr("lakeport.storage.base.preload_sdks", lambda: done.append("preload"))
    monkeypatch.setattr(session.gc, "freeze", lambda: done.append("freeze"))
    counts = []
    for _ in session._preload_modules():
        counts.append(len(done))
    assert counts == list(range(1, len(done)))  # somebody may be answered after each
    assert {"lakeport.cli.land", "lakeport.writers.delta.sink", "pyspark.sql"} <= set(done)
    assert "rich.console" in done
    assert done[-2:] == ["preload", "freeze"]
    assert not [name for name in done if name.endswith("__main__")]


def test_a_run_that_cannot_be_forked_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("too many processes")

    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    listener, spark = socket.socketpair()
    one = session.WarmSession({}, listener, Channel(spark))
    one._lease = {"port": 1}
    one._waiting.append(Channel(theirs))
    client, sent = Channel(ours), CommandLine.of_this_process("lakeport", ["land"]).serialise()
    client.send({}, sent)
    monkeypatch.setattr(os, "fork", refuse)
    before, files = signal.pthread_sigmask(signal.SIG_BLOCK, ()), open_files()
    one._begin_next_run()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert open_files() == files - 1  # the client was let go of
    assert client.receive()[0] == {"turn": True} and client.receive()[0] == {}
    for file in sent:
        os.close(file)
    for each in (ours, listener, spark, one._wake, one._woken, one._selector):
        each.close()
