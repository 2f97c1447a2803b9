"""Lands Singer streams, files and frames in a data lake, on Spark.

```
import lakeport

report = lakeport.land("people.csv", "./lake", table="people")
lakeport.Table("./lake/people").preview(5)
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation, Freshness, RowCount
    from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource
    from lakeport.config.keys import StoreKeys, TargetKeys
    from lakeport.engine.base import EngineReport
    from lakeport.host.activity import Activity
    from lakeport.loading.check import CheckReport, check
    from lakeport.loading.expect.result import ExpectationResult
    from lakeport.loading.plan import ColumnPlan, LandingPlan, StreamPlan, plan
    from lakeport.loading.quarantine import Rejection
    from lakeport.loading.replay import Replayed, SetAside, quarantined, replay
    from lakeport.loading.report import Failure, LandingReport, Observer, Span, StreamReport
    from lakeport.loading.run import land
    from lakeport.model import Landed
    from lakeport.pages.file import PageFile, page
    from lakeport.pipeline.report import LoadReport, PipelineObserver, PipelineReport
    from lakeport.pipeline.run import run
    from lakeport.sources.csv.dialect import CsvOptions
    from lakeport.storage.checks import CheckItem
    from lakeport.streams.handle import LandingStream, StreamStatus
    from lakeport.streams.start import land_stream
    from lakeport.tables import Table
    from lakeport.tables.lake import LakeTable, tables
    from lakeport.tables.records import (
        AlterReport,
        CompactReport,
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
    from lakeport.tables.runs import LakeRun, runs

    __version__: str

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
    "land",
    "land_stream",
    "page",
    "plan",
    "quarantined",
    "replay",
    "run",
    "runs",
    "tables",
]

# Loaded when first used: the command line starts before Spark and pyarrow are there.
_HOMES = {
    "Activity": "lakeport.host.activity",
    "AlterReport": "lakeport.tables.records",
    "CheckItem": "lakeport.storage.checks",
    "CheckReport": "lakeport.loading.check",
    "ColumnPlan": "lakeport.loading.plan",
    "CompactReport": "lakeport.tables.records",
    "CsvOptions": "lakeport.sources.csv.dialect",
    "DatabaseSource": "lakeport.config.inputs",
    "DestinationConfig": "lakeport.config.base",
    "EngineReport": "lakeport.engine.base",
    "Expectation": "lakeport.config.expectations",
    "Freshness": "lakeport.config.expectations",
    "RowCount": "lakeport.config.expectations",
    "ExpectationResult": "lakeport.loading.expect.result",
    "Failure": "lakeport.loading.report",
    "FilesSource": "lakeport.config.inputs",
    "History": "lakeport.tables.records",
    "HistoryEntry": "lakeport.tables.records",
    "LakeRun": "lakeport.tables.runs",
    "LakeTable": "lakeport.tables.lake",
    "Landed": "lakeport.model",
    "LandingPlan": "lakeport.loading.plan",
    "LandingReport": "lakeport.loading.report",
    "LandingStream": "lakeport.streams.handle",
    "LoadReport": "lakeport.pipeline.report",
    "Observer": "lakeport.loading.report",
    "OptimizeReport": "lakeport.tables.records",
    "PageFile": "lakeport.pages.file",
    "PartitionReport": "lakeport.tables.records",
    "PipelineObserver": "lakeport.pipeline.report",
    "PipelineReport": "lakeport.pipeline.report",
    "Rejection": "lakeport.loading.quarantine",
    "Replayed": "lakeport.loading.replay",
    "RestoreReport": "lakeport.tables.records",
    "SetAside": "lakeport.loading.replay",
    "SingerState": "lakeport.tables.records",
    "Span": "lakeport.loading.report",
    "StoreKeys": "lakeport.config.keys",
    "StreamPlan": "lakeport.loading.plan",
    "StreamReport": "lakeport.loading.report",
    "StreamStatus": "lakeport.streams.handle",
    "Table": "lakeport.tables",
    "TableColumn": "lakeport.tables.records",
    "TableDescription": "lakeport.tables.records",
    "TablesSource": "lakeport.config.inputs",
    "TapSource": "lakeport.config.inputs",
    "TargetKeys": "lakeport.config.keys",
    "UndoReport": "lakeport.tables.records",
    "VacuumReport": "lakeport.tables.records",
    "check": "lakeport.loading.check",
    "land": "lakeport.loading.run",
    "land_stream": "lakeport.streams.start",
    "page": "lakeport.pages.file",
    "plan": "lakeport.loading.plan",
    "run": "lakeport.pipeline.run",
    "quarantined": "lakeport.loading.replay",
    "replay": "lakeport.loading.replay",
    "runs": "lakeport.tables.runs",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lakeport")
    if name == "tables":  # the package of that name, which can be called
        return import_module("lakeport.tables")
    if name not in _HOMES:
        raise AttributeError(f"module 'lakeport' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """What there is to use, for TAB in a shell; none of what this module needs for itself."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
