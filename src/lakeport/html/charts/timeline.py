"""A run over time: what was done when, and at which rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from markupsafe import Markup

from lakeport.html.charts.plot import area, at, bar, frame, grid, label, nice, stretched
from lakeport.html.text import duration, joined
from lakeport.units import counted

Span = tuple[str, str, float, float]
"""A stage, the stream that it is of (empty for all), its start and its end in seconds."""

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
_BAR, _GAP, _HEAD = 12, 3, 18  # pixels


def stages(spans: Sequence[Span]) -> list[str]:
    """The stages of a run, in the order in which data pass them."""
    found = dict.fromkeys(span[0] for span in spans)
    known = [stage for stage in _STAGES if stage in found]
    return known + [stage for stage in found if stage not in _STAGES]


def stage_class(stage: str) -> str:
    """The class that gives a stage its colour."""
    return f"stage-{_STAGES.index(stage)}" if stage in _STAGES else "stage-other"


def timeline(spans: Sequence[Span], seconds: float) -> Markup:
    """A lane for each stream, in it a bar for each stage.

    Args:
        spans: what was done when.
        seconds: how long the run took.
    """
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span[1], []).append(span)
    most = max([seconds, *(span[3] for span in spans)]) or 1.0
    drawn: list[Markup] = []
    top = 0
    for stream, own in lanes.items():
        drawn.append(label(stream or "the whole run", 0, top + 13, class_="lane"))
        top += _HEAD
        for stage in stages(own):
            for _, _, start, end in (span for span in own if span[0] == stage):
                words = f"{stage}: {duration(end - start)}, from {duration(start)} on"
                x, width = 100 * at(start, 0, most), max(100 * (end - start) / most, 0.15)
                drawn.append(bar(words, x, width, top, _BAR, stage_class(stage), rx="2"))
            top += _BAR + _GAP
        top += 6
    told = f"timeline of {counted(len(lanes), 'lane')} over {duration(most)}"
    return frame(told, top + 18, *drawn, _seconds(most, top + 14))


def rate(
    points: Sequence[tuple[float, float]],
    words: str,
    shown: Callable[[float], str],
    height: int = 120,
) -> Markup:
    """How much was done in a second, over time.

    Args:
        points: seconds since the start, and what was done until then.
        words: what it is, such as `rows`.
        shown: a rate as text.
        height: of the picture, in pixels.
    """
    rates = [
        (start, end, (done - before) / (end - start))
        for (start, before), (end, done) in pairwise(points)
        if end > start
    ]
    if not rates:
        return Markup("")
    most = points[-1][0]
    top = nice(max(value for _, _, value in rates))
    drawn = [
        (at(edge, 0, most), max(0.0, value) / top)
        for start, end, value in rates
        for edge in (start, end)
    ]
    box = height - 34
    levels = [(0.0, ""), (1.0, f"{shown(top)} {words} a second".replace("  ", " "))]
    peak = shown(max(value for _, _, value in rates))
    return frame(
        f"{words} a second over {duration(most)}, {peak} at most",
        height,
        grid(14, box, levels, stretched(14, box, area(drawn, "rate"))),
        _seconds(most, height - 5),
    )


def _seconds(most: float, y: float) -> Markup:
    return joined(
        label(duration(most * part / 4) if part else "0", part / 4, y) for part in range(5)
    )
