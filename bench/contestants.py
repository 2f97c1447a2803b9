"""Who takes part, and with which command each lands a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import data
from bench.environments import PEERS, program, script
from bench.places import BUCKET, Place
from lakeport.engine.spark.jvm.jars import LOG_STORE, ensure_jars

COLD, WARM, THREADS = "lakeport cold", "lakeport warm", "lakeport threads"
SPARK, DLT_ROWS, DLT_ARROW = "PySpark by hand", "dlt, rows", "dlt, Arrow"
DELTA_RS, POLARS, DUCKDB = "delta-rs", "Polars", "DuckDB"
TARGET_CSV, TARGET_S3 = "target-csv", "target-s3-jsonl"
ENGINES = {
    COLD: {"LAKEPORT_WARM": "off", "LAKEPORT_ENGINE": "spark"},
    THREADS: {"LAKEPORT_ENGINE": "threads"},
}
"""What the environment has, so that lakeport loads by Spark that starts for it, or by threads."""
LAND = (sys.executable, "-m", "lakeport", "land")
ANYWHERE = ("local", "minio")


@dataclass(frozen=True)
class Job:
    """What a contestant is asked to do.

    Attributes:
        source: the input's file.
        input: its form, one of `data.FORMS`.
        folder: for config files.
        endpoint: MinIO's address.
    """

    source: Path
    input: str
    place: Place
    format: str
    folder: Path
    endpoint: str

    def config(self, name: str, keys: dict[str, str]) -> str:
        """Write a config file for this job."""
        path = self.folder / f"{name}-{Path(self.place.uri).name}.json"
        path.write_text(json.dumps(keys))
        return str(path)


@dataclass(frozen=True)
class Command:
    """What to run, what goes to its standard input, and what its environment has besides."""

    arguments: Sequence[str]
    feed: tuple[Path, int] | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contestant:
    """One who lands; what it can't is no cell of the comparison.

    Attributes:
        command: what it runs for a job.
        own_format: what its files are, where it writes neither Parquet nor Delta.
    """

    name: str
    command: Callable[[Job], Command]
    formats: tuple[str, ...] = ("parquet", "delta")
    inputs: tuple[str, ...] = tuple(data.FORMS)
    targets: tuple[str, ...] = ANYWHERE


COMMANDS = tuple(form for form in data.FORMS if form != "frame")
"""Inputs that a command lands; a frame is landed by Python, which has a Spark of its own."""


def lakeport(job: Job, *options: str) -> Command:
    """The command line; Python for a frame."""
    to = job.place.uri
    if job.format == "delta" and to.startswith("s3://"):
        prefix = to.removeprefix(f"s3://{BUCKET}/")
        keys = {"destination": "delta_lake_s3", "bucket": BUCKET, "object_key_path": prefix}
        to = job.config("lakeport", keys)
    if job.input == "frame":
        frame = str(PEERS / "lakeport_frame.py")
        return Command((sys.executable, frame, str(job.source), to, job.format))
    declared = ("--schema", str(data.write_schema(job.folder))) if "declared" in job.input else ()
    land = (*LAND, str(job.source), "--to", to, "--format", job.format, "--table", "events")
    return Command((*land, *declared, *options))


def cold(job: Job) -> Command:
    """By Spark, which starts for it, even where a warm session runs."""
    return Command(lakeport(job).arguments, environment=ENGINES[COLD])


def threads(job: Job) -> Command:
    """In threads of the process, without Spark."""
    return Command(lakeport(job).arguments, environment=ENGINES[THREADS])


def warm(job: Job) -> Command:
    """By the Spark of the session that runs."""
    required = {**ENGINES[COLD], "LAKEPORT_WARM": "require"}
    return Command(lakeport(job).arguments, environment=required)


def peer(name: str, file: str, *more: str) -> Callable[[Job], Command]:
    """A script of `peers/` in its environment."""

    def command(job: Job) -> Command:
        asked = (str(job.source), job.input, job.place.uri, job.format)
        return Command(script(name, file, *asked, *more))

    return command


def pyspark(job: Job) -> Command:
    """Spark with the jars that it needs for this job, as files."""
    needed = {"delta"} if job.format == "delta" else set()
    needed |= {"s3a"} if job.place.uri.startswith("s3://") else set()
    jars = ",".join(str(jar) for jar in ensure_jars(needed) if jar != LOG_STORE) if needed else ""
    return peer("pyspark", "pyspark_load.py", jars)(job)


def target_csv(job: Job) -> Command:
    """Meltano's target, as Meltano starts it."""
    Path(job.place.uri).mkdir(parents=True)
    config = job.config("target-csv", {"output_path": job.place.uri})
    return Command((program("target-csv", "target-csv"), "--config", config), (job.source, 1))


def target_s3_jsonl(job: Job) -> Command:
    """A target that uploads the records as they came; the store's keys are in the environment."""
    prefix = job.place.uri.removeprefix(f"s3://{BUCKET}/")
    keys = {"s3_bucket": BUCKET, "path_template": f"{prefix}/{{stream}}.json"}
    keys |= {"aws_endpoint_url": job.endpoint, "work_dir": str(job.folder)}
    config = job.config("target-s3-jsonl", keys)
    arguments = (program("target-s3-jsonl", "target-s3-jsonl"), "--config", config)
    return Command(arguments, (job.source, 1))


CONTESTANTS = {
    each.name: each
    for each in (
        Contestant(COLD, cold),
        Contestant(WARM, warm, inputs=COMMANDS),
        Contestant(THREADS, threads),
        Contestant(SPARK, pyspark),
        Contestant(DLT_ROWS, peer("dlt", "dlt_load.py", "rows")),
        Contestant(DLT_ARROW, peer("dlt", "dlt_load.py", "arrow")),
        Contestant(DELTA_RS, peer("deltars", "deltars_load.py"), ("delta",)),
        Contestant(POLARS, peer("polars", "polars_load.py")),
        Contestant(DUCKDB, peer("duckdb", "duckdb_load.py"), ("parquet",)),
        Contestant(TARGET_CSV, target_csv, ("csv",), ("singer",), ("local",)),
        Contestant(TARGET_S3, target_s3_jsonl, ("jsonl",), ("singer",), ("minio",)),
    )
}
