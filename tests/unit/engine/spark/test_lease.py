"""When Spark of a warm session is had, and what becomes of a run that it is refused to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeport.engine.spark import lease
from lakeport.engine.spark.lease import Lease, Refused, lease_for
from lakeport.errors import ConfigError, PermissionRefused
from lakeport.host.warm.channel import Channel, listen
from lakeport.host.warm.folder import Session

Answer = Callable[[Channel, Any], None]
Serve = Callable[[Answer], Session]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A session whose keeper answers one request so."""
    threads = []

    def start(answer: Answer) -> Session:
        session = Session(tmp_path, 1, "token", 0.0, 900.0, "2g", "1", {})
        listener = listen(session.spark)

        def keep() -> None:
            with listener, listener.accept()[0] as connection:
                channel = Channel(connection)
                answer(channel, channel.receive(10)[0])

        threads.append(threading.Thread(target=keep))
        threads[-1].start()
        return session

    yield start
    for thread in threads:
        thread.join(10)


def test_off_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> None:
        raise AssertionError

    monkeypatch.setattr(lease, "fitting", asked)
    assert lease_for("off", {}, None) is None
    assert lease_for("auto", {"spark.master": "local[1]"}, None) is None


def test_require_says_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    assert lease_for("auto", {}, None) is None
    with pytest.raises(ConfigError, match="none suits this process"):
        lease_for("require", {}, None)
    with pytest.raises(ConfigError, match="`spark` settings of its own"):
        lease_for("require", {"spark.master": "local[1]"}, None)


def test_a_session_that_suits_is_taken(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(Path("/nowhere"), 1, "token", 0.0, 900.0, "2g", "1", {})
    monkeypatch.setattr(lease, "fitting", lambda *, patient: session)
    found = lease_for("auto", {}, None)
    assert isinstance(found, Lease)
    assert found.alive
    with pytest.raises(Refused, match=r"can.t be joined"):
        found.open(frozenset())


def test_a_refusal_is_passed_on(serve: Serve) -> None:
    asked: list[Any] = []

    def refuse(channel: Channel, message: Any) -> None:
        asked.append(message)
        channel.send({"refused": "another run has other settings"})

    store = ("s3a://lake", {"fs.s3a.secret.key": "hidden"})
    made = Lease(serve(refuse), lambda: store)
    with pytest.raises(Refused, match="another run has other settings"):
        made.open(frozenset())
    assert asked[0]["token"] == "token"
    assert list(asked[0]["claims"]) == ["s3a://lake"]
    assert "hidden" not in str(asked)


def test_a_store_that_can_t_be_reached_is_for_others_to_tell(serve: Serve) -> None:
    asked: list[Any] = []

    def fail() -> tuple[str, dict[str, str]]:
        raise PermissionRefused("no keys", "give some")

    made = Lease(serve(lambda channel, message: asked.append(message)), fail)
    with pytest.raises(Refused, match="the session has ended"):
        made.open(frozenset())
    assert asked[0]["claims"] == {}
    assert not made.alive


def test_jars_that_it_lacks(serve: Serve) -> None:
    made = Lease(serve(lambda channel, _: channel.send({"needs": ["delta"]})), None)
    with pytest.raises(Refused, match="lacks the jars for azure, s3a"):
        made.open(frozenset({"delta", "s3a", "azure"}))


def test_a_gateway_that_is_none(serve: Serve) -> None:
    told = {"needs": [], "port": 1, "secret": "x", "tag": "run"}
    made = Lease(serve(lambda channel, _: channel.send(told)), None)
    with pytest.raises(Refused, match="can't be joined"):
        made.open(frozenset())


def test_closed_before_it_is_open(serve: Serve) -> None:
    made = Lease(serve(lambda channel, _: channel.send({"needs": []})), None)
    made.close(None, fast=True, timeout=1)
    assert not made.alive
    assert not made.claim("s3a://lake", {})
    with pytest.raises(Refused):
        made.open(frozenset())
