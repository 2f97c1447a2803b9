"""Records that `Table` returns. Sizes are in bytes, timestamps in UTC.

`to_dict()` of each gives the JSON document that the command line prints with `--json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


def to_plain_values(record: Any) -> dict[str, Any]:
    """Convert a dataclass to dicts and lists; datetimes become ISO 8601 texts."""
    return asdict(record, dict_factory=lambda fields: {k: _plain(v) for k, v in fields})


def _plain(value: Any) -> Any:
    """Convert a tuple to a list, a datetime to ISO 8601 text; return other values unchanged."""
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


class PlainRecord:
    """Base of dataclasses whose JSON document has exactly their fields, in order."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return to_plain_values(self)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A table's column: name and type.

    Attributes:
        name: as the table spells it.
        type: in words, such as `integer`; as Spark SQL has it where lakeport can't write that type.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class TableDescription:
    """A table's facts at one version: columns, partitions, sizes, protocol and last change.

    What only Delta tables have is None, or empty, for plain files.

    Attributes:
        format: `delta`, `parquet` or `csv`.
        version: the version that is described.
        columns: in the table's order.
        partition_columns: the columns by whose values the files are kept apart.
        partitions: how many partitions hold files; 0 for a table without partition columns.
        cluster_columns: the columns that the table is clustered by, nested ones as dotted paths.
        rows: how many; None when no statistics tell, as for CSV files.
        files: how many data files.
        bytes: their size together.
        small_files: number of data files smaller than 32 MB.
        warning: a sentence when most files are small; None otherwise.
        protocol: the versions of Delta's protocol, such as `reader 1, writer 2`.
        features: the table features that the protocol lists, sorted.
        not_readable_by: table feature -> the programs that can't read the table because of it.
        properties: the table's properties.
        oldest_version: the oldest version whose contents the log still has.
        last_change: when the version was committed; None where its commit does not say.
        last_operation: the operation of the version's commit, such as `WRITE`; None if it is gone.
        last_run: id or name of the run that made it; None for other programs.
        last_writer: the program that made it; None where its commit does not say.
    """

    format: str
    version: int | None = None
    columns: tuple[TableColumn, ...]
    partition_columns: tuple[str, ...] = ()
    partitions: int | None = None
    cluster_columns: tuple[str, ...] = ()
    rows: int | None
    files: int
    bytes: int
    small_files: int
    warning: str | None = None
    protocol: str | None = None
    features: tuple[str, ...] = ()
    not_readable_by: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    oldest_version: int | None = None
    last_change: datetime | None = None
    last_operation: str | None = None
    last_run: str | None = None
    last_writer: str | None = None

    def __repr__(self) -> str:
        version = "" if self.version is None else f"version={self.version}, "
        return (
            f"TableDescription(format={self.format!r}, {version}rows={self.rows}, "
            f"files={self.files}, bytes={self.bytes}, columns={len(self.columns)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; without Delta's fields if it is a table of plain files."""
        facts = to_plain_values(self)
        if not self.warning:
            del facts["warning"]
        of_files = ("format", "columns", "rows", "files", "bytes", "small_files", "warning")
        return {k: v for k, v in facts.items() if self.version is not None or k in of_files}


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version of a Delta table: what it changed, and the table's size at that version.

    Attributes:
        number: its number.
        at: when it was committed; None where the commit does not say.
        operation: the operation in the writer's words, such as `WRITE, Append`.
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
        changed: whether it changed rows or columns, which maintenance such as VACUUM does not.
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
    changed: bool = True


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Files, size and rows of one partition at the newest version.

    Attributes:
        name: `column=value` pairs, with `/` between.
        files: how many data files.
        bytes: their size together.
        rows: their rows; None where a file does not say.
        small_files: number of data files smaller than 32 MB.
    """

    name: str
    files: int
    bytes: int
    rows: int | None
    small_files: int


@dataclass(frozen=True, slots=True)
class ColumnFacts(TableColumn):
    """A column with null count and bounds, from the statistics of the data files.

    Attributes:
        role: `partition`, `cluster` or empty.
        nulls: how many; None where a file does not say.
        minimum: the least value as text; None where a file does not say, or all are null.
        maximum: the greatest value as text; None as for `minimum`.
        approximate: the reason why minimum and maximum may be inexact; empty if they are exact.
        since: the version that added it; None where the log no longer tells, and for files.
    """

    role: str = ""
    nulls: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    approximate: str = ""
    since: int | None = None


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class TableFacts(TableDescription):
    """Facts for a table's page: its description, versions, partitions, file sizes and notes.

    Attributes:
        name: its folder below the target, such as `silver/flights`.
        uri: the table's URI as users write it.
        columns: in the table's order, the parts of structs in the place of these.
        file_sizes: that of each data file.
        small_file_bytes: below this a file counts as small.
        target_file_bytes: the size that files are to have.
        by_partition: the partitions that hold files; empty without partition columns.
        versions: oldest first; empty for files.
        older_versions: how many versions the log no longer tells.
        readers: program -> why it can't read the table; empty where it can.
        growth: rows at moments, oldest first, of a table of files, whose loads its manifests tell:
            (Unix seconds, rows); at most `MOST_POINTS`.
        notes: sentences about facts that are unknown, and why.
    """

    name: str
    uri: str
    columns: tuple[ColumnFacts, ...]
    file_sizes: Sequence[int]
    small_file_bytes: int
    target_file_bytes: int
    by_partition: Sequence[PartitionFacts] = ()
    versions: Sequence[VersionFacts] = ()
    older_versions: int = 0
    readers: Sequence[tuple[str, str]] = ()
    growth: Sequence[tuple[float, int]] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryEntry(PlainRecord):
    """One version of a Delta table, from its commit; fields are None where it lacks them.

    Attributes:
        version: its number.
        timestamp: when it was committed.
        operation: the commit's operation, such as `WRITE`, `MERGE` or `OPTIMIZE`.
        mode: how a write was made: `Append` or `Overwrite`.
        files_added: how many data files it added.
        files_removed: how many it removed.
        rows_added: rows in the files added.
        bytes_added: size of the files added.
        run_id: id or name of the run that made it; None for other programs.
        engine: the program that made it.
    """

    version: int
    timestamp: datetime | None
    operation: str | None
    mode: str | None
    files_added: int
    files_removed: int
    rows_added: int | None
    bytes_added: int
    run_id: str | None
    engine: str | None


class History(list[HistoryEntry]):
    """List of a table's versions, newest first, which notebooks show as an HTML table."""

    def _repr_html_(self) -> str:
        """Return the versions as HTML for notebooks."""
        from lakeport.html.document import build_notebook_part, render_template

        return build_notebook_part(render_template("part_history.html", entries=self))


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The files of one partition, and what `optimize` would do to them.

    Attributes:
        partition: `column=value` pairs; `the whole table` where it has no partitions.
        files: how many data files.
        bytes: their size together.
        small_files: number of data files smaller than 32 MB.
        would_remove: number of files that would be merged.
        would_add: number of files that the merge would write.
        would_rewrite_bytes: size of the files that would be merged.
    """

    partition: str
    files: int
    bytes: int
    small_files: int
    would_remove: int
    would_add: int
    would_rewrite_bytes: int


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The small files of a table, and what `optimize` would do to them.

    Attributes:
        version: the table's version.
        target_file_bytes: the size that `optimize` makes files of.
        small_file_bytes: below this a file counts as small.
        files: how many data files the table has.
        small_files: number of small data files.
        would_remove: number of files that would be merged.
        would_add: number of files that the merge would write.
        would_rewrite_bytes: size of the files that would be merged.
        note: a sentence on what the numbers leave out; None for most tables.
        partitions: the same numbers by partition, most small files first.
    """

    version: int
    target_file_bytes: int
    small_file_bytes: int
    files: int
    small_files: int
    would_remove: int
    would_add: int
    would_rewrite_bytes: int
    note: str | None = None
    partitions: tuple[PartitionReport, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON, without an empty note."""
        facts = to_plain_values(self)
        if self.note is None:
            del facts["note"]
        return facts


@dataclass(frozen=True, slots=True)
class OptimizeReport(PlainRecord):
    """Result of `optimize`: files and bytes removed and added, changed partitions, new version.

    Attributes:
        files_removed: number of data files that were merged.
        files_added: number of data files that the merge wrote.
        bytes_removed: size of the files that were merged.
        bytes_added: size of the files that the merge wrote.
        partitions: how many partitions changed.
        version: the table's version now.
    """

    files_removed: int
    files_added: int
    bytes_removed: int
    bytes_added: int
    partitions: int
    version: int


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """Files that `vacuum` deleted, or would delete in a dry run.

    Attributes:
        version: the table's version now.
        dry_run: nothing was deleted.
        deleted: how many files and empty folders were deleted; None for a dry run.
        bytes: size of the files that were deleted; None for a dry run.
        files: URIs of files and empty folders to delete; only in a dry run.
    """

    version: int
    dry_run: bool = False
    deleted: int | None = None
    bytes: int | None = None
    files: tuple[str, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: counts of deleted files or, for a dry run, the files."""
        if self.dry_run:
            return {"dry_run": True, "version": self.version, "files": list(self.files)}
        return {"deleted": self.deleted, "bytes": self.bytes, "version": self.version}


@dataclass(frozen=True, slots=True)
class AlterReport(PlainRecord):
    """Result of `alter`: the column's types before and after, and the files rewritten.

    Attributes:
        version: the version that it made; the newest one where nothing was committed.
        column: the column.
        before: its type before, in words.
        type: its type now, in words.
        files: data files that were written anew; 0 where the log alone tells the type.
        rows: rows of these.
        bytes: their size before.
        dry_run: nothing was changed.
    """

    version: int
    column: str
    before: str
    type: str
    files: int = 0
    rows: int = 0
    bytes: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RestoreReport(PlainRecord):
    """Result of `restore`: the new version, and the older one with the same contents.

    Attributes:
        version: the version that it made.
        restored: the version whose contents came back.
    """

    version: int
    restored: int


@dataclass(frozen=True, slots=True)
class UndoReport(PlainRecord):
    """Result of `undo`: the run, or the drop, with the table's rows before and after.

    Attributes:
        run_id: the run's id or name; empty if a drop was undone.
        committed: when its last commit was made, or the table was dropped; None if unknown.
        rows_before: the table's rows before the undo; None where files don't say.
        rows_after: its rows after that; None where files don't say.
        version: the version that it made; the newest one in a dry run. None for a drop.
        restored: the version whose contents came back; None for a drop.
        undone: the versions that the run had made, oldest first.
        deleted: number of the run's files that are deleted for good, of a table of files.
        dry_run: nothing was changed.
    """

    run_id: str
    committed: datetime | None
    rows_before: int | None
    rows_after: int | None
    version: int | None = None
    restored: int | None = None
    undone: tuple[int, ...] = ()
    deleted: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DropReport(PlainRecord):
    """Result of `drop`: what the table held, and until when it can be brought back.

    Attributes:
        format: `delta`, `parquet` or `csv`.
        rows: its rows; None where files don't say.
        files: how many data files.
        bytes: their size together.
        kept_until: until then at least `undo` brings it back; None if nothing does.
        dry_run: nothing was changed.
    """

    format: str
    rows: int | None
    files: int
    bytes: int
    kept_until: datetime | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class SingerState:
    """The Singer STATE of a table's rows, and the version, time and run of its commit.

    Attributes:
        state: the raw JSON bytes that came.
        version: the version that the commit made.
        timestamp: when that was; None where the commit does not say.
        run_id: id or name of the run that made it; None for a run without either.
    """

    state: bytes
    version: int
    timestamp: datetime | None
    run_id: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `state` is the parsed STATE."""
        return {**to_plain_values(self), "state": json.loads(self.state)}
