"""A load that is asked to end: what is waited for, and what is said to be unknown."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from lakeport.errors import CommitConflict, InputError, LakeportError, OutcomeUnknown, Unreachable
from lakeport.loading import cancellation as module
from lakeport.loading.cancellation import Cancellation, Cancelled, EndRequested

TABLE = "s3://lake/t"
UNKNOWN = "whether the batch in progress has landed in s3://lake/t is unknown"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_END_SECONDS", 0.1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.1)


class World:
    """Spark and the store of a load, as far as its end touches them."""

    def __init__(self, streams: int = 0) -> None:
        self.streams = streams
        self.done: list[str] = []

    def stop(self) -> None:
        self.done.append("stop")

    def shorten_deadline(self) -> None:
        self.done.append("shorten_deadline")


def end(cancellation: Cancellation, landing: Future[None] | None, streams: int = 0) -> list[str]:
    world: Any = World(streams)
    cancellation.cancel(landing, world, world)
    return list(world.done)


def test_no_commit_begins_any_more() -> None:
    cancellation = Cancellation()
    assert end(cancellation, None) == ["shorten_deadline"]
    with pytest.raises(Cancelled), cancellation.track_commit(TABLE):
        raise AssertionError("it began")
    assert cancellation.unknown_commits() == ""


def test_a_commit_that_ends_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_END_SECONDS", 30)  # a busy machine takes its time
    cancellation, landing = Cancellation(), Future[None]()
    begun = threading.Event()

    def land() -> None:
        with cancellation.track_commit(TABLE):
            begun.set()
            time.sleep(0.02)
        landing.set_result(None)

    threading.Thread(target=land).start()
    assert begun.wait(30)
    assert end(cancellation, landing) == ["shorten_deadline"]
    assert cancellation.unknown_commits() == ""


def test_a_commit_that_hangs_is_cut_off_and_unknown() -> None:
    cancellation, landing = Cancellation(), Future[None]()
    with cancellation.track_commit(TABLE):
        assert end(cancellation, landing) == ["shorten_deadline", "stop"]
        assert cancellation.unknown_commits() == UNKNOWN


def test_a_batch_whose_commit_had_not_begun_has_not_landed() -> None:
    cancellation, landing = Cancellation(), Future[None]()
    assert end(cancellation, landing) == ["shorten_deadline", "stop"]
    assert cancellation.unknown_commits() == ""


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (OutcomeUnknown("the log can't be read"), UNKNOWN),
        (Unreachable("the store stayed silent"), UNKNOWN),
        (CommitConflict("another writer was faster"), ""),
        (InputError("a row breaks a constraint"), ""),
    ],
)
def test_what_a_failed_commit_leaves_unknown(error: LakeportError, unknown: str) -> None:
    cancellation = Cancellation()
    with suppress(LakeportError), cancellation.track_commit(TABLE):
        raise error
    assert cancellation.unknown_commits() == unknown


def test_a_second_signal_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "wait", interrupted)
    cancellation = Cancellation()
    assert end(cancellation, Future()) == []
    assert cancellation.at_once


def test_another_thread_asks() -> None:
    cancellation = Cancellation()
    cancellation.check()
    cancellation.request_end()
    cancellation.request_end()
    with pytest.raises(EndRequested):
        cancellation.check()
    with pytest.raises(EndRequested):
        cancellation.wait_for(Future())
    with pytest.raises(Cancelled), cancellation.track_commit(TABLE):
        raise AssertionError("it began")


def test_who_waits_for_a_batch_hears_that_another_thread_asks() -> None:
    cancellation = Cancellation()
    threading.Timer(0.02, cancellation.request_end).start()
    with pytest.raises(EndRequested):
        cancellation.wait_for(Future())


def test_a_batchs_outcome_passes() -> None:
    good, bad = Future[None](), Future[None]()
    good.set_result(None)
    bad.set_exception(InputError("no"))
    Cancellation().wait_for(good)
    with pytest.raises(InputError):
        Cancellation().wait_for(bad)
