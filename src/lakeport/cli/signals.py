"""How a command is asked to end: SIGTERM raises, as SIGINT does, and neither gets lost."""

from __future__ import annotations

import atexit
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from lakeport.host.process import clear_end_request, request_end

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

INTERRUPTED: Final = 130
TERMINATED: Final = 143
"""Exit codes."""

_WAKE: Final = signal.SIGURG  # nobody else sends it, and who gets it by mistake does nothing
_AGAIN_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 5.0
_END_SECONDS: Final = 9.0  # after the first signal, for all that is tidied up,
_SECOND_SECONDS: Final = 2.0  # after a second one,
_WORDS_SECONDS: Final = 1.0  # and to say what is known, where that time was not enough
_AGAIN, _END = b"\0", b"\xff"  # no signal has these numbers
_IMPORT_SYSTEM: Final = "<frozen importlib"
_USERS_CODE: Final = "lakeport.loading.transform.function"
"""Runs functions of the user's. What those import may print what it finds alive at the end."""


_tellers: Final[list[Callable[[type[KeyboardInterrupt]], object]]] = []


class _EndCode(int):
    """A code of its own: 0 is also what finished work ends with."""


ENDED: Final = _EndCode(0)
"""Exit code of a command that goes on until it is asked to end."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


def leave(code: int) -> NoReturn:
    """End the process; at once where it was asked to end, as a request to a store may hang.

    The interpreter would wait for the threads that such requests are sent by.
    """
    if code in (INTERRUPTED, TERMINATED) or code is ENDED:
        atexit._run_exitfuncs()
        os._exit(code)
    if _USERS_CODE not in sys.modules:
        gc.freeze()  # what goes anyway is not looked through for circles: a tenth of a small load
    sys.exit(code)


@contextmanager
def last_words(tell: Callable[[type[KeyboardInterrupt]], object]) -> Iterator[None]:
    """Have `tell` say what became of the command, where `endable` ends the process in the body."""
    _tellers.append(tell)
    try:
        yield
    finally:
        _tellers.remove(tell)


@contextmanager
def endable() -> Iterator[None]:
    """Have SIGTERM raise `Terminated` in the body, if this is the main thread; SIGINT as ever.

    Python runs a signal's handler in the main thread, wherever that is, and some places are bad.
    What is raised in a finalizer or a weak reference's callback is dropped there. What is raised
    while something is imported may leave the import system's lock taken, so that every thread that
    imports anything waits for ever; or a module that tries what it can import, such as pandas,
    takes it for a package that is absent. Then it is raised a moment later instead. And a system
    call that is about to begin when the signal comes is not interrupted by it: Python would hear of
    it when the next input is there. So the main thread is interrupted again, by another signal.

    Whatever the main thread and others wait for then, such as a store that hangs: the process ends
    within ten seconds of the signal, and a second one leaves two.

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
        self._heard: dict[int, type[KeyboardInterrupt]] = {}
        self._watch = _EndWatch()
        before.callback(self._go_on)
        self._imports = _imports(sys._getframe())
        self._kinds: list[type[KeyboardInterrupt]] = []
        self._unraisable = sys.unraisablehook
        sys.unraisablehook = self._notice
        before.callback(setattr, sys, "unraisablehook", self._unraisable)
        self._handle(_WAKE, self._repeat)
        self._nudge = before.enter_context(_nudging(self._ask))

    def _go_on(self) -> None:
        self._watch.cancel()
        clear_end_request()

    def hear(self, number: signal.Signals, kind: type[KeyboardInterrupt]) -> None:
        """Have a signal raise `kind`."""
        self._heard[number] = kind
        self._handle(number, lambda signum, frame: self._raise(kind, frame))

    def _handle(
        self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]
    ) -> None:
        self._before.callback(signal.signal, number, signal.signal(number, handler))

    def _ask(self, numbers: bytes) -> None:
        """Cut waits short, and limit the time that is left: in a thread, once signals came."""
        for kind in [self._heard[number] for number in numbers if number in self._heard]:
            self._watch.start(kind)
            request_end()

    def _raise(self, kind: type[KeyboardInterrupt], frame: FrameType | None) -> None:
        if _imports(frame) <= self._imports:
            raise kind
        self._later(kind)

    def _later(self, kind: type[KeyboardInterrupt]) -> None:
        self._kinds.append(kind)
        self._nudge()

    def _notice(self, event: UnraisableHookArgs) -> None:
        if issubclass(event.exc_type, KeyboardInterrupt):
            self._later(event.exc_type)
        else:
            self._unraisable(event)

    def _repeat(self, signum: int, frame: FrameType | None) -> None:
        if self._kinds:
            self._raise(self._kinds.pop(), frame)


class _EndWatch:
    """Ends the process some seconds after it was asked to end, unless it has ended by then."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._at = float("inf")

    def start(self, kind: type[KeyboardInterrupt]) -> None:
        """Begin to count; at a second call, leave less time."""
        seconds = _END_SECONDS if self._timer is None else _SECOND_SECONDS
        if time.monotonic() + seconds < self._at:
            if self._timer is not None:
                self._timer.cancel()
            self._at = time.monotonic() + seconds
            self._timer = threading.Timer(seconds, _end_now, (kind,))
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        """Let the process go on."""
        if self._timer is not None:
            self._timer.cancel()


def _end_now(kind: type[KeyboardInterrupt]) -> NoReturn:
    """Say what is known, and end the process, whatever its threads do."""
    words = threading.Thread(target=_say_last_words, args=(kind,), daemon=True)
    words.start()
    words.join(_WORDS_SECONDS)
    os._exit(TERMINATED if issubclass(kind, Terminated) else INTERRUPTED)


def _say_last_words(kind: type[KeyboardInterrupt]) -> None:
    for tell in _tellers[-1:]:
        with suppress(Exception):
            tell(kind)
    atexit._run_exitfuncs()


@contextmanager
def _nudging(came: Callable[[bytes], None]) -> Iterator[Callable[[], None]]:
    """Interrupt the main thread again after each signal, at growing intervals, from a thread.

    Python's handler in C tells of a signal by a byte in a pipe, whatever the main thread does.

    Args:
        came: called in the thread with the numbers of signals that came.

    Yields:
        What has it interrupted some more.
    """
    ours, pythons = os.pipe()
    os.set_blocking(pythons, False)
    main = threading.get_ident()

    told = select.poll()
    told.register(ours, select.POLLIN)

    def nudge() -> None:
        pause: float | None = None
        while True:
            if not told.poll(pause and pause * 1000):
                signal.pthread_kill(main, _WAKE)
                pause = pause * 2 if pause and pause < _LONGEST_SECONDS else None
                continue
            told_of = os.read(ours, 1024)
            if _END in told_of:
                return
            came(told_of)
            if told_of.strip(bytes([_WAKE])):
                pause = _AGAIN_SECONDS

    thread = threading.Thread(target=nudge, name="lakeport-signals", daemon=True)
    before = signal.set_wakeup_fd(pythons, warn_on_full_buffer=False)
    thread.start()
    try:
        yield lambda: _tell(pythons, _AGAIN)
    finally:
        signal.set_wakeup_fd(before)
        _tell(pythons, _END)
        thread.join()
        os.close(ours)
        os.close(pythons)


def _tell(pipe: int, byte: bytes) -> None:
    with suppress(BlockingIOError):  # there is enough in it to be read
        os.write(pipe, byte)


def _imports(frame: FrameType | None) -> int:
    """How many of the import system's frames are on the stack."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORT_SYSTEM)
        frame = frame.f_back
    return count
