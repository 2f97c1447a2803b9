"""What was measured, in one JSON file that grows run by run: a stopped bench goes on where it was.

Reads and writes with the standard library alone, for the plots' environment has no other.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One thing to measure: who lands what, how much of it, where and as what.

    Attributes:
        contestant: such as "dlt, Arrow".
        load: what is landed: an input, or the name of a measurement of its own.
        records: how many; 0 where that is no question.
        target: "local" or "minio".
        format: "parquet", "delta", or what the contestant has instead.
    """

    contestant: str
    load: str
    records: int
    target: str
    format: str


@dataclass(frozen=True)
class Run:
    """One run of a cell.

    Attributes:
        seconds: wall time of the whole process.
        cpu: processor seconds of the process tree.
        memory_mb: peak of the process tree (PSS).
        files: how many lie in the target afterwards, of every kind.
        size: their bytes.
        values: what happened to the values, in words; "" if all came through.
        failure: why it failed; "" if it did not.
        figures: what a measurement of its own found besides.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    memory_mb: float = 0.0
    files: int = 0
    size: int = 0
    values: str = ""
    failure: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Median:
    """A cell over its runs: medians, and the largest memory.

    A failure is the cell's if one of its runs failed.
    """

    runs: int
    seconds: float
    cpu: float
    memory_mb: float
    files: int
    size: int
    values: str
    failure: str
    figures: Mapping[str, float]


class OtherMachine(Exception):
    """The file's results come from another machine, or from other versions."""


@dataclass
class Results:
    """All runs of one machine with one set of versions.

    Attributes:
        about: date, machine, versions and what else was so for all of them.
        runs: each cell's runs, in the order of measuring.
    """

    path: Path
    about: dict[str, Any]
    runs: dict[Cell, list[Run]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results of a file."""
        known = json.loads(path.read_text("utf-8"))
        runs = {
            Cell(**each["cell"]): [Run(**run) for run in each["runs"]] for each in known["cells"]
        }
        return cls(path, known["about"], runs)

    @classmethod
    def resumed(cls, path: Path, about: dict[str, Any]) -> Results:
        """The file's results to add to, or none yet.

        Raises:
            OtherMachine: where they can't stand beside new ones.
        """
        if not path.exists():
            return cls(path, about)
        found = cls.read(path)
        for name in ("machine", "versions"):
            if found.about[name] != about[name]:
                raise OtherMachine(
                    f"{path} was measured with another {name.rstrip('s')}: "
                    f"{found.about[name]} then, {about[name]} now.\n\n"
                    "Hint: name another folder with --folder, or remove this file."
                )
        return found

    def add(self, cell: Cell, run: Run) -> None:
        """Keep a run, on disk too."""
        self.runs.setdefault(cell, []).append(run)
        document = {
            "about": self.about,
            "cells": [
                {"cell": asdict(cell), "runs": [asdict(run) for run in runs]}
                for cell, runs in self.runs.items()
            ],
        }
        partial = self.path.with_suffix(".partial")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
        partial.rename(self.path)

    def open(self, cell: Cell, rounds: int) -> bool:
        """Whether a cell still lacks runs; one that failed is not tried again."""
        runs = self.runs.get(cell, [])
        return len(runs) < rounds and not any(run.failure for run in runs)

    def medians(self) -> dict[Cell, Median]:
        """Every cell over its runs."""
        return {cell: median(runs) for cell, runs in self.runs.items()}


def median(runs: list[Run]) -> Median:
    """One cell over its runs; those that failed count for nothing but the failure."""
    failure = next((run.failure for run in runs if run.failure), "")
    good = [run for run in runs if not run.failure] or runs
    values = next((run.values for run in good if run.values), "")

    def middle(of: Callable[[Run], float]) -> float:
        return statistics.median(map(of, good))

    return Median(
        runs=len(runs),
        seconds=middle(lambda run: run.seconds),
        cpu=middle(lambda run: run.cpu),
        memory_mb=max(run.memory_mb for run in good),
        files=round(middle(lambda run: run.files)),
        size=round(middle(lambda run: run.size)),
        values=values,
        failure=failure,
        figures={
            name: statistics.median(run.figures[name] for run in good)
            for name in names(run.figures for run in good)
        },
    )


def names(figures: Iterable[Mapping[str, float]]) -> list[str]:
    """The names that all of these have."""
    first, *others = figures
    return [name for name in first if all(name in other for other in others)]
