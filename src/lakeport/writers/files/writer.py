"""Write a table of plain files: the steps of the driver for Parquet and CSV.

`lakeport.writers.files.journal` describes the protocol that these steps belong to.

Each bookmark of a name has a number, which is the batch's in that journal: the intent that makes a
batch's objects visible says what is remembered from then on, and so does the entry that they are.
A load that was cut off between the two is finished by the next one, before that reads the bookmark.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from lakeport.errors import (
    CommitConflict,
    DestinationError,
    ObjectExists,
    PermissionRefused,
    Unreachable,
)
from lakeport.model import Batch, Bookmark, Landed, Remembered, Staged, Storage
from lakeport.writers.base import Current, TablePlan, TableWriter
from lakeport.writers.files.columns import ColumnLog, RecordedColumns, file_columns, plan_columns
from lakeport.writers.files.encode import Encoder
from lakeport.writers.files.journal import (
    DoneEntry,
    Intent,
    Journal,
    PlannedObject,
    may_publish,
    publishing,
    write_manifest,
)
from lakeport.writers.files.sink import FileSink, Names, Rows, visible_rows
from lakeport.writers.naming import HOME, object_folder, safe_segment

if TYPE_CHECKING:
    import pyarrow as pa


_THREADS = 16

_MOST_TAKEN = 10_000

_HOME: Final = f"{HOME}/bookmarks"
_KEPT: Final = 5

_PUBLISHING = 60.0  # seconds after which a table on record has files, or they were deleted
_OTHERWISE = (
    "`--schema-evolution loose` lands it as it is, in files of another type, which few readers "
    "take for one table with the others; `--table NAME` lands in another table."
)


class ManifestFile(msgspec.Struct):
    """A file of a load, by its name as users know it, and its rows."""

    uri: str
    rows: int


class Manifest(msgspec.Struct):
    """The manifest of a load into a table of files, as it is stored.

    Attributes:
        at: when.
        rows: how many it landed.
        files: the files that it landed.
        table: the table's folder, as users name it.
        untyped: the columns with places for which no type was known.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    rows: int
    files: list[ManifestFile]
    table: str = ""
    untyped: list[str] = []


_MANIFEST = msgspec.json.Decoder(Manifest)


def loads(storage: Storage, folder: str, most: int) -> list[Manifest]:
    """Return the manifests of the newest loads into a table, oldest first.

    Args:
        storage: where the lake is.
        folder: the table's key.
        most: how many at most.

    Raises:
        DestinationError: the store refused.
    """
    return sorted(_manifests(storage, folder, most), key=lambda load: load.at)


def untyped_files(storage: Storage, folder: str) -> list[str]:
    """Return the keys of a table's files whose loads knew no type for a place in them.

    Raises:
        DestinationError: the store refused.
    """
    found = [each for each in _manifests(storage, folder, 0) if each.untyped]
    keys = {folder + file.uri.removeprefix(each.table) for each in found for file in each.files}
    return sorted(keys & {item.key for item in storage.list(folder)}) if keys else []


def growth(found: Sequence[Manifest], rows: int | None) -> list[tuple[float, int]]:
    """Rows after each load, oldest first: (Unix seconds, rows).

    Args:
        found: the newest loads, oldest first.
        rows: how many the table has now; None when unknown, and the loads are all there were.
    """
    total = sum(load.rows for load in found)
    start = 0 if rows is None else max(rows - total, 0)
    sums = list(accumulate((load.rows for load in found), initial=start))[1:]
    return [(load.at.timestamp(), after) for load, after in zip(found, sums, strict=True)]


def _manifests(storage: Storage, folder: str, most: int) -> Iterator[Manifest]:
    """Yield the newest manifests of a table, all if `most` is 0; without what is none."""
    if not folder:
        return
    home = f"{HOME}/manifests/{safe_segment(folder)}"
    keys = [item.key for item in storage.list(home) if item.key.endswith(".json")][-most:]
    with ThreadPoolExecutor(_THREADS) as pool:
        for data in pool.map(storage.get, keys):
            with suppress(msgspec.DecodeError):
                yield _MANIFEST.decode(data or b"")


@dataclass
class FilePublisher:
    """The objects of one batch on their way.

    Attributes:
        storage: where they are staged.
        names: what further keys are made of.
        objects: each with the key that it is to have; changed in place on a clash.
        next_ordinal: the lowest ordinal that no object has tried.
        record: puts the present plan on record; called before anything takes a name of it.
        published: what is visible, with its keys.
        clashes: what has to be staged again, because its name is taken and it is bound to it.
        taken: how many names were taken.
    """

    storage: Storage
    names: Names
    objects: list[PlannedObject]
    next_ordinal: int
    record: Callable[[FilePublisher], None]
    published: list[PlannedObject] = field(default_factory=list)
    clashes: list[PlannedObject] = field(default_factory=list)
    taken: int = 0

    def run(self) -> None:
        """Publish everything that is not published yet.

        Raises:
            ObjectExists: there are `clashes`; everything else is visible.
            DestinationError: the store refuses; `published` tells how far it came.
        """
        for index, planned in enumerate(self.objects):
            if planned not in self.published:
                self._publish(index)
        if self.clashes:
            taken = ", ".join(self.storage.uri(clash.key) for clash in self.clashes)
            raise ObjectExists(f"{taken} exists already", "stage these rows under other names.")

    def _publish(self, index: int) -> None:
        while True:
            planned = self.objects[index]
            try:
                self.storage.publish(planned.staged, planned.key)
            except ObjectExists:
                if not self.storage.can_rename_staged:
                    self.clashes.append(planned)
                    return
                self.taken += 1
                if self.taken > _MOST_TAKEN:
                    raise DestinationError(
                        f"{_MOST_TAKEN:,} names were taken, up to {self.storage.uri(planned.key)}",
                        "see that the store tells what is there, and run it again.",
                    ) from None
                self.objects[index] = PlannedObject(
                    planned.staged, self.names.key(self.next_ordinal)
                )
                self.next_ordinal += 1
                self.record(self)
            else:
                self.published.append(planned)
                return

    def intent(self, digest: str, attempt: int) -> Intent:
        """Return the present plan as the journal keeps it."""
        names = {
            "folder": self.names.folder,
            "clock": self.names.clock.isoformat(),
            "extension": self.names.extension,
            "unique": self.names.unique,
        }
        return Intent(digest, tuple(self.objects), self.next_ordinal, names, attempt)


def resume(storage: Storage, journal: Journal, sequence: int, intent: Intent) -> DoneEntry | None:
    """Finish what an interrupted run had put on record; None if the batch has to be staged again.

    Raises:
        DestinationError: the store refuses.
    """
    attempt = intent.attempt

    def record(publisher: FilePublisher) -> None:
        nonlocal attempt
        attempt += 1
        again = publisher.intent(intent.digest, attempt)
        journal.intend(sequence, replace(again, bookmark=intent.bookmark, by=intent.by))

    objects = list(intent.objects)
    publisher = FilePublisher(storage, names_of(intent.names), objects, intent.next_ordinal, record)
    publisher.published = [o for o in objects if storage.owned(o.staged, o.key)]
    try:
        publisher.run()
    except (PermissionRefused, Unreachable):
        raise
    except DestinationError:
        _take_back(publisher)
        return None
    done = replace(done_entry(intent.digest, publisher.objects), bookmark=intent.bookmark)
    journal.finish(sequence, done)
    drop_staging(storage, intent.objects)
    if names_of(intent.names).extension == "parquet":
        from lakeport.writers.files.retype import retype_late

        retype_late(storage, journal.table, done.keys)
    return done


def drop_staging(storage: Storage, objects: Iterable[PlannedObject]) -> None:
    """Give up the staging names of objects that are visible, which only stores that rename keep."""
    if storage.can_rename_staged:
        for planned in objects:
            storage.discard(planned.staged)


def withdraw(storage: Storage, intent: Intent) -> bool:
    """Drop an interrupted run's staged objects; False, and nothing is done, if any is visible.

    Raises:
        DestinationError: the store can't tell.
    """
    if any(storage.owned(planned.staged, planned.key) for planned in intent.objects):
        return False
    for planned in intent.objects:
        storage.discard(planned.staged)
    return True


def names_of(entry: Mapping[str, Any]) -> Names:
    """Return the names that an intent was made with."""
    clock = datetime.fromisoformat(entry["clock"])
    return Names(entry["folder"], clock, entry["extension"], entry["unique"])


def done_entry(digest: str, objects: list[PlannedObject]) -> DoneEntry:
    """Return what the journal keeps of objects that are all visible."""
    return DoneEntry(
        digest,
        tuple(planned.key for planned in objects),
        sum(planned.staged.rows for planned in objects),
        sum(planned.staged.bytes for planned in objects),
    )


def _take_back(publisher: FilePublisher) -> None:
    """Delete what is visible of a batch whose other objects can't be published any more."""
    storage = publisher.storage
    for planned in publisher.published:
        try:
            storage.delete(planned.key)
        except PermissionRefused as error:
            keys = ", ".join(storage.uri(one.key) for one in publisher.published)
            raise PermissionRefused(
                f"an interrupted run left part of a batch: {keys}",
                "delete these objects, or allow it, and repeat the run.",
            ) from error
    for planned in publisher.objects:
        storage.discard(planned.staged)


@dataclass(frozen=True, slots=True)
class FileMemory:
    """The bookmarks of one table; a `lakeport.model.Memory`.

    Attributes:
        storage: where the lake is.
        table: the table's folder below the root, date folders not included.
        writes: whether what a load that was cut off began may be finished.
    """

    storage: Storage
    table: str
    writes: bool = True

    @property
    def folder(self) -> str:
        """See `lakeport.model.Memory.folder`."""
        return f"{_HOME}/files/{safe_segment(self.table)}"

    def next_number(self, after: int) -> int:
        """See `lakeport.model.Memory.next_number`."""
        return after + 1

    def bookmark(self, name: str) -> Remembered:
        """See `lakeport.model.Memory.bookmark`; finishes what a load that was cut off began.

        Raises:
            CommitConflict: that one is still at it.
        """
        journal = _journal(self.storage, self.table, name)
        number, done = journal.newest()
        if self.writes:
            intent = journal.intent(number + 1)
            finished = intent and self._finished(journal, number + 1, intent)
            if finished:
                number, done = number + 1, finished
            journal.prune(number - _KEPT)
        return Remembered() if done is None else Remembered(done.bookmark or {}, number)

    def _finished(self, journal: Journal, number: int, intent: Intent) -> DoneEntry | None:
        if may_publish(intent.by):
            raise CommitConflict(
                f"another load is landing what is new of the source {journal.run_id!r} in "
                f"{self.storage.uri(self.table)}",
                "let it end, and run this one again: it goes on from there. Of one that was killed "
                "on another machine this is known ten minutes later.",
            )
        with publishing() as by:
            mine = replace(intent, attempt=intent.attempt + 1, by=by())
            journal.intend(number, mine)  # of two who find it, one finishes it
            return resume(self.storage, journal, number, mine)


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """Where a journal has a batch.

    Attributes:
        journal: the run's, or that of the bookmark that the batch moves.
        number: the batch's there.
        digest: what tells it from another batch of that number.
    """

    journal: Journal
    number: int
    digest: str


def place_of(bookmark: Bookmark, storage: Storage, table: str) -> JournalPlace:
    """Where the journal of a bookmark has the batch that moves it."""
    text = json.dumps(bookmark.value, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return JournalPlace(_journal(storage, table, bookmark.name), bookmark.after + 1, digest)


def _journal(storage: Storage, table: str, name: str) -> Journal:
    return Journal(storage, name, table, _HOME)


class Clash(ObjectExists):
    """Some of a batch's names were taken, and its objects are bound to them.

    What could be published is visible and remembered: `FilesWriter.plan` for the same batch gives
    a sink that leaves those rows out and takes further names.
    """


@dataclass
class _Attempt:
    """What is known of the batch that is being landed, from one plan to the next."""

    sequence: int
    first: int = 0
    intents: int = 0
    landed: dict[int, tuple[Rows, ...]] = field(default_factory=dict)
    published: list[PlannedObject] = field(default_factory=list)
    held: list[Staged] = field(default_factory=list)


@dataclass(frozen=True)
class _Detail:
    """What a plan keeps for its commit: the objects' names and the table's columns."""

    names: Names
    columns: pa.Schema


@dataclass
class FilesWriter(TableWriter):
    """Lands batches of one stream as new objects; nothing that exists is ever touched.

    Attributes:
        storage: where the lake is.
        encoder: the file format.
        table: the table's folder below the root, as `naming.table_folder` returns it.
        date_partition_format: strftime pattern for folders by the time of the load, or None.
        journal: the run's journal for this table; None without a run id.
        manifest: whether each load leaves a manifest.
        unique: makes names unique from the start, where a store ignores create-only conditions.
        target_bytes: size at which a task begins another object.
        evolution: `schema_evolution` of the config.
    """

    storage: Storage
    encoder: Encoder
    table: str
    date_partition_format: str | None = None
    journal: Journal | None = None
    manifest: bool = True
    unique: str = ""
    target_bytes: int = 256 << 20
    evolution: str = "evolve"
    _columns: RecordedColumns | None = field(default=None, repr=False)
    _has_files: bool = field(default=False, repr=False)
    _told: bool = field(default=False, repr=False)
    _raced: bool = field(default=False, repr=False)
    _attempt: _Attempt = field(default_factory=lambda: _Attempt(-1), repr=False)
    _by: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """The table's folder, as users name it."""
        return self.storage.uri(self.table)

    def current(self) -> Current | None:
        """Return the columns of the table so far; None where none are known.

        Raises:
            DestinationError: the store fails.
        """
        schema = self._recorded().schema
        if schema is None or not self._is_there():
            return None
        return Current(schema, (), -1, typed=self.encoder.has_types)

    def landed_before(self, batch: Batch) -> Landed | None:
        """Return what the same run landed of this batch before, finishing it if it was cut off.

        Raises:
            RunMismatch: the run landed another content as this batch.
            DestinationError: the store refuses.
        """
        place = self._place(batch)
        if place is None:
            return None
        journal, number = place.journal, place.number
        if batch.bookmark is not None:
            self._follow(place, batch)
            return None
        done = journal.done(number, place.digest)
        if done is not None:
            return self._landed(batch, done, 0, skipped=True)
        intent = journal.intent(number)
        if intent is None:
            return None
        if intent.digest != place.digest:
            if not withdraw(self.storage, intent):
                raise journal.mismatch(number)
        else:
            done = resume(self.storage, journal, number, intent)
        if done is None:
            newest = journal.intent(number) or intent
            self._attempt = _Attempt(batch.sequence, intents=newest.attempt + 1)
            return None
        note = "finished a batch that an interrupted run had staged."
        return self._landed(batch, done, done.rows, warnings=(note,))

    def _place(self, batch: Batch) -> JournalPlace | None:
        """Where a journal has the batch; None without one."""
        if batch.bookmark is not None:
            return place_of(batch.bookmark, self.storage, self.table)
        if self.journal is None:
            return None
        return JournalPlace(self.journal, batch.sequence, batch.digest)

    def _follow(self, place: JournalPlace, batch: Batch) -> None:
        """See that nobody has moved a batch's bookmark; leave the names of earlier attempts alone.

        Raises:
            CommitConflict: another load was faster.
        """
        if place.journal.newest()[0] >= place.number:
            raise self._overtaken(place)
        newest = place.journal.intent(place.number)
        if newest is None:
            return
        if may_publish(newest.by) or not withdraw(self.storage, newest):
            raise self._overtaken(place)
        self._attempt = _Attempt(batch.sequence, intents=newest.attempt + 1)

    def _overtaken(self, place: JournalPlace) -> CommitConflict:
        return CommitConflict(
            f"another load has read the source {place.journal.run_id!r} of {self.uri} since this "
            "one began",
            "nothing of this batch was published; run it again: it goes on from there.",
        )

    def plan(
        self,
        incoming: pa.Schema,
        batch: Batch,
        partition_keys: Sequence[str],
        clock: datetime,
        tasks: int,
    ) -> TablePlan:
        """Name the batch's objects and return the kernel that stages them.

        Args:
            incoming: the batch's columns; those that never had a value are left out of files.
            batch: the same batch again after a `Clash` takes other names.
            partition_keys: columns by which the batch is to be partitioned, which files are not.
            clock: the batch's one clock reading.
            tasks: number of tasks; for a frame, its number of partitions.

        Raises:
            ConfigError: a configured path is refused.
            SchemaConflict: the columns don't fit those that the table has.
        """
        from lakeport.schema.nested import has_untyped

        if self._attempt.sequence != batch.sequence:
            self._attempt = _Attempt(batch.sequence)
        files, columns, warnings = self._plan_columns(incoming)
        folder = object_folder(self.table, self.date_partition_format, clock)
        names = Names(
            folder, clock, self.encoder.extension, self.unique, self._attempt.first, tasks
        )
        sink = FileSink(
            self.storage,
            self.encoder,
            files,
            names,
            self.target_bytes,
            dict(self._attempt.landed),
        )
        if partition_keys:
            listed = ", ".join(repr(key) for key in partition_keys)
            warnings += (
                f"files are not partitioned by columns ({listed}); `date_partition_format` makes "
                "folders by the time of the load.",
            )
        untyped = tuple(field.name for field in columns if has_untyped(field.type))
        return TablePlan(files, sink, _Detail(names, columns), warnings, untyped)

    def _plan_columns(self, incoming: pa.Schema) -> tuple[pa.Schema, pa.Schema, tuple[str, ...]]:
        """Return the columns of the batch's files, of the table, and what to tell of them.

        Raises:
            SchemaConflict: they don't go together.
        """
        from lakeport.schema.evolution import TypeConflict, list_change_warnings

        known, typed = self._recorded(), self.encoder.has_types
        try:
            try:
                plan, table, warnings = plan_columns(
                    known.schema, incoming, self.evolution, typed=typed
                )
                stale = bool(plan.missing) and self._begins_anew()
            except TypeConflict:
                if not self._begins_anew():
                    raise
                stale = True
            if stale:  # the table's files were deleted: it begins anew
                plan, table, warnings = plan_columns(None, incoming, self.evolution, typed=typed)
        except TypeConflict as conflict:
            raise TypeConflict(conflict.path, conflict.table, conflict.new, _OTHERWISE) from None
        if typed and not (known.readable or self._told):
            self._told = True
            warnings += (
                f"the columns were not compared with those of earlier files: {self.storage.uri()} "
                "lets nothing be read here. Permission to list and read "
                f"{self._column_log.uri} would do.",
            )
        warnings += tuple(list_change_warnings(plan, lambda _: "a new table has it as JSON"))
        return file_columns(plan.schema, typed=typed), table, warnings

    @property
    def _column_log(self) -> ColumnLog:
        return ColumnLog(self.storage, self.table)

    def _recorded(self) -> RecordedColumns:
        if self._columns is None:
            self._columns = self._column_log.read()
        return self._columns

    def _begins_anew(self) -> bool:
        """Whether the table's files were deleted, rather than being published at this moment."""
        age = time.time() - self._recorded().modified
        return not self._raced and age > _PUBLISHING and not self._is_there()

    def _is_there(self) -> bool:
        """Whether the table has files, which is asked until it does."""
        if not self._has_files:
            try:
                self._has_files = self._column_log.has_files()
            except PermissionRefused:
                self._has_files = True
        return self._has_files

    def _record_columns(self, columns: pa.Schema) -> tuple[str, ...]:
        """Put the table's columns on record before a file has them, where they are new.

        Raises:
            ObjectExists: another load has changed them meanwhile: plan and stage again.
        """
        known, told = self._recorded(), tuple[str, ...]()
        if known.schema is not None and columns.equals(known.schema, check_metadata=True):
            return self._retype(known) if known.pending else told
        pending = known.pending or self._is_retyped(columns)
        if self.manifest and (known.readable or known.number < 0):
            try:
                self._column_log.write(known.number + 1, columns, pending=pending)
            except (ObjectExists, PermissionRefused) as error:
                if isinstance(error, ObjectExists) and known.readable:
                    self._columns, self._raced = None, True
                    raise
            except DestinationError as error:
                told = (f"the table's columns were not put on record: {error.message}",)
        self._columns = replace(known, schema=columns, number=known.number + 1, pending=pending)
        return told + self._retype(self._columns) if pending else told

    def _is_retyped(self, columns: pa.Schema) -> bool:
        """Whether earlier files may have text where the table gets another type."""
        from lakeport.writers.files.retype import has_text_places

        before = self._recorded().schema
        if before is None or not self.encoder.has_types:
            return False
        return has_text_places(file_columns(before), file_columns(columns))

    def _retype(self, columns: RecordedColumns) -> tuple[str, ...]:
        """Give earlier files the table's types where they have no value; return what to tell.

        The record says that it is pending until it is done: the next load goes on with it.

        Raises:
            ObjectExists: another load has changed the columns meanwhile: plan and stage again.
        """
        from lakeport.writers.files.retype import retype, retype_warning

        assert columns.schema is not None
        try:
            keys = untyped_files(self.storage, self.table)
            failed = retype(self.storage, keys, file_columns(columns.schema))
            if not self.manifest:
                failed += (retype_warning(1, "`manifest: false` leaves its name unknown"),)
            elif not failed:
                self._column_log.write(columns.number + 1, columns.schema)
        except ObjectExists:
            self._columns, self._raced = None, True
            raise
        except PermissionRefused as error:
            failed = (retype_warning(1, error.message),)
        if not (failed and self.manifest):
            self._columns = replace(columns, number=columns.number + 1, pending=False)
        return failed

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """See `TableWriter.at_work`: what others find on record meanwhile is not theirs to finish.

        That is also between a `Clash` and the commit of what was staged anew.
        """
        with publishing() as by:
            self._by = by
            try:
                yield
            finally:
                self._by = None

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Make what the tasks staged visible.

        Raises:
            Clash: names were taken and the objects are bound to them: plan and stage again.
            CommitConflict: another process lands the same run's batch at this moment.
            DestinationError: the store refuses; with a journal, repeating the run finishes it.
        """
        publisher = self._publisher(plan, staged, batch)
        told = self._record_columns(plan.detail.columns) if staged else ()
        try:
            place = self._place(batch)
            if place is not None:
                publisher.record(publisher)
            publisher.run()
            done = done_entry(batch.digest, publisher.objects)
            if place is not None:
                kept = replace(done, digest=place.digest, bookmark=_value(batch))
                place.journal.finish(place.number, kept)
        except ObjectExists as clash:
            self._remember(plan, staged, publisher)
            raise Clash(clash.message, clash.hint) from clash
        except DestinationError as error:
            advice = self._advice(publisher)
            if not advice:
                raise
            raise type(error)(error.message, f"{error.hint} {advice}".strip()) from error
        self._attempt = _Attempt(-1)
        drop_staging(self.storage, publisher.objects)
        told += self._write_manifest(plan, batch, publisher.objects, singer_state)
        if self.encoder.has_types and not {*plan.untyped}.isdisjoint(plan.schema.names):
            from lakeport.writers.files.retype import retype_late

            told += retype_late(self.storage, self.table, done.keys, self._recorded().number)
        warnings = plan.warnings + told
        return self._landed(batch, done, done.rows, warnings=warnings)

    def memory(self, *, writes: bool = True) -> FileMemory:
        """What the table remembers of its sources."""
        return FileMemory(self.storage, self.table, writes)

    def prune(self, sequence: int) -> None:
        """Forget the run's batches before this one."""
        if self.journal is not None:
            self.journal.prune(sequence)

    def discard(self, staged: Sequence[Staged]) -> None:
        """Drop what will not be committed, but keep what a repeated run can still publish."""
        for one in staged:
            if one not in self._attempt.held:
                self.storage.discard(one)

    def _publisher(self, plan: TablePlan, staged: Sequence[Staged], batch: Batch) -> FilePublisher:
        attempt, names, place = self._attempt, plan.detail.names, self._place(batch)
        ordered = sorted(staged, key=lambda one: one.split)
        if self.storage.can_rename_staged:
            objects = [PlannedObject(one, names.key(i)) for i, one in enumerate(ordered)]
        else:
            objects = [PlannedObject(one, one.key) for one in ordered]

        def record(publisher: FilePublisher) -> None:
            if place is not None:
                intent = publisher.intent(place.digest, attempt.intents)
                value = _value(batch)
                told = self._by() if self._by and value is not None else None
                place.journal.intend(place.number, replace(intent, bookmark=value, by=told))
                attempt.intents += 1
                attempt.held = [planned.staged for planned in publisher.objects]

        return FilePublisher(
            self.storage,
            names,
            attempt.published + objects,
            len(objects),
            record,
            list(attempt.published),
        )

    def _remember(
        self, plan: TablePlan, staged: Sequence[Staged], publisher: FilePublisher
    ) -> None:
        """Keep what became visible, as ranges of each task's rows, for the next plan."""
        attempt, tasks = self._attempt, max(1, plan.detail.names.tasks)
        clashes = [planned.staged for planned in publisher.clashes]
        most = 1
        for split in {one.split for one in staged}:
            mine = [one for one in staged if one.split == split]
            before = attempt.landed.get(split, ())
            visible = [one not in clashes for one in mine]
            attempt.landed[split] = visible_rows(before, [one.rows for one in mine], visible)
            most = max(most, len(mine))
        attempt.first += tasks * most
        attempt.published = publisher.published
        attempt.held = [planned.staged for planned in publisher.published]

    def _advice(self, publisher: FilePublisher) -> str:
        """What to know about a batch that was published in part; empty if nothing is left of it."""
        if self.journal is not None and self._attempt.held:
            return "repeat the run with the same `run_id`: it goes on where this one stopped."
        if not publisher.published:
            return ""
        keys = ", ".join(self.storage.uri(one.key) for one in publisher.published)
        count = f"{len(publisher.published)} of {len(publisher.objects)} objects"
        return f"{count} of this batch are visible already: {keys}."

    def _write_manifest(
        self,
        plan: TablePlan,
        batch: Batch,
        objects: Sequence[PlannedObject],
        singer_state: bytes | None,
    ) -> tuple[str, ...]:
        if not self.manifest or not objects:
            return ()
        try:
            write_manifest(self.storage, self.table, batch, plan, objects, singer_state)
        except DestinationError as error:
            return (f"the manifest was not written: {error.message}",)
        return ()

    def _landed(
        self,
        batch: Batch,
        done: DoneEntry,
        rows: int,
        *,
        skipped: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> Landed:
        files = tuple(self.storage.uri(key) for key in done.keys)
        return Landed(
            batch.stream,
            self.uri,
            batch.sequence,
            rows,
            files,
            done.bytes,
            skipped=skipped,
            warnings=warnings,
        )


def _value(batch: Batch) -> Mapping[str, Any] | None:
    return None if batch.bookmark is None else batch.bookmark.value


def number_of_files(
    bytes_estimate: int,
    cores: int,
    min_file_bytes: int = 32 << 20,
    target_file_bytes: int = 256 << 20,
) -> int:
    """Return how many files a batch should become: at least 1.

    As many as there are cores while a file keeps the minimum, more where files would pass the
    target. An unknown size (negative) takes one per core.

    >>> [number_of_files(mb << 20, cores=8) for mb in (1, 100, 1000, 10000)]
    [1, 3, 8, 40]
    """
    if bytes_estimate < 0:
        return max(1, cores)
    parallel = min(cores, bytes_estimate // max(1, min_file_bytes))
    return max(1, parallel, math.ceil(bytes_estimate / max(1, target_file_bytes)))
