"""How long a store is asked: one deadline for all requests of a process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeport.host import process
from lakeport.storage import retry
from lakeport.storage.retry import DeadlineExceeded, NoAnswer, Retrier, RetryPolicy


class Clock:
    """Stands for the module `time`: it moves when somebody sleeps, and only then."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    monkeypatch.setattr(retry, "pause", clock.sleep)
    return clock


class Store:
    """Answers with what it is told to, and counts."""

    def __init__(self, answer: Callable[[], str]) -> None:
        self.retrier = Retrier()
        self.retrier.reached = True
        self.answer, self.asked = answer, 0

    def ask(self, deadline: float = 60) -> str:
        def call() -> str:
            self.asked += 1
            return self.answer()

        return self.retrier.call(
            call, lambda error: isinstance(error, OSError), lambda _: RetryPolicy(deadline)
        )


def busy() -> str:
    raise OSError("busy")


def test_requests_after_one_that_was_given_up_share_a_few_seconds(clock: Clock) -> None:
    store = Store(busy)
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask()
    assert 50 < caught.value.seconds <= 60
    assert str(caught.value.cause) == "busy"
    end = clock.now
    for _ in range(20):
        with pytest.raises(DeadlineExceeded):
            store.ask()
    assert clock.now - end <= 5


def test_nothing_is_sent_once_these_are_over(clock: Clock) -> None:
    store = Store(busy)
    with pytest.raises(DeadlineExceeded):
        store.ask()
    clock.now += 6
    store.asked = 0
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask()
    assert isinstance(caught.value.cause, NoAnswer)
    assert store.asked == 0


def test_a_request_that_passes_makes_up_for_it(clock: Clock) -> None:
    store = Store(busy)
    store.retrier.shorten_deadline()
    store.answer = lambda: "fine"
    assert store.ask() == "fine"
    store.answer = busy
    began = clock.now
    with pytest.raises(DeadlineExceeded):
        store.ask()
    assert clock.now - began > 50


def test_requests_that_are_sent_again_are_counted_and_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lakeport")
    answers = iter([busy, busy, lambda: "fine"])
    store = Store(lambda: next(answers)())
    assert store.ask() == "fine"
    assert store.retrier.retries == 2
    events = [(each.event, each.attempt, each.error_type) for each in caplog.records]  # type: ignore[attr-defined]
    assert events == [("request.retry", 1, "OSError"), ("request.retry", 2, "OSError")]


def test_a_later_load_begins_anew(clock: Clock) -> None:
    store = Store(busy)
    store.retrier.shorten_deadline()
    clock.now += 31
    began = clock.now
    with pytest.raises(DeadlineExceeded):
        store.ask()
    assert clock.now - began > 50


def test_what_was_given_up_by_another_load_is_asked_for_as_long_as_ever(clock: Clock) -> None:
    store = Store(busy)
    with pytest.raises(DeadlineExceeded):
        store.ask()
    Retrier.restore_deadlines()
    began = clock.now
    with pytest.raises(DeadlineExceeded):
        store.ask()
    assert clock.now - began > 50


def test_the_last_answer_is_told_when_the_time_is_over(clock: Clock) -> None:
    def slow() -> str:
        clock.now += 3
        raise OSError("busy")

    store = Store(slow)
    store.retrier.shorten_deadline()
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask()
    assert str(caught.value.cause) == "busy"


def test_what_fails_for_good_is_raised_as_it_is(clock: Clock) -> None:
    def refused() -> str:
        raise LookupError("no such bucket")

    store = Store(refused)
    for _ in range(2):
        with pytest.raises(LookupError, match="no such bucket"):
            store.ask()
        store.retrier.shorten_deadline()


def test_a_store_that_hangs_is_left_behind_when_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "_GRACE", 0.05)
    answered = threading.Event()
    store = Store(lambda: str(answered.wait(60)))
    store.retrier.shorten_deadline()
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask()
    assert isinstance(caught.value.cause, NoAnswer)
    answered.set()


@pytest.fixture
def patient(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock beside delays that are always the longest."""
    monkeypatch.setattr(retry.random, "uniform", lambda _, longest: longest)
    return clock


def nobody_there() -> str:
    raise OSError("no connection") from ConnectionRefusedError(111, "refused")


def test_a_store_where_nobody_listens_is_given_up_at_once(patient: Clock) -> None:
    store = Store(nobody_there)
    store.retrier.reached = False
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask(retry.GIVE_UP_SECONDS)
    assert caught.value.seconds <= 0.5
    with pytest.raises(DeadlineExceeded) as caught:  # nor do those that tidy up wait
        store.ask(retry.GIVE_UP_SECONDS)
    assert caught.value.seconds == 0


def test_a_store_that_was_there_may_be_away_for_a_while(patient: Clock) -> None:
    store = Store(nobody_there)
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask(retry.GIVE_UP_SECONDS)
    assert caught.value.seconds > 100


def test_who_says_how_long_to_ask_is_obeyed(patient: Clock) -> None:
    store = Store(nobody_there)
    store.retrier.reached = False
    with pytest.raises(DeadlineExceeded) as caught:
        store.ask(10)
    assert 6 < caught.value.seconds <= 10


def test_a_process_that_is_asked_to_end_does_not_wait_for_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither in the midst of a wait, which may be long, nor with a request that hangs."""
    monkeypatch.setattr(retry.random, "uniform", lambda _, longest: 600)
    monkeypatch.setattr(process, "_RETRY_SECONDS", 0.2)
    hangs = threading.Event()
    store, silent = Store(busy), Store(lambda: str(hangs.wait(60)))
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(store.ask, 10_000)
        while not store.asked:
            time.sleep(0.01)
        process.request_end()
        try:
            with pytest.raises(DeadlineExceeded, match="busy"):
                asked.result(30)
            with pytest.raises(DeadlineExceeded) as caught:
                silent.ask(10_000)
        finally:
            process.clear_end_request()
            hangs.set()
    assert isinstance(caught.value.cause, NoAnswer)
    store.answer = lambda: "fine"
    assert store.ask() == "fine"
