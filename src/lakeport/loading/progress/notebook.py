"""Shows what goes on below a notebook's cell."""

from __future__ import annotations

import html
import sys
from typing import Any

from lakeport.loading.progress.words import Moment, lines

__all__ = ["Notebook"]

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
        self._handle.update(_bundle(lines(moment, _WIDTH)), raw=True)

    def clear(self) -> None:
        """Leave an empty output."""
        self._handle.update(_bundle([]), raw=True)


def _bundle(told: list[str]) -> dict[str, str]:
    text = "\n".join(told)
    return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>" if text else ""}
