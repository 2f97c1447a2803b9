"""Land files, Singer streams, databases and frames in a data lake, on Spark.

```
import lakeport

report = lakeport.land("people.csv", "./lake", table="people")
lakeport.Table("./lake/people").preview(5)
```

| function or class | does |
|---|---|
| `land(source, to, **keys)` | load a source into tables, and return a `LandingReport` |
| `plan(source, to, **keys)` | show what `land` would do, and write nothing |
| `land_stream(frame, to, **keys)` | land a structured stream, batch by batch |
| `run("lake.yaml")` | run the loads in a lake file, in order of their dependencies |
| `Table(uri)` | look at a table, query it and maintain it |
| `tables(to)`, `runs(to)` | list a lake's tables, or its runs |
| `sql(to, query)` | query a lake's tables by their names, joins included |
| `quarantined(to)`, `export_quarantined`, `replay` | list, correct and land rejected records |
| `check(to)` | test the connection to a target |
| `spark(to)`, `configure_spark(builder, to)` | get a Spark session for a lake, or set up your own |
| `page(to)` | write an HTML page about a lake, a table or a run |

A target is a folder, a URI, a config file or a mapping of keys. `lakeport.config.keys` lists the
keys of `land` and its kin, with types and meanings. Sources with options are `FilesSource`,
`DatabaseSource`, `TapSource` and `TablesSource`. Every error is a `LakeportError` with a message
and a hint.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakeport.version import __version__

if sys.platform == "win32":
    raise ImportError("lakeport runs on Linux and macOS\n\nHint: on Windows, run it in WSL.")

logging.getLogger("lakeport").addHandler(logging.NullHandler())  # applications decide

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation, Freshness, RowCount
    from lakeport.config.keys import StoreKeys, TargetKeys
    from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
    from lakeport.errors import (
        BadRecord,
        BadRecords,
        CommitConflict,
        ConfigError,
        DestinationError,
        ExpectationFailed,
        InputError,
        LakeportError,
        LoadsFailed,
        MissingDependency,
        ObjectExists,
        OutcomeUnknown,
        PermissionRefused,
        RunMismatch,
        SchemaConflict,
        SourceError,
        SparkFailure,
        UnknownFields,
        Unreachable,
    )
    from lakeport.host.activity import Activity
    from lakeport.lake.query import sql
    from lakeport.lake.records import (
        AlterReport,
        CompactReport,
        DropReport,
        History,
        HistoryEntry,
        OptimizeReport,
        PartitionReport,
        RestoreReport,
        SingerState,
        TableColumn,
        TableDescription,
        UndoReport,
        VacuumReport,
    )
    from lakeport.lake.runs import LakeRun, runs
    from lakeport.lake.session import configure_spark, spark
    from lakeport.lake.table import Table
    from lakeport.lake.tables import LakeTable, tables
    from lakeport.loading.check import CheckReport, check
    from lakeport.loading.plan import ColumnPlan, LandingPlan, StreamPlan, plan
    from lakeport.loading.replay import (
        Replayed,
        SetAside,
        export_quarantined,
        quarantined,
        replay,
    )
    from lakeport.loading.report import Failure, LandingReport, Observer
    from lakeport.loading.run import land
    from lakeport.model import (
        CheckItem,
        EngineReport,
        ExpectationResult,
        Landed,
        Rejection,
        Span,
        StreamReport,
    )
    from lakeport.pages.file import PageFile, page
    from lakeport.pipeline.report import LoadReport, PipelineObserver, PipelineReport
    from lakeport.pipeline.run import run
    from lakeport.sources.csv.dialect import CsvOptions
    from lakeport.streams import LandingStream, StreamStatus, land_stream

__all__ = [
    "Activity",
    "AlterReport",
    "BadRecord",
    "BadRecords",
    "CheckItem",
    "CheckReport",
    "ColumnPlan",
    "CommitConflict",
    "CompactReport",
    "ConfigError",
    "CsvOptions",
    "DatabaseSource",
    "DestinationConfig",
    "DestinationError",
    "DropReport",
    "EngineReport",
    "Expectation",
    "ExpectationFailed",
    "ExpectationResult",
    "Failure",
    "FilesSource",
    "Freshness",
    "History",
    "HistoryEntry",
    "InputError",
    "LakeRun",
    "LakeTable",
    "LakeportError",
    "Landed",
    "LandingPlan",
    "LandingReport",
    "LandingStream",
    "LoadReport",
    "LoadsFailed",
    "MissingDependency",
    "ObjectExists",
    "Observer",
    "OptimizeReport",
    "OutcomeUnknown",
    "PageFile",
    "PartitionReport",
    "PermissionRefused",
    "PipelineObserver",
    "PipelineReport",
    "Rejection",
    "Replayed",
    "RestoreReport",
    "RowCount",
    "RunMismatch",
    "SchemaConflict",
    "SetAside",
    "SingerState",
    "SourceError",
    "Span",
    "SparkFailure",
    "StoreKeys",
    "StreamPlan",
    "StreamReport",
    "StreamStatus",
    "Table",
    "TableColumn",
    "TableDescription",
    "TablesSource",
    "TapSource",
    "TargetKeys",
    "UndoReport",
    "UnknownFields",
    "Unreachable",
    "VacuumReport",
    "__version__",
    "check",
    "configure_spark",
    "export_quarantined",
    "land",
    "land_stream",
    "page",
    "plan",
    "quarantined",
    "replay",
    "run",
    "runs",
    "spark",
    "sql",
    "tables",
]

# Loaded when first used: the command line starts before Spark and pyarrow are there.
_HOMES = {
    name: module
    for module, names in {
        "lakeport.config.base": "DestinationConfig",
        "lakeport.config.expectations": "Expectation Freshness RowCount",
        "lakeport.config.sources": "DatabaseSource FilesSource TablesSource TapSource",
        "lakeport.config.keys": "StoreKeys TargetKeys",
        "lakeport.errors": (
            "BadRecord BadRecords CommitConflict ConfigError DestinationError ExpectationFailed "
            "InputError LakeportError LoadsFailed MissingDependency ObjectExists OutcomeUnknown "
            "PermissionRefused RunMismatch SchemaConflict SourceError SparkFailure UnknownFields "
            "Unreachable"
        ),
        "lakeport.host.activity": "Activity",
        "lakeport.loading.check": "CheckReport check",
        "lakeport.loading.plan": "ColumnPlan LandingPlan StreamPlan plan",
        "lakeport.loading.replay": "Replayed SetAside export_quarantined quarantined replay",
        "lakeport.loading.report": "Failure LandingReport Observer",
        "lakeport.loading.run": "land",
        "lakeport.model": (
            "CheckItem EngineReport ExpectationResult Landed Rejection Span StreamReport"
        ),
        "lakeport.pages.file": "PageFile page",
        "lakeport.pipeline.report": "LoadReport PipelineObserver PipelineReport",
        "lakeport.pipeline.run": "run",
        "lakeport.sources.csv.dialect": "CsvOptions",
        "lakeport.streams": "LandingStream StreamStatus land_stream",
        "lakeport.lake.query": "sql",
        "lakeport.lake.records": (
            "AlterReport CompactReport DropReport History HistoryEntry OptimizeReport "
            "PartitionReport RestoreReport SingerState TableColumn TableDescription "
            "UndoReport VacuumReport"
        ),
        "lakeport.lake.runs": "LakeRun runs",
        "lakeport.lake.session": "configure_spark spark",
        "lakeport.lake.table": "Table",
        "lakeport.lake.tables": "LakeTable tables",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakeport' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion in a shell."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
