"""Messages between a process and a warm session."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.host.warm.channel import Channel, connect, listen


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


def test_any_text_arrives(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    message = {"arguments": ["ä", "\udcff", "a\0b"], "number": 1, "none": None}
    ours.send(message)
    assert theirs.receive() == (message, [])


def test_files_arrive(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    ours, theirs = ends
    (tmp_path / "file").write_text("here")
    with (tmp_path / "file").open("rb") as file:
        ours.send({}, [file.fileno()])
    message, files = theirs.receive()
    assert message == {}
    assert os.read(files[0], 10) == b"here"
    os.close(files[0])


def test_big_messages_arrive(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    message = {"environment": {str(number): "x" * 1000 for number in range(3000)}}
    sender = threading.Thread(target=ours.send, args=(message,))
    sender.start()
    assert theirs.receive(30)[0] == message
    sender.join()


def test_an_end_is_seen(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    assert not theirs.ended
    ours.hang_up()
    assert theirs.ended
    assert theirs.receive() == (None, [])
    assert ours.ended


def test_silence_has_an_end(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].receive(0.01)


def test_no_path_is_too_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    listener = listen(folder / "socket")
    ours = connect(folder / "socket")
    theirs = Channel(listener.accept()[0])
    theirs.send([1])
    assert ours.receive() == ([1], [])
    assert ours.peer == (os.getpid(), os.getuid())
    for each in (ours, theirs, listener):
        each.close()
    with pytest.raises(ConnectionRefusedError):
        connect(folder / "socket")
