"""What a source hands over, what the tasks make of it, and what was landed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.engine.types import DataFrame
    from lakeport.errors import BadRecord
    from lakeport.model.bookmarks import Bookmark
    from lakeport.model.storage import Storage


class Mode(StrEnum):
    """What a load does with the rows that the table already has."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    MERGE = "merge"


class UnknownPolicy(StrEnum):
    """What to do with fields of records that the schema does not declare."""

    EVOLVE = "evolve"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Split:
    """The input of one task: a range of one file.

    Attributes:
        uri: a local path or an object's URI.
        start: first byte (row group for Parquet, record batch for Arrow files).
        end: one past the last; -1 is the end of the file.
        first_line: line number of the first record, from 1; 0 where lines mean nothing.
        lines: sidecar file that maps records to line numbers (`sources.spool.sidecar`), or empty.
        times: sidecar file that tells when records were read (`sources.spool.sidecar`), or empty.
        storage: the store that the file lies in; None for this machine's disk.
        key: its key in `storage`; `lines` and `times` are keys then, too.
        folders: columns that the file's folders give, with their values as text.
        file: what to call the file, where a load has several.
    """

    uri: str
    start: int = 0
    end: int = -1
    first_line: int = 1
    lines: str = ""
    times: str = ""
    storage: Storage | None = None
    key: str = ""
    folders: tuple[tuple[str, str | None], ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a reader found in a split without landing it.

    Attributes:
        rows: good records.
        bad: the bad records, all of them, raw bytes included.
        unknown: undeclared field -> kind of its values in this split (`sources.json.inference`).
        unknown_values: undeclared field -> how many records hold it.
    """

    rows: int = 0
    bad: tuple[BadRecord, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    unknown_values: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Reader(Protocol):
    """Source kernel: a split -> typed record batches of `schema`. Pickled into Spark tasks."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that `read` yields, in order, with their types at the destination."""

    @property
    def skip_bad(self) -> bool:
        """Whether `read` leaves bad records out (after a `scan` has counted them)."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a split.

        Raises:
            BadRecords: a record breaks the schema (unless `skip_bad`).
            UnknownFields: a record holds an undeclared field (policies `evolve` and `fail`).
            SourceError: the file can't be read.
        """

    def scan(self, split: Split) -> Scan:
        """Check every record of a split without raising for bad records or unknown fields."""

    def tolerant(self) -> Reader:
        """The same reader with `skip_bad`."""

    def extended(self, unknown: Mapping[str, pa.DataType]) -> Reader:
        """The same reader with these undeclared fields as columns behind the declared ones."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is landed in one go for one stream: one commit, or one set of objects.

    Attributes:
        stream: the stream's name.
        sequence: ordinal among the stream's batches of this run, from 0. A repeated run cuts its
            batches at the same places, so the number identifies the content.
        reader: the source kernel for `splits`; None when `frame` is given.
        splits: what the tasks read.
        frame: a Spark DataFrame, for sources that are one already.
        records: number of records, bad ones included; -1 when unknown before the load.
        bytes: input size in bytes; -1 when unknown.
        digest: SHA-256 of the input in hex; empty unless the run has an id.
        key_properties: columns that identify a record.
        partition_keys: columns to partition by, as the source names them.
        output_ratio: guess of Parquet bytes per input byte, for the number of files.
        optional: without a row it leaves nothing, not even an empty table.
        warnings: sentences for the report, about what the user should look at.
        notes: lines for the report, about what was found out or chosen; each names its subject.
        untyped: columns that are text, there or in parts, for want of a value -> their types with
            null in these places (see `lakeport.schema.nested`).
        remembered: its content is to be known again when it comes another time.
        content: file -> the name of its content, once it was read; empty before, and for what is
            not remembered.
        gone: its rows are keys of rows that the source does not have any more, with a mark: they
            land by themselves, as they are.
        schema_only: the stream brought a schema and no record; `sequence` is -1, a run's none.
        bookmark: becomes durable with the batch; None where the source is not remembered.
        before_commit: called once the rows are staged: writes what the bookmark names, and raises
            where the source is not any more what was read of it. It may be called twice.
    """

    stream: str
    sequence: int
    reader: Reader | None = None
    splits: tuple[Split, ...] = ()
    frame: DataFrame | None = None
    records: int = -1
    bytes: int = -1
    digest: str = ""
    key_properties: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    output_ratio: float = 0.2
    optional: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    untyped: Mapping[str, pa.DataType] = field(default_factory=dict)
    remembered: bool = False
    content: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False
    schema_only: bool = False
    bookmark: Bookmark | None = None
    before_commit: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Everything that a source cut off together; its STATEs may go out once all of it is durable.

    Attributes:
        batches: in the order in which they must be landed within one stream.
        states: the STATE values that go out, as the raw JSON bytes that came, in order: the last
            one before the cut, and earlier ones with bookmarks that none behind them names.
        bad: lines that no stream could be found for, or that are not messages at all.
        last: whether the input has ended.
        versions: stream -> the version that is the active one once all of the flush is durable;
            its rows of earlier versions are to be retired then.
        notes: stream -> a line for the report, of streams that have no batch.
        quiet: streams that go on from what was landed before, and of which nothing is new.
    """

    batches: tuple[Batch, ...]
    states: tuple[bytes, ...] = ()
    bad: tuple[BadRecord, ...] = ()
    last: bool = False
    versions: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    quiet: tuple[str, ...] = ()

    @property
    def state(self) -> bytes | None:
        """The last STATE value before the cut; None if none."""
        return self.states[-1] if self.states else None


class Shaper(Protocol):
    """Shape kernel: a reader's batches -> the table's columns. Pickled into Spark tasks."""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, in order."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Shape record batches, lazily."""


@dataclass(frozen=True, slots=True)
class Landed:
    """One batch that is durable and visible.

    Attributes:
        stream: the stream's name.
        table: the table's URI.
        sequence: the batch's ordinal.
        rows: rows landed; 0 when `skipped`.
        files: the visible objects' URIs.
        bytes: their size.
        version: Delta version; None for files.
        skipped: the same run had landed this batch before.
        removed_files: files that an overwrite or a merge replaced.
        removed_rows: the rows in them; None where nothing tells.
        merged: of a merge, `inserted`, `updated`, `deleted` and `unchanged` -> how many rows, as
            far as known; unchanged ones came with the values that the table had.
        warnings, notes: see `Batch`.
        columns: column of the batch -> its type in the table, in words.
        source_columns: column of the source -> the type that it is read with, in words; empty for
            frames.
        lowest_version: the lowest `_sdc_table_version` of the batch's rows; None where one has
            none, or nothing tells.
    """

    stream: str
    table: str
    sequence: int
    rows: int
    files: tuple[str, ...] = ()
    bytes: int = 0
    version: int | None = None
    skipped: bool = False
    removed_files: int = 0
    removed_rows: int | None = 0
    merged: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    source_columns: Mapping[str, str] = field(default_factory=dict)
    lowest_version: int | None = None
