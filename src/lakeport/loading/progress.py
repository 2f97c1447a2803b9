"""Progress of what goes on: as lines of a log, in a notebook, or handed to a function."""

from __future__ import annotations

import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Protocol, TextIO

from lakeport.host.activity import Activity, running

_UNITS = ("B", "KB", "MB", "GB", "TB")
_MOST = 4  # activities at once

_WIDTH = 100

Hook = Callable[[tuple[Activity, ...]], object]
"""Takes what goes on; called about five times a second, from a thread of its own."""

_VARIABLE = "LAKEPORT_PROGRESS"
_OFF = frozenset({"off", "false", "no", "0"})
_EVERY = 0.2  # seconds
_UNLIMITED = 10_000  # columns


@dataclass(frozen=True, slots=True)
class Moment:
    """What is to be shown at a moment.

    Attributes:
        label: what the whole is called.
        began: when it began, by `time.monotonic`.
        now: the time, by the same clock.
        activities: what goes on.
        note: a further line; empty for none.
    """

    label: str
    began: float
    now: float
    activities: tuple[Activity, ...] = ()
    note: str = ""


def lines(moment: Moment, width: int) -> list[str]:
    """Return a line for each activity: the newest activities, or the label while there is none.

    Args:
        moment: what is to be shown.
        width: columns of a line.
    """
    told = [line(each, moment.now, width) for each in newest(moment)]
    if (more := len(moment.activities) - _MOST) > 0:
        told.append(f"and {more} more")
    if moment.note and len(moment.note) <= width:
        told.append(moment.note)
    return told


def newest(moment: Moment) -> tuple[Activity, ...]:
    """Return the activities to show: those that began last, or the whole while there is none."""
    return (moment.activities or (Activity(moment.label, "", moment.began),))[-_MOST:]


def line(activity: Activity, now: float, width: int) -> str:
    """Format one activity as one line; what does not fit is left out, what matters least first.

    >>> it = Activity("reading", "people", 0.0, total=93_100_000, done=45_200_000, rows=210_000)
    >>> line(it, 2.0, 100)
    'reading people: 45.2 of 93.1 MB (49%), 210,000 rows, 22.6 MB/s, 2 s left'
    >>> line(it, 2.0, 48)
    'reading people: 45.2 of 93.1 MB (49%), 2 s left'
    >>> line(it, 2.0, 30)
    'reading: 45.2 of 93.1 MB (49%)'
    >>> line(Activity("fetching", "jars", 0.0, total=9_600_000, count_total=2), 5.0, 100)
    'fetching 0 of 2 jars: 9.6 MB, 5 s'
    """
    passed = now - activity.began
    parts = dict(zip("brsl", _parts(activity, now), strict=True))
    name = _printable(activity.name)
    if activity.count_total > 0:
        name = f"{activity.count} of {activity.count_total} {name}"
    for left_out in ("", "s", "sr", "srl", "srlb"):
        kept = [part for key, part in parts.items() if part and key not in left_out]
        said = ", ".join(kept) or seconds(passed)
        for head in (f"{activity.what} {name}".rstrip(), activity.what):
            text = f"{head}: {said}" if kept or passed >= 1 else f"{head} ..."
            if len(text) <= width:
                return text
            if left_out in ("", "s"):
                break  # a name is worth more than a rate or a number of rows
    return activity.what[:width]


def seconds(value: float) -> str:
    """Format a duration of seconds for people.

    >>> seconds(4.6), seconds(75), seconds(3700)
    ('5 s', '1 m 15 s', '1 h 1 m')
    """
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


def _parts(activity: Activity, now: float) -> tuple[str, str, str, str]:
    """Bytes, rows, rate, and time left, or passed while nothing is done; empty if not known."""
    passed, share = now - activity.began, activity.share
    percent = "" if share is None else f" ({share:.0%})"
    amount = ""
    if activity.done > 0:
        of = activity.total if activity.done <= activity.total else -1
        amount = _bytes(activity.done, of) + percent
    elif activity.total > 0:
        amount = _bytes(activity.total, -1)
    rows = f"{activity.rows:,} rows" if activity.rows > 0 else ""
    if rows and percent and not amount:
        rows += percent
    known = activity.done > 0 and passed > 0.1
    rate = f"{_bytes(int(activity.done / passed), -1)}/s" if known else ""
    left = activity.left(now)
    if left is not None:
        return amount, rows, rate, f"{seconds(left)} left"
    waiting = amount and not activity.done and not rows and passed >= 1
    return amount, rows, rate, seconds(passed) if waiting else ""


def _bytes(done: int, total: int) -> str:
    """Bytes, of a total if that is known, in one unit.

    >>> _bytes(1_500_000, 93_100_000), _bytes(999, -1), _bytes(0, 2_000)
    ('1.5 of 93.1 MB', '999 B', '0.0 of 2.0 KB')
    """
    largest, power = float(max(done, total)), 0
    while largest >= 1000 and power < len(_UNITS) - 1:
        largest /= 1000
        power += 1
    digits = 0 if power == 0 else 1
    texts = [f"{value / 1000**power:,.{digits}f}" for value in (done, total) if value >= 0]
    return f"{' of '.join(texts)} {_UNITS[power]}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


class Notebook:
    """An output of the running cell, changed in place and empty in the end.

    Args:
        handle: IPython's handle of the output.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @classmethod
    def here(cls) -> Notebook | None:
        """Open an output below the running cell; None outside of a notebook's kernel."""
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
    def hide(self) -> Iterator[None]:
        """Hide the display while the body writes to its terminal."""
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
def show_progress(wanted: bool | Hook | None, label: str) -> Iterator[None]:
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
