"""The comparison: every contestant with every input, size, target and format, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import deltalake
import deltalake.exceptions
import duckdb

from bench import data, values
from bench.contestants import CONTESTANTS, WARM, Contestant, Job
from bench.measure import run
from bench.places import Place, Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn
from bench.session import NoWarmSession, WarmSession, warm_session

WARM_UP = 100  # records of the loads that aren't measured


@dataclass(frozen=True)
class Asked:
    """What to measure.

    Attributes:
        sizes: numbers of records.
        rounds: runs of each cell.
        limit: seconds after which a run is stopped.
        scale: the measurements' own sizes are multiplied by this: less than 1 to try them.
        gigabytes: sizes of the growth.
        work: the folder for inputs and what is landed locally.
    """

    sizes: Sequence[int]
    inputs: Sequence[str]
    targets: Sequence[str]
    formats: Sequence[str]
    contestants: Sequence[str]
    rounds: int
    limit: float
    scale: float
    gigabytes: Sequence[float]
    work: Path


def cells(asked: Asked) -> Iterator[list[Cell]]:
    """The cells that stand beside each other: one list for each size, input and target."""
    for records in asked.sizes:
        for input_ in asked.inputs:
            for target in asked.targets:
                group = [
                    Cell(name, input_, records, target, format_)
                    for name in asked.contestants
                    for format_ in formats(CONTESTANTS[name], asked.formats)
                    if input_ in CONTESTANTS[name].inputs and target in CONTESTANTS[name].targets
                ]
                if group:
                    yield group


def formats(contestant: Contestant, wanted: Iterable[str]) -> list[str]:
    """Those of the wanted formats that a contestant writes; its own where it writes neither."""
    own = [format_ for format_ in contestant.formats if format_ not in ("parquet", "delta")]
    return own or [format_ for format_ in contestant.formats if format_ in wanted]


def measure(asked: Asked, places: Places, results: Results) -> None:
    """Fill the cells that lack runs; all of a group run in turn, round by round."""
    with ExitStack() as stack:
        session: WarmSession | None = None
        missing = ""
        groups = list(cells(asked))
        if any(cell.contestant == WARM for group in groups for cell in group):
            try:
                session = stack.enter_context(warm_session(asked.work))
            except NoWarmSession as error:
                missing = str(error)
                print(f"{WARM} is left out: {missing}", flush=True)
        comparison = Comparison(asked, places, results, session)
        for group in groups:
            group = [cell for cell in group if not (missing and cell.contestant == WARM)]
            comparison.fill(group)


@dataclass
class Comparison:
    """Runs cells and keeps what they took."""

    asked: Asked
    places: Places
    results: Results
    session: WarmSession | None

    def __post_init__(self) -> None:
        self._warmed: set[tuple[str, str, str]] = set()

    def fill(self, group: list[Cell]) -> None:
        """Run a group's cells in turn until each has all its runs."""
        in_turn(
            self.asked.rounds, self.results, {cell: partial(self._once, cell) for cell in group}
        )

    def _once(self, cell: Cell) -> Run:
        self._warm_up(cell)
        return self._run(cell)

    def _warm_up(self, cell: Cell) -> None:
        """Once for each way to land: bytecode, archives of classes and the like get made."""
        way = (cell.contestant, cell.target, cell.format)
        if way not in self._warmed:
            self._warmed.add(way)
            self._run(Cell(cell.contestant, cell.load, WARM_UP, cell.target, cell.format))

    def _run(self, cell: Cell) -> Run:
        """One run, its files counted and its values compared; nothing of it stays."""
        source = data.source(self.asked.work, cell.load, cell.records)
        place = self.places.new(cell.target)
        endpoint = self.places.minio.endpoint
        job = Job(source, cell.load, place, cell.format, self.places.folder, endpoint)
        warm = self.session if cell.contestant == WARM else None
        try:
            command = CONTESTANTS[cell.contestant].command(job)
            environment = {**self.places.environment, **command.environment}
            took = run(
                command.arguments,
                {**environment, **(warm.environment if warm else {})},
                limit=self.asked.limit,
                beside=warm.processes if warm else (),
                feed=command.feed,
            )
            if took.failure:
                return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)
            sizes = place.sizes()
            if not sizes:
                return Run(took.seconds, took.cpu, took.memory_mb, failure="nothing landed")
            told = self._compared(cell, place)
            counted = (took.seconds, took.cpu, took.memory_mb, len(sizes), sum(sizes))
            return Run(*counted, values=told)
        finally:
            place.clear()

    def _compared(self, cell: Cell, place: Place) -> str:
        given = values.truth(self.asked.work, cell.load, cell.records)
        expected = values.fields(cell.load)
        try:
            return values.compare(place.fetched(), cell.format, expected, given).words()
        except (duckdb.Error, deltalake.exceptions.DeltaError) as error:
            return f"can't be read back: {str(error).splitlines()[0]}"
