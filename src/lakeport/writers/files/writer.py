"""Write a table of plain files, Parquet or CSV: the driver's steps from plan to publication.

```
plan (columns, names) ─▶ sink (in tasks) ──Staged──▶ intent ─▶ publish ─▶ done entry ─▶ manifest
```
`lakeport.writers.files.journal` describes the protocol by which a repeated run adds nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeport.errors import CommitConflict, DestinationError, ObjectExists, PermissionRefused
from lakeport.model import Batch, Landed, Staged, Storage
from lakeport.schema.evolution import Evolution, TypeConflict, list_change_warnings
from lakeport.schema.nested import has_untyped
from lakeport.writers.base import ExistingTable, TablePlan, TableWriter
from lakeport.writers.files.bookmarks import FileBookmarks, JournalSlot, bookmark_slot
from lakeport.writers.files.columns import ColumnLog, RecordedColumns, file_columns, plan_columns
from lakeport.writers.files.encode import Encoder
from lakeport.writers.files.journal import (
    DoneEntry,
    FilePublisher,
    Journal,
    PlannedObject,
    discard_interrupted,
    discard_staging_names,
    finish_interrupted,
    make_done_entry,
    may_still_publish,
    register_publisher,
)
from lakeport.writers.files.manifests import find_untyped_files, write_manifest
from lakeport.writers.files.retype import (
    has_text_places,
    retype_files,
    retype_late,
    retype_warning,
)
from lakeport.writers.files.sink import FileSink, ObjectNames, RowRange, visible_rows
from lakeport.writers.naming import object_folder

_PUBLISHING = 60.0  # seconds after which a table on record has files, or they were deleted
_OTHERWISE = (
    "`--schema-evolution loose` lands it as it is, in files of another type, which few readers "
    "take for one table with the others; `--table NAME` lands in another table."
)


@dataclass
class _Attempts:
    """State for the next attempt at a batch: free ordinals, intents written, visible objects.

    Attributes:
        sequence: the batch's sequence; -1 for none.
        first: the lowest ordinal that may be free.
        intents: number of intents written.
        landed: task -> ranges of its rows that are visible.
        published: the objects that are visible.
        held: staged objects that a repeated run can still publish.
    """

    sequence: int = -1
    first: int = 0
    intents: int = 0
    landed: dict[int, tuple[RowRange, ...]] = field(default_factory=dict)
    published: list[PlannedObject] = field(default_factory=list)
    held: list[Staged] = field(default_factory=list)


@dataclass(frozen=True)
class _PlanDetail:
    """The objects' names and the table's columns after the batch; the `detail` of a TablePlan."""

    names: ObjectNames
    columns: pa.Schema


@dataclass
class FilesWriter(TableWriter):
    """Lands batches of one stream as new objects; never overwrites an object.

    The way of a batch: `find_landed` skips or finishes what its run has landed, `plan` names the
    objects, tasks stage them, and `commit` publishes them. A failed commit deletes nothing: a
    repeated run goes on by the journal, and without one the error names the visible objects.
    Each step may raise DestinationError, as the store refuses.

    Attributes:
        table: the table's folder below the root, as `naming.table_folder` returns it.
        date_partition_format: strftime pattern for folders by the time of the load, or None.
        journal: the run's journal for this table; None without a run id.
        manifest: whether each load writes a manifest, and new columns are recorded.
        unique: text that makes names unique, where a store ignores create-only conditions.
        target_bytes: size at which a task begins another object.
        evolution: `schema_evolution` of the config.
        run: the run's id or name, for manifests.
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
    run: str = ""
    _columns: RecordedColumns | None = field(default=None, repr=False)
    _has_files: bool = field(default=False, repr=False)
    _has_warned: bool = field(default=False, repr=False)
    _lost_race: bool = field(default=False, repr=False)
    _attempts: _Attempts = field(default_factory=_Attempts, repr=False)
    _owner: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        """The table's folder, as users name it."""
        return self.storage.uri(self.table)

    def read_existing(self) -> ExistingTable | None:
        """Return the table's columns so far; None if none are known, or it has no files."""
        schema = self._read_columns().schema
        if schema is None or not self._has_any_file():
            return None
        return ExistingTable(schema, (), -1, typed=self.encoder.has_types)

    def find_landed(self, batch: Batch) -> Landed | None:
        """Return the report of a batch that its run landed, or that is finished now; else None.

        Publishes the objects of an interrupted run's same batch, or discards them.

        Raises:
            CommitConflict: another load has moved the batch's bookmark, or is about to.
            RunMismatch: the run landed another content as this batch.
        """
        slot = self._journal_slot(batch)
        if slot is None:
            return None
        journal, number = slot.journal, slot.number
        if batch.bookmark is not None:
            self._check_bookmark(slot, batch)
            return None
        done = journal.read_done(number, slot.digest)
        if done is not None:
            return self._report(batch, done, 0, skipped=True)
        intent = journal.read_intent(number)
        if intent is None:
            return None
        if intent.digest != slot.digest:
            if not discard_interrupted(self.storage, intent):
                raise journal.mismatch_error(number)
        else:
            done = finish_interrupted(self.storage, journal, number, intent)
        if done is None:
            newest = journal.read_intent(number) or intent
            self._attempts = _Attempts(batch.sequence, intents=newest.attempt + 1)
            return None
        note = "finished a batch that an interrupted run had staged."
        return self._report(batch, done, done.rows, warnings=(note,))

    def _journal_slot(self, batch: Batch) -> JournalSlot | None:
        """Return the journal and number for a batch; None without a bookmark or a run id."""
        if batch.bookmark is not None:
            return bookmark_slot(batch.bookmark, self.storage, self.table)
        if self.journal is None:
            return None
        return JournalSlot(self.journal, batch.sequence, batch.digest)

    def _check_bookmark(self, slot: JournalSlot, batch: Batch) -> None:
        """Raise CommitConflict if another load has moved the batch's bookmark, or may do so.

        Otherwise discard an interrupted load's objects, and count its intents as ours.
        """
        if slot.journal.read_newest_done()[0] >= slot.number:
            raise self._overtaken_error(slot)
        newest = slot.journal.read_intent(slot.number)
        if newest is None:
            return
        if may_still_publish(newest.owner) or not discard_interrupted(self.storage, newest):
            raise self._overtaken_error(slot)
        self._attempts = _Attempts(batch.sequence, intents=newest.attempt + 1)

    def _overtaken_error(self, slot: JournalSlot) -> CommitConflict:
        """Return the CommitConflict for a bookmark that another load has moved."""
        return CommitConflict(
            f"another load has read the source {slot.journal.run_id!r} of {self.uri} since this "
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
        """Plan a batch's columns and object names; the plan has the sink for its tasks.

        Args:
            incoming: the batch's columns; files leave out those that never had a value.
            batch: the batch. Planned again after `commit` raised ObjectExists, it takes further
                names, and the sink leaves out the rows that are visible.
            partition_keys: columns to partition by, which files are not: a warning says so.
            clock: the batch's one clock reading.
            tasks: number of tasks; for a frame, its number of partitions.

        Raises:
            ConfigError: a configured path is refused.
            SchemaConflict: the columns don't fit the table's.
        """
        if self._attempts.sequence != batch.sequence:
            self._attempts = _Attempts(batch.sequence)
        evolution, columns, warnings = self._plan_columns(incoming)
        files = file_columns(evolution.schema, typed=self.encoder.has_types)
        folder = object_folder(self.table, self.date_partition_format, clock)
        names = ObjectNames(
            folder, clock, self.encoder.extension, self.unique, self._attempts.first, tasks
        )
        sink = FileSink(
            self.storage,
            self.encoder,
            files,
            names,
            self.target_bytes,
            dict(self._attempts.landed),
        )
        if partition_keys:
            listed = ", ".join(repr(key) for key in partition_keys)
            warnings += (
                f"files are not partitioned by columns ({listed}); `date_partition_format` makes "
                "folders by the time of the load.",
            )
        untyped = tuple(field.name for field in columns if has_untyped(field.type))
        return TablePlan(files, sink, evolution, _PlanDetail(names, columns), warnings, untyped)

    def _plan_columns(self, incoming: pa.Schema) -> tuple[Evolution, pa.Schema, tuple[str, ...]]:
        """Return the evolution to the files' columns, the table's columns after it, and warnings.

        A table whose files were deleted starts over with the batch's columns.

        Raises:
            SchemaConflict: the batch's columns don't fit the table's.
        """
        known, typed = self._read_columns(), self.encoder.has_types
        try:
            try:
                plan, table, warnings = plan_columns(
                    known.schema, incoming, self.evolution, typed=typed
                )
                starts_over = bool(plan.missing) and self._was_emptied()
            except TypeConflict:
                if not self._was_emptied():
                    raise
                starts_over = True
            if starts_over:
                plan, table, warnings = plan_columns(None, incoming, self.evolution, typed=typed)
        except TypeConflict as conflict:
            raise TypeConflict(conflict.path, conflict.table, conflict.new, _OTHERWISE) from None
        if typed and not (known.readable or self._has_warned):
            self._has_warned = True
            warnings += (
                f"the columns were not compared with those of earlier files: {self.storage.uri()} "
                "lets nothing be read here. Permission to list and read "
                f"{self._column_log.uri} would do.",
            )
        warnings += tuple(list_change_warnings(plan, lambda _: "a new table has it as JSON"))
        return plan, table, warnings

    @property
    def _column_log(self) -> ColumnLog:
        return ColumnLog(self.storage, self.table)

    def _read_columns(self) -> RecordedColumns:
        """Return the table's recorded columns, read once and kept."""
        if self._columns is None:
            self._columns = self._column_log.read()
        return self._columns

    def _was_emptied(self) -> bool:
        """Whether all files are deleted; False until 60 seconds after the columns' last record."""
        age = time.time() - self._read_columns().modified
        return not self._lost_race and age > _PUBLISHING and not self._has_any_file()

    def _has_any_file(self) -> bool:
        """Whether the table has any object, or listing is refused; True is cached."""
        if not self._has_files:
            try:
                self._has_files = self._column_log.has_files()
            except PermissionRefused:
                self._has_files = True
        return self._has_files

    def _record_columns(self, columns: pa.Schema) -> tuple[str, ...]:
        """Write a record of changed columns, and rewrite files that need it; return warnings.

        Raises:
            ObjectExists: another load has changed the columns meanwhile: plan and stage again.
        """
        known, warnings = self._read_columns(), tuple[str, ...]()
        if known.schema is not None and columns.equals(known.schema, check_metadata=True):
            return self._retype_files(known) if known.pending else warnings
        pending = known.pending or self._needs_retyping(columns)
        if self.manifest and (known.readable or known.number < 0):
            try:
                self._column_log.write(known.number + 1, columns, pending=pending)
            except (ObjectExists, PermissionRefused) as error:
                if isinstance(error, ObjectExists) and known.readable:
                    self._columns, self._lost_race = None, True
                    raise
            except DestinationError as error:
                warnings = (f"the table's columns were not put on record: {error.message}",)
        self._columns = replace(known, schema=columns, number=known.number + 1, pending=pending)
        return warnings + self._retype_files(self._columns) if pending else warnings

    def _needs_retyping(self, columns: pa.Schema) -> bool:
        """Whether earlier files may have text where the table gets another type; not for CSV."""
        before = self._read_columns().schema
        if before is None or not self.encoder.has_types:
            return False
        return has_text_places(file_columns(before), file_columns(columns))

    def _retype_files(self, columns: RecordedColumns) -> tuple[str, ...]:
        """Rewrite earlier files that have text instead of the table's types; return warnings.

        The record stays pending until all are rewritten, so that the next load goes on with it.

        Raises:
            ObjectExists: another load has changed the columns meanwhile: plan and stage again.
        """
        assert columns.schema is not None
        try:
            keys = find_untyped_files(self.storage, self.table)
            failed = retype_files(self.storage, keys, file_columns(columns.schema))
            if not self.manifest:
                failed += (retype_warning(1, "`manifest: false` leaves its name unknown"),)
            elif not failed:
                self._column_log.write(columns.number + 1, columns.schema)
        except ObjectExists:
            self._columns, self._lost_race = None, True
            raise
        except PermissionRefused as error:
            failed = (retype_warning(1, error.message),)
        if not (failed and self.manifest):
            self._columns = replace(columns, number=columns.number + 1, pending=False)
        return failed

    @contextmanager
    def register_publishing(self) -> Iterator[None]:
        """Register this load as publishing, so that no other load finishes its batch meanwhile.

        That holds also between a refused commit and the commit of the objects staged again.
        """
        with register_publisher() as owner:
            self._owner = owner
            try:
                yield
            finally:
                self._owner = None

    def commit(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch, singer_state: bytes | None
    ) -> Landed:
        """Publish staged objects: first record columns and intent, then done entry and manifest.

        Raises:
            ObjectExists: keys are taken and the objects can't get others. The other objects are
                visible: plan and stage the batch again.
            CommitConflict: another process lands the same run's batch now.
            DestinationError: the store refuses; with a journal, repeating the run finishes it.
        """
        publisher = self._make_publisher(plan, staged, batch)
        warnings = self._record_columns(plan.detail.columns) if staged else ()
        try:
            slot = self._journal_slot(batch)
            if slot is not None:
                publisher.record(publisher)
            publisher.publish()
            done = make_done_entry(batch.digest, publisher.objects)
            if slot is not None:
                entry = replace(done, digest=slot.digest, bookmark=_bookmark_value(batch))
                slot.journal.write_done(slot.number, entry)
        except ObjectExists:
            self._keep_published(plan, staged, publisher)
            raise
        except DestinationError as error:
            advice = self._recovery_advice(publisher)
            if not advice:
                raise
            raise type(error)(error.message, f"{error.hint} {advice}".strip()) from error
        self._attempts = _Attempts()
        discard_staging_names(self.storage, publisher.objects)
        warnings += self._write_manifest(plan, batch, publisher.objects, singer_state)
        if self.encoder.has_types and not {*plan.untyped}.isdisjoint(plan.schema.names):
            number = self._read_columns().number
            warnings += retype_late(self.storage, self.table, done.keys, number)
        return self._report(batch, done, done.rows, warnings=plan.warnings + warnings)

    def _make_publisher(
        self, plan: TablePlan, staged: Sequence[Staged], batch: Batch
    ) -> FilePublisher:
        """Return a publisher of the staged objects, with those that an earlier attempt published.

        It writes an intent to the batch's journal, if there is one, and counts it.
        """
        attempts, names, slot = self._attempts, plan.detail.names, self._journal_slot(batch)
        ordered = sorted(staged, key=lambda one: one.split)
        if self.storage.can_rename_staged:
            objects = [PlannedObject(one, names.key(i)) for i, one in enumerate(ordered)]
        else:
            objects = [PlannedObject(one, one.key) for one in ordered]

        def record(publisher: FilePublisher) -> None:
            if slot is not None:
                intent = publisher.make_intent(slot.digest, attempts.intents)
                value = _bookmark_value(batch)
                owner = self._owner() if self._owner and value is not None else None
                slot.journal.write_intent(slot.number, replace(intent, bookmark=value, owner=owner))
                attempts.intents += 1
                attempts.held = [planned.staged for planned in publisher.objects]

        return FilePublisher(
            self.storage,
            names,
            attempts.published + objects,
            len(objects),
            record,
            list(attempts.published),
        )

    def _keep_published(
        self, plan: TablePlan, staged: Sequence[Staged], publisher: FilePublisher
    ) -> None:
        """Note the rows visible after ObjectExists, so that the next plan leaves them out."""
        attempts, tasks = self._attempts, max(1, plan.detail.names.tasks)
        clashes = [planned.staged for planned in publisher.clashes]
        most_objects = 1
        for split in {one.split for one in staged}:
            objects = [one for one in staged if one.split == split]
            before = attempts.landed.get(split, ())
            visible = [one not in clashes for one in objects]
            attempts.landed[split] = visible_rows(before, [one.rows for one in objects], visible)
            most_objects = max(most_objects, len(objects))
        attempts.first += tasks * most_objects
        attempts.published = publisher.published
        attempts.held = [planned.staged for planned in publisher.published]

    def _recovery_advice(self, publisher: FilePublisher) -> str:
        """Return the hint after a failure: repeat the run, or delete visible objects; or empty.

        Empty if no object is visible.
        """
        if self.journal is not None and self._attempts.held:
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
        """Write a batch's manifest, if configured and not empty; return a warning if refused."""
        if not self.manifest or not objects:
            return ()
        try:
            write_manifest(self.storage, self.table, batch, plan, objects, singer_state, self.run)
        except DestinationError as error:
            return (f"the manifest was not written: {error.message}",)
        return ()

    def _report(
        self,
        batch: Batch,
        done: DoneEntry,
        rows: int,
        *,
        skipped: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> Landed:
        """Return the report of a batch; `rows` is the number that landed now, 0 if skipped."""
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

    def discard(self, staged: Sequence[Staged]) -> None:
        """Delete staged objects, except those that a repeated run can still publish."""
        for one in staged:
            if one not in self._attempts.held:
                self.storage.discard(one)

    def bookmark_store(self, *, writes: bool = True) -> FileBookmarks:
        """Return the table's bookmarks; see `TableWriter.bookmark_store`."""
        return FileBookmarks(self.storage, self.table, writes)

    def prune(self, sequence: int) -> None:
        """Delete the journal's entries of the run's batches before this one."""
        if self.journal is not None:
            self.journal.prune(sequence)


def _bookmark_value(batch: Batch) -> Mapping[str, Any] | None:
    """Return the value of the batch's bookmark; None without one."""
    return None if batch.bookmark is None else batch.bookmark.value
