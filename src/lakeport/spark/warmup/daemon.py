"""PySpark's worker daemon with what tasks need imported before it forks: workers start warm."""

from __future__ import annotations

import gc
import importlib
from typing import Final

__all__ = ["main"]

# What the tasks of every source and sink import. Merges load theirs when there is one: pyarrow's
# datasets take 50 ms, which others need not wait for.
_WARM: Final = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.json",
    "pyarrow.parquet",
    "msgspec",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "lakeport.model",
    "lakeport.errors",
    "lakeport.spark.jobs",
    "lakeport.schema.types",
    "lakeport.sources.json.reader",
    "lakeport.sources.json.inference",
    "lakeport.shape.columns",
    "lakeport.sources.csv.inference",
    "lakeport.sources.csv.reader",
    "lakeport.sources.frames.source",
    "lakeport.sources.parquet.reader",
    "lakeport.storage.local.store",
    "lakeport.loading.stream",
    "lakeport.writers.delta.sink",
    "lakeport.writers.files.csv",
    "lakeport.writers.files.encode",
    "lakeport.writers.files.sink",
)


def main() -> None:
    """Import, then serve forks until Spark closes the pipe."""
    for name in _WARM:
        try:
            importlib.import_module(name)
        except ImportError:
            # A task that needs it says so itself; the daemon must come up in any case.
            continue
    gc.collect()
    gc.freeze()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
