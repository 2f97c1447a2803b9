"""Shows what goes on below a notebook's cell."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from lakeport.loading.progress.words import Moment, lines, newest

_WIDTH = 100


class Notebook:
    """An output of the running cell, changed in place and empty in the end.

    Args:
        handle: IPython's handle of the output.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @classmethod
    def here(cls) -> Notebook | None:
        """One below the running cell; None where this process is no notebook's kernel."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is None or not hasattr(shell, "kernel"):
            return None
        display = sys.modules["IPython.display"].display  # a kernel has loaded it

        return cls(display(_bundle([]), raw=True, display_id=True))

    def draw(self, moment: Moment) -> None:
        """Show it in place of what was there."""
        told = lines(moment, _WIDTH)
        self._handle.update(_bundle(told, [each.share for each in newest(moment)]), raw=True)

    def clear(self) -> None:
        """Leave an empty output."""
        self._handle.update(_bundle([]), raw=True)


def _bundle(told: list[str], shares: Sequence[float | None] = ()) -> dict[str, str]:
    """What goes on as text, and with a bar where the share that is done is known."""
    drawn = "".join(
        f"<div>{_bar(share)}{html.escape(text)}</div>"
        for text, share in zip_longest(told, shares[: len(told)])
    )
    return {"text/plain": "\n".join(told), "text/html": drawn}


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    return f'<progress max="1" value="{share:.3f}" aria-label="share that is done"></progress> '
