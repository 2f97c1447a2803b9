"""What is measured besides the comparison: every target that a load of one file can't show."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import data, databases, growth, looks, merge, new_files, store_requests, transforms
from bench.comparison import Asked, Comparison
from bench.contestants import COLD, DELTA_RS, DLT_ARROW, ENGINES, LAND, THREADS, WARM
from bench.environments import PEERS, script
from bench.measure import run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import figured, in_turn
from bench.session import NoWarmSession, own_cache, warm_session

APPENDS, STREAMS = 300, 1_000
CSV_RECORDS, FRAME_RECORDS = 3_000_000, 2_000_000
SMALL = 10_000
SETTLED = 10  # seconds
OFF, REQUIRED = ENGINES[COLD], {"LAKEPORT_WARM": "require"}


def csv(asked: Asked, places: Places, results: Results) -> None:
    """A larger CSV file than the comparison's, read by lakeport and by dlt with pyarrow."""
    records = round(CSV_RECORDS * asked.scale)
    compared = Comparison(asked, places, results, None)
    for input_ in ("csv", "csv declared"):
        compared.fill(
            [
                Cell(name, input_, records, "local", format_)
                for name in (COLD, THREADS, DLT_ARROW)
                for format_ in asked.formats
            ]
        )


def frame(asked: Asked, places: Places, results: Results) -> None:
    """A frame into Delta, without the start: in processes that have written before."""
    records = round(FRAME_RECORDS * asked.scale)
    source = str(data.source(asked.work, "frame", records))
    ours = (sys.executable, str(PEERS / "lakeport_second.py"), source)
    theirs = script("deltars", "deltars_second.py", source)

    def once(name: str) -> Run:
        command = theirs if name == DELTA_RS else ours
        return in_folder(places, lambda lake: (*command, str(lake)), name, asked.limit)

    runs = {
        Cell(name, "second frame", records, "local", "delta"): partial(once, name)
        for name in (COLD, THREADS, DELTA_RS)
    }
    in_turn(asked.rounds, results, runs)


def appends(asked: Asked, places: Places, results: Results) -> None:
    """Many small appends to one Delta table, in one process."""
    source = str(data.source(asked.work, "frame", SMALL))
    times = max(20, round(APPENDS * asked.scale))
    command = (sys.executable, str(PEERS / "lakeport_appends.py"), source)

    def once(name: str) -> Run:
        return in_folder(places, lambda lake: (*command, str(lake), str(times)), name, asked.limit)

    cells = {name: Cell(name, "appends", times, "local", "delta") for name in ENGINES}
    in_turn(asked.rounds, results, {cell: partial(once, name) for name, cell in cells.items()})


def streams(asked: Asked, places: Places, results: Results) -> None:
    """Many streams in one input, a record of each in turn."""
    count = max(2, round(STREAMS * asked.scale))
    source = data.write_streams(asked.work / f"streams-{count}.singer", count * 100, count)

    def once(cell: Cell) -> Run:
        lake = places.folder / "streams"
        land = (*LAND, str(source), "--to", str(lake), "--format", cell.format)
        took = run(land, ENGINES[cell.contestant], limit=asked.limit)
        try:
            return growth.landed(took, lake, count * 100)
        finally:
            shutil.rmtree(lake, ignore_errors=True)

    cells = [
        Cell(name, "streams", count, "local", format_)
        for format_ in asked.formats
        for name in ENGINES
    ]
    in_turn(asked.rounds, results, {cell: partial(once, cell) for cell in cells})


def warm(asked: Asked, places: Places, results: Results) -> None:
    """What a session costs at first and saves later: the first load with `--warm`, `table show`."""
    source = data.source(asked.work, "singer", SMALL)
    table = places.folder / "shown"
    run((*LAND, str(source), "--to", str(table), "--table", "events"), OFF)
    show = (sys.executable, "-m", "lakeport", "table", "show", str(table / "events"))

    def first(*options: str) -> Run:
        land = (sys.executable, "-m", "lakeport", "land", str(source), *options, "--to")
        variables = own_cache(asked.work) | ({} if options else OFF)
        place = places.new("local")
        try:
            command = (*land, place.uri, "--format", "parquet")
            took = run(command, variables, limit=asked.limit, linger=2 if options else 60)
            return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)
        finally:
            place.clear()

    try:
        with warm_session(asked.work) as session:
            environment = {**session.environment, **REQUIRED}
            run(show, environment)
            time.sleep(SETTLED)  # a session prepares for what may come when it has nothing to do
            once = partial(shown, show, environment, session.processes)
            in_turn(
                asked.rounds, results, {Cell(WARM, "table show", SMALL, "local", "delta"): once}
            )
        cells = {
            Cell(COLD, "first load", SMALL, "local", "parquet"): first,
            Cell(WARM, "first load", SMALL, "local", "parquet"): partial(first, "--warm"),
        }
        in_turn(asked.rounds, results, cells)
    except NoWarmSession as error:
        print(f"the warm session is left out: {error}", flush=True)
    once = partial(shown, show, OFF, ())
    in_turn(asked.rounds, results, {Cell(COLD, "table show", SMALL, "local", "delta"): once})
    shutil.rmtree(table)


def shown(command: tuple[str, ...], environment: dict[str, str], processes: tuple[int, ...]) -> Run:
    """A look at a table."""
    took = run(command, environment, beside=processes)
    return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)


def in_folder(
    places: Places,
    command: Callable[[Path], tuple[str, ...]],
    name: str,
    limit: float,
) -> Run:
    """Run a contestant's command with a fresh folder, and remove the folder afterwards.

    The last line of its output may hold figures.
    """
    place = places.new("local")
    try:
        took = run(command(Path(place.uri)), ENGINES.get(name), limit=limit)
        if took.output.endswith("}"):
            return figured(took)
        return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)
    finally:
        place.clear()


MEASUREMENTS: dict[str, Callable[[Asked, Places, Results], None]] = {
    "warm": warm,
    "csv": csv,
    "frame": frame,
    "appends": appends,
    "streams": streams,
    "partitions": growth.partitions,
    "merge": merge.measure,
    "database": databases.measure,
    "workers": growth.workers,
    "workers on files": growth.workers_on_files,
    "growth": growth.sizes,
    "driver": growth.driver,
    "requests": store_requests.measure,
    "pages": looks.pages,
    "new files": new_files.measure,
    "transforms": transforms.measure,
}
