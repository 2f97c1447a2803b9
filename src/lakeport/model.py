"""What the stages of a load hand to each other: frozen values and protocols, no logic.

```
source ─Batch─▶ landing ─Split─▶ task: reader ▶ shape ▶ sink ─Staged─▶ writer ─Landed─▶ report
```
A batch is landed whole or not at all. Its splits are read, shaped and encoded inside Spark tasks;
each task hands back what it staged, and only the driver makes staged objects visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.engine.base import DataFrame
    from lakeport.errors import BadRecord
    from lakeport.storage.checks import CheckItem


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

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a split.

        Raises:
            BadRecords: a record breaks the schema (unless the reader is `tolerant`).
            UnknownFields: a record holds an undeclared field (policies `evolve` and `fail`).
            SourceError: the file can't be read.
        """

    def scan(self, split: Split) -> Scan:
        """Check every record of a split without raising for bad records or unknown fields."""

    def tolerant(self) -> Reader:
        """The same reader, which leaves bad records out: a `scan` has counted them."""

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


@dataclass(frozen=True, slots=True)
class Remembered:
    """A bookmark as the table has it.

    Attributes:
        value: what the source wrote; empty when there is none.
        number: which of the bookmarks of that name it is; -1 when there is none.
    """

    value: Mapping[str, Any] = field(default_factory=dict)
    number: int = -1


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a source has been read, once the batch that carries it is durable.

    Attributes:
        name: which of the table's bookmarks, such as `files` or `database public.orders`; stays
            the same from load to load.
        value: JSON; kilobytes at most.
        after: the number of the bookmark that the source went on from. Where another load has
            moved it since, the batch is refused whole.
        number: its own, by `Memory.next_number`, for sources whose next flush goes on from it;
            None: the writer gives it one.
    """

    name: str
    value: Mapping[str, Any]
    after: int = -1
    number: int | None = None


class Memory(Protocol):
    """What one table remembers. Reading it takes no Spark."""

    @property
    def storage(self) -> Storage:
        """Where the table is."""

    @property
    def folder(self) -> str:
        """The key of a folder beside the table's data, for files that bookmarks name.

        What no bookmark names is garbage: a load that failed may have left it.
        """

    def next_number(self, after: int) -> int:
        """A number for the bookmark that goes on from another one."""

    def bookmark(self, name: str) -> Remembered:
        """The bookmark of that name, as the table's newest version has it.

        Raises:
            DestinationError: the store refused, or the bookmark can't be read.
        """


@dataclass(frozen=True, slots=True)
class Work:
    """What a task did, and when; moments are seconds since 1970, by the clock of its machine.

    Attributes:
        stages: stage -> when it first began, when it last ended, and the seconds between that were
            spent on it, several threads' added up.
        pace: moments, with the rows read and the bytes staged in the `step` before each.
        step: seconds.
    """

    stages: Mapping[str, tuple[float, float, float]]
    pace: tuple[tuple[float, int, int], ...] = ()
    step: float = 0.0


@dataclass(frozen=True, slots=True)
class Staged:
    """One encoded object that is durable but not visible yet. Small, picklable.

    Attributes:
        key: the key that it was staged for.
        token: what its storage needs to publish or discard it (a temporary path; an upload id and
            its parts; a session and the bytes held back). It may be a capability: never log it.
        rows: number of rows.
        bytes: size of the object.
        checksum: CRC32C or CRC32 of the content with its name, such as `crc32c:AAAAAA==`.
        partition: partition column -> serialised value (Delta), None for null.
        stats: Delta's statistics as JSON text; empty for files.
        split: index of the task that wrote it.
        content: what the task read, the file and a digest for each split; with its first object,
            if asked for.
        work: what the task did and when; with its first object.
        lowest_version: the lowest `_sdc_table_version` of the rows of the task; None where one has
            none.
    """

    key: str
    token: Mapping[str, Any]
    rows: int
    bytes: int
    checksum: str = ""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = ""
    split: int = 0
    content: tuple[tuple[str, str], ...] = ()
    work: Work | None = None
    lowest_version: int | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a store, as a listing gives it. `etag` changes with the content."""

    key: str
    bytes: int
    etag: str = ""
    modified: float = 0.0


@dataclass(frozen=True, slots=True)
class Level:
    """What lies right in one folder of a store.

    Attributes:
        folders: names of the folders there, without slashes, sorted.
        objects: the objects there, sorted by key.
    """

    folders: tuple[str, ...]
    objects: tuple[StoredObject, ...]


class StageWriter(Protocol):
    """A binary sink for one staged object: `write` until `finish` or `abort`."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; the upload of earlier bytes may go on meanwhile."""

    def finish(self) -> Mapping[str, Any]:
        """Make the bytes durable, not visible; return `Staged`'s `token`, `bytes`, `checksum`."""

    def abort(self) -> None:
        """Drop what was written. Never raises."""


class Storage(Protocol):
    """One cloud (or the local disk) seen as keys below one root. Pickled into Spark tasks.

    A key is relative to the root, uses `/`, and never starts or ends with it. Every method raises
    `DestinationError` or one of its kinds.
    """

    @property
    def can_rename_staged(self) -> bool:
        """Whether a staged object can be published under another key; no upload can."""
        return False

    @property
    def listed_at_once(self) -> int:
        """Page size of a listing: asking for fewer objects costs as much.

        0 where a listing costs as much as the folder has objects, and to look one up costs little.
        """

    def needs_unique_names(self) -> bool:
        """Whether the store ignores create-only conditions, so that names must never clash."""
        return False

    def uri(self, key: str = "") -> str:
        """How users name that object: a path, `s3://…`, `gs://…`."""

    def hadoop_uri(self, key: str = "") -> str:
        """How Spark names that object: `file:///…`, `s3a://…`, `abfss://…`."""
        return self.uri(key)

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """What Spark's connector needs to reach the store; some values are secrets.

        Args:
            for_workers: with the credentials that this process finds, for workers without any.

        Returns:
            Nothing where Spark has no connector, or needs no settings.
        """
        return {}

    def stage(self, key: str, content_type: str) -> StageWriter:
        """Begin one object."""

    def publish(self, staged: Staged, key: str) -> None:
        """Make a staged object visible under `key`, only if nothing has that name.

        Raises:
            ObjectExists: something else has that name. `can_rename_staged` tells whether the same
                staged object can be published under another key, or has to be staged again.
        """

    def discard(self, staged: Staged) -> None:
        """Drop a staged object, where the store does not do so by itself. Never raises."""
        return

    def owned(self, staged: Staged, key: str) -> bool:
        """Whether the visible object `key` is this staged object (after a crash or lost answer)."""

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object whole.

        Raises:
            ObjectExists: `create_only`, and something has that name.
        """

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Replace an object's content by what `change` makes of it, whole.

        Raises:
            DestinationError: there is none, or another has replaced it meanwhile. A store without
                conditional writes is not asked for the latter.
        """

    def get(self, key: str) -> bytes | None:
        """Read one small object whole; None when there is none."""

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading, seekable."""

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects whose key is `prefix` or lies below the folder `prefix`, sorted by key.

        Args:
            prefix: empty for all.
            after: leave out keys that are not behind this one; the listing begins there, where the
                store can do that.
        """

    def level(self, prefix: str) -> Level:
        """What lies right in the folder `prefix`, by few requests however much lies below it.

        Of a folder with thousands of entries some may be missing.
        """

    def sweep(self) -> int:
        """Remove what was left staged a week ago; return how many (0 where the store does that)."""
        return 0

    def delete(self, key: str) -> None:
        """Remove an object; fine if there is none."""

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try what a load needs, item by item; `tables`: what Delta tables need beyond files."""

    def shorten_deadline(self) -> None:
        """Give the requests that come next a few seconds together.

        For when another way to the store was given up, or the process has to end.
        """
        return


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The engine of a load as reports name it: Spark or threads, with its jobs and tasks.

    Attributes:
        name: `spark` or `threads`.
        version: Spark's version; empty for threads.
        master: Spark's master URL, or the number of threads as `threads[2]`.
        application: Spark's application id; empty for threads, and where Spark never started.
        jobs: jobs of the load; 0 for threads.
        tasks: tasks of the load.
    """

    name: str = ""
    version: str = ""
    master: str = ""
    application: str = ""
    jobs: int = 0
    tasks: int = 0

    @property
    def info(self) -> str:
        """The engine as a Delta commit's `engineInfo` names it, such as `Apache-Spark/4.2.0`."""
        return f"Apache-Spark/{self.version}" if self.version else self.name

    @property
    def parameters(self) -> dict[str, str]:
        """Return the engine for a Delta commit's `operationParameters`, without empty values."""
        facts = {"engine": self.name, "master": self.master, "application": self.application}
        return {name: value for name, value in facts.items() if value}

    def __str__(self) -> str:
        """The report in words.

        >>> str(EngineReport("spark", "4.2.0", "local[2]", "local-1", 2, 5))
        'by Spark 4.2.0, local[2], 2 jobs, 5 tasks'
        >>> str(EngineReport("threads", master="threads[2]", tasks=1))
        'by threads of this process, 1 task'
        """
        tasks = pluralize(self.tasks, "task")
        if self.name != "spark":
            return f"by threads of this process, {tasks}"
        version = f"Spark {self.version}" if self.version else "Spark"
        return f"by {version}, {self.master}, {pluralize(self.jobs, 'job')}, {tasks}"


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """What came of an expectation, for a stream.

    Attributes:
        name: the expectation's.
        otherwise: what its failure leads to: `fail`, `quarantine` or `warn`.
        checked: rows that were looked at.
        failed: rows that fail it; of one that is of all rows together, 1 where it is not met.
        detail: what was found, in words, of one that is of all rows together.
    """

    name: str
    otherwise: str
    checked: int
    failed: int
    detail: str = ""

    @property
    def in_words(self) -> str:
        """What fails it."""
        if self.detail:
            return f"{self.name}: {self.detail}"
        return f"{self.name} by {format_count(self.failed)} of {pluralize(self.checked, 'row')}"


@dataclass(frozen=True, slots=True)
class StreamReport:
    """What was landed of one stream; sizes in bytes, versions None for files.

    `columns` are those that were landed -> their types in the table, in words such as
    `decimal(10,2)`; a column that has not had a value yet says so. `source_columns` are those of
    the source, before `sql`, with the types that they are read with.
    """

    stream: str
    table: str = ""
    rows: int = 0
    rejected: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    batches: int = 0
    skipped_batches: int = 0
    removed_files: int = 0
    first_version: int | None = None
    last_version: int | None = None
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    removed_rows: int | None = 0
    merged: Mapping[str, int] = field(default_factory=dict)
    expectations: tuple[ExpectationResult, ...] = ()
    source_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def table_name(self) -> str:
        """What the table is called in its lake: the last part of its URI."""
        return self.table.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Span:
    """A stage of a run, from when to when; moments are seconds since the run's start.

    Attributes:
        stage: such as `reading` or `committing`; docs/reports.md lists them.
        stream: whose; empty for what is done for all of them.
        start: when it began.
        end: when it ended.
        tasks: how many tasks it was done by, that may have run at once; 0 for the driver.
        busy: seconds that were spent on it, those of all tasks added up.
    """

    stage: str
    stream: str
    start: float
    end: float
    tasks: int = 0
    busy: float = 0.0

    def with_next(self, other: Span) -> Span:
        """This one and a later one of the same lane, as one."""
        return replace(
            self,
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            tasks=self.tasks + other.tasks,
            busy=self.busy + other.busy,
        )


@dataclass(frozen=True, slots=True)
class Rejection:
    """How many records of a stream were set aside for one reason.

    Attributes:
        stream: the stream's name; empty for lines that are of none.
        column: dotted path of the column at fault; empty where the whole record is.
        reason: in words, without a record's values; `other reasons` sums up the rest.
        count: records.
    """

    stream: str
    column: str
    reason: str
    count: int
