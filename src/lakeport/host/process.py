"""Processes: parents, core dumps, environment, cores, command lines, and waits that end early."""

from __future__ import annotations

import atexit
import ctypes
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from lakeport.scrub import MASK, find_secret_arguments, is_secret_name, scrub

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
# Does what `die_with_parent` does, then becomes the program. A fork of this process would not be
# safe, as it has threads.
_BOUND_PROGRAM: Final = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGKILL)})
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

_Start = tuple["Future[subprocess.Popen[bytes]]", Callable[[], subprocess.Popen[bytes]]]

# Beginnings of variables that Spark sets for workers, or that Python and glibc read at their start.
_WORKER_VARIABLES: Final = ("SPARK_", "PYSPARK_", "PYTHON", "MALLOC_")

_TAP_OPTION: Final = "--from-tap"
_SEPARATORS: Final = frozenset("={ ")

_RETRY_SECONDS: Final = 4.0
"""Seconds for which requests are retried after the process was asked to end."""

_STEP_SECONDS: Final = 0.05
"""Seconds after which a waiting thread notices that the process was asked to end."""


def is_running(process_id: int) -> bool:
    """Whether this user has a running process with this id; False for 0.

    >>> is_running(os.getpid()), is_running(0)
    (True, False)
    """
    if not process_id:
        return False
    try:
        os.kill(process_id, 0)
    except OSError:
        return False
    return True


def die_with_parent(parent_id: int) -> None:
    """Have Linux kill this process when its parent thread ends; at once if that has ended."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent_id:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def cleanup_stack() -> Iterator[ExitStack]:
    """Yield an ExitStack that closes after the body, or at the interpreter's exit during it."""
    with ExitStack() as left:
        atexit.register(left.close)
        left.callback(atexit.unregister, left.close)
        yield left


def start_bound_process(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that Linux kills when this process ends; elsewhere an ordinary one.

    Linux does so when the thread ends that started the program, so one thread that never ends
    starts all. On other systems the program is only started. `options` are those of `Popen`.
    """
    if sys.platform != "linux":
        return subprocess.Popen(command, **options)
    bound = [sys.executable, "-I", "-S", "-c", _BOUND_PROGRAM, str(os.getpid()), *command]
    started: Future[subprocess.Popen[bytes]] = Future()
    _start_queue(os.getpid()).put((started, lambda: subprocess.Popen(bound, **options)))
    return started.result()


@lru_cache
def _start_queue(process_id: int) -> SimpleQueue[_Start]:
    """Return the queue of the thread that starts processes; the first call starts the thread.

    A fork has another process id, and so a thread of its own.
    """
    starts: SimpleQueue[_Start] = SimpleQueue()
    threading.Thread(
        target=_start_processes, args=(starts,), name="lakeport-starter", daemon=True
    ).start()
    return starts


def _start_processes(starts: SimpleQueue[_Start]) -> None:
    """Thread body: start the queued processes for ever, and set each one's future."""
    while True:
        started, start = starts.get()
        try:
            started.set_result(start())
        except BaseException as error:
            started.set_exception(error)


def forbid_core_dumps(process_id: int = 0) -> None:
    """Set the core dump limit of a process and its later children to 0; ignore failures.

    Programs that collect dumps for the whole machine, such as systemd-coredump, respect the limit.

    Args:
        process_id: its id; 0 for this one. Only Linux allows others.
    """
    if sys.platform == "win32":
        return
    import resource

    nothing = (0, 0)
    with suppress(OSError, ValueError):  # it has ended, or its limit is lower still
        if sys.platform == "linux":
            resource.prlimit(process_id, resource.RLIMIT_CORE, nothing)
        elif not process_id:
            resource.setrlimit(resource.RLIMIT_CORE, nothing)


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """Environment variables and working folder of a process.

    Attributes:
        folder: the working folder; empty if it is gone.
    """

    environment: Mapping[str, str]
    folder: str

    @classmethod
    def current(cls) -> ProcessContext:
        """Capture this process's environment variables and working folder."""
        folder = ""
        with suppress(OSError):
            folder = os.getcwd()  # noqa: PTH109  # a text, for a process that may not import pathlib
        return cls(dict(os.environ), folder)

    def apply(self) -> None:
        """Set the variables and the folder in this worker; Spark's and Python's variables stay."""
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(_WORKER_VARIABLES):
                del os.environ[name]
        for name, value in self.environment.items():
            if not name.startswith(_WORKER_VARIABLES) and os.environ.get(name) != value:
                os.environ[name] = value
        if self.folder:
            with suppress(OSError):
                os.chdir(self.folder)


def available_cores() -> int:
    """Return how many cores this process may use, by CPU affinity and cgroup quota; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        # No limit, or no such file.
        pass
    return max(1, count)


_command_line: ContextVar[tuple[str, ...] | None] = ContextVar("lakeport_command", default=None)


@contextmanager
def record_command_line(program: str, arguments: Sequence[str]) -> Iterator[None]:
    """Context manager in which `command_line` returns this program and its arguments."""
    token = _command_line.set((program, *arguments))
    try:
        yield
    finally:
        _command_line.reset(token)


def command_name(arguments: Iterable[str]) -> str:
    """Return the first argument that is no option, such as `land`; empty if there is none.

    >>> command_name(["--debug", "land", "a.csv"]), command_name(["--version"])
    ('land', '')
    """
    return next((each for each in arguments if not each.startswith("-")), "")


def command_line() -> tuple[str, ...] | None:
    """Return the program and its arguments; None if Python code was called."""
    return _command_line.get()


def mask_command_line(arguments: Iterable[str], secrets: Iterable[str]) -> tuple[str, ...]:
    """Mask `secrets`, and values that look like secrets, in a command line's arguments.

    >>> mask_command_line(["land", "a.csv", '--config_json={"api_key": "x", "path": "/lake"}'], [])
    ('land', 'a.csv', '--config_json={"api_key": "**********", "path": "/lake"}')
    """
    known, done, before = tuple(secrets), list[str](), ""
    for argument in arguments:
        option, equals, command = argument.partition("=")
        if before == _TAP_OPTION:
            done.append(_mask_tap(argument, known))
        elif option == _TAP_OPTION and equals:
            done.append(f"{option}={_mask_tap(command, known)}")
        else:
            done.append(_mask_argument(argument, known))
        before = argument
    return tuple(done)


def _mask_tap(command: str, secrets: tuple[str, ...]) -> str:
    """Mask secrets in a Singer tap's command line; mask it whole if its quotes don't match."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote is not closed
        return MASK
    for secret in find_secret_arguments(words):
        words = [
            MASK
            if word == secret
            else word.replace(secret, MASK)
            if _SEPARATORS & {*word}
            else word
            for word in words
        ]
    return shlex.join(_mask_argument(word, secrets) for word in words)


def _mask_argument(argument: str, secrets: tuple[str, ...]) -> str:
    """Mask secrets in one argument, also in the JSON that it may hold."""
    option, brace, rest = argument.partition("{")
    if brace and (not option or option.endswith("=")):
        try:
            values = json.loads(brace + rest)
        except ValueError:
            return scrub(argument, secrets)
        # JSON may escape characters of a secret.
        if (safe := _mask_values(values, secrets)) != values:
            return option + json.dumps(safe, ensure_ascii=False)
    return scrub(argument, secrets)


def _mask_values(value: Any, secrets: tuple[str, ...], name: str = "") -> Any:
    """Mask secrets in a JSON value, and all text under keys such as `password`."""
    if isinstance(value, dict):
        return {key: _mask_values(one, secrets, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_mask_values(one, secrets, name) for one in value]
    if not isinstance(value, str):
        return value
    return MASK if value and is_secret_name(name) else scrub(value, secrets)


_end_requested_at: float | None = None
"""When this process was asked to end, by `time.monotonic`. No lock guards it: a signal that raises
in the main thread just after that took a lock would leave the lock taken, and every later wait
would hang."""


def request_end() -> None:
    """Note that this process was asked to end: `pause` returns, and retries stop after 4 s."""
    global _end_requested_at
    if _end_requested_at is None:
        _end_requested_at = time.monotonic()


def clear_end_request() -> None:
    """Let waits take their full time again, once the command that was to end has ended."""
    global _end_requested_at
    _end_requested_at = None


def pause(seconds: float) -> None:
    """Sleep for `seconds`, or until the process is asked to end."""
    before, end = _end_requested_at, time.monotonic() + seconds
    while _end_requested_at == before and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _STEP_SECONDS))


def retry_deadline() -> float | None:
    """Return when retries have to stop, by `time.monotonic`; None if no end was requested."""
    asked_at = _end_requested_at
    return None if asked_at is None else asked_at + _RETRY_SECONDS
