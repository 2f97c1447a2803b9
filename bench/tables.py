"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench import goals
from bench.results import Cell, Median

Medians = Mapping[Cell, Median]
OURS = goals.COLD
FORMATS = {"parquet": "Parquet", "delta": "Delta", "csv": "CSV", "jsonl": "JSON lines"}
TARGETS = {"local": "a local folder", "minio": "MinIO"}
INPUTS = {
    "singer": "a Singer stream",
    "csv": "a CSV file, types inferred",
    "csv declared": "a CSV file, types declared",
    "frame": "a frame",
}
NOTHING = "*not measured yet*\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a word where it has no rows."""
    heads = list(head)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return NOTHING
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *lines, ""])


def number(value: float) -> str:
    """A figure with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def machine(about: Mapping[str, Any]) -> str:
    """Date, machine and versions."""
    found = about["machine"]
    note = f"\n{about['note']}\n" if about["note"] else ""
    told = (
        f"Measured on {about['date']} with commit {about['commit']}, on {found['cores']} cores of "
        f"{found['processor']}, {found['memory']} of memory, {found['kernel']}.\n{note}\n"
    )
    return told + table(
        ("what", "version"), ((name, kind) for name, kind in about["versions"].items())
    )


def reached(medians: Medians) -> str:
    """Each speed that lakeport has to reach, beside what was found."""
    words = {True: "yes", False: "**no**", None: ""}

    def rows() -> Iterable[Iterable[str]]:
        for goal in goals.goals():
            figure = goal.figure(medians)
            limit = f"at {'least' if goal.at_least else 'most'} {goal.limit:,} {goal.unit}"
            told = "not measured" if figure is None else f"{number(figure)} {goal.unit}"
            yield goal.what, limit, told, words[goal.holds(medians)]

    return table(("load", "has to be", "is", "holds"), rows())


def groups(medians: Medians) -> dict[tuple[int, str, str], Medians]:
    """The comparison's cells by size, input and target."""
    found: dict[tuple[int, str, str], dict[Cell, Median]] = {}
    for cell, median in medians.items():
        if cell.load in INPUTS:
            found.setdefault((cell.records, cell.load, cell.target), {})[cell] = median
    inputs, targets = list(INPUTS), list(TARGETS)

    def place(key: tuple[int, str, str]) -> tuple[int, int, int]:
        return inputs.index(key[1]), targets.index(key[2]), key[0]

    return {key: found[key] for key in sorted(found, key=place)}


def beside(cell: Cell, medians: Medians) -> float | None:
    """How many times lakeport's cold time a cell took; a format of its own counts as Parquet."""
    format_ = cell.format if cell.format in ("parquet", "delta") else "parquet"
    ours = medians.get(Cell(OURS, cell.load, cell.records, cell.target, format_))
    mine = medians[cell]
    if ours is None or ours.failure or mine.failure or not ours.seconds:
        return None
    return mine.seconds / ours.seconds


def group(medians: Medians) -> str:
    """One size, input and target: all contestants."""

    def rows() -> Iterable[Iterable[str]]:
        order = list(FORMATS)
        for cell in sorted(medians, key=lambda cell: order.index(cell.format)):
            median, ratio = medians[cell], beside(cell, medians)
            name = f"**{cell.contestant}**" if cell.contestant == OURS else cell.contestant
            if median.failure:
                yield FORMATS[cell.format], name, *["-"] * 6, f"failed: {text(median.failure)}"
                continue
            yield (
                FORMATS[cell.format],
                name,
                number(median.seconds),
                "" if ratio is None else f"{number(ratio)}x",
                number(median.cpu),
                f"{median.memory_mb:,.0f}",
                f"{median.files:,}",
                number(median.size / 1e6),
                text(median.values) or "came through",
            )

    heads = ("format", "contestant", "seconds", "of lakeport's", "CPU seconds", "memory MB")
    return table((*heads, "files", "MB", "values"), rows())


def text(words: str) -> str:
    """Words that don't end a cell of a table."""
    return words.replace("|", "\\|").replace("<", "&lt;")


def altered(median: Median) -> bool:
    """Whether values are others than those given, or not there; another type is none of it."""
    signs = ("values changed", "absent", "rows of", "can't be read")
    return any(sign in median.values for sign in signs)


def overview(medians: Medians) -> str:
    """Singer into MinIO, every size: seconds by contestant."""
    chosen = {
        cell: median
        for cell, median in medians.items()
        if cell.load == "singer" and cell.target == "minio"
    }
    sizes = sorted({cell.records for cell in chosen})
    ways = list(dict.fromkeys((cell.contestant, cell.format) for cell in chosen))

    def shown(contestant: str, format_: str, records: int) -> str:
        cell = Cell(contestant, "singer", records, "minio", format_)
        if cell not in chosen:
            return ""
        median, ratio = chosen[cell], beside(cell, chosen)
        if median.failure:
            return "failed"
        aside = "" if ratio is None or contestant == OURS else f" ({number(ratio)}x)"
        return f"{number(median.seconds)}{aside}{' †' if altered(median) else ''}"

    return table(
        ("contestant", "format", *(f"{size:,}" for size in sizes)),
        (
            (contestant, FORMATS[format_], *(shown(contestant, format_, size) for size in sizes))
            for contestant, format_ in ways
        ),
    )


def ahead(medians: Medians) -> str:
    """Who is faster than lakeport where, and by how much."""

    def rows() -> Iterable[Iterable[str]]:
        for (records, input_, target), cells in groups(medians).items():
            for format_ in ("parquet", "delta"):
                faster = {
                    cell.contestant: ratio
                    for cell in cells
                    if cell.format == format_
                    and not cell.contestant.startswith("lakeport")
                    and (ratio := beside(cell, cells)) is not None
                    and ratio < 1
                }
                names = (
                    f"{name} {number(faster[name])}x" for name in sorted(faster, key=faster.get)
                )  # type: ignore[arg-type]
                if faster:
                    where = f"{FORMATS[format_]} in {TARGETS[target]}, from {INPUTS[input_]}"
                    yield where, f"{records:,}", ", ".join(names)

    return table(("load", "records", "faster, with its share of lakeport's cold time"), rows())


def came_through(medians: Medians) -> str:
    """What each contestant made of the values, by input."""
    found: dict[str, dict[str, set[str]]] = {}
    for cell, median in medians.items():
        if cell.load in INPUTS and not median.failure:
            told = found.setdefault(cell.contestant, {}).setdefault(cell.load, set())
            told.add(f"{FORMATS[cell.format]}: {text(median.values)}" if median.values else "")

    def shown(told: set[str] | None) -> str:
        if told is None:
            return ""
        return "<br>".join(sorted(told - {""})) or "all came through"

    return table(
        ("contestant", *(INPUTS[input_] for input_ in INPUTS)),
        ((name, *(shown(loads.get(input_)) for input_ in INPUTS)) for name, loads in found.items()),
    )


def measured(medians: Medians, load: str, first: str = "records") -> str:
    """The cells of a measurement of its own."""

    def rows() -> Iterable[Iterable[str]]:
        for cell, median in medians.items():
            if cell.load != load:
                continue
            if median.failure:
                yield (
                    cell.contestant,
                    f"{cell.records:,}",
                    FORMATS[cell.format],
                    *["-"] * 3,
                    text(f"failed: {median.failure}"),
                )
                continue
            besides = [f"{name} {number(figure)}" for name, figure in median.figures.items()]
            told = [*besides, text(median.values)] if median.values else besides
            yield (
                cell.contestant,
                f"{cell.records:,}",
                FORMATS[cell.format],
                number(median.seconds),
                number(median.cpu),
                f"{median.memory_mb:,.0f}",
                ", ".join(told),
            )

    heads = ("what", first, "format", "seconds", "CPU seconds", "memory MB", "besides")
    return table(heads, rows())
