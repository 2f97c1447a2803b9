"""Draws the plots, in an environment of its own: `python -m bench.plots RESULTS FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.results import Cell, Median, Results

Medians = Mapping[Cell, Median]
OURS = "lakeport cold"
COLORS = {
    OURS: "#d1495b",
    "lakeport warm": "#f0a202",
    "lakeport threads": "#e9806e",
    "PySpark by hand": "#6c757d",
    "dlt, rows": "#8ecae6",
    "dlt, Arrow": "#1d6996",
    "delta-rs": "#38a169",
    "Polars": "#7b5ea7",
    "DuckDB": "#2b2d42",
    "target-csv": "#b08968",
    "target-s3-jsonl": "#b08968",
}
INPUTS = {
    "singer": "Singer",
    "csv": "CSV, types inferred",
    "csv declared": "CSV, types declared",
    "frame": "frame",
}
FORMATS = {"parquet": "Parquet", "delta": "Delta"}
SHADES = ("#c6dbef", "#6baed6", "#2171b5", "#08306b", "#000000")
GROWTH = {"1 core": "#f0a202", "2 cores": "#d1495b", "1 worker": "#8ecae6", "2 workers": "#1d6996"}


def main() -> None:
    """Draw every plot that has figures."""
    results, folder = Results.read(Path(sys.argv[1])), Path(sys.argv[2])
    medians = {cell: each for cell, each in results.medians().items() if not each.failure}
    style()
    for target in ("local", "minio"):
        here = {c: m for c, m in medians.items() if c.target == target and c.load in INPUTS}
        if here:
            save(seconds(here), folder / f"seconds-{target}")
            save(ratios(here), folder / f"ratios-{target}")
    growing = {cell: each for cell, each in medians.items() if cell.load == "growth"}
    if growing:
        save(growth(growing), folder / "growth")
    parts = {cell: each for cell, each in medians.items() if cell.load == "partitions"}
    if parts:
        save(partitions(parts), folder / "partitions")


def style() -> None:
    """Plain, and the same at every run."""
    plt.rcParams.update(
        {
            "figure.facecolor": "white",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e5e5e5",
            "axes.axisbelow": True,
            "font.size": 9,
            "axes.titlesize": 10,
            "legend.frameon": False,
            "svg.hashsalt": "lakeport",
        }
    )


def save(figure: Any, path: Path) -> None:
    """As PNG and as SVG, which say no date."""
    figure.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def seconds(medians: Medians) -> Any:
    """Seconds by the number of records: a panel for each input and format."""
    inputs = [input_ for input_ in INPUTS if any(cell.load == input_ for cell in medians)]
    figure, panels = plt.subplots(
        len(FORMATS),
        len(inputs),
        figsize=(max(7.5, 3.1 * len(inputs)), 6.8),
        squeeze=False,
        sharey=True,
    )
    lines = {}
    for row, (format_, name) in enumerate(FORMATS.items()):
        for column, input_ in enumerate(inputs):
            axes = panels[row][column]
            for contestant, color in COLORS.items():
                points = sorted(
                    (cell.records, median.seconds)
                    for cell, median in medians.items()
                    if (cell.contestant, cell.load) == (contestant, input_)
                    and shown_as(cell.format) == format_
                )
                if points:
                    wide = 2.4 if contestant.startswith("lakeport") else 1.3
                    (lines[contestant],) = axes.plot(
                        *zip(*points, strict=True), "o-", color=color, lw=wide, ms=wide + 2.4
                    )
            logarithmic(axes, sorted({cell.records for cell in medians if cell.load == input_}))
            axes.set_title(f"{INPUTS[input_]} → {name}")
    for axes in panels[-1]:
        axes.set_xlabel("records")
    for axes in panels[:, 0]:
        axes.set_ylabel("seconds, whole process")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    names = [name for name in COLORS if name in lines]
    figure.legend([lines[name] for name in names], names, loc="lower center", ncols=5)
    return figure


def shown_as(format_: str) -> str:
    """The panel of a format: CSV and JSON lines stand beside Parquet."""
    return format_ if format_ in FORMATS else "parquet"


def logarithmic(axes: Any, sizes: list[int]) -> None:
    """Both axes; the sizes that were measured are marked."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [short(size) for size in sizes])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(sizes[0] / 2, sizes[-1] * 2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(which="minor", length=0)


def short(records: int) -> str:
    """A number of records as one says it."""
    for size, name in ((1_000_000, "M"), (1_000, "k")):
        if records >= size:
            return f"{records / size:g} {name}"
    return str(records)


def ratios(medians: Medians) -> Any:
    """Singer: each contestant's seconds by lakeport's cold ones, a dot for each size."""
    singer = {cell: median for cell, median in medians.items() if cell.load == "singer"}
    chosen = singer or medians
    sizes = sorted({cell.records for cell in chosen})
    names = [name for name in reversed(COLORS) if any(cell.contestant == name for cell in chosen)]
    figure, panels = plt.subplots(1, 2, figsize=(10, 0.42 * len(names) + 1.9), sharey=True)
    for axes, (format_, title) in zip(panels, FORMATS.items(), strict=True):
        for number, records in enumerate(sizes):
            points = [
                (found, names.index(cell.contestant))
                for cell in chosen
                if cell.records == records
                and shown_as(cell.format) == format_
                and (found := by_ours(cell, chosen)) is not None
            ]
            if points:
                shade = SHADES[number % len(SHADES)]
                axes.scatter(
                    *zip(*points, strict=True),
                    s=46,
                    color=shade,
                    label=short(records),
                    zorder=3,
                    edgecolors="#444444",
                    linewidths=0.5,
                )
        axes.axvline(1, color=COLORS[OURS], lw=1.2, zorder=2)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"Singer → {title}")
        axes.set_xlabel("seconds by those of lakeport cold (left: faster)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 0.92, 1))
    figure.legend(handles, labels, loc="center right", title="records")
    return figure


def by_ours(cell: Cell, medians: Medians) -> float | None:
    """A cell's seconds by those of lakeport cold with the same load."""
    same = Cell(OURS, cell.load, cell.records, cell.target, shown_as(cell.format))
    ours = medians.get(same)
    return None if ours is None or not ours.seconds else medians[cell].seconds / ours.seconds


def growth(medians: Medians) -> Any:
    """Seconds by the size of the input, on cores and workers."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for name, color in GROWTH.items():
        for format_, dash in (("parquet", "-"), ("delta", "--")):
            points = by_size(medians, name, format_)
            if points:
                label = f"{name}, {FORMATS[format_]}"
                axes.plot(*zip(*points, strict=True), f"o{dash}", color=color, label=label, ms=4)
    logarithmic(axes, sorted({cell.records for cell in medians}))
    axes.set_xlabel("records (371 bytes each)")
    axes.set_ylabel("seconds")
    axes.legend()
    figure.tight_layout()
    return figure


def by_size(medians: Medians, name: str, format_: str) -> list[tuple[int, float]]:
    """Records and seconds; of a cluster's loads, those without the cluster's start."""
    return sorted(
        (cell.records, median.figures.get("whole", median.seconds))
        for cell, median in medians.items()
        if (cell.contestant, cell.format) == (name, format_)
    )


def partitions(medians: Medians) -> Any:
    """Seconds by the number of partitions."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for format_, color in (("parquet", "#1d6996"), ("delta", "#d1495b")):
        points = sorted(counted(medians, format_))
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=color, label=FORMATS[format_])
    logarithmic(axes, sorted({count for count, _ in counted(medians, "parquet")} | {1}))
    axes.set_xlabel("partitions")
    axes.set_ylabel("seconds")
    axes.legend()
    figure.tight_layout()
    return figure


def counted(medians: Medians, format_: str) -> Iterable[tuple[int, float]]:
    """Number of partitions and seconds."""
    for cell, median in medians.items():
        if cell.format == format_:
            yield int(cell.contestant.split()[0].replace(",", "")), median.seconds


if __name__ == "__main__":
    main()
