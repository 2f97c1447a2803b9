"""Displays of a load's activities: as lines of a log, in a notebook, or by a user's function."""

from __future__ import annotations

import glob
import html
import json
import os
import platform
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from lakeport.host.activity import Activity, current_activities, current_load
from lakeport.host.process import is_running
from lakeport.host.scratch import cache_folder

if TYPE_CHECKING:
    from lakeport.model import EngineReport

_UNITS = ("B", "KB", "MB", "GB", "TB")
_MOST_ACTIVITIES = 4  # shown at once
_NOTEBOOK_COLUMNS = 100

Hook = Callable[[tuple[Activity, ...]], object]
"""Takes the activities that go on; called about five times a second, in a thread of its own."""

_VARIABLE = "LAKEPORT_PROGRESS"
_OFF = frozenset({"off", "false", "no", "0"})
_ON = frozenset({"on", "true", "yes", "1"})
_INTERVAL_SECONDS = 0.2
_UNLIMITED_COLUMNS = 10_000
_SHARE_SECONDS = 1.0
_SILENT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ProgressState:
    """Progress of a command at one time, for a display to draw; times by `time.monotonic`.

    The label is shown while there is no activity; the note is a further line, or empty.
    """

    label: str
    began: float
    now: float
    activities: tuple[Activity, ...] = ()
    note: str = ""


def format_lines(state: ProgressState, width: int) -> list[str]:
    """Format the four newest activities, the number of others, and the note, as lines.

    Each has at most `width` columns; a longer note is left out.
    """
    texts = [format_line(each, state.now, width) for each in newest_activities(state)]
    if (more := len(state.activities) - _MOST_ACTIVITIES) > 0:
        texts.append(f"and {more} more")
    if state.note and len(state.note) <= width:
        texts.append(state.note)
    return texts


def newest_activities(state: ProgressState) -> tuple[Activity, ...]:
    """Return the four activities that began last; one named by the label while there is none."""
    return (state.activities or (Activity(state.label, "", state.began),))[-_MOST_ACTIVITIES:]


def format_line(activity: Activity, now: float, width: int) -> str:
    """Format an activity in at most `width` columns; leave out details that don't fit.

    >>> it = Activity("reading", "people", 0.0, total=93_100_000, done=45_200_000, rows=210_000)
    >>> format_line(it, 2.0, 100)
    'reading people: 45.2 of 93.1 MB (49%), 210,000 rows, 22.6 MB/s, 2 s left'
    >>> format_line(it, 2.0, 48)
    'reading people: 45.2 of 93.1 MB (49%), 2 s left'
    >>> format_line(it, 2.0, 30)
    'reading: 45.2 of 93.1 MB (49%)'
    >>> format_line(Activity("fetching", "jars", 0.0, total=9_600_000, count_total=2), 5.0, 100)
    'fetching 0 of 2 jars: 9.6 MB, 5 s'
    """
    passed = now - activity.began
    parts = dict(zip("brsl", _format_parts(activity, now), strict=True))
    name = _replace_unprintable(activity.name)
    if activity.count_total > 0:
        name = f"{activity.count} of {activity.count_total} {name}"
    for left_out in ("", "s", "sr", "srl", "srlb"):
        kept = [part for key, part in parts.items() if part and key not in left_out]
        details = ", ".join(kept) or format_duration(passed)
        for head in (f"{activity.what} {name}".rstrip(), activity.what):
            text = f"{head}: {details}" if kept or passed >= 1 else f"{head} ..."
            if len(text) <= width:
                return text
            if left_out in ("", "s"):
                break  # a name is worth more than a rate or a number of rows
    return activity.what[:width]


def format_duration(value: float) -> str:
    """Format seconds as a duration for people, such as `1 m 15 s`.

    >>> format_duration(4.6), format_duration(75), format_duration(3700)
    ('5 s', '1 m 15 s', '1 h 1 m')
    """
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


def _format_parts(activity: Activity, now: float) -> tuple[str, str, str, str]:
    """Format an activity's bytes, rows, bytes per second, and time left; "" if unknown."""
    passed, share = now - activity.began, activity.share
    percent = "" if share is None else f" ({share:.0%})"
    amount = ""
    if activity.done > 0:
        of = activity.total if activity.done <= activity.total else -1
        amount = _format_bytes(activity.done, of) + percent
    elif activity.total > 0:
        amount = _format_bytes(activity.total, -1)
    rows = f"{activity.rows:,} rows" if activity.rows > 0 else ""
    if rows and percent and not amount:
        rows += percent
    known = activity.done > 0 and passed > 0.1
    rate = f"{_format_bytes(int(activity.done / passed), -1)}/s" if known else ""
    left = activity.seconds_left(now)
    if left is not None:
        return amount, rows, rate, f"{format_duration(left)} left"
    waiting = amount and not activity.done and not rows and passed >= 1
    return amount, rows, rate, format_duration(passed) if waiting else ""


def _format_bytes(done: int, total: int) -> str:
    """Format bytes done, and of how many (left out if negative), in one unit such as MB.

    >>> _format_bytes(1_500_000, 93_100_000), _format_bytes(999, -1), _format_bytes(0, 2_000)
    ('1.5 of 93.1 MB', '999 B', '0.0 of 2.0 KB')
    """
    largest, power = float(max(done, total)), 0
    while largest >= 1000 and power < len(_UNITS) - 1:
        largest /= 1000
        power += 1
    digits = 0 if power == 0 else 1
    texts = [f"{value / 1000**power:,.{digits}f}" for value in (done, total) if value >= 0]
    return f"{' of '.join(texts)} {_UNITS[power]}"


def _replace_unprintable(text: str) -> str:
    """Return the text with `?` in place of unprintable characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Notebook:
    """Progress display in a Jupyter notebook, below the running cell; updated in place."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @classmethod
    def here(cls) -> Notebook | None:
        """Open a display below the running cell; return None outside of a Jupyter kernel."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is None or not hasattr(shell, "kernel"):
            return None
        display = sys.modules["IPython.display"].display  # a kernel has loaded it

        return cls(display(_to_mime_bundle([]), raw=True, display_id=True))

    def draw(self, state: ProgressState) -> None:
        """Replace what is shown by the new state."""
        shares = [each.share for each in newest_activities(state)]
        lines = format_lines(state, _NOTEBOOK_COLUMNS)
        self._handle.update(_to_mime_bundle(lines, shares), raw=True)

    def clear(self) -> None:
        """Empty the output."""
        self._handle.update(_to_mime_bundle([]), raw=True)


def _to_mime_bundle(lines: list[str], shares: Sequence[float | None] = ()) -> dict[str, str]:
    """Format lines as text and HTML; a share from 0 to 1 adds a progress bar to its line."""
    drawn = "".join(
        f"<div>{_bar_html(share)}{html.escape(text)}</div>"
        for text, share in zip_longest(lines, shares[: len(lines)])
    )
    return {"text/plain": "\n".join(lines), "text/html": drawn}


def _bar_html(share: float | None) -> str:
    """Return the HTML of a progress bar for a share from 0 to 1; empty for None."""
    if share is None:
        return ""
    return f'<progress max="1" value="{share:.3f}" aria-label="share that is done"></progress> '


class Display(Protocol):
    """Shows progress: a terminal, a notebook, a log or a function."""

    def draw(self, state: ProgressState) -> None:
        """Draw the state; called again and again."""

    def clear(self) -> None:
        """Remove what is drawn, so that other text can be written; `draw` may follow."""


class Progress:
    """Background thread that draws all activities, or `label` while there are none.

    The label, and the note, which is a further line or empty, may be changed meanwhile.
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
        """Start to draw; return this object."""
        self._thread.start()
        return self

    def end(self) -> None:
        """Stop drawing, clear the display, and wait for the thread; a second call does no harm."""
        self._over.set()
        with self._lock:
            self.display.clear()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Clear the display and don't draw while the body writes to the terminal."""
        with self._lock:
            self.display.clear()
            yield

    def _run(self) -> None:
        """Draw the progress every 0.2 seconds until `end` is called or the display fails."""
        while True:
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    now = time.monotonic()
                    self.display.draw(
                        ProgressState(self.label, self._began, now, current_activities(), self.note)
                    )
                except Exception:  # whatever is wrong with the display, the load goes on
                    return
            self._over.wait(_INTERVAL_SECONDS)


class _HookDisplay:
    """Display that passes the running activities to a user's function."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def draw(self, state: ProgressState) -> None:
        """Call the function, if there is an activity."""
        if state.activities:
            self._hook(state.activities)

    def clear(self) -> None:
        """Do nothing."""


class Lines:
    """Progress display for logs and pipes: plain lines, every 5 to 60 seconds.

    `rare`: every one to five minutes, for logs that nobody watches.
    """

    _FIRST_SECONDS = 0.4  # shorter commands write nothing
    _INTERVALS = ((60.0, 5.0), (600.0, 15.0), (float("inf"), 60.0))
    _RARE_FIRST_SECONDS = 60.0
    _RARE_INTERVALS = ((600.0, 60.0), (float("inf"), 300.0))

    def __init__(self, out: TextIO, *, rare: bool = False) -> None:
        self._out = out
        self._first = self._RARE_FIRST_SECONDS if rare else self._FIRST_SECONDS
        self._intervals = self._RARE_INTERVALS if rare else self._INTERVALS
        self._rare = rare
        self._next = 0.0
        self._shown: set[tuple[str, str]] = set()

    def draw(self, state: ProgressState) -> None:
        """Write new activities at once, unless `rare`, and all at intervals; nothing at first."""
        now, activities = state.now, state.activities
        passed = now - state.began
        if passed < self._first:
            return
        due = now >= self._next
        fresh = [each for each in activities if (each.what, each.name) not in self._shown]
        if not due and (self._rare or not fresh):
            return
        if due:
            interval = next(every for end, every in self._intervals if passed < end)
            self._next = now + interval
        self._shown.update((each.what, each.name) for each in activities)
        shown = activities if due else tuple(fresh)
        texts = format_lines(replace(state, activities=shown, note=""), _UNLIMITED_COLUMNS)
        self._out.write("".join(f"{text}\n" for text in texts))
        self._out.flush()

    def clear(self) -> None:
        """Do nothing: lines that are written stay."""


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """A load of this user on this machine that goes on, as `SharedProgress` tells of it.

    Attributes:
        process: id of its process.
        run_id: id or name of its run.
        target: URI of the lake.
        started: when it began, UTC.
        load: its name in the lake file, if several loads run; else empty.
        engine: the engine's name and version, such as `Spark 4.2.0`.
        ui: URL of Spark's UI; empty without one.
        lines: text of each activity, with the share that is done, from 0 to 1, or None.
    """

    process: int
    run_id: str
    target: str
    started: datetime
    load: str = ""
    engine: str = ""
    ui: str = ""
    lines: Sequence[tuple[str, float | None]] = ()


class SharedProgress:
    """Display that writes a load's progress to a file, for the pages of this user's `lakeport ui`.

    Once a second, after the first one, into the cache folder; removed at the end. The files of
    killed loads are removed by who lists them.
    """

    def __init__(self, run_id: str, target: str, report_engine: Callable[[], EngineReport]) -> None:
        name = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.json"
        self._file = _running_folder() / name
        self._load = RunningLoad(os.getpid(), run_id, target, datetime.now(UTC), current_load())
        self._report_engine = report_engine
        self._next = time.monotonic() + _SHARE_SECONDS

    def draw(self, state: ProgressState) -> None:
        """Write the file, if a second has passed; OSError ends it."""
        if state.now < self._next:
            return
        self._next = state.now + _SHARE_SECONDS
        own = tuple(each for each in state.activities if each.load == self._load.load)
        state = replace(state, activities=own)
        shares = [each.share for each in newest_activities(state)]
        texts = format_lines(state, _UNLIMITED_COLUMNS)
        engine = self._report_engine()
        load = replace(
            self._load,
            engine=engine.title,
            ui=engine.ui,
            lines=tuple(zip_longest(texts, shares[: len(texts)])),
        )
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._file.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(load), default=datetime.isoformat), "utf-8")
        temporary.replace(self._file)

    def clear(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def list_running_loads() -> list[RunningLoad]:
    """List the loads of this user on this machine that go on, oldest first.

    A load that has said nothing for 15 seconds is left out; the files of killed ones are removed.
    """
    import msgspec  # not needed while a command starts

    found = []
    for file in _running_folder().glob(f"{glob.escape(platform.node())}-*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            fresh = time.time() - file.stat().st_mtime < _SILENT_SECONDS
            load = msgspec.json.decode(file.read_bytes(), type=RunningLoad)
            if not is_running(load.process):
                file.unlink()
            elif fresh:
                found.append(load)
    return sorted(found, key=lambda load: load.started)


def _running_folder() -> Path:
    """Return the folder with the files of this user's running loads, which may not exist yet."""
    return cache_folder() / "running"


@contextmanager
def share_progress(
    run_id: str, target: str, report_engine: Callable[[], EngineReport]
) -> Iterator[None]:
    """Tell this user's `lakeport ui` of a load's progress during the body, unless switched off.

    Args:
        run_id: id or name of its run.
        target: URI of the lake.
        report_engine: returns the engine's report; never waits.
    """
    if is_switched_off():
        yield
        return
    progress = Progress(SharedProgress(run_id, target, report_engine), "landing").begin()
    try:
        yield
    finally:
        progress.end()


def is_switched_off() -> bool:
    """Whether `LAKEPORT_PROGRESS` is `off`, `false`, `no` or `0`."""
    return os.environ.get(_VARIABLE, "").strip().lower() in _OFF


def is_switched_on(variable: str) -> bool:
    """Whether an environment variable is `on`, `true`, `yes` or `1`."""
    return os.environ.get(variable, "").strip().lower() in _ON


@contextmanager
def show_progress(wanted: bool | Hook | None, label: str) -> Iterator[None]:
    """Show this process's activities during the body; show `label` while there are none.

    `wanted` is a function that takes the activities; or whether to show them; None: in notebooks,
    unless they are switched off.
    """
    display = _choose_display(wanted)
    if display is None:
        yield
        return
    progress = Progress(display, label).begin()
    try:
        yield
    finally:
        progress.end()


def _choose_display(wanted: bool | Hook | None) -> Display | None:
    """Return the display: function, notebook, or lines on stderr; None to show nothing."""
    if wanted is False:
        return None
    if callable(wanted):
        return _HookDisplay(wanted)
    if wanted is None and is_switched_off():
        return None
    found = Notebook.here()
    if found is None and wanted:
        return Lines(sys.stderr)
    return found
