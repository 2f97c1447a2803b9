"""Looks at what goes on, time and again, and has a display show it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TextIO

from lakeport.host.activity import Activity, running
from lakeport.loading.progress.notebook import Notebook
from lakeport.loading.progress.words import Moment, lines

Hook = Callable[[tuple[Activity, ...]], object]
"""Takes what goes on; called about five times a second, from a thread of its own."""

_VARIABLE = "LAKEPORT_PROGRESS"
_OFF = frozenset({"off", "false", "no", "0"})
_EVERY = 0.2  # seconds
_UNLIMITED = 10_000  # columns


class Display(Protocol):
    """Shows what goes on."""

    def draw(self, moment: Moment) -> None:
        """Show it; called again and again."""

    def clear(self) -> None:
        """Leave nothing that would stand in the way of other text; `draw` may follow."""


class Progress:
    """A display that is kept up to date by a thread, from `begin` to `end`.

    Args:
        display: shows it.
        label: what the whole is called.

    Attributes:
        display: the same.
        label: the same, which may become another one.
        note: a further line; empty for none.
    """

    def __init__(self, display: Display, label: str) -> None:
        self.label = label
        self.note = ""
        self.display = display
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakeport-progress", daemon=True)

    def begin(self) -> Progress:
        """Show what goes on from now on."""
        self._thread.start()
        return self

    def end(self) -> None:
        """Show nothing more; fine if that was so."""
        self._over.set()
        with self._lock:
            self.display.clear()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Show nothing while the body writes where the display is."""
        with self._lock:
            self.display.clear()
            yield

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    now = time.monotonic()
                    self.display.draw(Moment(self.label, self._began, now, running(), self.note))
                except Exception:  # whatever is wrong with the display, the load goes on
                    return
            self._over.wait(_EVERY)


class _Hooked:
    """A user's function as a display."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def draw(self, moment: Moment) -> None:
        """Hand it what goes on."""
        if moment.activities:
            self._hook(moment.activities)

    def clear(self) -> None:
        """Do nothing."""


class Lines:
    """Plain lines at intervals that become longer, for logs and pipes.

    Args:
        out: takes the lines.
    """

    _FIRST = 0.4  # seconds; what is over by then needs no word
    _INTERVALS = ((60.0, 5.0), (600.0, 15.0), (float("inf"), 60.0))

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next = 0.0
        self._said: set[tuple[str, str]] = set()

    def draw(self, moment: Moment) -> None:
        """Write a line for each thing that goes on: at once if it is new, then at intervals."""
        now, activities = moment.now, moment.activities
        passed = now - moment.began
        if passed < self._FIRST:
            return
        due = now >= self._next
        fresh = [each for each in activities if (each.what, each.name) not in self._said]
        if not due and not fresh:
            return
        if due:
            interval = next(every for end, every in self._INTERVALS if passed < end)
            self._next = now + interval
        self._said.update((each.what, each.name) for each in activities)
        told = activities if due else tuple(fresh)
        said = lines(replace(moment, activities=told, note=""), _UNLIMITED)
        self._out.write("".join(f"{text}\n" for text in said))
        self._out.flush()

    def clear(self) -> None:
        """Do nothing: what is written stays."""


def switched_off() -> bool:
    """Whether the environment says that no progress is to be shown: `LAKEPORT_PROGRESS=off`."""
    return os.environ.get(_VARIABLE, "").strip().lower() in _OFF


@contextmanager
def shown(wanted: bool | Hook | None, label: str) -> Iterator[None]:
    """Show what goes on while the body runs.

    Args:
        wanted: a function that takes what goes on; or whether to show it. None: in notebooks.
        label: what the whole is called.
    """
    display = _display(wanted)
    if display is None:
        yield
        return
    progress = Progress(display, label).begin()
    try:
        yield
    finally:
        progress.end()


def _display(wanted: bool | Hook | None) -> Display | None:
    if wanted is False:
        return None
    if callable(wanted):
        return _Hooked(wanted)
    if wanted is None and switched_off():
        return None
    found = Notebook.here()
    if found is None and wanted:
        return Lines(sys.stderr)
    return found
