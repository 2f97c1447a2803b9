"""A signal that comes at a bad moment still ends the command."""

from __future__ import annotations

import _imp
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import pytest

from lakeport.cli.signals import Terminated, endable

ASKED = (
    ("signum", "raised"),
    [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)],
)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """SIGINT as in a program of its own, whatever the tests were started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Finalized:
    """Sends this process a signal from where an exception goes nowhere."""

    def __init__(self, signum: signal.Signals, dropped: list[type[BaseException]]) -> None:
        self._signum, self._dropped = signum, dropped

    def __del__(self) -> None:
        try:
            os.kill(os.getpid(), self._signum)
            time.sleep(30)
        except BaseException as error:
            self._dropped.append(type(error))
            raise


@pytest.mark.parametrize(*ASKED)
def test_what_a_finalizer_drops_is_raised_again(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    dropped: list[type[BaseException]] = []
    with pytest.raises(raised), endable():
        Finalized(signum, dropped)
        time.sleep(30)
    assert dropped == [raised]


class BusyImports:
    """The import system's lock, held by another thread, which sends a signal meanwhile.

    The main thread gets the lock, and with it the signal, in the import system's own code.
    """

    def __init__(self, signum: signal.Signals) -> None:
        self._signum = signum
        self._held = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._held.wait(30)

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _hold(self) -> None:
        _imp.acquire_lock()
        try:
            self._held.set()
            time.sleep(0.3)  # for the main thread to wait for the lock
            os.kill(os.getpid(), self._signum)
            time.sleep(0.3)
        finally:
            _imp.release_lock()


@pytest.mark.parametrize(*ASKED)
def test_an_import_under_way_does_not_keep_its_lock(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    try:
        with pytest.raises(raised), endable(), BusyImports(signum):
            with suppress(ImportError):
                import_module("lakeport_has_no_such_module")
            time.sleep(30)
        assert not _imp.lock_held()
    finally:
        while _imp.lock_held():
            _imp.release_lock()


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with endable():
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with endable():
        os.kill(os.getpid(), signal.SIGINT)
