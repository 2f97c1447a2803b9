"""What ties one process to another, and work to its own."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Final

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)
# What `die_with` does, in a process that becomes the program: to fork this one with its threads for
# it would not be safe.
_BOUND: Final = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, {int(signal.SIGKILL)})
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


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


_Start = tuple["Future[subprocess.Popen[bytes]]", Callable[[], subprocess.Popen[bytes]]]


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
