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
    x_range: tuple[float, float],
    label: str,
    ticks: Ticks,
    format_value: Callable[[float], str] = format_count,
    height: int = 170,
    class_: str = "rows",
) -> Markup:
    """Draw an SVG line chart with the area below filled; the y axis begins at zero.

    Args:
        points: x and y, from left to right.
        x_range: x at the left edge and at the right one.
        class_: gives the line its colour.
    """
    top, box = round_up(max(y for _, y in points)), height - _TOP - _BOTTOM
    drawn = _build_area([(share_between(x, *x_range), y / top) for x, y in points], class_)
    inside = _build_stretched_box(_TOP, box, drawn)
    return _build_picture(
        label,
        height,
        _build_grid(box, top, format_value, inside),
        *_build_tick_labels(ticks, height),
    )


def draw_bars(
    columns: Sequence[Sequence[tuple[str, int, str]]],
    label: str,
    ticks: Ticks,
    height: int,
    highlight: tuple[float, float, str] | None = None,
) -> Markup:
    """Draw an SVG bar chart of stacked bars; `highlight` marks a range of columns.

    Args:
        columns: words, value and class of each bar, the lowest one first.
        highlight: columns to highlight: first edge, last edge, and a tooltip.
    """
    box, width = height - _TOP - _BOTTOM, 100 / len(columns)
    top = round_up(max(sum(value for _, value, _ in column) for column in columns))
    drawn = []
    if highlight is not None:
        start, end = (edge * width for edge in highlight[:2])
        drawn.append(_build_bar(highlight[2], start, max(end - start, 0.5), _TOP, box, "band"))
    for place, column in enumerate(columns):
        ground = float(_TOP + box)
        for said, value, class_ in column:
            tall = max(2.0, box * value / top)
            ground -= tall
            drawn.append(_build_bar(said, (place + 0.1) * width, width * 0.8, ground, tall, class_))
    return _build_picture(
        label,
        height,
        _build_grid(box, top, format_count, *drawn),
        *_build_tick_labels(ticks, height),
        class_="chart bars",
    )


def share_between(value: float, least: float, most: float) -> float:
    """Return where a value lies between two others, from 0 to 1; 0.5 if they are equal."""
    return (value - least) / (most - least) if most > least else 0.5


def round_up(value: float) -> float:
    """Round up to 1, 2, 2.5, 5 or similar, times a power of ten: the top of a chart's axis.

    >>> round_up(337), round_up(1000), round_up(0)
    (500, 1000, 1)
    """
    if value < 1e-9:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    found = next(step * power for step in _STEPS if step * power >= value * 0.999999)
    return int(found) if found >= 1 and found == int(found) else found


def build_steps(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a step line through points: each value holds until the next point.

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
    value_name: str,
    format_value: Callable[[float], str] = format_count,
    height: int = 170,
) -> Markup:
    """Draw a number per table version, such as rows, as a step chart; a sentence if all unknown.

    Args:
        versions: oldest first.
        value: returns a version's value; None if unknown, which is passed over.
        value_name: the value's name.
    """
    known = [(version.number, v) for version in versions if (v := value(version)) is not None]
    if not known:
        return build_tag("p", f"No version tells its {value_name}.", class_="none")
    least, end = versions[0].number, versions[-1].number + 1
    first, last = known[0], known[-1]
    told = (
        f"{value_name} by version, from {format_value(first[1])} in version {first[0]:,} "
        f"to {format_value(last[1])} in version {last[0]:,}"
    )
    step = max(1, (end - 1 - least) // 4)
    numbers = dict.fromkeys([*range(least, end - 1 - step // 2, step), end - 1])
    ticks = [(share_between(number + 0.5, least, end), f"v{number:,}") for number in numbers]
    points = [*build_steps(known), (float(end), float(last[1]))]
    return draw_line(points, (least, end), told, ticks, format_value, height)


def draw_rows_over_time(points: Sequence[tuple[float, int]], height: int = 170) -> Markup:
    """Draw row counts over time as a step chart: (Unix seconds, rows). Empty for one point."""
    if len(points) < 2:
        return Markup("")
    span = points[0][0], points[-1][0]
    days = [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d %H:%M} UTC" for each in span]
    told = f"rows over time, from {format_count(points[0][1])} to {format_count(points[-1][1])}"
    return draw_line(build_steps(points), span, told, list(enumerate(days)), height=height)


def draw_rate(
    points: Sequence[tuple[float, float]], amount_name: str, format_value: Callable[[float], str]
) -> Markup:
    """Draw a rate per second over time, from running totals; empty for fewer than two points.

    Args:
        points: seconds since the start, and the running total.
        amount_name: the name of the amounts, such as `rows`.
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
    told = f"{amount_name} a second over {format_duration(most)}, {peak} at most"
    return draw_line(rates, (0, most), told, _build_time_ticks(most), format_value, 120, "rate")


def draw_sparkline(points: Sequence[tuple[float, float]], label: str) -> Markup:
    """Draw a 96 by 24 pixel step line from (time, value) points; empty for fewer than two."""
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
        aria_label=label,
        width="96",
        height="24",
    )


_LEAST, _MOST = 10, 33  # powers of two: below 1 KB, beyond 8 GB


def count_size_bins(sizes: Sequence[int]) -> list[Bin]:
    """Count file sizes in bytes per power-of-two bin, as (from, to, files); empty for no files.

    >>> count_size_bins([100, 1500, 1600, 5000])
    [(0, 1024, 1), (1024, 2048, 2), (2048, 4096, 0), (4096, 8192, 1)]
    """
    found = Counter(map(_find_size_power, sizes))
    powers = range(min(found), max(found) + 1) if found else ()
    return [(0 if p == _LEAST else 1 << (p - 1), 1 << p, found[p]) for p in powers]


def draw_histogram(sizes: Sequence[int], small_bytes: int, target_bytes: int) -> Markup:
    """Draw a histogram of file sizes, with a band from `small_bytes` to `target_bytes`.

    Args:
        small_bytes: below this a file counts as small.
        target_bytes: the size that files are to have.
    """
    bins = count_size_bins(sizes)
    if not bins:
        return build_tag("p", "The table has no files.", class_="none")
    by_power = {_find_size_power(most - 1): (least, most, files) for least, most, files in bins}
    # The band is shown, wherever the files are.
    first = min(*by_power, _find_size_power(small_bytes) - 1)
    columns: list[list[tuple[str, int, str]]] = []
    for power in range(first, max(*by_power, _find_size_power(target_bytes)) + 1):
        least, most, files = by_power.get(power, (0, 0, 0))
        said = f"{format_file_size(least)} to {format_file_size(most)}: {pluralize(files, 'file')}"
        columns.append(
            [(said, files, "small-file" if most <= small_bytes else "file")] if files else []
        )
    few = sum(each < small_bytes for each in sizes)
    smaller = f"{format_count(few)} smaller than {format_file_size(small_bytes)}"
    told = f"{pluralize(len(sizes), 'file')} by size; {smaller}"
    edges = [max(0.0, math.log2(max(size, 1)) - first + 1) for size in (small_bytes, target_bytes)]
    right = f"right sizes: {format_file_size(small_bytes)} to {format_file_size(target_bytes)}"
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
    """Return each stage of these spans once, in the order of a load; unknown stages last."""
    found = dict.fromkeys(span.stage for span in spans)
    known = [stage for stage in _STAGES if stage in found]
    return known + [stage for stage in found if stage not in _STAGES]


def get_stage_class(stage: str) -> str:
    """Return the CSS class for a stage's colour; `stage-other` for an unknown stage."""
    return f"stage-{_STAGES.index(stage)}" if stage in _STAGES else "stage-other"


def draw_timeline(spans: Sequence[Span], run_seconds: float) -> Markup:
    """Draw a run's spans as a timeline with a lane per stream; `run_seconds` is the least width."""
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.stream, []).append(span)
    most = max([run_seconds, *(span.end for span in spans)]) or 1.0
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


def _build_time_ticks(last_seconds: float) -> Ticks:
    """Return five ticks from 0 to `last_seconds` seconds."""
    return [
        (part / 4, format_duration(last_seconds * part / 4) if part else "0") for part in range(5)
    ]


def _build_picture(label: str, height: float, *parts: object, class_: str = "chart") -> Markup:
    """Build an SVG chart as wide as the page, with `label` as its accessible label."""
    return build_tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        role="img",
        aria_label=label,
        width="100%",
        height=f"{height:g}",
    )


def _build_stretched_box(top: float, height: float, *parts: object) -> Markup:
    """Build a nested SVG of 1000 by 100 units, stretched to the chart's full width."""
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
    """Draw three horizontal lines at 0, half of `top` and `top`, with labels, around `drawn`."""
    lines, words = [], []
    for share in (0, 0.5, 1):
        y = _TOP + height * (1 - share)
        lines.append(build_tag("line", x1="0", x2="100%", y1=f"{y:g}", y2=f"{y:g}", class_="rule"))
        if share == 1 or (share and top * share == int(top * share)):  # there are no 2.5 files
            words.append(_build_label(format_value(top * share), 0, y - 3, "scale"))
    return join_markup([*lines, *drawn, *words])


def _build_bar(
    tooltip: str, x: float, width: float, y: float, height: float, class_: str
) -> Markup:
    """Build an SVG bar with a tooltip; `x` and `width` in percent, the rest in pixels."""
    return build_tag(
        "rect",
        build_tag("title", tooltip),
        x=f"{x:.3f}%",
        width=f"{width:.3f}%",
        y=f"{y:.1f}",
        height=f"{height:.1f}",
        class_=class_,
    )


def _build_area(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Build an SVG line with the area below filled; x and y of the points are from 0 to 1."""
    drawn = [f"{x * _WIDTH:.1f},{(1 - y) * _DEPTH:.2f}" for x, y in points]
    first, last = (each.partition(",")[0] for each in (drawn[0], drawn[-1]))
    below = f"M{first},{_DEPTH} L{' '.join(drawn)} L{last},{_DEPTH} Z"
    return build_tag("path", d=below, class_=f"area {class_}") + build_tag(
        "polyline", points=" ".join(drawn), class_=f"line {class_}"
    )
