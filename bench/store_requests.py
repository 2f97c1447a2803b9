"""How many requests a load sends to its store, by the number of input files and of batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from bench import data
from bench.comparison import Asked
from bench.contestants import COLD, ENGINES, LAND
from bench.measure import run
from bench.places import BUCKET, MinioPlace, Places
from bench.results import Cell, Results, Run
from bench.rounds import in_turn
from tests.faults.requests.naming import namer
from tests.faults.requests.proxy import FaultProxy

FILES = (
    ("parquet", 1, 1_000),
    ("parquet", 10, 1_000),
    ("parquet", 100, 1_000),
    ("parquet", 1, 1_000_000),
    ("csv", 100, 1_000),
    ("csv", 1, 1_000_000),
)
"""Kind of file, how many of them, and the rows of each."""
SINGER = (1_000, 10_000, 30_000)  # records, of which 2,800 fill a batch

PLACES = {
    "t/_delta_log": "log",
    "_delta_log": "log",
    "t/": "data",
    "_lakeport/probe": "probe",
    "_lakeport": "notes",
}
"""Begin of a path in the lake -> what lies there; anything else is input."""


def measure(asked: Asked, places: Places, results: Results) -> None:
    """Count the requests of a second load into a table, through a proxy before MinIO."""
    runs: dict[Cell, Callable[[], Run]] = {}
    for input_, number, rows in FILES:
        for format_ in asked.formats:
            name = f"{number} {input_} file{'s' * (number > 1)}"
            cell = Cell(name, "requests", number * rows, "minio", format_)
            runs[cell] = partial(of_files, asked, places, input_, number, rows, format_)
    for records in SINGER:
        cell = Cell("Singer, batches of 1 MB", "requests", records, "minio", "delta")
        source = data.source(asked.work, "singer", records)
        runs[cell] = partial(
            count, asked, places, str(source), "delta", "--set", "maximum_batch_size_mb=1"
        )
    in_turn(1, results, runs)


def of_files(
    asked: Asked, places: Places, input_: str, number: int, rows: int, format_: str
) -> Run:
    """Land so many files of a store."""
    one = data.write_narrow(asked.work / f"narrow-{rows}.{input_}", rows)
    source = places.new("minio")
    assert isinstance(source, MinioPlace)
    source.put(one, [f"{name}.{input_}" for name in range(number)])
    try:
        return count(asked, places, source.uri, format_)
    finally:
        source.clear()


def count(asked: Asked, places: Places, source: str, format_: str, *options: str) -> Run:
    """Land a source twice; the second load's requests are the figures, by their kinds."""
    target = places.new("minio")
    root = target.uri.partition(f"{BUCKET}/")[2]
    where: Any = SimpleNamespace(namer=namer("s3", BUCKET, root))
    kept = "destination=delta_lake_s3" if format_ == "delta" else f"file_type={format_}"
    land = (*LAND, source, "--to", target.uri, "--set", kept, "--table", "t", *options)
    with FaultProxy(places.minio.endpoint, "s3") as proxy:
        variables = {**places.environment, **ENGINES[COLD], "LAKEPORT_AWS_ENDPOINT": proxy.endpoint}
        first = run(land, variables, limit=asked.limit)
        with proxy.script(where) as script:
            took = run(land, variables, limit=asked.limit)
    kinds = Counter(kind(point.name) for point in script.seen)
    target.clear()
    return Run(
        took.seconds,
        took.cpu,
        took.memory_mb,
        failure=first.failure or took.failure,
        figures=dict(kinds),
    )


def kind(name: str) -> str:
    """What a request is about, such as `LIST log` for `LIST t/_delta_log`."""
    done, path = name.rsplit(" ", 1)
    for start, place in PLACES.items():
        if path.startswith(start):
            return f"{done} {place}"
    return f"{done} input"
