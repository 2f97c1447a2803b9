"""What pictures share: a frame that keeps its letters' size at any width, scales, grid lines.

A picture is as wide as its page and has a fixed height. Lines and areas are drawn in a box of 1000
by 100 that is stretched; letters and marks are placed by percent, and are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from lakeport.html.text import joined, tag

WIDTH, HEIGHT = 1000, 100
_STEPS = (1, 2, 2.5, 5, 10)


def frame(words: str, height: float, *parts: object) -> Markup:
    """A picture.

    Args:
        words: what it shows, for those who don't see it.
        height: in pixels.
        parts: what is drawn, one above the other.
    """
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        role="img",
        aria_label=words,
        width="100%",
        height=f"{height:g}",
    )


def stretched(top: float, height: float, *parts: object) -> Markup:
    """A box of 1000 by 100 over the whole width of a picture."""
    return tag(
        "svg",
        *parts,
        x="0",
        y=f"{top:g}",
        width="100%",
        height=f"{height:g}",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
    )


def at(value: float, least: float, most: float) -> float:
    """Where a value is between two others, from 0 to 1; in the middle if they are one."""
    return (value - least) / (most - least) if most > least else 0.5


def nice(most: float) -> float:
    """A round number that is not less.

    >>> nice(337), nice(1000), nice(0)
    (500, 1000, 1)
    """
    if most < 1e-9:
        return 1
    power = 10.0 ** math.floor(math.log10(most))
    found = next(step * power for step in _STEPS if step * power >= most * 0.999999)
    return int(found) if found >= 1 and found == int(found) else found


def label(text: object, x: float, y: float, anchor: str = "", class_: str = "tick") -> Markup:
    """A text at a share of the width, which stays within the picture at both ends."""
    side = anchor or ("start" if x < 0.05 else "end" if x > 0.95 else "middle")
    place = f"{x * 100:.2f}%"
    return tag("text", text, x=place, y=f"{y:g}", text_anchor=side, class_=class_)


def grid(top: float, height: float, levels: Sequence[tuple[float, str]], *drawn: object) -> Markup:
    """What is drawn in a box, above lines across it and below the lines' words.

    Args:
        top: of the box, in pixels.
        height: of the box, in pixels.
        levels: how high each line is, from 0 to 1, and what it says.
        drawn: what is between them.
    """
    lines, words = [], []
    for share, said in levels:
        y = top + height * (1 - share)
        lines.append(tag("line", x1="0", x2="100%", y1=f"{y:g}", y2=f"{y:g}", class_="rule"))
        words.append(label(said, 0, y - 3) if said else Markup(""))
    return joined([*lines, *drawn, *words])


def bar(
    words: str, x: float, width: float, y: float, height: float, class_: str, **more: str
) -> Markup:
    """A bar, which says its words where the pointer rests.

    Args:
        words: what it is.
        x: its left side, in percent of the picture's width.
        width: likewise.
        y: its top, in pixels.
        height: in pixels.
        class_: gives it its colour.
        more: further attributes.
    """
    return tag(
        "rect",
        tag("title", words),
        x=f"{x:.3f}%",
        width=f"{width:.3f}%",
        y=f"{y:.1f}",
        height=f"{height:.1f}",
        class_=class_,
        **more,
    )


def steps(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that stays at each value until the next one.

    >>> steps([(0, 1), (0.5, 3)])
    [(0, 1), (0.5, 1), (0.5, 3)]
    """
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return corners


def area(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A line through points with the area below it; both from 0 to 1."""
    drawn = [f"{x * WIDTH:.1f},{(1 - y) * HEIGHT:.2f}" for x, y in points]
    if not drawn:
        return Markup("")
    first, last = (each.partition(",")[0] for each in (drawn[0], drawn[-1]))
    below = f"M{first},{HEIGHT} L{' '.join(drawn)} L{last},{HEIGHT} Z"
    return tag("path", d=below, class_=f"area {class_}") + tag(
        "polyline", points=" ".join(drawn), class_=f"line {class_}"
    )
