"""What pages and notebooks show of tables, bad records and runs, as frozen values.

Sizes are in bytes, moments in UTC. Those who look at tables fill them in; what can't be told
without Spark is None. Facts of a run are its report, checked: those of older versions lack keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from lakeport.model import EngineReport, Rejection, Span, StreamReport

MOST_POINTS = 60
"""So many points a table's growth has."""


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version of a Delta table.

    Attributes:
        number: its number.
        at: when it was committed; None where the commit does not say.
        operation: what it did, in its writer's words, such as `WRITE, Append`.
        rows: rows that the table had then; None where a file does not say.
        bytes: size of the data files that the table had then; None where a file does not say.
        files: how many data files the table had then; None before the oldest known contents.
        rows_added: rows in the files that it added; None where one does not say.
        rows_removed: rows in the files that it removed; None where one does not say.
        files_added: how many data files it added.
        files_removed: how many it removed.
        columns: columns that came, went or got another type with it, in words.
        run_id: id or name of the run that made it; None for other programs.
        state: the Singer STATE that it carries, as JSON text; None for none.
    """

    number: int
    at: datetime | None
    operation: str
    rows: int | None
    bytes: int | None
    files: int | None
    rows_added: int | None
    rows_removed: int | None
    files_added: int
    files_removed: int
    columns: tuple[str, ...] = ()
    run_id: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of the newest version.

    Attributes:
        name: `column=value` pairs, with `/` between.
        files: how many data files.
        bytes: their size together.
        rows: their rows; None where a file does not say.
        small_files: how many of them are smaller than 32 MB.
    """

    name: str
    files: int
    bytes: int
    rows: int | None
    small_files: int


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column, with what the files' statistics tell of it.

    Attributes:
        name: as the table spells it.
        type: in words, such as `decimal(10,2)`.
        role: `partition`, `cluster` or empty.
        nulls: how many; None where a file does not say.
        minimum: the least value as text; None where a file does not say, or all are null.
        maximum: the greatest, likewise.
        approximate: why minimum and maximum may not be those of the values; empty where they are.
    """

    name: str
    type: str
    role: str = ""
    nulls: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    approximate: str = ""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table: a Delta table, or a folder of Parquet or CSV files, which has no versions.

    Attributes:
        name: its folder below the target, such as `silver/flights`.
        uri: as users name it.
        format: `delta`, `parquet` or `csv`.
        rows: how many; None when unknown.
        bytes: size of the data files.
        file_sizes: that of each data file.
        small_files: how many of them are smaller than `small_file_bytes`.
        small_file_bytes: below this a file counts as small.
        target_file_bytes: the size that files are to have.
        warning: a sentence when most files are small; None otherwise.
        columns: in the table's order.
        partitions: those that hold files; empty without partition columns.
        partition_columns: names.
        versions: oldest first; empty for files.
        older_versions: how many versions the log no longer tells.
        protocol: such as `reader 1, writer 2`; None for files.
        features: the table features of the protocol.
        readers: program -> why it can't read the table; empty where it can.
        properties: the table's properties, as pairs.
        growth: rows at moments, oldest first, of a table of files, whose loads its manifests tell:
            (Unix seconds, rows); at most `MOST_POINTS`.
        last_change: when it last changed.
        notes: what could not be told and why, in sentences.
    """

    name: str
    uri: str
    format: str
    rows: int | None
    bytes: int
    file_sizes: Sequence[int]
    small_files: int
    small_file_bytes: int
    target_file_bytes: int
    warning: str | None
    columns: Sequence[ColumnFacts]
    partitions: Sequence[PartitionFacts] = ()
    partition_columns: tuple[str, ...] = ()
    versions: Sequence[VersionFacts] = ()
    older_versions: int = 0
    protocol: str | None = None
    features: tuple[str, ...] = ()
    readers: Sequence[tuple[str, str]] = ()
    properties: Sequence[tuple[str, str]] = ()
    growth: Sequence[tuple[float, int]] = ()
    last_change: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BadSample:
    """One bad record.

    Attributes:
        stream: its stream's name; empty for a line that is of none.
        column: dotted path of the column at fault; empty where the whole record is.
        reason: what is wrong with it, in words.
        where: its file, if the source had several, and its line, such as `b.csv, line 7`; may be
            empty.
        record: what came, as text, cut to 500 characters.
    """

    stream: str
    column: str
    reason: str
    where: str
    record: str


class ErrorFacts(msgspec.Struct, frozen=True):
    """What a failed run ended with."""

    type: str
    message: str
    hint: str = ""


class RunFacts(msgspec.Struct, frozen=True):
    """A run; see `lakeport.LandingReport`."""

    run_id: str
    started: datetime
    ok: bool = True
    target: str = ""
    seconds: float = 0.0
    rows: int = 0
    rejected: int = 0
    files: int = 0
    bytes: int = 0
    streams: list[StreamReport] = []
    quarantine: list[str] = []
    warnings: list[str] = []
    parser: str = ""
    engine: EngineReport = EngineReport()
    error: ErrorFacts | None = None
    command: list[str] | None = None
    reasons: list[Rejection] = []
    spans: list[Span] = []
    streams_left_out: int = 0
    pace: list[tuple[float, float, float]] = []
    reading_pace: list[tuple[float, float, float]] = []


def run_facts(report: Mapping[str, Any]) -> RunFacts | None:
    """What a report says; None for what is no report.

    Args:
        report: as `LandingReport.to_dict` gives it.

    >>> run_facts({"run_id": "a", "started": "2024-05-01T10:30:00+00:00"}).rows
    0
    >>> run_facts({"run_id": 1, "started": "yesterday"})
    """
    try:
        return msgspec.convert(report, RunFacts)
    except msgspec.ValidationError:
        return None
