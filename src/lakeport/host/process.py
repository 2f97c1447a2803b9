"""What ties one process to another, and work to its own."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

__all__ = ["die_with", "ended_at_exit", "is_there"]

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of prctl(2)


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
