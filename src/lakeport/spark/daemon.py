"""PySpark's worker daemon with what tasks need imported before it forks: workers start warm."""

from __future__ import annotations

import gc
import importlib
from typing import Final

__all__ = ["main"]

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
    "lakeport.schema.conform",
    "lakeport.schema.inference",
    "lakeport.shape.columns",
    "lakeport.sources.csv",
    "lakeport.sources.parquet",
    "lakeport.storage.local",
    "lakeport.lander",
    "lakeport.writers.delta_sink",
    "lakeport.writers.encode",
    "lakeport.writers.sink",
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
