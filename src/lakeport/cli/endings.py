"""How a command is asked to end: SIGTERM raises, as SIGINT does, and neither gets lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

__all__ = ["Terminated", "endable"]

_AGAIN_SECONDS = 0.05


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


@contextmanager
def endable() -> Iterator[None]:
    """Have SIGTERM raise `Terminated` in the body, if this is the main thread.

    Python runs a signal's handler wherever the main thread happens to be. What it raises in a
    finalizer or a weak reference's callback is dropped there, so it is raised once more a moment
    later.

    Raises:
        Terminated: SIGTERM came.
        KeyboardInterrupt: SIGINT came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    dropped: list[type[KeyboardInterrupt]] = []
    unraisable = sys.unraisablehook

    def notice(event: UnraisableHookArgs) -> None:
        if issubclass(event.exc_type, KeyboardInterrupt):
            dropped.append(event.exc_type)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            unraisable(event)

    def repeat(signum: int, frame: FrameType | None) -> None:
        if dropped:
            raise dropped.pop()
        if callable(others):
            others(signum, frame)

    terminate = signal.signal(signal.SIGTERM, _terminate)
    others = signal.signal(signal.SIGALRM, repeat)
    sys.unraisablehook = notice
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        if dropped:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, others)
        signal.signal(signal.SIGTERM, terminate)


def _terminate(signum: int, frame: object) -> NoReturn:
    raise Terminated
