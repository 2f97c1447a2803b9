"""Who publishes a batch: what a load began is finished by another one only if it has ended.

A load on this machine can be looked up. One on another machine is taken to be at work for as long
as publishing may take.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lakeport.host.process import is_there

_LONGEST_SECONDS: Final = 600.0
_publishing: Final[set[str]] = set()


@contextmanager
def publishing() -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Be known as the one who publishes, for as long as the body runs.

    Yields:
        Gives what others are told now, as JSON.
    """
    token = secrets.token_hex(8)
    _publishing.add(token)
    process = os.getpid()
    about = {"host": platform.node(), "process": process, "began": _began(process), "token": token}
    try:
        yield lambda: {**about, "at": time.time()}
    finally:
        _publishing.discard(token)


def at_work(owner: Mapping[str, Any] | None) -> bool:
    """Whether who was told of may be publishing now.

    Args:
        owner: what `publishing` has told; None for nobody.

    >>> with publishing() as owner:
    ...     at_work(owner())
    True
    >>> at_work(owner())
    False
    """
    if owner is None:
        return False
    if owner["host"] != platform.node():
        return bool(time.time() - owner["at"] < _LONGEST_SECONDS)
    process, began = int(owner["process"]), owner["began"]
    if process == os.getpid() and began == _began(process):
        return owner["token"] in _publishing
    return _began(process) == began if began else is_there(process)


def _began(process: int) -> str:
    """When a process began, in the kernel's ticks, as its number may be another one's by now.

    Empty where the system does not tell, or there is none. Source: proc(5).
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
