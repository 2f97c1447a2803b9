"""Lands Singer streams, files and frames in a data lake, on Spark.

```
import lakeport

report = lakeport.land("people.csv", "./lake", table="people")
lakeport.Table("./lake/people").preview(5)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.errors import LakeportError

if TYPE_CHECKING:
    from lakeport.loading.report import LandingReport, StreamReport
    from lakeport.loading.run import land
    from lakeport.sources.csv.options import CsvOptions
    from lakeport.streams.handle import LandingStream
    from lakeport.streams.start import land_stream
    from lakeport.tables import Table

__all__ = [
    "CsvOptions",
    "LakeportError",
    "LandingReport",
    "LandingStream",
    "StreamReport",
    "Table",
    "land",
    "land_stream",
]

# Loaded when first used: the command line starts before Spark and pyarrow are there.
_HOMES = {
    "LandingReport": "lakeport.loading.report",
    "CsvOptions": "lakeport.sources.csv.options",
    "StreamReport": "lakeport.loading.report",
    "Table": "lakeport.tables",
    "land": "lakeport.loading.run",
    "land_stream": "lakeport.streams.start",
    "LandingStream": "lakeport.streams.handle",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lakeport' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
