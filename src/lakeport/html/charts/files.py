"""The sizes of a table's files, and its partitions by size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import squarify
from markupsafe import Markup

from lakeport.html.charts.plot import bar, frame, grid, label, nice
from lakeport.html.facts import PartitionFacts
from lakeport.html.text import file_size, share, tag
from lakeport.units import count, counted, size

Bin = tuple[int, int, int]
"""Least and most bytes of a bin, and its files."""

_LEAST, _MOST = 10, 33  # powers of two: below 1 KB, beyond 8 GB
_MOST_CELLS = 400
_STEPS = 5  # of the colour that tells the share of small files
_WIDTHS = (300, 450, 600, 800, 1000)  # of a picture, in pixels; the style knows these, too
_LETTER, _MARGIN = 7.5, 12  # pixels


def size_bins(sizes: Sequence[int]) -> list[Bin]:
    """Files by size, in bins that double; from the smallest file's to the largest one's.

    >>> size_bins([100, 1500, 1600, 5000])
    [(0, 1024, 1), (1024, 2048, 2), (2048, 4096, 0), (4096, 8192, 1)]
    """
    found = Counter(_power(each) for each in sizes)
    if not found:
        return []
    powers = range(min(found), max(found) + 1)
    return [(0 if p == _LEAST else 1 << (p - 1), 1 << p, found[p]) for p in powers]


def histogram(sizes: Sequence[int], small: int, target: int, height: int = 190) -> Markup:
    """Files by size, with the band of sizes that are right.

    Args:
        sizes: the files' sizes in bytes.
        small: below this a file counts as small.
        target: the size that files are to have.
        height: of the picture, in pixels.
    """
    bins = size_bins(sizes)
    if not bins:
        return tag("p", "The table has no files.", class_="none")
    # The band is shown, wherever the files are.
    first = min(_power(bins[0][1] - 1), _power(small) - 1)
    last = max(_power(bins[-1][1] - 1), _power(target))
    columns = range(first, last + 1)
    width = 100 / len(columns)
    top = nice(max(files for _, _, files in bins))
    box = height - 34
    by_power = {_power(most - 1): (least, most, files) for least, most, files in bins}
    drawn = []
    for place, power in enumerate(columns):
        least, most, files = by_power.get(power, (0, 0, 0))
        if files:
            tall = max(1.5, box * files / top)
            words = f"{file_size(least)} to {file_size(most)}: {counted(files, 'file')}"
            kind = "small-file" if most <= small else "file"
            x, y = (place + 0.08) * width, 14 + box - tall
            drawn.append(bar(words, x, width * 0.84, y, tall, kind))
    start, end = (_position(each, first) * width for each in (small, target))
    words = f"right sizes: {file_size(small)} to {file_size(target)}"
    band = bar(words, start, max(end - start, 0.5), 14, box, "band")
    few = sum(each < small for each in sizes)
    told = f"{counted(len(sizes), 'file')} by size; {count(few)} smaller than {file_size(small)}"
    ticks = [
        label(file_size(1 << (p - 1)), place / len(columns), height - 5)
        for place, p in enumerate(columns)
        if (p - 1) % 5 == 0
    ]
    levels = [(0, ""), (0.5, count(top / 2) if top > 1 else ""), (1, count(top))]
    return frame(told, height, grid(14, box, levels, band, *drawn), *ticks)


def treemap(partitions: Sequence[PartitionFacts], height: int = 280) -> Markup:
    """Partitions as areas by their size; darker, the more of their files are small."""
    ranked = sorted((p for p in partitions if p.bytes), key=lambda p: -p.bytes)
    if not ranked:
        return tag("p", "No partition holds data.", class_="none")
    cells = [(p.name, p.bytes, p.files, p.small_files) for p in ranked[:_MOST_CELLS]]
    if rest := ranked[_MOST_CELLS:]:
        name = f"{count(len(rest))} smaller partitions"
        files, small = sum(p.files for p in rest), sum(p.small_files for p in rest)
        cells.append((name, sum(p.bytes for p in rest), files, small))
    whole = sum(cell[1] for cell in cells)
    sizes = squarify.normalize_sizes([cell[1] for cell in cells], 1000, height)
    drawn = [
        _cell(cell, place, whole)
        for cell, place in zip(cells, squarify.squarify(sizes, 0, 0, 1000, height), strict=True)
    ]
    told = (
        f"{counted(len(partitions), 'partition')} by size; the largest, {ranked[0].name}, has "
        f"{share(ranked[0].bytes, whole)}"
    )
    return frame(told, height, *drawn)


def _cell(cell: tuple[str, int, int, int], place: dict[str, float], whole: int) -> Markup:
    name, weight, files, small = cell
    step = math.ceil(small / files * (_STEPS - 1)) if files else 0
    words = (
        f"{name}: {size(weight)} ({share(weight, whole)}), {counted(files, 'file')}, "
        f"{count(small)} small"
    )
    told = size(weight)
    fits = _fitting(max(len(name), len(told)), place["dx"])
    return tag(
        "svg",
        tag("title", words),
        tag("rect", width="100%", height="100%", class_=f"cell small-{step}"),
        tag("text", name, x="6", y="16", class_=f"cell-name {fits}") if place["dy"] > 20 else "",
        tag("text", told, x="6", y="32", class_=f"cell-size {fits}") if place["dy"] > 38 else "",
        x=f"{place['x'] / 10:.3f}%",
        y=f"{place['y']:.1f}",
        width=f"{place['dx'] / 10:.3f}%",
        height=f"{place['dy']:.1f}",
    )


def _fitting(letters: int, width: float) -> str:
    """The class of texts that are shown where the picture is so wide that they fit.

    Args:
        letters: of the longest of them.
        width: of their cell, of 1000 that the picture has.
    """
    needed = (_LETTER * letters + _MARGIN) * 1000 / width
    return next((f"from-{each}" for each in _WIDTHS if each >= needed), "never")


def _power(value: int) -> int:
    """The power of two that is more than a size, within the histogram's bounds."""
    return min(max(value.bit_length(), _LEAST), _MOST)


def _position(value: int, first: int) -> float:
    """Where a size is among bins of which the first one ends with this power, in bins."""
    return max(0.0, math.log2(max(value, 1)) - first + 1)
