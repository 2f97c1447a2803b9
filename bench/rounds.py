"""Measurements that stand beside each other run in turn, so that a busy minute hits them alike."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

from bench.measure import Took
from bench.results import Cell, Results, Run


def in_turn(rounds: int, results: Results, runs: Mapping[Cell, Callable[[], Run]]) -> None:
    """Run every cell that lacks runs once a round, and keep what it took."""
    for number in range(rounds):
        for cell, once in runs.items():
            if results.open(cell, number + 1):
                found = once()
                results.add(cell, found)
                print(line(cell, found), flush=True)


def figured(took: Took) -> Run:
    """A run whose last line of output holds its figures as JSON."""
    figures = {} if took.failure else json.loads(took.output.splitlines()[-1])
    return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure, figures=figures)


def line(cell: Cell, found: Run) -> str:
    """A run as a line of the command's output."""
    what = f"{cell.records:>10,} {cell.load:<12} {cell.target:<5} {cell.format:<7} "
    what += f"{cell.contestant:<16}"
    if found.failure:
        return f"{what} failed: {found.failure}"
    took = f"{found.seconds:7.1f} s {found.cpu:7.1f} CPU s {math.ceil(found.memory_mb):>6} MB"
    figures = ", ".join(f"{name} {value:.2f}" for name, value in found.figures.items())
    return f"{what} {took} {found.files:>4} files  {figures} {found.values}".rstrip()
