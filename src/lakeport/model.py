"""Values and protocols that the stages of a load pass to each other; they hold no logic.

```
source ─Batch─▶ landing ─Split─▶ task: reader ▶ shape ▶ sink ─Staged─▶ writer ─Landed─▶ report
```
A batch lands whole or not at all. Tasks read, shape and encode its splits, and return what they
staged. Only the driver makes staged objects visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, runtime_checkable

from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakeport.errors import BadRecord


class Mode(StrEnum):
    """Mode of a load: add to the table's rows, replace them, or merge into them by key."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    MERGE = "merge"


class UnknownPolicy(StrEnum):
    """Policy for undeclared fields of records: add columns, drop the fields, or fail."""

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
        first_line: line number of the first record, from 1; 0 for files without lines.
        lines: sidecar file that maps records to line numbers (`sources.spool.sidecar`), or empty.
        times: sidecar file with the times when records were read (`sources.spool.sidecar`), or
            empty.
        storage: the store that holds the file; None for this machine's disk.
        key: the file's key in `storage`; `lines` and `times` are keys then, too.
        folders: columns that the names of the file's folders give, with their values as text.
        file: the file's name in messages, where a load has several.
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
    """Result of scanning one split: number of good records, bad records, undeclared fields.

    Attributes:
        rows: number of good records.
        bad: all bad records, raw bytes included.
        unknown: undeclared field -> kind of its values in this split (`sources.json.inference`).
        unknown_values: undeclared field -> how many records hold it.
    """

    rows: int = 0
    bad: tuple[BadRecord, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    unknown_values: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Reader(Protocol):
    """Reader of a source's splits as record batches of `schema`. Pickled into Spark tasks."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that `read` yields, in order, with their types at the destination."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split as record batches; raise for the first bad record.

        Raises:
            BadRecords: a record breaks the schema (unless the reader skips them).
            UnknownFields: a record holds an undeclared field (policies `evolve` and `fail`).
            SourceError: the file can't be read.
        """

    def scan(self, split: Split) -> Scan:
        """Scan all records of a split; return bad ones and undeclared fields rather than raise."""

    def skip_bad_records(self) -> Reader:
        """Return a reader that skips bad records, which a `scan` has counted."""

    def add_columns(self, unknown: Mapping[str, pa.DataType]) -> Reader:
        """Return a reader with these undeclared fields as further columns, after the declared."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one stream that land together: in one commit, or as one set of objects.

    Attributes:
        sequence: ordinal among the stream's batches of this run, from 0. A repeated run cuts its
            batches at the same places, so the number identifies the content.
        reader: reads `splits` in the tasks; None when `frame` is given.
        frame: a Spark DataFrame, for sources that are one already.
        records: number of records, bad ones included; -1 when unknown before the load.
        bytes: input size in bytes; -1 when unknown.
        digest: SHA-256 of the input in hex; empty unless the run has an id.
        key_properties: columns that identify a record.
        partition_keys: columns to partition by, as the source names them.
        output_ratio: guess of Parquet bytes per input byte, for the number of files.
        optional: whether a batch without rows leaves nothing, not even an empty table.
        notes: lines for the report on what was inferred or chosen; each names its subject.
        untyped: columns with text in places that had no value -> their types with null in these
            places (see `lakeport.schema.nested`).
        tracks_content: whether the table keeps digests of its files, to recognize the files later.
        content: file -> digest of its content, once it was read; empty before, and without
            `tracks_content`.
        has_deleted_keys: whether its rows are keys of rows that the source has deleted, with a
            mark. They land in a commit of their own, without transform and checks.
        schema_only: whether the stream brought a schema and no record; `sequence` is -1 then.
        bookmark: becomes durable with the batch; None where the source has no bookmark.
        before_commit: called once the rows are staged; it may be called twice. Writes the files
            that the bookmark names, and raises if the source has changed since it was read.
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
    tracks_content: bool = False
    content: Mapping[str, str] = field(default_factory=dict)
    has_deleted_keys: bool = False
    schema_only: bool = False
    bookmark: Bookmark | None = None
    before_commit: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Batches of all streams up to one cut of the input; its STATEs are emitted after all landed.

    Attributes:
        batches: those of one stream land in this order.
        states: the STATE values that go out, as raw JSON bytes, in order: the last one before the
            cut, and earlier ones with bookmarks that no later one names.
        bad: lines without a known stream, and lines that are no messages.
        last: whether the input has ended.
        versions: stream -> the version that is active once all of the flush is durable. Rows of
            earlier versions are retired then.
        notes: stream -> a line for the report, for streams without a batch.
        quiet: streams that a bookmark continues, and that have nothing new.
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
    """Result of one commit: a batch that is durable and visible.

    Attributes:
        stream: the stream's name.
        table: the table's URI.
        sequence: the batch's ordinal.
        rows: rows landed; 0 when `skipped`.
        files: the visible objects' URIs.
        bytes: their size.
        version: Delta version; None for files.
        skipped: whether the same run had landed this batch before.
        removed_files: files that an overwrite or a merge replaced.
        removed_rows: the rows in these files; None where unknown.
        merged: of a merge, `inserted`, `updated`, `deleted` and `unchanged` -> number of rows, as
            far as known; unchanged rows have the values that the table had.
        warnings, notes: see `Batch`.
        columns: column of the batch -> its type in the table, in words.
        source_columns: column of the source -> the type that it is read with, in words; empty for
            frames.
        lowest_version: the lowest `_sdc_table_version` of the batch's rows; None where a row has
            none, or it is unknown.
        seconds: from the batch's begin, or the commit before it, to its commit.
        commit_seconds: those of the commit alone.
        conflicts: attempts to commit that met another writer's commit.
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
    seconds: float = 0.0
    commit_seconds: float = 0.0
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class SavedBookmark:
    """A bookmark as the table's newest version has it; empty, with number -1, if it has none.

    Attributes:
        value: the value that the source wrote; empty where there is no bookmark.
        number: the number of this bookmark among those of its name; -1 where there is none.
    """

    value: Mapping[str, Any] = field(default_factory=dict)
    number: int = -1


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position up to which a source was read; committed together with its batch.

    Attributes:
        name: the bookmark's name in the table, such as `files` or `database public.orders`; the
            same in each load.
        value: JSON of a few kilobytes at most.
        after: the number of the bookmark from which the source went on. The batch is refused if
            another load has moved the bookmark since.
        number: its own number by `BookmarkStore.next_number`, for sources whose next flush goes on
            from it; None: the writer gives it one.
    """

    name: str
    value: Mapping[str, Any]
    after: int = -1
    number: int | None = None


class BookmarkStore(Protocol):
    """Reads one table's bookmarks without Spark; has a folder for files that they refer to."""

    @property
    def storage(self) -> Storage:
        """The table's store."""

    @property
    def folder(self) -> str:
        """Key of a folder beside the table's data, for files that bookmarks refer to.

        Files there that no bookmark names are garbage of failed loads.
        """

    def next_number(self, after: int) -> int:
        """Return a number for the bookmark that follows number `after`."""

    def bookmark(self, name: str) -> SavedBookmark:
        """Return a bookmark of the table's newest version; an empty one if there is none.

        Raises:
            DestinationError: the store refused, or the bookmark can't be read.
        """


@dataclass(frozen=True, slots=True)
class Work:
    """Times of one task's stages, in seconds since 1970 by the clock of its machine.

    Attributes:
        stages: stage -> its first start, its last end, and the seconds spent on it, added up over
            threads.
        pace: times, with the rows read and the bytes staged in the `step` before each.
        step: seconds between two times of `pace`.
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
        checksum: CRC32C or CRC32 of the content with its name, such as `crc32c:AAAAAA==`.
        partition: partition column -> serialised value (Delta), None for null.
        stats: Delta's statistics as JSON text; empty for files.
        split: index of the task that wrote it.
        content: file and digest of each split that the task read; only in the task's first object,
            and only for batches with `tracks_content`.
        work: the times of the task's stages; only in its first object.
        lowest_version: the lowest `_sdc_table_version` of the task's rows; None where a row has
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
class FolderEntries:
    """The direct entries of a store's folder: sorted folder names without slashes, and objects."""

    folders: tuple[str, ...]
    objects: tuple[StoredObject, ...]


class StageWriter(Protocol):
    """A binary sink for one staged object: `write` until `finish` or `abort`."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes, return their number; the upload of earlier bytes may go on meanwhile."""

    def finish(self) -> Mapping[str, Any]:
        """Make the bytes durable, not visible; return `Staged`'s `token`, `bytes`, `checksum`."""

    def abort(self) -> None:
        """Discard the written bytes. Never raises."""


@dataclass(frozen=True, slots=True)
class CheckItem:
    """Result of one step of a connection test.

    Attributes:
        name: the step, in one or two words.
        status: `failed` if a load would fail because of it, `skipped` if nothing is known.
        detail: what was found; never a secret.
        hint: the permission, role, key or setting to change; empty if none has to be.
    """

    name: str
    status: Literal["ok", "failed", "skipped"]
    detail: str
    hint: str = ""


class Storage(Protocol):
    """An object store, or the local disk, below one root. Pickled into Spark tasks.

    A key is relative to the root, uses `/`, and never starts or ends with it. Every method raises
    `DestinationError` or one of its kinds.
    """

    @property
    def can_rename_staged(self) -> bool:
        """Whether a staged object can be published under another key; no upload can."""
        return False

    @property
    def listing_page_size(self) -> int:
        """Page size of a listing: asking for fewer objects costs as much.

        0 where a listing costs as much as the folder has objects, and to look one up costs little.
        """

    def needs_unique_names(self) -> bool:
        """Whether the store ignores create-only conditions, so that names must never clash."""
        return False

    def uri(self, key: str = "") -> str:
        """Return an object's, or the root's, name for users: a path, `s3://…`, `gs://…`."""

    def hadoop_uri(self, key: str = "") -> str:
        """Return an object's name for Spark: `file:///…`, `s3a://…`, `abfss://…`."""
        return self.uri(key)

    def hadoop_settings(self, *, for_workers: bool = False) -> Mapping[str, str]:
        """Return the settings by which Spark's connector reaches the store; some are secrets.

        Empty where Spark has no connector, or needs no settings.

        Args:
            for_workers: whether with the credentials that this process finds, for workers that
                have none.
        """
        return {}

    def session_settings(self) -> Mapping[str, str]:
        """Return the settings by which a user's Spark session reaches the store."""
        return self.hadoop_settings()

    def stage(self, key: str, content_type: str) -> StageWriter:
        """Begin to stage an object under a key; return its writer."""

    def publish(self, staged: Staged, key: str) -> None:
        """Make a staged object visible under `key`, only if nothing has that name.

        Raises:
            ObjectExists: something else has that name. Unless `can_rename_staged`, the object has
                to be staged again under another key.
        """

    def discard(self, staged: Staged) -> None:
        """Remove a staged object, if the store does not do so by itself. Never raises."""
        return

    def is_published(self, staged: Staged, key: str) -> bool:
        """Whether the visible object `key` is this staged one, after a crash or a lost answer."""

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Write one small object; replace an existing one unless `create_only`.

        Raises:
            ObjectExists: `create_only`, and something has that name.
        """

    def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Replace an object's content by `change(content)`; fail if another writer was faster.

        Raises:
            DestinationError: there is no such object, or another writer has replaced it meanwhile.
                Stores without conditional writes don't notice the latter.
        """

    def get(self, key: str) -> bytes | None:
        """Return the content of one small object; None where there is none."""

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading, seekable."""

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Yield the object `prefix` and the objects below the folder `prefix`, sorted by key.

        Args:
            prefix: a key, without a slash at its end; empty for all objects.
            after: only keys that sort behind this one; the listing begins there, if the store can.
        """

    def list_folder(self, prefix: str) -> FolderEntries:
        """Return the direct entries of the folder `prefix`, in few requests even if it is large.

        Of a folder with thousands of entries some may be missing.
        """

    def sweep(self) -> int:
        """Remove objects staged over a week ago; return their number, 0 if the store does that."""
        return 0

    def delete(self, key: str) -> None:
        """Delete an object; do nothing if there is none."""

    def checks(self, *, tables: bool = False) -> Iterator[CheckItem]:
        """Try each thing that a load needs, and yield the results; `tables`: Delta's needs, too."""

    def shorten_deadline(self) -> None:
        """Limit all further requests together to a few seconds.

        For a process that has to end, or after another way to the store was given up.
        """
        return

    def count_retries(self) -> int:
        """Return how many requests to the store this process has repeated; 0 for a disk."""
        return 0


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The engine that ran a load, Spark or threads, with its numbers of jobs and tasks.

    Attributes:
        name: `spark`, `connect` (Spark Connect) or `threads`.
        version: Spark's version; empty for threads.
        master: Spark's master URL, or the number of threads as `threads[2]`.
        application: Spark's application id; empty for threads, and where Spark never started.
        jobs: jobs of the load; 0 for threads.
        tasks: tasks of the load.
        ui: URL of Spark's UI while the application runs; empty without one.
        history: URL of the application at Spark's history server; empty where Spark's settings
            name none.
    """

    name: str = ""
    version: str = ""
    master: str = ""
    application: str = ""
    jobs: int = 0
    tasks: int = 0
    ui: str = ""
    history: str = ""

    @property
    def info(self) -> str:
        """The engine as a Delta commit's `engineInfo` names it, such as `Apache-Spark/4.2.0`."""
        return f"Apache-Spark/{self.version}" if self.version else self.name

    @property
    def parameters(self) -> dict[str, str]:
        """Return the engine for a Delta commit's `operationParameters`, without empty values."""
        facts = {"engine": self.name, "master": self.master, "application": self.application}
        return {name: value for name, value in facts.items() if value}

    @property
    def title(self) -> str:
        """The engine's name and version in words, such as `Spark 4.2.0`; empty if unknown."""
        names = {"spark": "Spark", "connect": "Spark Connect", "threads": "threads of the process"}
        return f"{names.get(self.name, self.name)} {self.version}".rstrip()

    def __str__(self) -> str:
        """Return the engine, jobs and tasks in words.

        >>> str(EngineReport("spark", "4.2.0", "local[2]", "local-1", 2, 5))
        'by Spark 4.2.0, local[2], 2 jobs, 5 tasks'
        >>> str(EngineReport("threads", master="threads[2]", tasks=1))
        'by threads of this process, 1 task'
        """
        tasks = pluralize(self.tasks, "task")
        if self.name not in ("spark", "connect"):
            return f"by threads of this process, {tasks}"
        facts = filter(None, (self.title, self.master))
        return f"by {', '.join(facts)}, {pluralize(self.jobs, 'job')}, {tasks}"


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """Result of one expectation for one stream.

    Attributes:
        name: the expectation's name.
        otherwise: what follows from a violation: `fail`, `quarantine` or `warn`.
        checked: number of rows that were checked.
        failed: number of rows that violate it; for an expectation of all rows together (`rows`,
            `fresh`, `columns`), 1 if it is violated.
        detail: for an expectation of all rows together, the value that was found, in words.
    """

    name: str
    otherwise: str
    checked: int
    failed: int
    detail: str = ""

    @property
    def in_words(self) -> str:
        """The expectation's name with its number of violating rows, or with its detail."""
        if self.detail:
            return f"{self.name}: {self.detail}"
        return f"{self.name} by {format_count(self.failed)} of {pluralize(self.checked, 'row')}"


@dataclass(frozen=True, slots=True)
class StreamReport:
    """Report of one stream of a load; sizes are in bytes, versions None for files.

    `columns` are the columns that landed -> their types in the table, in words such as
    `decimal(10,2)`; the type of a column without a value yet says so. `source_columns` are those of
    the source, before `sql` -> the types that they are read with.
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
        """The table's name in its lake: the last part of its URI."""
        return self.table.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Span:
    """Time span of one stage of a run, in seconds since the run's start.

    Attributes:
        stage: the stage, such as `reading` or `committing`; docs/reports.md lists them.
        stream: the stream's name; empty for a stage of the whole run.
        start: when the stage began.
        end: when the stage ended.
        tasks: number of tasks that did it, maybe at once; 0 for the driver.
        busy: seconds spent on it, added up over all tasks.
    """

    stage: str
    stream: str
    start: float
    end: float
    tasks: int = 0
    busy: float = 0.0

    def with_next(self, other: Span) -> Span:
        """Return one span from the earlier start to the later end of both; add up their work."""
        return replace(
            self,
            start=min(self.start, other.start),
            end=max(self.end, other.end),
            tasks=self.tasks + other.tasks,
            busy=self.busy + other.busy,
        )


@dataclass(frozen=True, slots=True)
class Rejection:
    """Number of records of a stream that were rejected for one reason.

    Attributes:
        stream: the stream's name; empty for lines that belong to none.
        column: dotted path of the column at fault; empty where the whole record is at fault.
        reason: the reason in words, without a record's values; `other reasons` for all others.
        count: number of records.
    """

    stream: str
    column: str
    reason: str
    count: int
