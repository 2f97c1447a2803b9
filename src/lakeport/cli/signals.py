"""How a command is asked to end: SIGTERM raises, as SIGINT does, and neither gets lost."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

__all__ = ["INTERRUPTED", "TERMINATED", "Terminated", "endable", "leave"]

INTERRUPTED: Final = 130
TERMINATED: Final = 143
"""Exit codes."""

_AGAIN_SECONDS = 0.05
_IMPORT_SYSTEM = "<frozen importlib"


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


def leave(code: int) -> NoReturn:
    """End the process; at once where it was asked to end, as a request to a store may hang.

    The interpreter would wait for the threads that such requests are sent by.
    """
    if code in (INTERRUPTED, TERMINATED):
        atexit._run_exitfuncs()
        os._exit(code)
    sys.exit(code)


@contextmanager
def endable() -> Iterator[None]:
    """Have SIGTERM raise `Terminated` in the body, if this is the main thread; SIGINT as ever.

    Python runs a signal's handler wherever the main thread happens to be, and two places are bad
    ones. What is raised in a finalizer or a weak reference's callback is dropped there. What is
    raised in the import system's own code may leave its lock taken, and every thread that imports
    anything then waits for ever. In both cases it is raised a moment later instead.

    Raises:
        Terminated: SIGTERM came.
        KeyboardInterrupt: SIGINT came, and this process does not ignore it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as before:
        due = _Due(before)
        due.hear(signal.SIGTERM, Terminated)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            due.hear(signal.SIGINT, KeyboardInterrupt)
        yield


class _Due:
    """What was asked for and could not be raised yet; `before` puts handlers back."""

    def __init__(self, before: ExitStack) -> None:
        self._before = before
        self._kinds: list[type[KeyboardInterrupt]] = []
        self._alarm = signal.signal(signal.SIGALRM, self._repeat)
        before.callback(signal.signal, signal.SIGALRM, self._alarm)
        before.callback(self._forget)
        self._unraisable = sys.unraisablehook
        sys.unraisablehook = self._notice
        before.callback(setattr, sys, "unraisablehook", self._unraisable)

    def hear(self, number: signal.Signals, kind: type[KeyboardInterrupt]) -> None:
        """Have a signal raise `kind`."""

        def handler(signum: int, frame: FrameType | None) -> None:
            self._raise(kind, frame)

        self._before.callback(signal.signal, number, signal.signal(number, handler))

    def _raise(self, kind: type[KeyboardInterrupt], frame: FrameType | None) -> None:
        if frame is None or not frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
            raise kind
        self._later(kind)

    def _later(self, kind: type[KeyboardInterrupt]) -> None:
        self._kinds.append(kind)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    def _notice(self, event: UnraisableHookArgs) -> None:
        if issubclass(event.exc_type, KeyboardInterrupt):
            self._later(event.exc_type)
        else:
            self._unraisable(event)

    def _repeat(self, signum: int, frame: FrameType | None) -> None:
        if self._kinds:
            self._raise(self._kinds.pop(), frame)
        elif callable(self._alarm):
            self._alarm(signum, frame)

    def _forget(self) -> None:
        if self._kinds:
            signal.setitimer(signal.ITIMER_REAL, 0)
