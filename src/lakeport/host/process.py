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
# What `die_with` does, in a process that becomes the program: to fork this one with its threads for
# it would not be safe.
_BOUND: Final = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGKILL)})
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

_Start = tuple["Future[subprocess.Popen[bytes]]", Callable[[], subprocess.Popen[bytes]]]

# Spark's own to its workers, and what Python and the C library have read when they started.
_WORKERS: Final = ("SPARK_", "PYSPARK_", "PYTHON", "MALLOC_")

_TAP: Final = "--from-tap"
_JOINED: Final = frozenset("={ ")

_RETRY_SECONDS: Final = 4.0
"""How long a request is repeated after the process was asked to end."""

_STEP_SECONDS: Final = 0.05
"""How soon a thread that waits notices that the process was asked to end."""


def is_there(process: int) -> bool:
    """Whether a process of this user's runs; 0 is none.

    >>> is_there(os.getpid()), is_there(0)
    (True, False)
    """
    if not process:
        return False
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def die_with(parent: int) -> None:
    """Have this process killed when the thread that forked it ends. Linux only.

    Args:
        parent: the number of that process, which may have ended already.
    """
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def ended_at_exit() -> Iterator[ExitStack]:
    """What is to be undone after the body, or when the interpreter ends while a thread is in it."""
    with ExitStack() as left:
        atexit.register(left.close)
        left.callback(atexit.unregister, left.close)
        yield left


def start_bound(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that is killed when this process ends, however it ends. Linux only.

    Elsewhere it is started, no more. The system kills it when the thread ends that started it, so
    one thread starts all, and stays for as long as this process.

    Args:
        command: the program's path, and its arguments.
        options: further ones of `Popen`.
    """
    if sys.platform != "linux":
        return subprocess.Popen(command, **options)
    bound = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
    started: Future[subprocess.Popen[bytes]] = Future()
    _starter(os.getpid()).put((started, lambda: subprocess.Popen(bound, **options)))
    return started.result()


@lru_cache
def _starter(process: int) -> SimpleQueue[_Start]:
    """Return the queue of a process's starter thread, and start that on the first call.

    A fork has another number, and so a thread of its own.
    """
    starts: SimpleQueue[_Start] = SimpleQueue()
    threading.Thread(
        target=_start_each, args=(starts,), name="lakeport-starter", daemon=True
    ).start()
    return starts


def _start_each(starts: SimpleQueue[_Start]) -> None:
    while True:
        started, start = starts.get()
        try:
            started.set_result(start())
        except BaseException as error:
            started.set_exception(error)


def forbid_core_dumps(process: int = 0) -> None:
    """Keep a process, and those that it starts from now on, from leaving core dumps.

    Programs that collect dumps for the whole machine, such as systemd-coredump, respect the limit.

    Args:
        process: its id; 0 for this one. Others can be told on Linux only.
    """
    if sys.platform == "win32":
        return
    import resource

    nothing = (0, 0)
    with suppress(OSError, ValueError):  # it has ended, or its limit is lower still
        if sys.platform == "linux":
            resource.prlimit(process, resource.RLIMIT_CORE, nothing)
        elif not process:
            resource.setrlimit(resource.RLIMIT_CORE, nothing)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A process's environment variables and working folder.

    Attributes:
        environment: the variables.
        folder: the working folder; empty if it is gone.
    """

    environment: Mapping[str, str]
    folder: str

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this process."""
        folder = ""
        with suppress(OSError):
            folder = os.getcwd()  # noqa: PTH109  # a text, for a process that may not import pathlib
        return cls(dict(os.environ), folder)

    def take(self) -> None:
        """Have this process, a worker of Spark's, be surrounded so."""
        for name in os.environ.keys() - self.environment.keys():
            if not name.startswith(_WORKERS):
                del os.environ[name]
        for name, value in self.environment.items():
            if not name.startswith(_WORKERS) and os.environ.get(name) != value:
                os.environ[name] = value
        if self.folder:
            with suppress(OSError):
                os.chdir(self.folder)


def available_cores() -> int:
    """Cores that this process may use, container limits included, as the JVM counts them."""
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


_given: ContextVar[tuple[str, ...] | None] = ContextVar("lakeport_command", default=None)


@contextmanager
def started_by(program: str, arguments: Sequence[str]) -> Iterator[None]:
    """Have what the body runs be started by this command line."""
    token = _given.set((program, *arguments))
    try:
        yield
    finally:
        _given.reset(token)


def verb_of(arguments: Iterable[str]) -> str:
    """Return the command that a command line names, such as `land`; empty where it names none.

    >>> verb_of(["--debug", "land", "a.csv"]), verb_of(["--version"])
    ('land', '')
    """
    return next((each for each in arguments if not each.startswith("-")), "")


def command_line() -> tuple[str, ...] | None:
    """The program and its arguments; None for what Python code calls."""
    return _given.get()


def masked(arguments: Iterable[str], secrets: Iterable[str]) -> tuple[str, ...]:
    """The same arguments without secrets.

    Args:
        arguments: a command line.
        secrets: those that are known; what looks like one is masked, too.

    >>> masked(["land", "a.csv", '--config_json={"api_key": "x", "path": "/lake"}'], [])
    ('land', 'a.csv', '--config_json={"api_key": "**********", "path": "/lake"}')
    """
    known, done, before = tuple(secrets), list[str](), ""
    for argument in arguments:
        option, equals, command = argument.partition("=")
        if before == _TAP:
            done.append(_tap(argument, known))
        elif option == _TAP and equals:
            done.append(f"{option}={_tap(command, known)}")
        else:
            done.append(_masked(argument, known))
        before = argument
    return tuple(done)


def _tap(command: str, secrets: tuple[str, ...]) -> str:
    """A tap's command line without the secrets among its arguments, however short they are."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quote is not closed
        return MASK
    for secret in find_secret_arguments(words):
        words = [
            MASK if word == secret else word.replace(secret, MASK) if _JOINED & {*word} else word
            for word in words
        ]
    return shlex.join(_masked(word, secrets) for word in words)


def _masked(argument: str, secrets: tuple[str, ...]) -> str:
    option, brace, rest = argument.partition("{")
    if brace and (not option or option.endswith("=")):
        try:
            values = json.loads(brace + rest)
        except ValueError:
            return scrub(argument, secrets)
        # Where JSON escapes a secret, it does not look like itself.
        if (safe := _without(values, secrets)) != values:
            return option + json.dumps(safe, ensure_ascii=False)
    return scrub(argument, secrets)


def _without(value: Any, secrets: tuple[str, ...], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _without(one, secrets, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_without(one, secrets, name) for one in value]
    if not isinstance(value, str):
        return value
    return MASK if value and is_secret_name(name) else scrub(value, secrets)


_end_requested_at: float | None = None
"""When this process was asked to end, by `time.monotonic`. No lock guards it: a signal that raises
in the main thread just after that took a lock would leave the lock taken, and every later wait
would hang."""


def request_end() -> None:
    """Cut the waits of this process short, as it was asked to end (`pause`, `retry_deadline`)."""
    global _end_requested_at
    if _end_requested_at is None:
        _end_requested_at = time.monotonic()


def clear_end_request() -> None:
    """Let waits take their full time again, once the command that was to end has ended."""
    global _end_requested_at
    _end_requested_at = None


def pause(seconds: float) -> None:
    """Sleep for `seconds`; wake early if the process is asked to end meanwhile."""
    before, end = _end_requested_at, time.monotonic() + seconds
    while _end_requested_at == before and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _STEP_SECONDS))


def retry_deadline() -> float | None:
    """Return when retries have to stop, by `time.monotonic`; None if no end was requested."""
    asked_at = _end_requested_at
    return None if asked_at is None else asked_at + _RETRY_SECONDS
