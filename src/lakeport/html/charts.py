"""Draw pictures as inline SVG: lines, bars, histograms and timelines.

`words` describe a picture to screen readers. Heights are in pixels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup

from lakeport.html.text import build_tag, format_duration, format_file_size, join_markup
from lakeport.model import Span
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from lakeport.lake.records import VersionFacts

Ticks = Sequence[tuple[float, str]]
"""Labels below a picture, each at a share of its width, from 0 to 1."""

_WIDTH, _DEPTH = 1000, 100
_TOP, _BOTTOM = 14, 20  # pixels above and below the box of a picture
_STEPS = (1, 2, 2.5, 5, 10)

Bin = tuple[int, int, int]
"""Least and most bytes of a bin, and its files."""

_STAGES = (
    "opening",
    "starting Spark",
    "reading",
    "checking",
    "planning",
    "writing",
    "parsing",
    "encoding",
    "uploading",
    "committing",
    "optimizing",
)
"""Stages with a colour of their own, in the order in which data pass them."""


def draw_line(
    points: Sequence[tuple[float, float]],
    span: tuple[float, float],
    words: str,
    ticks: Ticks,
    format_value: Callable[[float], str] = format_count,
    height: int = 170,
    class_: str = "rows",
) -> Markup:
    """Draw a line through points, with the area below it, on a grid that begins at zero.

    Args:
        points: x and y, from left to right.
        span: x at the left edge and at the right one.
        class_: gives the line its colour.
    """
    top, box = round_up(max(y for _, y in points)), height - _TOP - _BOTTOM
    drawn = _build_area([(share_between(x, *span), y / top) for x, y in points], class_)
    inside = _build_stretched_box(_TOP, box, drawn)
    return _build_picture(
        words,
        height,
        _build_grid(box, top, format_value, inside),
        *_build_tick_labels(ticks, height),
    )


def draw_bars(
    columns: Sequence[Sequence[tuple[str, int, str]]],
    words: str,
    ticks: Ticks,
    height: int,
    band: tuple[float, float, str] | None = None,
) -> Markup:
    """Draw columns of equal width, each a stack of bars.

    Args:
        columns: words, value and class of each bar, the lowest one first.
        band: columns to highlight: first edge, last edge, and a tooltip.
    """
    box, width = height - _TOP - _BOTTOM, 100 / len(columns)
    top = round_up(max(sum(value for _, value, _ in column) for column in columns))
    drawn = []
    if band is not None:
        start, end = (edge * width for edge in band[:2])
        drawn.append(_build_bar(band[2], start, max(end - start, 0.5), _TOP, box, "band"))
    for place, column in enumerate(columns):
        ground = float(_TOP + box)
        for said, value, class_ in column:
            tall = max(2.0, box * value / top)
            ground -= tall
            drawn.append(_build_bar(said, (place + 0.1) * width, width * 0.8, ground, tall, class_))
    return _build_picture(
        words,
        height,
        _build_grid(box, top, format_count, *drawn),
        *_build_tick_labels(ticks, height),
    )


def share_between(value: float, least: float, most: float) -> float:
    """Return where a value lies between two others, from 0 to 1; 0.5 if they are equal."""
    return (value - least) / (most - least) if most > least else 0.5


def round_up(most: float) -> float:
    """Round up to a number such as 1, 2, 2.5 or 5 times a power of ten.

    >>> round_up(337), round_up(1000), round_up(0)
    (500, 1000, 1)
    """
    if most < 1e-9:
        return 1
    power = 10.0 ** math.floor(math.log10(most))
    found = next(step * power for step in _STEPS if step * power >= most * 0.999999)
    return int(found) if found >= 1 and found == int(found) else found


def build_steps(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a line that keeps each value until the next point.

    >>> build_steps([(0, 1), (0.5, 3)])
    [(0, 1), (0.5, 1), (0.5, 3)]
    """
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return corners


def draw_growth(
    versions: Sequence[VersionFacts],
    value: Callable[[VersionFacts], int | None],
    words: str,
    format_value: Callable[[float], str] = format_count,
    height: int = 170,
) -> Markup:
    """Draw a value by version, such as rows, as a stepped line; a sentence if none is known.

    Args:
        versions: oldest first.
        value: returns a version's value; None if unknown, which is passed over.
        words: the value's name.
    """
    known = [(version.number, v) for version in versions if (v := value(version)) is not None]
    if not known:
        return build_tag("p", f"No version tells its {words}.", class_="none")
    least, end = versions[0].number, versions[-1].number + 1
    first, last = known[0], known[-1]
    told = (
        f"{words} by version, from {format_value(first[1])} in version {first[0]:,} "
        f"to {format_value(last[1])} in version {last[0]:,}"
    )
    step = max(1, (end - 1 - least) // 4)
    numbers = dict.fromkeys([*range(least, end - 1 - step // 2, step), end - 1])
    ticks = [(share_between(number + 0.5, least, end), f"v{number:,}") for number in numbers]
    points = [*build_steps(known), (float(end), float(last[1]))]
    return draw_line(points, (least, end), told, ticks, format_value, height)


def draw_rows_over_time(points: Sequence[tuple[float, int]], height: int = 170) -> Markup:
    """Draw rows over time, from (Unix seconds, rows), oldest first; empty for one point."""
    if len(points) < 2:
        return Markup("")
    span = points[0][0], points[-1][0]
    days = [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M} UTC" for each in span]
    told = f"rows over time, from {format_count(points[0][1])} to {format_count(points[-1][1])}"
    return draw_line(build_steps(points), span, told, list(enumerate(days)), height=height)


def draw_rate(
    points: Sequence[tuple[float, float]], words: str, format_value: Callable[[float], str]
) -> Markup:
    """Draw amounts a second over time, from running totals; empty for fewer than two points.

    Args:
        points: seconds since the start, and the running total.
        words: the name of the amounts, such as `rows`.
    """
    rates = [
        (edge, max(0.0, (done - before) / (end - start)))
        for (start, before), (end, done) in pairwise(points)
        if end > start
        for edge in (start, end)
    ]
    if not rates:
        return Markup("")
    most = points[-1][0]
    peak = format_value(max(value for _, value in rates))
    told = f"{words} a second over {format_duration(most)}, {peak} at most"
    return draw_line(rates, (0, most), told, _build_time_ticks(most), format_value, 120, "rate")


def draw_sparkline(points: Sequence[tuple[float, float]], words: str) -> Markup:
    """Draw a small line without axes from (time, value), oldest first; empty for one point."""
    if len(points) < 2:
        return Markup("")
    least, most = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1
    drawn = build_steps(
        (share_between(x, least, most), 0.04 + 0.92 * value / top) for x, value in points
    )
    return build_tag(
        "svg",
        _build_stretched_box(0, 24, _build_area(drawn, "rows")),
        class_="spark",
        role="img",
        aria_label=words,
        width="96",
        height="24",
    )


_LEAST, _MOST = 10, 33  # powers of two: below 1 KB, beyond 8 GB


def count_size_bins(sizes: Sequence[int]) -> list[Bin]:
    """Count files by size, in bins that double, from the smallest file's to the largest one's.

    >>> count_size_bins([100, 1500, 1600, 5000])
    [(0, 1024, 1), (1024, 2048, 2), (2048, 4096, 0), (4096, 8192, 1)]
    """
    found = Counter(map(_find_size_power, sizes))
    powers = range(min(found), max(found) + 1) if found else ()
    return [(0 if p == _LEAST else 1 << (p - 1), 1 << p, found[p]) for p in powers]


def draw_histogram(sizes: Sequence[int], small: int, target: int) -> Markup:
    """Draw the number of files by size in bytes, with a band of good sizes; a sentence for none.

    Args:
        small: below this a file counts as small.
        target: the size that files are to have.
    """
    bins = count_size_bins(sizes)
    if not bins:
        return build_tag("p", "The table has no files.", class_="none")
    by_power = {_find_size_power(most - 1): (least, most, files) for least, most, files in bins}
    # The band is shown, wherever the files are.
    first = min(*by_power, _find_size_power(small) - 1)
    columns: list[list[tuple[str, int, str]]] = []
    for power in range(first, max(*by_power, _find_size_power(target)) + 1):
        least, most, files = by_power.get(power, (0, 0, 0))
        said = f"{format_file_size(least)} to {format_file_size(most)}: {pluralize(files, 'file')}"
        columns.append([(said, files, "small-file" if most <= small else "file")] if files else [])
    few = sum(each < small for each in sizes)
    smaller = f"{format_count(few)} smaller than {format_file_size(small)}"
    told = f"{pluralize(len(sizes), 'file')} by size; {smaller}"
    edges = [max(0.0, math.log2(max(size, 1)) - first + 1) for size in (small, target)]
    right = f"right sizes: {format_file_size(small)} to {format_file_size(target)}"
    ticks = [
        (place / len(columns), format_file_size(1 << power))
        for place, power in enumerate(range(first - 1, first - 1 + len(columns)))
        if power % 5 == 0
    ]
    return draw_bars(columns, told, ticks, 190, (edges[0], edges[1], right))


def _find_size_power(value: int) -> int:
    """Return the exponent of the smallest power of two above a size: 10 (1 KB) to 33 (8 GB)."""
    return min(max(value.bit_length(), _LEAST), _MOST)


_BAR, _GAP, _HEAD = 12, 3, 18  # pixels


def order_stages(spans: Sequence[Span]) -> list[str]:
    """Return the stages of some spans, in the order in which data pass them."""
    found = dict.fromkeys(span.stage for span in spans)
    known = [stage for stage in _STAGES if stage in found]
    return known + [stage for stage in found if stage not in _STAGES]


def get_stage_class(stage: str) -> str:
    """Return the CSS class for a stage's colour; `stage-other` for an unknown stage."""
    return f"stage-{_STAGES.index(stage)}" if stage in _STAGES else "stage-other"


def draw_timeline(spans: Sequence[Span], seconds: float) -> Markup:
    """Draw a run of some seconds as a timeline: a lane for each stream, a bar for each span."""
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.stream, []).append(span)
    most = max([seconds, *(span.end for span in spans)]) or 1.0
    drawn: list[Markup] = []
    top = 0
    for stream, own in lanes.items():
        drawn.append(_build_label(stream or "the whole run", 0, top + 13, "lane"))
        top += _HEAD
        for stage in order_stages(own):
            for span in (span for span in own if span.stage == stage):
                took = span.end - span.start
                words = f"{stage}: {format_duration(took)}, from {format_duration(span.start)} on"
                x, width = 100 * share_between(span.start, 0, most), max(100 * took / most, 0.15)
                drawn.append(_build_bar(words, x, width, top, _BAR, get_stage_class(stage)))
            top += _BAR + _GAP
        top += 6
    told = f"timeline of {pluralize(len(lanes), 'lane')} over {format_duration(most)}"
    return _build_picture(
        told, top + 18, *drawn, *_build_tick_labels(_build_time_ticks(most), top + 19)
    )


def _build_time_ticks(most: float) -> Ticks:
    """Return five ticks from 0 to `most` seconds."""
    return [(part / 4, format_duration(most * part / 4) if part else "0") for part in range(5)]


def _build_picture(words: str, height: float, *parts: object) -> Markup:
    """Build an SVG picture of these parts, as wide as the page."""
    return build_tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        role="img",
        aria_label=words,
        width="100%",
        height=f"{height:g}",
    )


def _build_stretched_box(top: float, height: float, *parts: object) -> Markup:
    """Build an SVG box of 1000 by 100 units that fills the picture's width."""
    return build_tag(
        "svg",
        *parts,
        x="0",
        y=f"{top:g}",
        width="100%",
        height=f"{height:g}",
        viewBox=f"0 0 {_WIDTH} {_DEPTH}",
        preserveAspectRatio="none",
    )


def _build_label(text: object, x: float, y: float, class_: str = "tick") -> Markup:
    """Build a text at `x`, a share of the width, aligned so that it stays within the picture."""
    side = "start" if x < 0.05 else "end" if x > 0.95 else "middle"
    return build_tag("text", text, x=f"{x * 100:.2f}%", y=f"{y:g}", text_anchor=side, class_=class_)


def _build_tick_labels(ticks: Ticks, height: float) -> list[Markup]:
    """Build the labels below a picture of this height."""
    return [_build_label(text, x, height - 5) for x, text in ticks]


def _build_grid(
    height: float, top: float, format_value: Callable[[float], str], *drawn: object
) -> Markup:
    """Build the drawing on a grid of three lines: zero, half of `top`, and `top`."""
    lines, words = [], []
    for share in (0, 0.5, 1):
        y = _TOP + height * (1 - share)
        lines.append(build_tag("line", x1="0", x2="100%", y1=f"{y:g}", y2=f"{y:g}", class_="rule"))
        if share == 1 or (share and top * share == int(top * share)):  # there are no 2.5 files
            words.append(_build_label(format_value(top * share), 0, y - 3))
    return join_markup([*lines, *drawn, *words])


def _build_bar(words: str, x: float, width: float, y: float, height: float, class_: str) -> Markup:
    """Build a bar with a tooltip; `x` and `width` are percent, `y` and `height` pixels."""
    return build_tag(
        "rect",
        build_tag("title", words),
        x=f"{x:.3f}%",
        width=f"{width:.3f}%",
        y=f"{y:.1f}",
        height=f"{height:.1f}",
        class_=class_,
    )


def _build_area(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Build a line through points from 0 to 1, with the area below it filled."""
    drawn = [f"{x * _WIDTH:.1f},{(1 - y) * _DEPTH:.2f}" for x, y in points]
    first, last = (each.partition(",")[0] for each in (drawn[0], drawn[-1]))
    below = f"M{first},{_DEPTH} L{' '.join(drawn)} L{last},{_DEPTH} Z"
    return build_tag("path", d=below, class_=f"area {class_}") + build_tag(
        "polyline", points=" ".join(drawn), class_=f"line {class_}"
    )
