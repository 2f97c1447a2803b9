"""A writer in a process of its own: changes Delta tables on S3 as it is told on standard input.

Each line is a JSON object with `endpoint`, `keys`, `bucket`, `table`, `first` and `count` (ids to
append, one a commit), `scheme` (`s3a`: lakeport's log store; `s3`: the stock one), `meet`: a folder
where two writers wait for each other before each commit, empty for none, and if need be `mode`
(`optimize` is one more) and `column`, a further column.

With `mode: merge`, each commit merges the rows `ids` and `fresh` + its ordinal, if these are given,
which get the commit's id as their `value`. With `inside`, what the other one does between its two
meetings happens between this one's look at the table and its commit.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport.config.destinations.local import LocalConfig
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.delta.session import DeltaSession
from lakeport.engine.spark.engine import SparkEngine
from lakeport.engine.spark.filesystems import configure_store
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import LakeportError
from lakeport.lake.table import Table
from lakeport.storage.s3.hadoop import hadoop_settings
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from lakeport.writers.delta.merge import DeltaMerger
from lakeport.writers.delta.writer import DeltaWriter
from tests.spark.delta_support import aligned

SELDOM = {"delta.checkpointInterval": "100"}  # each checkpoint is a Spark job
STOCK = "io.delta.storage.S3SingleDriverLogStore"
SETTINGS = {
    "spark.delta.logStore.s3.impl": STOCK,
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


@dataclass(frozen=True, slots=True)
class Named(S3Storage):
    """A storage that Spark knows under another scheme."""

    scheme: str = "s3a"

    def hadoop_uri(self, key: str = "") -> str:
        return S3Storage.hadoop_uri(self, key).replace("s3a://", f"{self.scheme}://")


def meet(folder: str, name: str) -> None:
    """Wait until two have come to this point."""
    if folder:
        place = Path(folder, name)
        place.mkdir(parents=True, exist_ok=True)
        (place / str(os.getpid())).touch()
        end = time.monotonic() + 120
        while len(list(place.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.005)


@dataclass(frozen=True)
class Meeting(DeltaWriter):
    """A writer that meets another one when it has looked at the table and is about to commit."""

    points: list[tuple[str, str]] = field(default_factory=list)

    def try_commit(self, *arguments: Any, **keys: Any) -> Any:
        while self.points:
            meet(*self.points.pop(0))
        return super().try_commit(*arguments, **keys)


def change(driver: DriverSession, task: dict[str, Any]) -> dict[str, Any]:
    """Make the commits; return the ids of those that were reported as done, and the errors."""
    settings = AwsSettings(*task["keys"], endpoint=task["endpoint"], region="us-east-1")
    storage = Named(task["bucket"], "lake", settings, scheme=task["scheme"])
    root, hadoop = storage.hadoop_uri(), hadoop_settings(task["bucket"], settings)

    def session() -> DeltaSession:
        configure_store(driver, root, hadoop, commits=True)
        return DeltaSession(driver.spark)

    writer = Meeting(
        session,
        storage,
        task["table"],
        "stream",
        LocalConfig(path=".", table_properties=SELDOM),
    )
    done, errors = [], []
    for ordinal in range(task["count"]):
        points = [str(ordinal), f"{ordinal} done"][: 2 if "inside" in task else 1]
        writer.points.extend((task["meet"], point) for point in points)
        number = task["first"] + ordinal
        try:
            if task.get("mode") == "optimize":
                optimize(writer, task)
            elif task.get("mode") == "merge":
                merge(driver, writer, task, number)
            else:
                append(writer, task, number)
        except LakeportError as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            done.append(number)
    return {"done": done, "errors": errors}


def append(writer: DeltaWriter, task: dict[str, Any], number: int) -> None:
    rows = pa.table({"id": [number], **({task["column"]: ["x"]} if "column" in task else {})})
    plan = writer.plan(rows.schema, mode=task.get("mode", "append"))
    writer.commit(plan, writer.sink(plan).write(aligned(plan, rows), 0))


def merge(driver: DriverSession, writer: DeltaWriter, task: dict[str, Any], number: int) -> None:
    fresh = [task["fresh"] + number - task["first"]] if "fresh" in task else []
    ids = [*task.get("ids", []), *fresh]
    rows = pa.table({"id": ids, "value": [number] * len(ids)})
    with SparkEngine(SessionRequest(driver.needs, SETTINGS)) as engine:
        merger = DeltaMerger(writer, engine)
        plan = merger.plan(rows.schema, ["id"])
        merger.commit(plan, merger.sink(plan).write(iter(rows.to_batches()), 0))


def optimize(writer: Meeting, task: dict[str, Any]) -> None:
    access, secret = task["keys"]
    store = {
        "destination": "delta_lake_s3",
        "bucket": task["bucket"],
        "aws_endpoint": task["endpoint"],
        "aws_region": "us-east-1",
        "aws_access_key_id": access,
        "aws_secret_access_key": secret,
        "spark": SETTINGS,
    }
    table = Table(f"s3://{task['bucket']}/lake/{task['table']}", store)
    meet(*writer.points.pop(0))
    try:
        table.optimize()
    finally:
        for point in writer.points:
            meet(*point)
        writer.points.clear()


def main() -> None:
    """Serve until standard input ends."""
    driver = DriverSession.acquire(SessionRequest({"delta", "s3a"}, SETTINGS))
    driver.spark  # noqa: B018
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(change(driver, json.loads(line))), flush=True)
    driver.stop()


if __name__ == "__main__":
    main()
