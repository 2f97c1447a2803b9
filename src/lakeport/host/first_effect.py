"""The moment from which a run can't be begun anew by somebody else as if it had never been.

Whoever started the run may have to know: as long as nothing of standard input was taken and
nothing was written, the same run can begin again in another process.
"""

from __future__ import annotations

from collections.abc import Callable

_told: Callable[[], None] | None = None


def before(tell: Callable[[], None]) -> None:
    """Have `tell` called once, right before the first effect of this process's run."""
    global _told
    _told = tell


def about_to_happen() -> None:
    """Say that input is about to be taken or something to be written."""
    global _told
    tell, _told = _told, None
    if tell is not None:
        tell()
