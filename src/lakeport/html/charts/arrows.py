"""Arrows between rows of boxes, from each to those that use it: beside the boxes, in lanes.

Rows are as high as the style sheet has them, and all is measured in the size of letters, so that
arrows meet their boxes however large those are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from lakeport.html.text import tag
from lakeport.units import counted

_ROW, _MIDDLE, _APART = 4.0, 1.7, 0.45
"""Height of a row with its gap, where its box's middle is, and how far in and out are from it."""
_LANE, _WIDEST = 0.9, 6.0


def lanes(uses: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Box -> the lane of its arrows, 0 being nearest: no two share one at the same height.

    Args:
        uses: box -> those that it uses, which stand before it.

    >>> lanes({"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"]})
    {'a': 0, 'b': 1, 'c': 1}
    """
    row = {name: number for number, name in enumerate(uses)}
    last: dict[str, int] = {}
    for name, used in uses.items():
        last.update({each: row[name] for each in used if each in row})
    ends: list[int] = []  # of each lane, the row from which on it is free
    found = {}
    for name in (name for name in uses if name in last):
        free = (lane for lane, end in enumerate(ends) if end <= row[name])
        lane = next(free, len(ends))
        ends[lane:] = [last[name], *ends[lane + 1 :]]
        found[name] = lane
    return found


def arrows(uses: Mapping[str, Sequence[str]]) -> Markup:
    """The arrows; nothing where no box uses another.

    Args:
        uses: box -> those that it uses, in the order of the rows.
    """
    own = lanes(uses)
    if not own:
        return Markup("")
    row = {name: number for number, name in enumerate(uses)}
    count = max(own.values()) + 1
    apart = min(_LANE, _WIDEST / count)
    width = apart * count + 1.1
    drawn: list[Markup] = []
    for name, lane in own.items():
        users = [row[other] for other, used in uses.items() if name in used]
        x = width - 1.1 - apart * (lane + 0.5)
        start = _ROW * row[name] + _MIDDLE + _APART
        ends = [_ROW * user + _MIDDLE - _APART for user in users]
        drawn += [_line(width, start, x, start), _line(x, start, x, max(ends))]
        drawn += [_line(x, end, width - 0.1, end, marker_end="url(#arrow)") for end in ends]
    told = f"{counted(sum(map(len, uses.values())), 'arrow')} between {counted(len(uses), 'load')}"
    head = tag("path", d="M0 0L6 3L0 6z", class_="head")
    marker = {"id": "arrow", "viewBox": "0 0 6 6", "refX": "6", "refY": "3", "orient": "auto"}
    sizes = {"markerWidth": "6", "markerHeight": "6"}
    return tag(
        "svg",
        tag("title", told),
        tag("defs", tag("marker", head, **marker, **sizes)),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        class_="arrows",
        role="img",
        width=f"{width:.4g}em",
        height=f"{_ROW * len(uses):g}em",
    )


def _line(x1: float, y1: float, x2: float, y2: float, **more: str) -> Markup:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return tag("line", **{name: f"{value:.4g}em" for name, value in ends.items()}, **more)
