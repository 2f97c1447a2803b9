"""One stream on its way into its table: scan, stage in Spark tasks, commit on the driver.

```
batch ─▶ [scan] ─▶ reader ─▶ shape ─▶ plan against the table ─▶ stage (tasks) ─▶ commit (driver)
```
The scan comes first where a policy has to count before anything is written (`quarantine`, `drop`);
otherwise the load starts at once, and only a record with an undeclared field makes it look back.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords, ObjectExists, UnknownFields
from lakeport.host.activity import activity
from lakeport.loading.batches import (
    Part,
    Task,
    clear_type,
    columns_of,
    describe_columns,
    find_misfit,
    group_splits,
    merge_batches,
    opened_columns,
    read_columns,
    skew_warnings,
    staged_objects,
    union_columns,
)
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.conflicts import explain_conflict
from lakeport.loading.expect.arrow import Findings
from lakeport.loading.expect.conditions import name_failed_sql
from lakeport.loading.policies import Policies
from lakeport.loading.report import Timeline
from lakeport.loading.tasks import contents_of, land_frame, land_splits, scan_split
from lakeport.model import Batch, Landed, Mode, Reader, Scan, Split, Staged, UnknownPolicy
from lakeport.schema.evolution import TypeConflict
from lakeport.schema.nested import find_untyped_columns, is_json, replace_untyped_columns
from lakeport.schema.types import (
    TIMESTAMP,
    check_column_count,
    get_logical_type,
    kind_to_arrow_type,
    merge_kinds,
)
from lakeport.shape import apply_header_case, list_internal_columns
from lakeport.units import pluralize
from lakeport.writers.base import LandedBefore, TablePlan, TableWriter

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.loading.expect.checks import Checks
    from lakeport.loading.transform.transform import Transform, TransformedBatch

_MOST_CLASHES = 1000
"""Most times that a batch is staged because its names were taken."""


@dataclass
class StreamLoader:
    """Lands one stream's batches, in order.

    Args:
        writer: the stream's table.
        engine: runs the tasks.
        policies: what to do with bad records and unknown columns, and how large files get.
        on_bad: takes a batch, its bad records and the number of all its records; raises when the
            run has too many bad ones.
        cancellation: asks for an end before the next commit.
        timeline: takes down when what is done.
        transform: what is made of the source's rows; None: they land as they are.
        checks: what is expected of the rows that land; None: nothing.
    """

    writer: TableWriter
    engine: Engine
    policies: Policies
    on_bad: Callable[[Batch, Sequence[BadRecord], int], None]
    cancellation: Cancellation = field(default_factory=Cancellation)
    timeline: Timeline = field(default_factory=Timeline)
    transform: Transform | None = None
    checks: Checks | None = None
    _dropped: Counter[str] = field(default_factory=Counter)
    _extra: dict[str, pa.DataType] = field(default_factory=dict)
    _undeclared_text: tuple[str, ...] = ()
    _bad: list[tuple[Batch, list[Scan]]] = field(default_factory=list)

    def land(self, batches: Sequence[Batch], state: bytes | None) -> Iterator[Landed]:
        """Land a flush's batches of this stream; an overwrite takes them all in one commit.

        Optional batches that turn out to be empty are left out of the result. The STATE rides
        with the last commit, as it is true of the table from there on only.
        """
        rows = [batch for batch in batches if not batch.gone]
        commits = [[batch] for batch in rows]
        if self.policies.config.mode is Mode.OVERWRITE or self._takes_one_commit(rows):
            commits = [rows] if rows else []
        commits += [[batch] for batch in batches if batch.gone]
        for number, group in enumerate(commits, 1):
            landed = self._land(group, state if number == len(commits) else None)
            if landed is not None:
                yield replace(landed, source_columns=read_columns(group))

    def _takes_one_commit(self, batches: Sequence[Batch]) -> bool:
        """Whether several batches have to be transformed, checked or remembered together."""
        if len(batches) < 2:
            return False
        expected = self.checks is not None and self.checks.at_once
        if expected or all(batch.bookmark is not None for batch in batches):
            return True
        return self.transform is not None and not self.transform.plan_frame(batches[0]).row_wise

    def take_dropped(self) -> Mapping[str, int]:
        """Undeclared field -> records that held it and landed without it, since the last call."""
        dropped, self._dropped = self._dropped, Counter()
        return dropped

    def _land(self, batches: Sequence[Batch], state: bytes | None) -> Landed | None:
        keyed = [self.policies.rename_keys(batch) for batch in batches]
        whole = merge_batches(keyed)
        if self.transform is not None and not whole.gone:
            whole = self.transform.digest_rules(whole)
        with self.timeline.stage("planning", whole.stream):
            before = self.writer.landed_before(whole)
        if before is not None:
            for batch in batches:
                self._recount_bad(batch)
            return before
        scan = self._scans_first or self._rules_for_undeclared(keyed)
        try:
            return self._scan_and_land(whole, keyed, scan, state)
        except UnknownFields:
            if scan or self.policies.config.unknown_fields is not UnknownPolicy.EVOLVE:
                raise
            return self._scan_and_land(whole, keyed, True, state)

    def _scan_and_land(
        self, whole: Batch, batches: Sequence[Batch], scan: bool, state: bytes | None
    ) -> Landed | None:
        """Land batches; all are scanned first, as a field is read by all that it holds."""
        self._bad.clear()
        scanned = [self._scanned(batch) if scan else batch.reader for batch in batches]
        readers = [None if reader is None else self._extended(reader) for reader in scanned]
        return self._stage_and_commit(whole, self._parts(batches, readers), state)

    def _rules_for_undeclared(self, batches: Sequence[Batch]) -> bool:
        """Whether a rule may be for a field that no schema declares, which a scan finds."""
        if self.policies.config.unknown_fields is not UnknownPolicy.EVOLVE:
            return False
        rules = self.policies.rules
        named = {*rules.types, *rules.rename, *rules.drop}
        known = {*self._extra}
        for batch in batches:
            known |= {*(batch.reader.schema.names if batch.reader else named)}
        return not named <= known

    @property
    def _scans_first(self) -> bool:
        """Whether batches are looked through before anything is written."""
        policies = self.policies
        return (
            policies.config.on_bad_record != "fail"
            or policies.config.unknown_fields is UnknownPolicy.DROP
        )

    def _parts(self, batches: Sequence[Batch], readers: Sequence[Reader | None]) -> list[Part]:
        """Batches with their kernels."""
        clock = datetime.now(UTC)
        schemas = [reader.schema for reader in readers if reader] or [columns_of(batches[0])]
        source: Collection[str] = ()
        if self.transform is not None:  # makes other columns of these
            source = {name for schema in schemas for name in schema.names}
        made = None if batches[0].gone else self._transform_batches(batches, readers, schemas)
        if made is not None:
            return [self._frame_part(made.batch, clock, source, made)]
        if batches[0].frame is not None:
            return [self._frame_part(batches[0], clock, source)]
        parts = []
        for batch, known in zip(batches, readers, strict=True):
            columns = columns_of(batch) if known is None else known.schema
            sieve = self.checks.by_arrow(batch, columns) if self.checks else None
            shape = self.policies.shape(columns, batch, clock, source)
            parts.append(Part(batch, known, shape, sieve))
        return parts

    def _frame_part(
        self,
        batch: Batch,
        clock: datetime,
        source: Collection[str],
        made: TransformedBatch | None = None,
    ) -> Part:
        frame, sieve = batch.frame, None
        if self.checks is not None and frame is not None:
            frame, sieve = self.checks.by_spark(batch, frame)
        shape = self.policies.shape(columns_of(batch), batch, clock, source)
        return Part(batch, None, shape, sieve, frame, made)

    def _transform_batches(
        self,
        batches: Sequence[Batch],
        readers: Sequence[Reader | None],
        schemas: Sequence[pa.Schema],
    ) -> TransformedBatch | None:
        """One batch of what Spark makes of these; None where they land without it."""
        read = [(b, reader) for b, reader in zip(batches, readers, strict=True) if reader]
        transform = self.transform
        if transform is None:
            checks = self.checks
            told = map(checks.needs_spark, schemas) if read and checks else ()
            expected = next(filter(None, told), "")
            if not expected:
                return None
            spark = self.engine.require_spark(f"{expected}, for a column of this type,")
            from lakeport.loading.transform.transform import Transform

            transform = Transform(spark)
        items = [
            (reader, splits, b.untyped) for b, reader in read for splits in self._split_groups(b)
        ]
        whole, columns = merge_batches(batches), schemas[0]
        if read:
            found = union_columns([opened_columns(b, reader.schema) for b, reader in read])
            whole, columns = (
                replace(whole, untyped=find_untyped_columns(found)),
                replace_untyped_columns(found),
            )
        with self.timeline.stage("planning", batches[0].stream):
            return transform.make_frame(whole, columns, items)

    def _scanned(self, batch: Batch) -> Reader | None:
        """Scan a batch, hand its bad records on, and learn its undeclared fields."""
        if batch.reader is None:
            return None
        scan, found = self._scan(self._extended(batch.reader), batch)
        if self.policies.config.unknown_fields is UnknownPolicy.DROP:
            self._dropped.update(scan.unknown_values)
        elif scan.unknown and self.policies.config.unknown_fields is UnknownPolicy.EVOLVE:
            new = pa.schema([(name, pa.null()) for name in scan.unknown])
            known = self._extended(batch.reader).schema
            check_column_count(
                batch.stream, pa.schema([*known, *new]), self.policies.config.max_columns
            )
            self._extra.update(self._types(scan.unknown))
            scan, found = self._scan(self._extended(batch.reader), batch)  # by their new types
        if scan.bad and self.policies.config.on_bad_record == "fail":
            raise BadRecords(scan.bad, len(scan.bad))
        if self.policies.config.once:  # those of files that the table has are left out
            self._bad.append((batch, found))
        else:
            self._report_bad(batch, found)
        return batch.reader.tolerant() if scan.bad else batch.reader

    def _recount_bad(self, batch: Batch) -> None:
        """Have a skipped batch's bad records count against the run's limit, as at first.

        With `once`, nothing tells any more which of its files were left out then.
        """
        config = self.policies.config
        if batch.reader is not None and config.on_bad_record != "fail" and not config.once:
            self._report_bad(batch, self._scan(self._extended(batch.reader), batch)[1])

    def _report_bad(
        self, batch: Batch, found: Sequence[Scan], left_out: Collection[str] = ()
    ) -> None:
        """Hand on the bad records that were found in a batch, but for those of some files."""
        pairs = zip(batch.splits, found, strict=True)
        kept = [scan for split, scan in pairs if split.uri not in left_out]
        bad = [record for scan in kept for record in scan.bad]
        self.on_bad(batch, bad, sum(scan.rows for scan in kept) + len(bad))

    def _extended(self, reader: Reader) -> Reader:
        known = {*reader.schema.names} if self._extra else ()
        new = {n: type_ for n, type_ in self._extra.items() if n not in known}
        return reader.extended(new) if new else reader

    def _types(self, unknown: Mapping[str, str]) -> dict[str, pa.DataType]:
        """The undeclared fields' types: the table's where it has them, else by their values."""
        now = None if self.policies.config.mode is Mode.OVERWRITE else self.writer.current()
        typed = now.schema if now is not None and now.typed else ()
        there = pa.schema([f for f in typed if not pa.types.is_null(f.type)])
        known = {f.name: get_logical_type(f) for f in replace_untyped_columns(there)}
        case, renamed = self.policies.config.column_header_format, self.policies.rules.rename
        internal = list_internal_columns(self.policies.internal_prefix)
        said = self.policies.rules.types
        types = {
            name: TIMESTAMP
            if name in internal
            else said.get(name)
            or known.get(apply_header_case(renamed.get(name, name), case), kind_to_arrow_type(kind))
            for name, kind in unknown.items()
        }
        self._undeclared_text += tuple(
            f"{name!r} is not declared and becomes text: strings as they are, other values as the "
            f"text of their JSON; `--column {shlex.quote(f'{name}=json')}` makes it JSON"
            for name, type_ in types.items()
            if pa.types.is_string(type_) and name not in said
        )
        return types

    def _scan(self, reader: Reader, batch: Batch) -> tuple[Scan, list[Scan]]:
        """Scan a batch; return what was found in all of it, and in each split."""
        with self._stage("checking", batch.stream, total=batch.bytes):
            step = f"check {batch.stream}, batch {batch.sequence}"
            found = self.engine.run_tasks(step, partial(scan_split, reader), batch.splits)
        unknown, counts = dict[str, str](), Counter[str]()
        for part in found:
            for name, kind in part.unknown.items():
                unknown[name] = merge_kinds(unknown[name], kind) if name in unknown else kind
            counts.update(part.unknown_values)
        bad = tuple(record for part in found for record in part.bad)
        return Scan(sum(part.rows for part in found), bad, unknown, counts), found

    def _stage_and_commit(
        self, whole: Batch, given: Sequence[Part], state: bytes | None
    ) -> Landed | None:
        """Plan, stage and commit parts; again where names are taken, or columns can be fitted."""
        parts, names, judged = given, self.policies.keys_of(whole), False
        left_out, known_files, clashes = tuple[str, ...](), set[str](), 0
        otherwise: str | None = None
        check_column_count(
            whole.stream,
            union_columns([p.shape.schema for p in parts]),
            self.policies.config.max_columns,
        )
        with ExitStack() as stack:
            for part in given:
                if part.made is not None:
                    stack.callback(part.made.close)
            stack.enter_context(self.writer.at_work())
            while True:
                incoming, tasks = (
                    union_columns([part.shape.schema for part in parts]),
                    self._tasks(parts),
                )
                plan, staged = None, list[Staged]()
                try:
                    plan = self._planned(incoming, whole, names, parts[0].shape.clock, len(tasks))
                    staged, found = self._staged(tasks, plan, whole)
                    # A cluster that is gone by then must not fail what is committed.
                    skewed = skew_warnings(staged, self.engine.cores, self.policies.min_file_bytes)
                    known = replace(whole, content=contents_of(incoming, staged))
                    # What is left out is not set aside again.
                    once = self.policies.config.once and not judged
                    landed = self.writer.landed_before(known) if once else None
                    if landed is None and not judged:
                        for batch, scans in self._bad:
                            self._report_bad(batch, scans, known_files)
                        if self.checks is not None:
                            self.checks.judge_findings(
                                whole, found, counted_before=self._scans_first
                            )
                        judged = True  # what is staged again is the same
                    if whole.optional and not staged and whole.bookmark is None:
                        return None
                    if landed is None:
                        landed = self._committed(known, plan, staged, state)
                    else:
                        self.writer.discard(staged)
                    notes = (*whole.notes, *self._undeclared_text, *left_out, *landed.notes)
                    return self._describe(
                        replace(landed, notes=notes), whole, incoming, plan, skewed
                    )
                except TypeConflict as conflict:
                    self.writer.discard(staged)
                    now = self.writer.current()
                    if plan is None and otherwise is None and now is not None:
                        otherwise = conflict.hint
                        parts = [part.fitted(now.schema) for part in parts]
                        continue
                    if plan is not None and not staged:  # a value has no equal of its type
                        path, table, new = conflict.path, conflict.table, conflict.new
                        conflict = TypeConflict(path, table, new, otherwise or "")
                    valueless = clear_type(conflict, given)
                    if valueless is None:
                        value = find_misfit(conflict, given)
                        raise explain_conflict(conflict, self.writer.uri, now, value) from None
                    note = f"{conflict.path!r} has no value in this batch: its type is the table's"
                    whole = replace(whole, notes=(*whole.notes, note))
                    given, parts, otherwise = valueless, valueless, None
                except ObjectExists:
                    self.writer.discard(staged)  # bound to names that are taken: stage under others
                    clashes += 1
                    if clashes >= _MOST_CLASHES:
                        raise
                except LandedBefore as before:
                    self.writer.discard(staged)
                    left_out = (*left_out, before.note)
                    known_files |= {*before.files}
                    given = [part.without(before.files) for part in given]
                    parts = [part.without(before.files) for part in parts]
                    size = sum(part.batch.bytes for part in parts)
                    whole = replace(whole, records=-1, bytes=size)
                except BaseException:
                    self.writer.discard(staged)
                    raise

    def _planned(
        self, incoming: pa.Schema, whole: Batch, names: Sequence[str], clock: datetime, tasks: int
    ) -> TablePlan:
        with self.timeline.stage("planning", whole.stream):
            plan = self.writer.plan(incoming, whole, names, clock, tasks)
        changes = getattr(plan.detail, "evolution", None)
        if changes is not None and changes.added:
            check_column_count(whole.stream, changes.schema, self.policies.config.max_columns)
        return plan

    def _committed(
        self, batch: Batch, plan: TablePlan, staged: Sequence[Staged], state: bytes | None
    ) -> Landed:
        if batch.before_commit is not None:
            batch.before_commit()
        with self._stage("committing", batch.stream), self.cancellation.committing(self.writer.uri):
            return self.writer.commit(plan, staged, batch, state)

    def _describe(
        self,
        landed: Landed,
        whole: Batch,
        incoming: pa.Schema,
        plan: TablePlan,
        skewed: Sequence[str],
    ) -> Landed:
        """Add to a commit what there is to tell of its batch."""
        warnings = (*whole.warnings, *landed.warnings, *skewed)
        if self.policies.config.mode is Mode.OVERWRITE and not (landed.rows or landed.skipped):
            warnings = (*warnings, _empty_overwrite_warning(landed))
        columns, notes = describe_columns(incoming, plan), landed.notes
        if self.transform is not None:
            notes = (*notes, *_json_string_notes(incoming, columns))
        return replace(landed, warnings=warnings, notes=notes, columns=columns)

    @contextmanager
    def _stage(
        self, what: str, stream: str, *, total: int = -1, rows_total: int = -1
    ) -> Iterator[float]:
        """Be at a stage, for those who look now and for the report; gives when it began."""
        going_on = activity(what, stream, total=total, rows_total=rows_total)
        with self.timeline.stage(what, stream) as start, going_on:
            yield start

    def _tasks(self, parts: Sequence[Part]) -> list[Task]:
        """Share the splits out to as many tasks as there should be files."""
        tasks = []
        for part in parts:
            if part.reader is None:
                return [Task(part, ())]
            tasks += [Task(part, group) for group in self._split_groups(part.batch)]
        return tasks

    def _split_groups(self, batch: Batch) -> list[tuple[Split, ...]]:
        size = int(max(batch.bytes, 0) * batch.output_ratio)
        files = self.policies.number_of_files(size, self.engine.cores)
        return group_splits(batch.splits, files)

    def _staged(
        self, tasks: Sequence[Task], plan: TablePlan, whole: Batch
    ) -> tuple[list[Staged], list[Findings]]:
        """Have the tasks stage what they read; return that, and what they found of it."""
        size, rows = whole.bytes, whole.records
        with self._stage("writing", whole.stream, total=size, rows_total=rows) as start:
            results = self._run(tasks, plan)
            staged = staged_objects(results)
            self.timeline.tasks(whole.stream, staged, start)
        return staged, [one for one in results if isinstance(one, Findings)]

    def _run(self, tasks: Sequence[Task], plan: TablePlan) -> list[Staged | Findings]:
        first = tasks[0].part
        batch = first.batch
        step = f"write {batch.stream}, batch {batch.sequence}, to {self.writer.uri}"
        if first.frame is None:
            items = [
                (i, task.part.reader, task.part.shape.aligned(plan.schema), task.splits)
                for i, task in enumerate(tasks)
            ]
            land = partial(land_splits, plan.sink, batch.remembered, first.sieve)
            sizes = [task.bytes for task in tasks]
            return self.engine.run_tasks(step, land, items, sizes=sizes, discard=self._discard)
        shape = first.shape.aligned(plan.schema)
        spark = self.engine.require_spark("a Spark frame")
        with name_failed_sql(self.transform, self.checks, first, spark.secrets):
            run = partial(land_frame, shape, plan.sink, first.sieve)
            results = spark.run_frame(step, first.frame, run, discard=self._discard)
        try:
            if first.made is not None:
                first.made.check()
        except BaseException:
            self._discard(results)
            raise
        return results

    def _discard(self, results: Sequence[Staged | Findings]) -> None:
        self.writer.discard(staged_objects(results))


def _json_string_notes(made: pa.Schema, table: Mapping[str, str]) -> Iterator[str]:
    """Say which texts that a query or function made become JSON strings in the table."""
    for column in made:
        plain = pa.types.is_string(column.type) and not is_json(column)
        if plain and table.get(column.name) == "json":
            yield (
                f"{column.name!r} is text that the query made, and JSON in the table: each text is "
                "a JSON string there; columns that a query passes on as they are stay JSON"
            )


def _empty_overwrite_warning(landed: Landed) -> str:
    """Say what an overwrite by no row did with the rows that the table had."""
    if not landed.removed_files:
        return "the source has no row: the overwrite replaced nothing."
    rows = "the rows" if landed.removed_rows is None else pluralize(landed.removed_rows, "row")
    return f"the source has no row: {rows} that the table had went, and it is empty now."
