"""A signal that comes at a bad moment still ends the command."""

from __future__ import annotations

import os
import signal
import time

import pytest

from lakeport.cli.endings import Terminated, endable


class Finalized:
    """Sends this process a signal from where an exception goes nowhere."""

    def __init__(self, signum: signal.Signals) -> None:
        self._signum = signum

    def __del__(self) -> None:
        os.kill(os.getpid(), self._signum)
        for _ in range(100):
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("signum", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_what_a_finalizer_drops_is_raised_again(
    signum: signal.Signals, raised: type[KeyboardInterrupt]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    arrived: list[str] = []
    try:
        with pytest.raises(raised), endable():
            Finalized(signum)
            arrived.append("after the finalizer")
            time.sleep(30)
    finally:
        signal.signal(signal.SIGINT, before)
    assert arrived == ["after the finalizer"]


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)]
    with endable():
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)] == before
