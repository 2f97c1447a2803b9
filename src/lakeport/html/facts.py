"""What the pages show of tables and bad records, as frozen values.

Sizes are in bytes, moments in UTC. Those who look at tables fill them in; what can't be told
without Spark is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MOST_PARTITIONS = 20
"""So many partitions a version names."""
MOST_POINTS = 60
"""So many points a table's growth has."""


class Change(StrEnum):
    """What a version did to the rows before it; each has a colour and a shape of its own."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    MERGE = "merge"
    DELETE = "delete"
    OPTIMIZE = "optimize"
    RESTORE = "restore"
    SCHEMA = "schema"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version of a Delta table.

    Attributes:
        number: its number.
        at: when it was committed; None where the commit does not say.
        change: what it did.
        operation: the same in the writer's words, such as `WRITE`.
        rows: rows that the table had then; None where a file does not say.
        bytes: size of the data files that the table had then; None where a file does not say.
        files: how many data files the table had then; None before the oldest known contents.
        rows_added: rows in the files that it added; None where one does not say.
        rows_removed: rows in the files that it removed; None where one does not say.
        bytes_added: size of the files that it added.
        bytes_removed: size of the files that it removed; None where one does not say.
        files_added: how many data files it added.
        files_removed: how many it removed.
        schema: place of its schema in `TableFacts.schemas`; -1 where the log no longer tells.
        partitions: the partitions that it touched, as `column=value`; at most `MOST_PARTITIONS`.
        more_partitions: how many further ones it touched.
        run_id: id or name of the run that made it; None for other programs.
        writer: the program that made it.
        state: the Singer STATE that it carries, as JSON text; None for none.
    """

    number: int
    at: datetime | None
    change: Change
    operation: str
    rows: int | None
    bytes: int | None
    files: int | None
    rows_added: int | None
    rows_removed: int | None
    bytes_added: int
    bytes_removed: int | None
    files_added: int
    files_removed: int
    schema: int
    partitions: tuple[str, ...] = ()
    more_partitions: int = 0
    run_id: str | None = None
    writer: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One data file of the newest version.

    Attributes:
        bytes: its size.
        partition: place of its partition in `TableFacts.partitions`; -1 without partitions.
    """

    bytes: int
    partition: int = -1


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
        files: each data file.
        small_files: how many of them are smaller than `small_file_bytes`.
        small_file_bytes: below this a file counts as small.
        target_file_bytes: the size that files are to have.
        warning: a sentence when most files are small; None otherwise.
        columns: in the table's order.
        partitions: those that hold files; empty without partition columns.
        partition_columns: names.
        versions: oldest first; empty for files.
        older_versions: how many versions the log no longer tells.
        schemas: the schemas that the versions have had, each once: (column, type) pairs.
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
    files: Sequence[FileFacts]
    small_files: int
    small_file_bytes: int
    target_file_bytes: int
    warning: str | None
    columns: Sequence[ColumnFacts]
    partitions: Sequence[PartitionFacts] = ()
    partition_columns: tuple[str, ...] = ()
    versions: Sequence[VersionFacts] = ()
    older_versions: int = 0
    schemas: Sequence[Sequence[tuple[str, str]]] = ()
    protocol: str | None = None
    features: tuple[str, ...] = ()
    readers: Sequence[tuple[str, str]] = ()
    properties: Sequence[tuple[str, str]] = ()
    growth: Sequence[tuple[float, int]] = ()
    last_change: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LakeTableFacts:
    """One table of a lake, as its line shows it; see `lakeport.LakeTable`.

    Attributes:
        name: its folder below the target.
        uri: as users name it.
        format: `delta`, `parquet` or `csv`.
        rows, bytes, files, small_files, last_change, version: None where not told cheaply.
        growth: rows at moments, oldest first, at most `MOST_POINTS`: (Unix seconds, rows).
        problem: why nothing could be told; None for most.
    """

    name: str
    uri: str
    format: str
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    small_files: int | None = None
    last_change: datetime | None = None
    version: int | None = None
    growth: Sequence[tuple[float, int]] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """A lake: its tables by name."""

    uri: str
    tables: Sequence[LakeTableFacts]


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
