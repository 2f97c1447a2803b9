"""Where processes meet a warm session."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.host import warm as meeting
from lakeport.host.warm import Channel, WarmStartFailed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / ("long" * 40)  # longer than a socket's address may be
    monkeypatch.setenv("LAKEPORT_CACHE", str(cache))
    return cache / "warm"


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


def test_messages_and_files_arrive(ends: tuple[Channel, Channel], tmp_path: Path) -> None:
    ours, theirs = ends
    (tmp_path / "a").write_text("told")
    file = os.open(tmp_path / "a", os.O_RDONLY)
    ours.send({"name": "ä"}, [file])
    ours.send({})
    message, (got,) = theirs.receive(5)
    assert message == {"name": "ä"}
    assert os.read(got, 9) == b"told"
    for each in (file, got):
        os.close(each)
    assert theirs.receive(5) == ({}, [])
    with pytest.raises(TimeoutError):
        theirs.receive(0.01)
    ours.close()
    assert theirs.receive(5) == ({}, [])


def test_a_session_is_begun_once_and_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[socket.socket] = []
    monkeypatch.setattr(
        meeting, "_launch_session", lambda listener, *_: begun.append(listener.dup())
    )
    assert meeting.find_session() is None
    assert meeting.connect_sessions() == []
    first, second, found = meeting.start_session(), meeting.start_session(), meeting.find_session()
    assert found is not None
    assert len(begun) == 1
    (listed,) = meeting.connect_sessions()
    assert folder.stat().st_mode & 0o777 == 0o700
    begun[0].close()  # it was killed
    for channel in (first, second, found, listed):
        assert channel.receive(5) == ({}, [])
        channel.close()
    assert meeting.find_session() is None
    assert meeting.connect_sessions() == []
    assert [each.name for each in folder.iterdir()] == ["lock"]
    meeting.start_session().close()
    assert len(begun) == 2
    begun[1].close()


def test_a_folder_of_others_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    assert meeting.find_session() is None
    assert meeting.connect_sessions() == []
    with pytest.raises(WarmStartFailed, match="not this user's alone"):
        meeting.start_session()


def test_a_session_s_last_words_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(listener: socket.socket, log: Path, told: object) -> None:
        log.write_text("first\nno Java is there\n")

    monkeypatch.setattr(meeting, "_launch_session", launch)
    with pytest.raises(WarmStartFailed):
        meeting.start_session()
    assert "no Java is there" in str(meeting.start_failure())
