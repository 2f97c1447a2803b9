"""Where warm sessions are, and what killed ones leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeport.host.warm import folder, identity
from lakeport.host.warm.folder import Session, place, sessions


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    return tmp_path


def made(at: Path) -> Session:
    session = Session(at, os.getpid(), "token", 0.0, 900.0, "2g", "1", identity.facts())
    session.write()
    return session


def test_a_session_is_found_while_it_runs() -> None:
    assert not folder.any_session()
    assert folder.fitting() is None
    with place(identity.key(identity.facts())) as at:
        assert at.stat().st_mode & 0o077 == 0
        session = made(at)
        assert (at / "session.json").stat().st_mode & 0o077 == 0
        assert folder.fitting() == session
        assert sessions() == [session]
    assert sessions() == []
    assert folder.fitting() is None


def test_only_one_has_a_place() -> None:
    with place("one"), pytest.raises(BlockingIOError), place("one"):
        pass


def test_what_a_killed_one_left_goes(cache: Path) -> None:
    with place("other"):
        pass
    left = cache / "warm" / "left"
    left.mkdir(mode=0o700)
    made(left)
    (left / "runs").touch()
    assert sessions() == []
    assert not left.exists()


def test_what_a_killed_one_left_is_not_the_next_one_s() -> None:
    key = identity.key(identity.facts())
    folder.clear(key)  # there is nothing yet
    with place(key) as at:
        session = made(at)
        folder.clear(key)  # it runs
        assert folder.running(key) == session
    at.mkdir(mode=0o700)
    made(at)
    folder.clear(key)
    with place(key):
        assert folder.running(key) is None


def test_a_folder_that_others_can_open_is_not_trusted(cache: Path) -> None:
    with place(identity.key(identity.facts())) as at:
        made(at)
        at.chmod(0o755)
        assert folder.fitting() is None
        at.chmod(0o700)
        (cache / "warm").chmod(0o777)
        assert folder.fitting() is None
        with pytest.raises(PermissionError), place("another"):
            pass


def test_a_state_that_is_none_is_no_session() -> None:
    with place(identity.key(identity.facts())) as at:
        for text in ("", "[]", "{}", '{"token": 1}'):
            (at / "session.json").write_text(text)
            assert folder.fitting() is None
