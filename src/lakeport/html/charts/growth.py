"""How a table grew: rows, size and files by version, and what each version did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from lakeport.html.charts.plot import area, at, bar, frame, grid, label, nice, steps, stretched
from lakeport.html.facts import Change, VersionFacts
from lakeport.html.text import joined, tag
from lakeport.units import count

_SHAPES = {
    Change.APPEND: "M0-5a5 5 0 1 0 .01 0z",  # a disc
    Change.OVERWRITE: "M-4.5-4.5h9v9h-9z",  # a square
    Change.MERGE: "M0-6L6 0 0 6-6 0z",  # a diamond
    Change.DELETE: "M-5.5-4h11L0 5.5z",  # a triangle, down
    Change.OPTIMIZE: "M-5.5 4h11L0-5.5z",  # a triangle, up
    Change.RESTORE: "M0-5.5a5.5 5.5 0 1 0 .01 0zM0-2.5a2.5 2.5 0 1 1-.01 0z",  # a ring
    Change.SCHEMA: "M-1.7-6h3.4v4.3H6v3.4H1.7V6h-3.4V1.7H-6v-3.4h4.3z",  # a plus
    Change.OTHER: "M-5-1.5H5v3H-5z",  # a dash
}
_LANE = 18  # pixels
_MOST_BARS = 240
_WIDEST = 4  # percent of a picture's width, for a bar


def growth(
    versions: Sequence[VersionFacts],
    value: Callable[[VersionFacts], int | None],
    words: str,
    shown: Callable[[float], str] = count,
    height: int = 170,
) -> Markup:
    """A value by version, such as rows, as a line.

    Args:
        versions: oldest first.
        value: gives it; None where it is unknown, which leaves a gap.
        words: what it is.
        shown: a value as text.
        height: of the picture, in pixels.
    """
    known = [(version.number, v) for version in versions if (v := value(version)) is not None]
    if not known:
        return tag("p", f"No version tells its {words}.", class_="none")
    least, most = versions[0].number, versions[-1].number
    top = nice(max(v for _, v in known))
    points = steps((at(number, least, most + 1), v / top) for number, v in known)
    points.append((1, points[-1][1]))
    first, last = known[0], known[-1]
    told = (
        f"{words} by version, from {shown(first[1])} in version {first[0]:,} "
        f"to {shown(last[1])} in version {last[0]:,}"
    )
    box = height - 34
    levels = [(0, ""), (0.5, shown(top / 2)), (1, shown(top))]
    return frame(
        told,
        height,
        grid(14, box, levels, stretched(14, box, area(points, "rows"))),
        _axis(least, most, height - 5),
    )


def over_time(points: Sequence[tuple[float, int]], height: int = 170) -> Markup:
    """Rows over time, as a line; its points are (Unix seconds, rows), oldest first."""
    if len(points) < 2:
        return Markup("")
    least, most = points[0][0], points[-1][0]
    top, box = nice(max(rows for _, rows in points)), height - 34
    drawn = steps((at(moment, least, most), rows / top) for moment, rows in points)
    days = [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M} UTC" for each in (least, most)]
    told = f"rows over time, from {count(points[0][1])} to {count(points[-1][1])}"
    levels = [(0, ""), (0.5, count(top / 2)), (1, count(top))]
    return frame(
        told,
        height,
        grid(14, box, levels, stretched(14, box, area(drawn, "rows"))),
        *(label(day, x, height - 5) for x, day in enumerate(days)),
    )


def changes(versions: Sequence[VersionFacts]) -> Markup:
    """What each version did: a lane, a colour and a shape for each kind of change."""
    kinds = [kind for kind in Change if any(version.change is kind for version in versions)]
    least, most = versions[0].number, versions[-1].number
    drawn = []
    for row, kind in enumerate(kinds):
        own = [version for version in versions if version.change is kind]
        top = row * (_LANE + 16)
        words = f"{kind.value} · {count(len(own))}"
        drawn.append(label(words, 0, top + 12, class_="lane"))
        drawn += [_mark(version, _middle(version.number, least, most), top + 24) for version in own]
    height = len(kinds) * (_LANE + 16) + 18
    told = ", ".join(
        f"{count(sum(v.change is kind for v in versions))} {kind.value}" for kind in kinds
    )
    return frame(f"what each version did: {told}", height, *drawn, _axis(least, most, height - 4))


def file_changes(versions: Sequence[VersionFacts], height: int = 150) -> Markup:
    """Files added above a line, and files removed below it, by version."""
    bars = _bars(versions)
    up = nice(max((added for _, _, added, _ in bars), default=1))
    down = max((removed for _, _, _, removed in bars), default=0)
    span = up + (nice(down) if down else 0)
    box = height - 34
    middle = 14 + box * up / span
    width = 100 / len(bars)
    wide = min(width * 0.8, _WIDEST)
    drawn = []
    for place, (first, last, added, removed) in enumerate(bars):
        name = f"version {first:,}" if first == last else f"versions {first:,} to {last:,}"
        for value, kind in ((added, "added"), (removed, "removed")):
            if not value:
                continue
            tall = max(1.0, box * value / span)
            words = f"{name}: {count(value)} files {kind}"
            y = middle - tall if kind == "added" else middle
            drawn.append(bar(words, (place + 0.5) * width - wide / 2, wide, y, tall, kind))
    zero = tag("line", x1="0", x2="100%", y1=f"{middle:.1f}", y2=f"{middle:.1f}", class_="zero")
    told = [label(f"{count(up)} added", 0, 11)]
    if down:
        told.append(label(f"{count(nice(down))} removed", 0, height - 22))
    added, removed = sum(v.files_added for v in versions), sum(v.files_removed for v in versions)
    return frame(
        f"{count(added)} files added and {count(removed)} removed, by version",
        height,
        *drawn,
        zero,
        *told,
        _axis(versions[0].number, versions[-1].number, height - 5),
    )


def marks() -> Markup:
    """The shapes that `changes` refers to; once in a document."""
    shapes = [tag("path", d=d, id=f"lp-{kind.value}") for kind, d in _SHAPES.items()]
    return tag("svg", tag("defs", *shapes), class_="defs", aria_hidden="true")


def sparkline(points: Sequence[tuple[float, float]], words: str) -> Markup:
    """A small line without axes; its points are (time, value), oldest first."""
    if len(points) < 2:
        return Markup("")
    least, most = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1
    drawn = steps((at(x, least, most), 0.04 + 0.92 * value / top) for x, value in points)
    return tag(
        "svg",
        stretched(0, 24, area(drawn, "rows")),
        class_="spark",
        role="img",
        aria_label=words,
        width="96",
        height="24",
    )


def _mark(version: VersionFacts, x: float, y: float) -> Markup:
    place = f"{x * 100:.2f}%"
    return tag(
        "use",
        tag("title", _words(version)),
        href=f"#lp-{version.change.value}",
        x=place,
        y=f"{y:g}",
        class_=version.change.value,
    )


def _words(version: VersionFacts) -> str:
    when = "" if version.at is None else f", {version.at:%Y-%m-%d %H:%M:%S} UTC"
    rows = "" if version.rows is None else f": {count(version.rows)} rows"
    return f"version {version.number:,} {version.operation}{when}{rows}"


def _bars(versions: Sequence[VersionFacts]) -> list[tuple[int, int, int, int]]:
    """First and last version, files added and removed of each bar; one of several if many."""
    step = -(-len(versions) // _MOST_BARS)
    each = (versions[start : start + step] for start in range(0, len(versions), step))
    return [
        (
            some[0].number,
            some[-1].number,
            sum(version.files_added for version in some),
            sum(version.files_removed for version in some),
        )
        for some in each
    ]


def _axis(least: int, most: int, y: float) -> Markup:
    """The versions below a picture."""
    if least == most:
        return label(f"version {least:,}", 0.5, y)
    step = max(1, (most - least) // 4)
    numbers = dict.fromkeys([*range(least, most - step // 2, step), most])
    return joined(label(f"v{number:,}", _middle(number, least, most), y) for number in numbers)


def _middle(number: int, least: int, most: int) -> float:
    """Where the middle of a version is: each has as much of the width."""
    return at(number + 0.5, least, most + 1)
