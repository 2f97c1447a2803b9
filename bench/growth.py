"""How the time of a load grows: with its size, on one and two cores and workers, and partitions.

The input is one file of 50 MB, over and over, through standard input: 20 GB need no disk.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import data
from bench.comparison import Asked
from bench.contestants import COLD, ENGINES, LAND
from bench.measure import Took, run
from bench.places import Places
from bench.results import Cell, Results, Run
from bench.rounds import figured, in_turn
from bench.values import database

PART = 135_000  # records of the file: 50 MB
PARTITIONED = 200_000
PARTITIONS = (1, 10, 100, 1_000, 10_000)
SHARED = 20_000_000  # records that one worker and two are compared with
FILE = 3_000_000  # rows of each of the files that they are compared with
FILES = 8
DRIVEN = (2_000_000, 20_000_000, 100_000_000)
PER_FILE = 1_000_000  # rows of each file of a store
FIRST = 10_000  # records of the stream before


def sizes(asked: Asked, places: Places, results: Results) -> None:
    """Each size once on one and two cores, as local Spark and as workers of a cluster."""
    part = data.source(asked.work, "singer", PART)
    runs: dict[Cell, Callable[[], Run]] = {}
    for gigabytes in asked.gigabytes:
        times = max(1, round(gigabytes * 1e9 / part.stat().st_size))
        rows = times * PART
        for number in (1, 2):
            for format_ in asked.formats:
                cell = Cell(f"{number} core{'s' * (number > 1)}", "growth", rows, "local", format_)
                runs[cell] = partial(on_cores, asked, places, number, format_, part, times)
            cell = Cell(f"{number} worker{'s' * (number > 1)}", "growth", rows, "local", "parquet")
            runs[cell] = partial(on_workers, asked, places, number, part, times)
    in_turn(1, results, runs)


def on_cores(asked: Asked, places: Places, cores: int, format_: str, part: Path, times: int) -> Run:
    """A cold load by the command line that gets so many cores."""
    lake = places.folder / "growth"
    pinned = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    land = (*LAND, "-", "--to", str(lake), "--format", format_)
    command = ("taskset", "-c", pinned, *land, "--spark", f"spark.master=local[{cores}]")
    took = run(command, ENGINES[COLD], limit=asked.limit, feed=(part, times))
    try:
        return landed(took, lake, times * PART)
    finally:
        shutil.rmtree(lake, ignore_errors=True)


def landed(took: Took, lake: Path, rows: int) -> Run:
    """The run with its files, and whether all rows are there."""
    if took.failure:
        return Run(took.seconds, took.cpu, took.memory_mb, failure=took.failure)
    files = [path for path in lake.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    data_files = [
        str(path)
        for path in files
        if path.suffix == ".parquet" and "_delta_log" not in path.parts  # where checkpoints are
    ]
    asked = f"SELECT count(*) FROM read_parquet({data_files}, hive_partitioning=false)"
    (found,) = database().execute(asked).fetchall()[0]
    values = "" if found == rows else f"{found:,} rows of {rows:,}"
    return Run(took.seconds, took.cpu, took.memory_mb, len(files), size, values)


def on_workers(asked: Asked, places: Places, workers: int, source: Path, times: int) -> Run:
    """A load on a cluster of so many workers, of a core each."""
    stream = ("--times", str(times)) if times > 1 else ()
    return on_cluster(asked, places, workers, str(source), "parquet", *stream)


def on_cluster(
    asked: Asked, places: Places, workers: int, source: str, format_: str, *options: str
) -> Run:
    """A run of `bench.cluster`, which reaches MinIO."""
    folder = places.folder / "cluster"
    command = (sys.executable, "-m", "bench.cluster", str(workers), source, format_, str(folder))
    variables = {**places.environment, **ENGINES[COLD]}
    try:
        return figured(run((*command, *options), variables, limit=asked.limit))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def workers(asked: Asked, places: Places, results: Results) -> None:
    """One worker and two, in turn, on the same Singer file."""
    records = round(SHARED * asked.scale)
    source = data.source(asked.work, "singer", records)
    in_turn(
        asked.rounds,
        results,
        {
            Cell(f"{number} worker{'s' * (number > 1)}", "workers", records, "local", "parquet"): (
                partial(on_workers, asked, places, number, source, 1)
            )
            for number in (1, 2)
        },
    )


def workers_on_files(asked: Asked, places: Places, results: Results) -> None:
    """The same on the files of a folder, which tasks read themselves."""
    rows = round(FILE * asked.scale)
    folder = asked.work.resolve() / f"files-{rows}"
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        file = folder / f"{number}.csv"
        file.unlink(missing_ok=True)
        file.hardlink_to(data.source(asked.work, "csv", rows))
    in_turn(
        asked.rounds,
        results,
        {
            Cell(
                f"{number} worker{'s' * (number > 1)}",
                "workers on files",
                FILES * rows,
                "local",
                "parquet",
            ): partial(on_workers, asked, places, number, folder, 1)
            for number in (1, 2)
        },
    )


def driver(asked: Asked, places: Places, results: Results) -> None:
    """What the driver of a cluster uses as the input grows: files in a store, and a stream.

    The files hold a million rows each and are copies of one.
    """
    runs: dict[Cell, Callable[[], Run]] = {}
    for input_ in ("parquet", "csv"):
        for rows in DRIVEN:
            files = max(1, round(rows * asked.scale) // PER_FILE)
            for format_ in asked.formats:
                cell = Cell(f"{input_} files", "driver", files * PER_FILE, "minio", format_)
                runs[cell] = partial(drive_files, asked, places, input_, files, format_)
    for rows in DRIVEN[:-1]:
        records = round(rows * asked.scale)
        for format_ in asked.formats:
            cell = Cell("Singer stream", "driver", records, "minio", format_)
            runs[cell] = partial(drive_stream, asked, places, records, format_)
    in_turn(1, results, runs)


def drive_files(asked: Asked, places: Places, input_: str, files: int, format_: str) -> Run:
    """Land so many files of a store by two workers; one file goes before."""
    one = data.write_narrow(asked.work / f"narrow-{PER_FILE}.{input_}", PER_FILE)
    source, target = places.new("minio"), places.new("minio")
    source.put(one, [f"{number}.{input_}" for number in range(files)])
    first = f"{source.uri}/0.{input_}"
    try:
        options = ("--first", first, "--to", target.uri, "--spool", f"{target.uri}/spool")
        return on_cluster(asked, places, 2, source.uri, format_, *options)
    finally:
        source.clear()
        target.clear()


def drive_stream(asked: Asked, places: Places, records: int, format_: str) -> Run:
    """Land a Singer stream by two workers; a small one goes before."""
    source, first = (data.source(asked.work, "singer", number) for number in (records, FIRST))
    target = places.new("minio")
    try:
        options = ("--to", target.uri, "--spool", f"{target.uri}/spool", "--first", str(first))
        return on_cluster(asked, places, 2, str(source), format_, *options, "--times", "1")
    finally:
        target.clear()


def partitions(asked: Asked, places: Places, results: Results) -> None:
    """The same records into more and more partitions of a Delta table."""
    records = round(PARTITIONED * asked.scale)
    runs: dict[Cell, Callable[[], Run]] = {}
    for number in PARTITIONS:
        count = max(1, round(number * asked.scale))
        cell = Cell(f"{count:,} partitions", "partitions", records, "local", "delta")
        runs[cell] = partial(into_partitions, asked, places, records, count)
    in_turn(1, results, runs)


def into_partitions(asked: Asked, places: Places, records: int, count: int) -> Run:
    """A cold load into so many partitions."""
    source = asked.work / f"parts-{records}-{count}.singer"
    data.write_partitioned(source, records, count)
    lake = places.folder / "partitions"
    land = (*LAND, str(source), "--to", str(lake), "--format", "delta", "--partition-by", "part")
    try:
        return landed(run(land, ENGINES[COLD], limit=asked.limit), lake, records)
    finally:
        shutil.rmtree(lake, ignore_errors=True)
        source.unlink()
