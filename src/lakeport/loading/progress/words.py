"""An activity in words, in as many columns as there are."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.host.activity import Activity

_UNITS = ("B", "KB", "MB", "GB", "TB")
_MOST = 4  # activities at once


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
    """What goes on, a line each: the newest activities, or the label while there is none.

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
    """The activities that are shown: those that began last, or the whole while there is none."""
    return (moment.activities or (Activity(moment.label, "", moment.began),))[-_MOST:]


def line(activity: Activity, now: float, width: int) -> str:
    """One activity on one line; what does not fit is left out, what matters least first.

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
    """A time that people wait.

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
