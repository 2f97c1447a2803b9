"""A writer in a process of its own: appends to Delta tables on S3 as it is told on standard input.

Each line is a JSON object with `endpoint`, `keys`, `bucket`, `table`, `first` and `count` (ids to
append, one a commit), `scheme` (`s3a`: lakeport's log store; `s3`: the stock one), `meet`: a folder
where two writers wait for each other before each commit, empty for none, and if need be `mode` and
`column`, a further column.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport.errors import LakeportError
from lakeport.spark.filesystems import session_for
from lakeport.spark.session import Runtime
from lakeport.storage.s3 import S3Storage
from lakeport.storage.s3_settings import AwsSettings
from lakeport.storage.s3a import hadoop_settings
from lakeport.writers.delta import DeltaWriter
from tests.spark.delta_support import aligned

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


def append(runtime: Runtime, task: dict[str, Any]) -> dict[str, Any]:
    """Append ids; return those that were reported as committed, and the errors."""
    settings = AwsSettings(*task["keys"], endpoint=task["endpoint"], region="us-east-1")
    storage = Named(task["bucket"], "lake", settings, scheme=task["scheme"])
    root, hadoop = storage.hadoop_uri(), hadoop_settings(task["bucket"], settings)
    writer = DeltaWriter(
        lambda: session_for(runtime, root, hadoop),
        storage,
        task["table"],
        "stream",
        properties={"delta.checkpointInterval": "100"},  # each one is a Spark job
    )
    done, errors = [], []
    for number in range(task["first"], task["first"] + task["count"]):
        rows = pa.table({"id": [number], **({task["column"]: ["x"]} if "column" in task else {})})
        plan = writer.plan(rows.schema, mode=task.get("mode", "append"))
        staged = writer.sink(plan).write(aligned(plan, rows), 0)
        meet(task["meet"], str(number - task["first"]))
        try:
            writer.commit(plan, staged)
        except LakeportError as error:
            errors.append(str(error))
        else:
            done.append(number)
    return {"done": done, "errors": errors}


def main() -> None:
    """Serve until standard input ends."""
    runtime = Runtime.start({"delta", "s3a"}, SETTINGS, small=True)
    runtime.spark  # noqa: B018
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(append(runtime, json.loads(line))), flush=True)
    runtime.stop()


if __name__ == "__main__":
    main()
