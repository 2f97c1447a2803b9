"""Draws the packages of lakeport from the graph of their imports: `docs/pictures/packages.svg`.

`python -m tests.docs.generate` writes the picture. A box imports the boxes that its lines lead down
to, and what these import. Imports for types alone are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from statistics import fmean

import grimp

from tests.docs.pages import DOCS

PICTURE = DOCS / "pictures" / "packages.svg"
Graph = Mapping[str, frozenset[str]]

_WIDTH, _ROW, _BOX, _HIGH = 880, 58, 124, 32
_SWEEPS = 24
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="ui-monospace, monospace" font-size="14" role="img" aria-labelledby="t">
<title id="t">The packages of lakeport: each imports those that its lines lead down to</title>
<style>
rect{{fill:#f6f8fa;stroke:#57606a}} text{{fill:#1f2328}} path{{stroke:#8c959f;fill:none}}
@media (prefers-color-scheme:dark){{rect{{fill:#161b22;stroke:#8b949e}} text{{fill:#e6edf3}} \
path{{stroke:#6e7681}}}}
</style>
"""


@cache
def package_imports() -> Graph:
    """Return package or module below `lakeport` -> those that it imports."""
    graph = grimp.build_graph("lakeport", exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = (name.split(".")[1:2] for name in (module, imported))
            if one and other and one != other:
                found.setdefault(one[0], set()).add(other[0])
                found.setdefault(other[0], set())
    return {name: frozenset(found[name]) for name in sorted(found)}


def reached(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """Return these packages and all that they import, directly or not."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return frozenset(found)


def direct_lines(graph: Graph) -> Graph:
    """Return the graph without imports that a longer way shows, too.

    >>> direct_lines({"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset()})["a"]
    frozenset({'b'})
    """
    return {
        name: frozenset(each for each in below if each not in reached(graph, below - {each}))
        for name, below in graph.items()
    }


def ranks(graph: Graph) -> dict[str, int]:
    """Return package -> its row: 0 for one that imports none, else above all that it imports."""
    found: dict[str, int] = {}

    def rank(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((rank(each) for each in graph[name]), default=-1)
        return found[name]

    for name in graph:
        rank(name)
    return found


def picture(graph: Graph) -> str:
    """Return the graph as SVG: a box for each package, rows by `ranks`, a line for each import."""
    lines, row_of = direct_lines(graph), ranks(graph)
    rows: list[list[str]] = [[] for _ in range(max(row_of.values()) + 1)]
    for name in graph:
        rows[row_of[name]].append(name)
    ways: list[list[str]] = []  # of each line: its boxes, and its bends in the rows between them
    for upper, below in lines.items():
        for lower in sorted(below):
            between = range(row_of[upper] - 1, row_of[lower], -1)
            bends = [f"{upper}>{lower}@{row}" for row in between]
            for bend, row in zip(bends, between, strict=True):
                rows[row].append(bend)
                row_of[bend] = row
            ways.append([upper, *bends, lower])
    links = [link for way in ways for link in pairwise(way)]
    places = _arrange(rows, links)
    height = len(rows) * _ROW
    parts = [_HEAD.format(width=_WIDTH, height=height)]
    for way in ways:
        points = [(places[name], height - (row_of[name] + 0.5) * _ROW) for name in way]
        parts.append(f'<path d="{_path(points)}"/>\n')
    for name in graph:
        x, y = places[name], height - (row_of[name] + 0.5) * _ROW
        left, top = x - _BOX / 2, y - _HIGH / 2
        box = f'<rect x="{left:g}" y="{top:g}" width="{_BOX}" height="{_HIGH}" rx="7"/>'
        parts.append(f'{box}<text x="{x:g}" y="{y + 5:g}" text-anchor="middle">{name}</text>\n')
    return "".join([*parts, "</svg>\n"])


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Draw a line through points that goes straight down at each of them."""
    (x, y), text = points[0], [f"M{points[0][0]:g} {points[0][1]:g}"]
    for to, down in points[1:]:
        middle = (y + down) / 2
        text.append(f"C{x:g} {middle:g} {to:g} {middle:g} {to:g} {down:g}")
        x, y = to, down
    return "".join(text)


def _arrange(rows: list[list[str]], links: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Give each name of each row its place from the left, near to those that it is linked with."""
    near: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for one, other in links:
        near[one].append(other)
        near[other].append(one)
    places = {name: _spread(row, i) for row in rows for i, name in enumerate(row)}
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            row.sort(key=lambda name: (fmean(places[each] for each in near[name]), name))
            places |= {name: _spread(row, i) for i, name in enumerate(row)}
    return places


def _spread(row: Sequence[str], index: int) -> float:
    return round(_WIDTH * (index + 0.5) / len(row), 1)
