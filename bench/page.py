"""Draws the results: the pages' figures between their marks, and the plots beside them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import tables
from bench.environments import program
from bench.results import Results

_PART = re.compile(r"(<!-- figures: (?P<name>[\w ]+) -->\n).*?(<!-- figures end -->)", re.S)
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
INDEX, ALL = "index.md", "tables.md"


def render(results: Results) -> None:
    """Write the figures of both pages anew beside the results, and the plots; the prose stays."""
    folder = results.path.parent
    index = folder / INDEX
    prose = (index if index.exists() else FOLDER / INDEX).read_text("utf-8")
    index.write_text(filled(prose, parts(results)), "utf-8")
    (folder / ALL).write_text(everything(results), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [program("plots"), "-m", "bench.plots", results.path.resolve(), folder.resolve()]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    print(f"wrote {index}, {ALL} and the plots beside them")


def parts(results: Results) -> Mapping[str, Callable[[], str]]:
    """The index page's figures by their names."""
    medians = results.medians()
    return {
        "machine": lambda: tables.machine(results.about),
        "goals": lambda: tables.reached(medians),
        "overview": lambda: tables.overview(medians),
        "ahead": lambda: tables.ahead(medians),
        "values": lambda: tables.came_through(medians),
        "growth": lambda: tables.measured(medians, "growth", "rows"),
        "partitions": lambda: tables.measured(medians, "partitions"),
    }


def filled(text: str, made: Mapping[str, Callable[[], str]]) -> str:
    """A page's text with its figures as they are now.

    Raises:
        KeyError: it wants figures of a name that there is none of.
    """
    return _PART.sub(lambda found: f"{found[1]}\n{made[found['name']]()}\n{found[3]}", text)


def everything(results: Results) -> str:
    """The page of every cell."""
    medians = results.medians()
    lines = [
        "# Benchmarks: every table\n",
        "[What the figures mean](index.md). This page is written by the command:\n",
        "```console\n$ make bench-peers\n```\n",
    ]
    title = ""
    for (records, input_, target), cells in tables.groups(medians).items():
        heading = f"{tables.INPUTS[input_]} into {tables.TARGETS[target]}"
        if heading != title:
            title = heading
            lines.append(f"## {heading[0].upper()}{heading[1:]}\n")
        lines += [f"### {records:,} records {input_} {target}\n", tables.group(cells)]
        lines.append(f"{counted({median.runs for median in cells.values()})}\n")
    for load, heading in MEASURED.items():
        if any(cell.load == load for cell in medians):
            lines += [f"## {heading}\n", tables.measured(medians, load)]
    return "\n".join(lines)


def counted(runs: set[int]) -> str:
    """How many runs there were of each cell."""
    if runs == {1}:
        return "One run each."
    return f"Medians of {' to '.join(map(str, sorted({min(runs), max(runs)})))} runs."


MEASURED = {
    "first load": "The first load with `--warm`, beside a cold one",
    "table show": "`lakeport table show`",
    "second frame": "A frame into Delta, without the start",
    "appends": "Appends of 100 rows to one Delta table",
    "streams": "Interleaved streams",
    "partitions": "Partitions",
    "merge": "Merge into a Delta table",
    "database": "A PostgreSQL table into a Delta table",
    "workers": "Workers",
    "workers on files": "Workers, on CSV files in a folder",
    "growth": "Growth",
    "driver": "The driver of a cluster, as the input grows",
    "requests": "Requests to the store",
    "new files": "Small JSON files, 100 of them new",
    "transforms": "Rows that a query makes, or that are held to expectations",
    "pages": "Pages, of a table by its versions and of a lake by its tables",
}
