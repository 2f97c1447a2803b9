"""Ends a command on SIGTERM or SIGINT: both raise an exception, and neither signal is lost."""

from __future__ import annotations

import _thread
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
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from lakeport.host.process import clear_end_request, request_end

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

INTERRUPTED: Final = 130
TERMINATED: Final = 143
"""Exit codes."""

_WAKE: Final = signal.SIGURG  # nobody else sends it, and it is ignored by default
_AGAIN_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 5.0
_END_SECONDS: Final = 9.0  # for cleaning up, after the first signal
_SECOND_SECONDS: Final = 2.0  # for cleaning up, after a second signal
_WORDS_SECONDS: Final = 1.0  # for the last message, once that time is over
_AGAIN, _END = b"\0", b"\xff"  # no signal has these numbers
_IMPORT_SYSTEM: Final = "<frozen importlib"
_USERS_CODE: Final = "lakeport.loading.transform.function"
"""Runs the user's functions; their modules may report live objects at the interpreter's end."""


_callbacks: Final[list[Callable[[type[KeyboardInterrupt]], object]]] = []


class _EndCode(int):
    """Type of `ENDED`, to tell it from the 0 of a command that has finished its work."""


ENDED: Final = _EndCode(0)
"""Exit code of a command that runs until a signal ends it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM was sent to the process."""


def exit_process(code: int) -> NoReturn:
    """End the process with `code`; after a signal, within its deadline, without its threads.

    The interpreter would wait for threads with requests to a store, which may hang. An exit
    function may hang, too: the signal's exception may have left a lock taken.
    """
    if code in (INTERRUPTED, TERMINATED) or code is ENDED:
        left = min(_END_SECONDS, _Deadline.latest - time.monotonic())
        _thread.start_new_thread(_exit_later, (code, left))
        atexit._run_exitfuncs()
        os._exit(code)
    if _USERS_CODE not in sys.modules:
        gc.freeze()  # searching all objects for cycles would take a tenth of a small load
    sys.exit(code)


def _exit_later(code: int, seconds: float) -> NoReturn:
    """End the process after `seconds`, whatever its other threads do."""
    time.sleep(max(0.0, seconds))
    os._exit(code)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Context manager in which SIGTERM and SIGINT print one line and end the process.

    For a command that has not begun: its modules are still imported.
    """
    with ExitStack() as before:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before.callback(signal.signal, number, signal.signal(number, _exit_at_once))
        yield


def _exit_at_once(number: int, _: FrameType | None) -> NoReturn:
    """Print that a signal ends the process, and raise SystemExit with its exit code."""
    terminated = number == signal.SIGTERM
    os.write(2, b"Error: terminated\n" if terminated else b"Error: interrupted\n")
    raise SystemExit(TERMINATED if terminated else INTERRUPTED)


@contextmanager
def on_forced_end(callback: Callable[[type[KeyboardInterrupt]], object]) -> Iterator[None]:
    """Context manager that has `callback` called if a signal's deadline ends the process."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Context manager in which SIGTERM raises `Terminated`, SIGINT `KeyboardInterrupt`.

    It does nothing outside the main thread. Python runs a signal's handler in the main thread,
    wherever that is, and some places are bad. An exception in a finalizer or a weak reference's
    callback is dropped. An exception during an import may leave the import system's lock taken, so
    that every thread that imports anything waits forever; or a module that tries imports, such as
    pandas, takes it for an absent package. In these places the exception is raised a moment later
    instead. A system call that begins as the signal comes is not interrupted: Python would see
    the signal at the next input. So the main thread is interrupted again, by another signal.

    Whatever the threads wait for, such as a store that hangs, the process ends within ten seconds
    of the first signal, and within two of a second one.

    Raises:
        Terminated: SIGTERM came.
        KeyboardInterrupt: SIGINT came, and this process does not ignore it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as before:
        handlers = _SignalHandlers(before)
        handlers.install(signal.SIGTERM, Terminated)
        if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _exit_at_once):
            handlers.install(signal.SIGINT, KeyboardInterrupt)
        yield


class _SignalHandlers:
    """Signal handlers that raise an exception, or delay it where Python would drop it.

    Args:
        before: puts the previous handlers back when it is closed.
    """

    def __init__(self, before: ExitStack) -> None:
        self._before = before
        self._exceptions: dict[int, type[KeyboardInterrupt]] = {}  # by signal number
        self._deadline = _Deadline()
        before.callback(self._cancel_end)
        self._imports = _count_import_frames(sys._getframe())
        self._delayed: list[type[KeyboardInterrupt]] = []
        self._unraisable = sys.unraisablehook
        sys.unraisablehook = self._on_unraisable
        before.callback(setattr, sys, "unraisablehook", self._unraisable)
        self._set_handler(_WAKE, self._on_wake)
        self._interrupt_again = before.enter_context(_interrupting(self._on_signals))

    def _cancel_end(self) -> None:
        """Stop the deadline, and let waits take their full time again."""
        self._deadline.cancel()
        clear_end_request()

    def install(self, number: signal.Signals, kind: type[KeyboardInterrupt]) -> None:
        """Have a signal raise an exception of `kind`."""
        self._exceptions[number] = kind
        self._set_handler(number, lambda signum, frame: self._raise(kind, frame))

    def _set_handler(
        self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]
    ) -> None:
        """Set a signal's handler; closing `before` restores the previous one."""
        self._before.callback(signal.signal, number, signal.signal(number, handler))

    def _on_signals(self, numbers: bytes) -> None:
        """Start the deadline and end waits early; each byte is a signal's number."""
        for kind in [self._exceptions[number] for number in numbers if number in self._exceptions]:
            self._deadline.start(kind)
            request_end()

    def _raise(self, kind: type[KeyboardInterrupt], frame: FrameType | None) -> None:
        """Raise an exception of `kind`, or delay it if the main thread is in an import."""
        if _count_import_frames(frame) <= self._imports:
            raise kind
        self._delay(kind)

    def _delay(self, kind: type[KeyboardInterrupt]) -> None:
        """Have the main thread interrupted again, to raise the exception then."""
        self._delayed.append(kind)
        self._interrupt_again()

    def _on_unraisable(self, event: UnraisableHookArgs) -> None:
        """Hook for dropped exceptions: delay an interrupt, pass others to the previous hook."""
        if issubclass(event.exc_type, KeyboardInterrupt):
            self._delay(event.exc_type)
        else:
            self._unraisable(event)

    def _on_wake(self, signum: int, frame: FrameType | None) -> None:
        """Raise a delayed exception, if there is one."""
        if self._delayed:
            self._raise(self._delayed.pop(), frame)


class _Deadline:
    """Ends the process some seconds after a signal, unless it has ended or `cancel` is called.

    It takes no lock of `threading`: the signal's exception may have left any of them taken.

    Attributes:
        latest: the process's last deadline by `time.monotonic`, cancelled or not.
    """

    latest: ClassVar[float] = float("inf")

    def __init__(self) -> None:
        self._at = float("inf")

    def start(self, kind: type[KeyboardInterrupt]) -> None:
        """Start the countdown in a thread; a second call shortens it."""
        seconds = _END_SECONDS if self._at == float("inf") else _SECOND_SECONDS
        at = time.monotonic() + seconds
        if at < self._at:
            self._at = _Deadline.latest = at
            _thread.start_new_thread(self._wait, (at, kind))

    def cancel(self) -> None:
        """Let the process run on."""
        self._at = float("inf")

    def _wait(self, at: float, kind: type[KeyboardInterrupt]) -> None:
        """Sleep until `at` (`time.monotonic`), then end the process unless the deadline moved."""
        time.sleep(max(0.0, at - time.monotonic()))
        if self._at == at:
            _end_now(kind)


def _end_now(kind: type[KeyboardInterrupt]) -> NoReturn:
    """Run the forced-end callback, a second at most; then end the process with its threads."""
    code = TERMINATED if issubclass(kind, Terminated) else INTERRUPTED
    _thread.start_new_thread(_exit_later, (code, _WORDS_SECONDS))
    _run_callback(kind)
    os._exit(code)


def _run_callback(kind: type[KeyboardInterrupt]) -> None:
    """Call the innermost `on_forced_end` callback, ignoring its errors; then `atexit` functions."""
    for callback in _callbacks[-1:]:
        with suppress(Exception):
            callback(kind)
    atexit._run_exitfuncs()


@contextmanager
def _interrupting(on_signals: Callable[[bytes], None]) -> Iterator[Callable[[], None]]:
    """Context manager with a thread that repeats a signal's interrupt of the main thread.

    Python's C code writes each signal's number into a pipe, whatever the main thread does.

    Args:
        on_signals: called in the thread with the numbers of signals that came.

    Yields:
        A function that starts these interrupts without a signal.
    """
    ours, pythons = os.pipe()
    os.set_blocking(pythons, False)
    main = threading.get_ident()

    poll = select.poll()
    poll.register(ours, select.POLLIN)

    def interrupt() -> None:
        pause: float | None = None
        while True:
            if not poll.poll(pause and pause * 1000):
                signal.pthread_kill(main, _WAKE)
                pause = pause * 2 if pause and pause < _LONGEST_SECONDS else None
                continue
            numbers = os.read(ours, 1024)
            if _END in numbers:
                return
            on_signals(numbers)
            if numbers.strip(bytes([_WAKE])):
                pause = _AGAIN_SECONDS

    thread = threading.Thread(target=interrupt, name="lakeport-signals", daemon=True)
    before = signal.set_wakeup_fd(pythons, warn_on_full_buffer=False)
    thread.start()
    try:
        yield lambda: _write_byte(pythons, _AGAIN)
    finally:
        signal.set_wakeup_fd(before)
        _write_byte(pythons, _END)
        thread.join()
        os.close(ours)
        os.close(pythons)


def _write_byte(pipe: int, byte: bytes) -> None:
    """Write a byte into a pipe; a full one wakes its reader anyway."""
    with suppress(BlockingIOError):
        os.write(pipe, byte)


def _count_import_frames(frame: FrameType | None) -> int:
    """Count the frames on a stack that belong to Python's import system."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(_IMPORT_SYSTEM)
        frame = frame.f_back
    return count
