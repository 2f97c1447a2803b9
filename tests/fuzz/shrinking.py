"""The smallest part of an input that still does it: ever smaller pieces are left out."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.case import Case


def shrink(case: Case, fails: Callable[[Case], bool], tries: int) -> Case:
    """Leave out what is not needed for a failure.

    Args:
        case: an input that fails.
        fails: whether an input fails in the same way.
        tries: how often that may be asked.
    """
    left = tries
    size = len(case.data)
    while size and left:
        at = 0
        while at < len(case.data) and left:
            smaller = case.with_data(case.data[:at] + case.data[at + size :])
            left -= 1
            if fails(smaller):
                case = smaller
            else:
                at += size
        size = min(size // 2, len(case.data))
    return case
