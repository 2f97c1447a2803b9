"""Pictures as inline SVG, each a function of plain values.

Rows are as high as the style sheet has them, and all is measured in the size of letters, so that
arrows meet their boxes however large those are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import squarify
from markupsafe import Markup

from lakeport.html.facts import Change, PartitionFacts, VersionFacts
from lakeport.html.text import duration, file_size, joined, share, tag
from lakeport.units import count, counted, size

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
    for at, said in levels:
        y = top + height * (1 - at)
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


Bin = tuple[int, int, int]
"""Least and most bytes of a bin, and its files."""

_LEAST, _MOST = 10, 33  # powers of two: below 1 KB, beyond 8 GB
_MOST_CELLS = 400
_FILE_STEPS = 5  # of the colour that tells the share of small files
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
    step = math.ceil(small / files * (_FILE_STEPS - 1)) if files else 0
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
