"""PySpark's worker daemon with what tasks need imported before it forks: workers start warm."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from lakeport.engine.spark.jvm import standby
from lakeport.host.pandas import pandas_hidden

_W = TypeVar("_W", bound=Callable[..., int])
_LEISURE_SECONDS: Final = 3.0  # after which Spark's first tasks have been forked

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
    "lakeport.engine.spark.jobs",
    "lakeport.schema.types",
    "lakeport.sources.json.reader",
    "lakeport.sources.json.inference",
    "lakeport.shape",
    "lakeport.sources.csv.inference",
    "lakeport.sources.csv.reader",
    "lakeport.sources.frames.source",
    "lakeport.sources.parquet",
    "lakeport.storage.local",
    "lakeport.loading.stream",
    "lakeport.writers.delta.sink",
    "lakeport.writers.files.encode",
    "lakeport.writers.files.encode",
    "lakeport.writers.files.sink",
)
_SDKS: Final = "lakeport.storage.sdks"


def main() -> None:
    """Import, then serve forks until Spark closes the pipe.

    With an address as its argument: on standby, see `standby`. Else whoever is on standby serves.
    """
    address = os.environ.get(standby.ADDRESS)
    if _on_standby():
        listener = standby.listen(sys.argv[1])
        _prepare()
        connection = standby.take_over(listener)
        if connection is None:
            return
    elif address and standby.hand_over(address):
        return
    else:
        _prepare()
    from pyspark import daemon

    daemon.worker = _freezing(daemon.worker)
    if "SPARK_REUSE_WORKER" not in os.environ:  # a worker for each task: see the warm sessions
        signal.signal(signal.SIGALRM, _prepare_more)
        signal.setitimer(signal.ITIMER_REAL, _LEISURE_SECONDS)  # forks have no timer
    daemon.manager()


def _on_standby() -> bool:
    return sys.argv[1:] != [] and Path(sys.argv[1]).is_absolute()  # Spark gives a module's name


def _prepare() -> None:
    """Import what tasks need."""
    for name in _WARM:
        try:
            importlib.import_module(name)
        except ImportError:
            # A task that needs it says so itself; the daemon must come up in any case.
            continue
    with suppress(ImportError), pandas_hidden():
        importlib.import_module("pyarrow").scalar(None)  # it looks for pandas now, and in vain
    _freeze()


def _prepare_more(number: int, frame: object) -> None:
    """Load what tasks need that reach a store; workers of one task would each do it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(ImportError):
        importlib.import_module(_SDKS).preload()
    _freeze()


def _freeze() -> None:
    """Have the collector pass over all that is there now."""
    gc.collect()
    gc.freeze()


def _freezing(worker: _W) -> _W:
    """A worker whose collector passes over the modules that its tasks have loaded.

    Spark collects after each task: 20 to 30 ms where a store's SDK is loaded.
    """

    def work(*connection: Any) -> int:
        known = len(sys.modules)  # those of the daemon grow
        code = worker(*connection)
        if len(sys.modules) > known:
            _freeze()
        return code

    return cast("_W", work)


if __name__ == "__main__":
    main()
