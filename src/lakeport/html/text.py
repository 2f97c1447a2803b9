"""Format shares, time spans and timestamps for people; build HTML and SVG elements."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from markupsafe import Markup, escape

from lakeport.units import format_count

_VOID = frozenset({"input", "link", "rect", "line", "path", "circle", "polyline", "polygon"})


def format_signed(value: int | None, sign: str) -> str:
    """Format a number with `sign` in front, but `0` without it; None becomes `?`.

    >>> format_signed(2000, "+"), format_signed(0, "+"), format_signed(None, "+")
    ('+2,000', '0', '?')
    """
    return f"{sign}{value:,}" if value else format_count(value)


def truncate(text: str, longest: int) -> str:
    """Cut a text to at most `longest` characters, the last of which is then an ellipsis.

    >>> truncate("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def format_file_size(value: int) -> str:
    """Format bytes in B, KB, MB, GB or TB of 1,024 each.

    >>> format_file_size(32 << 20), format_file_size(512), format_file_size(3 << 29)
    ('32 MB', '512 B', '1.5 GB')
    """
    told = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if told < 1024:
            return f"{told:g} {unit}"
        told /= 1024
    return f"{told:g} TB"


def format_share(part: float, whole: float) -> str:
    """Format `part / whole` in percent; `< 1 %` for little, `0 %` for a whole of zero.

    >>> format_share(1, 3), format_share(0, 0), format_share(1, 1000)
    ('33 %', '0 %', '< 1 %')
    """
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    return "< 1 %" if percent < 1 else f"{percent:.0f} %"


def format_duration(seconds: float) -> str:
    """Format seconds in ms, s, min, h or d, such as `3 min 20 s`.

    >>> format_duration(0.04), format_duration(12.34), format_duration(200), format_duration(90_000)
    ('40 ms', '12.3 s', '3 min 20 s', '1 d 1 h')
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h" if hours else f"{days:,} d"


def format_age(now: datetime, then: datetime | None) -> str:
    """Format the time from `then` to `now` in its largest unit, such as `2 d`; `?` for None.

    >>> now = datetime(2024, 5, 2, tzinfo=UTC)
    >>> [format_age(now, at) for at in (datetime(2024, 5, 1, tzinfo=UTC), now, None)]
    ['1 d', 'now', '?']
    """
    if then is None:
        return "?"
    seconds = (now - then).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{seconds // length:,.0f} {unit}"
    return "now"


def build_time_tag(value: datetime | None) -> Markup:
    """Build a `<time>` element in UTC, which a script turns into local time; `?` for None."""
    if value is None:
        return Markup("?")
    at = value.astimezone(UTC)
    told = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return build_tag("time", told, datetime=at.isoformat(timespec="seconds"), title=told)


def build_tag(name: str, *inside: object, **attributes: object) -> Markup:
    """Build an HTML element from its name, contents and attributes; escapes all but Markup.

    Attributes that are None are left out; `class_` is `class`, and `_` is `-`.

    >>> build_tag("td", "<b>", class_="n", data_v=3, title=None)
    Markup('<td class="n" data-v="3">&lt;b&gt;</td>')
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if not inside and name in _VOID:
        return Markup(f"<{name}{told}/>")  # noqa: S704 -- names are ours, values are escaped
    return Markup(f"<{name}{told}>{join_markup(inside)}</{name}>")  # noqa: S704


def join_markup(parts: Iterable[object]) -> Markup:
    """Join parts, escaped unless they are markup."""
    return Markup("").join(map(escape, parts))
