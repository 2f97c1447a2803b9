"""One stream on its way into its table: scan, plan, stage in tasks, commit on the driver.

```
batches ─▶ scan ─▶ parts ─▶ plan against the table ─▶ stage (tasks) ─▶ check ─▶ commit (driver)
             ▲      ▲
             └──────┴── another attempt, where an obstacle can be got around
```
Batches that land in one commit are a `CommitGroup`. Each step takes values and returns values; one
loop repeats the steps, with a revised group, until a commit is made or nothing can be revised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.engine.threads import require_jobs, require_spark
from lakeport.errors import BadRecord, ObjectExists, UnknownFields
from lakeport.loading.batches import (
    BatchPart,
    Policies,
    TaskInput,
    describe_columns,
    describe_source,
    merge_batches,
    open_untyped,
    skew_warnings,
    staged_objects,
    union_columns,
)
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.conflicts import ChangeNotes, clear_type, explain_conflict, find_misfit
from lakeport.loading.expect.arrow import CheckCounts
from lakeport.loading.expect.spark import name_failed_sql
from lakeport.loading.report import Timeline
from lakeport.loading.scan import ScannedBatch, StreamScanner
from lakeport.loading.tasks import land_frame, land_splits, name_contents
from lakeport.model import Batch, Landed, Mode, Reader, Split, Staged, UnknownPolicy
from lakeport.schema.evolution import TypeConflict
from lakeport.schema.nested import find_untyped_columns, is_json, replace_untyped_columns
from lakeport.schema.spark_schema import columns_of
from lakeport.schema.types import check_column_count
from lakeport.units import pluralize
from lakeport.writers.base import PartlyLanded, TablePlan, TableWriter

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.loading.expect.checks import Checks
    from lakeport.loading.transform.transform import Transform, TransformedBatch

_MOST_CLASHES: Final = 1000
"""Most times that a group is staged because its names were taken."""


@dataclass(frozen=True)
class CommitGroup:
    """Batches that land in one commit, with the results of earlier attempts to land them.

    Attributes:
        whole: the batch that stands for all of them.
        scan_first: whether they are scanned before anything is written.
        scanned: the batches as they were scanned; empty before.
        parts: the batches with their readers and shapes; empty until they were scanned.
        known_files: files that the table has; they are left out, with a line in `notes` for each.
        checked: whether bad records were reported and expectations enforced.
        clashes: how many attempts failed because names were taken.
    """

    whole: Batch
    batches: tuple[Batch, ...]
    scan_first: bool
    scanned: tuple[ScannedBatch, ...] = ()
    parts: tuple[BatchPart, ...] = ()
    known_files: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    checked: bool = False
    clashes: int = 0

    def without_files(self, landed: PartlyLanded) -> CommitGroup:
        """Return the group without files that the table already has, and with a note of it."""
        parts = tuple(part.without_files(landed.files) for part in self.parts)
        size = sum(part.batch.bytes for part in parts)
        return replace(
            self,
            whole=replace(self.whole, records=-1, bytes=size),
            parts=parts,
            known_files=self.known_files | landed.files,
            notes=(*self.notes, landed.note),
        )


@dataclass(frozen=True)
class StagePlan:
    """Plan for staging a group: the columns of its rows, its tasks, and its table's plan.

    `hint` is that of the type conflict that columns in the table's types avoid; empty for none.
    """

    incoming: pa.Schema
    tasks: tuple[TaskInput, ...]
    table: TablePlan
    hint: str = ""


@dataclass(frozen=True)
class StagedBatch:
    """A group's rows, written as staged objects but not committed yet.

    `batch` stands for the group, and has the digests of its files. `warnings` are about skew.
    """

    batch: Batch
    objects: list[Staged]
    counts: list[CheckCounts]
    warnings: tuple[str, ...]


@dataclass
class StreamLoader:
    """Lands one stream's batches in order: scans, plans, stages, checks and commits them.

    Args:
        on_bad: takes a batch, its bad records and the number of all its records; raises when the
            run has too many bad ones.
        cancellation: asks for an end before the next commit.
        transform: makes the rows that land; None: the source's rows land.
        checks: the expectations of the rows that land; None: there are none.
        hinted: see `ChangeNotes`.
    """

    writer: TableWriter
    engine: Engine
    policies: Policies
    on_bad: Callable[[Batch, Sequence[BadRecord], int], None]
    cancellation: Cancellation = field(default_factory=Cancellation)
    timeline: Timeline = field(default_factory=Timeline)
    transform: Transform | None = None
    checks: Checks | None = None
    hinted: dict[str, str] = field(default_factory=dict)
    _scanner: StreamScanner = field(init=False)
    _changes: ChangeNotes = field(init=False)

    def __post_init__(self) -> None:
        """Make the stream's scanner and its notes."""
        self._changes = ChangeNotes(self.writer, self.policies.config, self.hinted)
        self._scanner = StreamScanner(
            self.writer, self.engine, self.policies, self.on_bad, self.timeline
        )

    def land(self, batches: Sequence[Batch], state: bytes | None) -> Iterator[Landed]:
        """Land the stream's batches of a flush; yield each commit. The last one has the STATE.

        Optional batches without a row are left out. An overwrite, and rows that are transformed or
        checked together, land in one commit; keys of deleted rows land last, each in its own.
        """
        rows = [batch for batch in batches if not batch.has_deleted_keys]
        whole = len(rows) > 1 and self._needs_one_commit(rows)
        groups = [rows] if whole else [[batch] for batch in rows]
        groups += [[batch] for batch in batches if batch.has_deleted_keys]
        for number, group in enumerate(groups, 1):
            is_last = number == len(groups)
            landed = self._land_group(group, state if is_last else None, keeps_state=number > 1)
            if landed is not None:
                yield replace(landed, source_columns=describe_source(group))

    def take_dropped(self) -> Mapping[str, int]:
        """Return undeclared field -> records that landed without it, since the last call."""
        return self._scanner.take_dropped()

    def _needs_one_commit(self, batches: Sequence[Batch]) -> bool:
        """Whether an overwrite, bookmark, check or transform needs all batches in one commit."""
        if self.policies.config.mode is Mode.OVERWRITE:
            return True
        if self.checks is not None and self.checks.needs_whole_input:
            return True
        if all(batch.bookmark is not None for batch in batches):
            return True
        return self.transform is not None and not self.transform.plan_frame(batches[0]).row_wise

    def _land_group(
        self, batches: Sequence[Batch], state: bytes | None, *, keeps_state: bool
    ) -> Landed | None:
        """Land batches in one commit, with retries; None if they are optional and without rows.

        Batches that the same run had landed before are not landed again: that commit is returned.
        `keeps_state`: whether rows of earlier groups have no other commit with the STATE.
        """
        batches = [self.policies.rename_keys(batch) for batch in batches]
        whole = merge_batches(batches)
        if self.transform is not None and not whole.has_deleted_keys:
            whole = self.transform.digest_rules(whole)
        with self.timeline.stage("planning", whole.stream):
            before = self.writer.find_landed(whole)
        if before is not None:
            for batch in batches:
                self._scanner.recount_bad(batch)
            return before
        group = CommitGroup(whole, tuple(batches), self._scanner.is_needed(batches))
        with ExitStack() as stack:
            while True:
                staged: StagedBatch | None = None
                try:
                    if not group.parts:
                        stack.close()  # the parts of the attempt before
                        group = self._scan(group, stack)
                    plan = self._plan(group)
                    staged = self._stage(group, plan)
                    landed = None if group.checked else self._check(group, plan, staged)
                    group = replace(group, checked=True)
                    if whole.optional and not staged.objects and whole.bookmark is None:
                        return None
                    if landed is None and not staged.objects and not keeps_state:
                        rejected = sum(one.bad for one in group.scanned)
                        rejected += sum(len(one.rejected) for one in staged.counts)
                        unchanged = self.writer.leave_out(plan.table, whole, rejected)
                        if unchanged is not None:
                            return replace(
                                unchanged,
                                warnings=(*whole.warnings, *unchanged.warnings),
                                notes=whole.notes,
                                columns=describe_columns(plan.incoming, plan.table),
                            )
                    if landed is None:
                        landed = self._commit(staged, plan.table, state)
                    else:
                        self.writer.discard(staged.objects)
                    return self._describe(landed, group, plan, staged)
                except BaseException as obstacle:
                    self.writer.discard(staged.objects if staged else ())
                    group = self._revise(group, obstacle)

    def _revise(self, group: CommitGroup, obstacle: BaseException) -> CommitGroup:
        """Return the group changed for another attempt; raise `obstacle` if none can succeed.

        - A record has an undeclared field: scan all batches, as all values of a field type it.
        - The table has some of the files: leave these out.
        - A column's type conflicts with the table's, and no row has a value in it: drop its type.
        - Names are taken, and the staged objects are bound to them: stage under other names.
        """
        match obstacle:
            case UnknownFields() if not group.scan_first:
                if self.policies.config.unknown_fields is UnknownPolicy.EVOLVE:
                    return replace(group, scan_first=True, parts=())
            case PartlyLanded():
                return group.without_files(obstacle)
            case TypeConflict():
                now, path = self.writer.read_existing(), obstacle.path
                parts = clear_type(obstacle, group.parts)
                if parts is None:
                    misfit = find_misfit(obstacle, group.parts)
                    raise explain_conflict(obstacle, self.writer.uri, now, misfit) from None
                note = f"{path!r} has no value in this batch: its type is the table's"
                whole = replace(group.whole, notes=(*group.whole.notes, note))
                return replace(group, whole=whole, parts=tuple(parts))
            case ObjectExists() if group.clashes + 1 < _MOST_CLASHES:
                return replace(group, clashes=group.clashes + 1)
        raise obstacle

    def _scan(self, group: CommitGroup, stack: ExitStack) -> CommitGroup:
        """Return the group with a part for each batch; scan the batches first if `scan_first`.

        InputError for too many columns.
        """
        batches = group.batches
        scanned = tuple(
            self._scanner.scan(batch) if group.scan_first else ScannedBatch(batch, batch.reader)
            for batch in batches
        )
        readers: list[Reader | None] = []
        notes = group.whole.notes
        for one in scanned:
            reader = one.reader and self._scanner.extend(one.reader)
            if reader:
                reader, more = self.policies.fit_json_reader(reader, self.writer)
                notes = tuple(dict.fromkeys((*notes, *more)))
            readers.append(reader)
        parts = self._make_parts(batches, readers)
        columns = union_columns([part.shape.schema for part in parts])
        check_column_count(group.whole.stream, columns, self.policies.config.max_columns)
        for part in parts:
            if part.transformed is not None:
                stack.callback(part.transformed.close)
        stack.enter_context(self.writer.register_publishing())
        whole = replace(group.whole, notes=notes)
        return replace(group, whole=whole, scanned=scanned, parts=tuple(parts))

    def _make_parts(
        self, batches: Sequence[Batch], readers: Sequence[Reader | None]
    ) -> list[BatchPart]:
        """Return a part for each batch; only one if Spark transforms or checks all together."""
        clock = datetime.now(UTC)
        schemas = [reader.schema for reader in readers if reader] or [columns_of(batches[0])]
        source: Collection[str] = ()
        if self.transform is not None:
            source = {name for schema in schemas for name in schema.names}
        transformed = (
            None if batches[0].has_deleted_keys else self._transform(batches, readers, schemas)
        )
        first = batches[0] if transformed is None else transformed.batch
        if first.frame is not None:
            frame, checker = first.frame, None
            if self.checks is not None:
                frame, checker = self.checks.spark_checker(first, frame)
            shape = self.policies.shape(columns_of(first), first, clock, source)
            return [BatchPart(first, None, shape, checker, frame, transformed)]
        parts = []
        for batch, reader in zip(batches, readers, strict=True):
            columns = columns_of(batch) if reader is None else reader.schema
            checker = self.checks.arrow_checker(batch, columns) if self.checks else None
            shape = self.policies.shape(columns, batch, clock, source)
            parts.append(BatchPart(batch, reader, shape, checker))
        return parts

    def _transform(
        self,
        batches: Sequence[Batch],
        readers: Sequence[Reader | None],
        schemas: Sequence[pa.Schema],
    ) -> TransformedBatch | None:
        """Return one batch with a Spark frame of all batches; None if no rule needs Spark."""
        read = [(b, reader) for b, reader in zip(batches, readers, strict=True) if reader]
        transform = self.transform
        if transform is None:
            checks = self.checks
            titles = map(checks.needs_spark, schemas) if read and checks else ()
            title = next(filter(None, titles), "")
            if not title:
                return None
            spark = require_spark(self.engine, f"{title}, for a column of this type,")
            from lakeport.loading.transform.transform import Transform

            transform = Transform(spark)
        items = [
            (reader, splits, batch.untyped)
            for batch, reader in read
            for splits in self.policies.group_splits(batch, self.engine.cores)
        ]
        whole, columns = merge_batches(batches), schemas[0]
        if read:
            found = union_columns([open_untyped(b, reader.schema) for b, reader in read])
            whole, columns = (
                replace(whole, untyped=find_untyped_columns(found)),
                replace_untyped_columns(found),
            )
        with self.timeline.stage("planning", batches[0].stream):
            return transform.make_frame(whole, columns, items)

    def _plan(self, group: CommitGroup) -> StagePlan:
        """Plan a group against its table; if types conflict, try the table's column types.

        Raises:
            TypeConflict: a column still does not fit.
            SchemaConflict: the policy forbids the change.
        """
        try:
            return self._plan_parts(group.whole, group.parts)
        except TypeConflict as conflict:
            now = self.writer.read_existing()
            if now is None:
                raise
            fitted = [part.fit_table(now.schema) for part in group.parts]
            return replace(self._plan_parts(group.whole, fitted), hint=conflict.hint)

    def _plan_parts(self, whole: Batch, parts: Sequence[BatchPart]) -> StagePlan:
        """Plan parts against their table, and group their splits into tasks."""
        incoming = union_columns([part.shape.schema for part in parts])
        tasks = []
        for part in parts:
            groups: Sequence[tuple[Split, ...]] = [()]
            if part.reader is not None:
                groups = self.policies.group_splits(part.batch, self.engine.cores)
            tasks += [TaskInput(part, splits) for splits in groups]
        keys, clock = self.policies.partition_keys(whole), parts[0].shape.clock
        with self.timeline.stage("planning", whole.stream):
            table = self.writer.plan(incoming, whole, keys, clock, len(tasks))
        if table.evolution.added:
            columns = table.evolution.schema
            check_column_count(whole.stream, columns, self.policies.config.max_columns)
        return StagePlan(incoming, tuple(tasks), table)

    def _stage(self, group: CommitGroup, plan: StagePlan) -> StagedBatch:
        """Have tasks read, check, shape and stage a group's rows; discard them after an error.

        TypeConflict if a value has no equal of its column's type in the table.
        """
        whole = group.whole
        size, rows = whole.bytes, whole.records
        with self.timeline.show_stage("writing", whole.stream, size, rows) as start:
            try:
                results = self._run_tasks(plan)
            except TypeConflict as conflict:
                path, table, new = conflict.path, conflict.table, conflict.new
                raise TypeConflict(path, table, new, plan.hint) from None
            objects = staged_objects(results)
            try:
                for part in group.parts:
                    if part.transformed is not None:
                        part.transformed.check()
                self.timeline.add_tasks(whole.stream, objects, start)
                # A cluster that is gone by the commit must not fail what is committed.
                skewed = skew_warnings(objects, self.engine.cores, self.policies.min_file_bytes)
                batch = replace(whole, content=name_contents(plan.incoming, objects))
            except BaseException:
                self.writer.discard(objects)
                raise
        counts = [one for one in results if isinstance(one, CheckCounts)]
        return StagedBatch(batch, objects, counts, skewed)

    def _run_tasks(self, plan: StagePlan) -> list[Staged | CheckCounts]:
        """Run the plan's tasks, on groups of splits or on a Spark frame; return all results."""
        first, table = plan.tasks[0].part, plan.table
        step = f"write {first.batch.stream}, batch {first.batch.sequence}, to {self.writer.uri}"

        def discard(results: Sequence[Staged | CheckCounts]) -> None:
            self.writer.discard(staged_objects(results))

        if first.frame is None:
            items = [
                (i, task.part.reader, task.part.shape.align(table.schema), task.splits)
                for i, task in enumerate(plan.tasks)
            ]
            land = partial(land_splits, table.sink, first.batch.tracks_content, first.checker)
            sizes = [task.bytes for task in plan.tasks]
            return self.engine.run_tasks(step, land, items, sizes=sizes, discard=discard)
        spark = require_jobs(self.engine, "a Spark frame")
        reads_splits = first.transformed is not None and first.transformed.reading is not None
        others = [] if reads_splits else ["the frame that is landed"]
        if self.transform is not None and self.transform.function is not None:
            others.append("`python`")
        sql = self.transform.sql if self.transform else ""
        expected = self.checks.expected if self.checks else ()
        with name_failed_sql(sql, expected, others, spark.secrets):
            shape = first.shape.align(table.schema)
            run = partial(land_frame, shape, table.sink, first.checker)
            return spark.run_frame(step, first.frame, run, discard=discard)

    def _check(self, group: CommitGroup, plan: StagePlan, staged: StagedBatch) -> Landed | None:
        """Report bad records, enforce expectations; return an equal commit if `once` finds it.

        Raises:
            PartlyLanded: the table has some of the files.
            ExpectationFailed: rows violate an expectation whose violation fails the load.
            InputError: the run has more bad records than it may.
        """
        if self.policies.config.once:
            before = self.writer.find_landed(staged.batch)
            if before is not None:
                return before
        for one in group.scanned:
            if one.unreported:
                self._scanner.report_bad(one.batch, one.unreported, group.known_files)
        if self.checks is not None:
            counted_before = self._scanner.counts_before
            changes = plan.table.evolution
            self.checks.enforce(group.whole, staged.counts, changes, counted_before=counted_before)
        return None

    def _commit(self, staged: StagedBatch, plan: TablePlan, state: bytes | None) -> Landed:
        """Call `before_commit`, then commit staged objects; Cancelled if the load is to end."""
        batch = staged.batch
        if batch.before_commit is not None:
            batch.before_commit()
        with (
            self.timeline.show_stage("committing", batch.stream) as start,
            self.cancellation.track_commit(self.writer.uri),
        ):
            landed = self.writer.commit(plan, staged.objects, batch, state)
            return replace(landed, commit_seconds=self.timeline.elapsed() - start)

    def _describe(
        self, landed: Landed, group: CommitGroup, plan: StagePlan, staged: StagedBatch
    ) -> Landed:
        """Return a commit with the warnings, notes and column types of its batches added."""
        whole, columns = group.whole, describe_columns(plan.incoming, plan.table)
        warnings = (*whole.warnings, *landed.warnings, *staged.warnings)
        if self.policies.config.mode is Mode.OVERWRITE and not (landed.rows or landed.skipped):
            warnings = (*warnings, _empty_overwrite_warning(landed))
        notes = (*whole.notes, *self._scanner.notes, *group.notes, *landed.notes)
        wrote = landed.rows or landed.removed_files or landed.version is not None
        if wrote and not (landed.skipped or whole.has_deleted_keys):
            notes = (*notes, *self._changes.describe(whole, plan.table, group.parts))
        if self.transform is not None:
            of_rows = (note for part in group.parts for note in part.batch.notes)
            notes = tuple(dict.fromkeys((*notes, *of_rows)))
            notes = (*notes, *_json_string_notes(plan.incoming, columns))
        return replace(landed, warnings=warnings, notes=notes, columns=columns)


def _json_string_notes(incoming: pa.Schema, table: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each text column of a query that becomes JSON strings in the table."""
    for column in incoming:
        plain = pa.types.is_string(column.type) and not is_json(column)
        if plain and table.get(column.name) == "json":
            yield (
                f"{column.name!r} is text that the query made, and JSON in the table: each text is "
                "a JSON string there; columns that a query passes on as they are stay JSON"
            )


def _empty_overwrite_warning(landed: Landed) -> str:
    """Return a warning about the rows that an overwrite without rows has removed."""
    if not landed.removed_files:
        return "the source has no row: the overwrite replaced nothing."
    rows = "the rows" if landed.removed_rows is None else pluralize(landed.removed_rows, "row")
    return f"the source has no row: {rows} that the table had went, and it is empty now."
