"""A signal that comes at a bad moment still ends the command."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lakeport.cli.endings import Terminated, endable


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


@pytest.mark.parametrize(
    ("signum", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_what_a_finalizer_drops_is_raised_again(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    dropped: list[type[BaseException]] = []
    try:
        with pytest.raises(raised), endable():
            Finalized(signum, dropped)
            time.sleep(30)
    finally:
        signal.signal(signal.SIGINT, before)
    assert dropped == [raised]


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)]
    with endable():
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)] == before
