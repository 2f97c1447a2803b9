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
    from lakeport.landing import land
    from lakeport.report import LandingReport, StreamReport
    from lakeport.sources.csv_text import CsvOptions
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
    "LandingReport": "lakeport.report",
    "CsvOptions": "lakeport.sources.csv_text",
    "StreamReport": "lakeport.report",
    "Table": "lakeport.tables",
    "land": "lakeport.landing",
    "land_stream": "lakeport.streams.start",
    "LandingStream": "lakeport.streams.handle",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lakeport' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
