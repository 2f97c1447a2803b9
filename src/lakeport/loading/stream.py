"""One stream on its way into its table: scan, stage in Spark tasks, commit on the driver.

```
batch ─▶ [scan] ─▶ reader ─▶ shape ─▶ plan against the table ─▶ stage (tasks) ─▶ commit (driver)
```
The scan comes first where a policy has to count before anything is written (`quarantine`, `drop`);
otherwise the load starts at once, and only a record with an undeclared field makes it look back.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords, ObjectExists, SchemaConflict, UnknownFields
from lakeport.host.activity import activity
from lakeport.loading.cancellation import Cancellation
from lakeport.loading.conflicts import explained, first_misfit
from lakeport.loading.policies import Policies
from lakeport.loading.tasks import contents_of, land_frame, land_splits, scan_split
from lakeport.loading.timeline import Timeline
from lakeport.model import Batch, Landed, Mode, Reader, Scan, Split, Staged, UnknownPolicy
from lakeport.schema.evolution import TypeConflict, plan_evolution
from lakeport.schema.kinds import merge_kinds, type_of_kind
from lakeport.schema.named import type_name
from lakeport.schema.types import from_spark_json, normalise
from lakeport.shape.columns import TIMESTAMP, Shape, header_name, internal_names
from lakeport.spark.jobs import run_frame, run_tasks
from lakeport.writers.base import LandedBefore, TablePlan, TableWriter
from lakeport.writers.files.writer import number_of_files

if TYPE_CHECKING:
    from lakeport.spark.session import Runtime

__all__ = ["StreamLoader", "columns_of"]

_MOST_OF_TWO = 1.7  # a task is said to have too much beyond this multiple of its fair share,
_LEAST = 0.3  # and of the whole


@dataclass
class StreamLoader:
    """Lands one stream's batches, in order.

    Args:
        writer: the stream's table.
        runtime: Spark.
        policies: what to do with bad records and unknown columns, and how large files get.
        on_bad: takes a batch, its bad records and the number of all its records; raises when the
            run has too many bad ones.
        cancellation: asks for an end before the next commit.
        timeline: takes down when what is done.
    """

    writer: TableWriter
    runtime: Runtime
    policies: Policies
    on_bad: Callable[[Batch, Sequence[BadRecord], int], None]
    cancellation: Cancellation = field(default_factory=Cancellation)
    timeline: Timeline = field(default_factory=Timeline)
    _dropped: dict[str, int] = field(default_factory=dict)
    _extra: dict[str, pa.DataType] = field(default_factory=dict)

    def land(self, batches: Sequence[Batch], state: bytes | None) -> Iterator[Landed]:
        """Land a flush's batches of this stream; an overwrite takes them all in one commit.

        Optional batches that turn out to be empty are left out of the result. The STATE rides
        with the last commit, as it is true of the table from there on only.
        """
        groups = [[batch] for batch in batches]
        if self.policies.mode is Mode.OVERWRITE:
            groups = [list(batches)] if batches else []
        for number, group in enumerate(groups, 1):
            landed = self._land(group, state if number == len(groups) else None)
            if landed is not None:
                yield landed

    def take_dropped(self) -> dict[str, int]:
        """Undeclared field -> records that held it and landed without it, since the last call."""
        dropped, self._dropped = self._dropped, {}
        return dropped

    def _land(self, batches: Sequence[Batch], state: bytes | None) -> Landed | None:
        keyed = [self.policies.renamed(batch) for batch in batches]
        whole = _together(keyed)
        with self.timeline.stage("planning", whole.stream):
            before = self.writer.landed_before(whole)
        if before is not None:
            for batch in batches:
                self._count_again(batch)
            return before
        scan = (
            self.policies.on_bad_record != "fail"
            or self.policies.unknown_fields is UnknownPolicy.DROP
        )
        try:
            return self._stage_and_commit(whole, self._parts(keyed, scan), state)
        except UnknownFields:
            if scan or self.policies.unknown_fields is not UnknownPolicy.EVOLVE:
                raise
            return self._stage_and_commit(whole, self._parts(keyed, scan=True), state)

    def _parts(self, batches: Sequence[Batch], scan: bool) -> list[_Part]:
        """Batches with their kernels; all are scanned first, as a field is read by all it holds."""
        readers = [self._scanned(batch) if scan else batch.reader for batch in batches]
        clock = datetime.now(UTC)
        parts = []
        for batch, reader in zip(batches, readers, strict=True):
            known = None if reader is None else self._extended(reader)
            columns = columns_of(batch) if known is None else known.schema
            shape = self.policies.shape(columns, batch, clock)
            parts.append(_Part(batch, known, shape))
        return parts

    def _scanned(self, batch: Batch) -> Reader | None:
        """Scan a batch, hand its bad records on, and learn its undeclared fields."""
        if batch.reader is None:
            return None
        scan = self._scan(self._extended(batch.reader), batch)
        if self.policies.unknown_fields is UnknownPolicy.DROP:
            for name, count in scan.unknown_values.items():
                self._dropped[name] = self._dropped.get(name, 0) + count
        elif scan.unknown:
            self._extra.update(self._types(scan.unknown))
            scan = self._scan(self._extended(batch.reader), batch)  # by their new types
        if scan.bad and self.policies.on_bad_record == "fail":
            raise BadRecords(scan.bad, len(scan.bad))
        self.on_bad(batch, scan.bad, scan.rows + len(scan.bad))
        return batch.reader.tolerant() if scan.bad else batch.reader

    def _count_again(self, batch: Batch) -> None:
        """Have a skipped batch's bad records count against the run's limit, as at first."""
        if batch.reader is None or self.policies.on_bad_record == "fail":
            return
        scan = self._scan(self._extended(batch.reader), batch)
        self.on_bad(batch, scan.bad, scan.rows + len(scan.bad))

    def _extended(self, reader: Reader) -> Reader:
        new = {n: type_ for n, type_ in self._extra.items() if n not in reader.schema.names}
        return reader.extended(new) if new else reader

    def _types(self, unknown: Mapping[str, str]) -> dict[str, pa.DataType]:
        """The undeclared fields' types: the table's where it has them, else by their values."""
        now = None if self.policies.mode is Mode.OVERWRITE else self.writer.current()
        known = {} if now is None else {f.name: f.type for f in now.schema if f.type != pa.null()}
        case, renamed = self.policies.header_case, self.policies.rules.rename
        internal = internal_names(self.policies.internal_prefix)
        return {
            name: TIMESTAMP
            if name in internal
            else known.get(header_name(renamed.get(name, name), case), type_of_kind(kind))
            for name, kind in unknown.items()
        }

    def _scan(self, reader: Reader, batch: Batch) -> Scan:
        with self._stage("checking", batch.stream, total=batch.bytes):
            found = run_tasks(
                self.runtime, partial(scan_split, reader), batch.splits, size=batch.bytes
            )
        unknown, counts = dict[str, str](), dict[str, int]()
        for part in found:
            for name, kind in part.unknown.items():
                unknown[name] = merge_kinds(unknown[name], kind) if name in unknown else kind
            for name, count in part.unknown_values.items():
                counts[name] = counts.get(name, 0) + count
        bad = tuple(record for part in found for record in part.bad)
        return Scan(sum(part.rows for part in found), bad, unknown, counts)

    def _stage_and_commit(
        self, whole: Batch, parts: Sequence[_Part], state: bytes | None
    ) -> Landed | None:
        try:
            return self._committed(whole, parts, state)
        except TypeConflict as conflict:
            now, misfit = self.writer.current(), _misfit(conflict, parts)
            keys = now.partition_keys if now else ()
            raise explained(conflict, self.writer.uri, keys, misfit) from None

    def _committed(
        self, whole: Batch, parts: Sequence[_Part], state: bytes | None
    ) -> Landed | None:
        incoming = _union([part.shape.schema for part in parts])
        names = self.policies.keys_of(whole)
        tasks, left_out = self._tasks(parts), tuple[str, ...]()
        while True:
            with self.timeline.stage("planning", whole.stream):
                plan = self.writer.plan(incoming, whole, names, parts[0].shape.clock, len(tasks))
            size, rows = whole.bytes, whole.records
            with self._stage("writing", whole.stream, total=size, rows_total=rows) as start:
                staged = self._staged(tasks, plan, size)
                self.timeline.tasks(whole.stream, staged, start)
            if whole.optional and not staged:
                return None
            try:
                known = replace(whole, content=contents_of(incoming, staged))
                if whole.before_commit is not None:
                    whole.before_commit()
                with self._committing(whole.stream):
                    landed = self.writer.commit(plan, staged, known, state)
                warnings = (*whole.warnings, *landed.warnings, *self._uneven(staged))
                notes = (*whole.notes, *left_out, *landed.notes)
                columns = _described(incoming, plan)
                return replace(landed, warnings=warnings, notes=notes, columns=columns)
            except ObjectExists:
                self.writer.discard(staged)  # bound to names that are taken: stage under others
            except LandedBefore as known:
                self.writer.discard(staged)
                left_out = (*left_out, known.note)
                parts = [part.without(known.files) for part in parts]
                whole = replace(whole, records=-1, bytes=sum(part.batch.bytes for part in parts))
                tasks = self._tasks(parts)
            except BaseException:
                self.writer.discard(staged)
                raise

    @contextmanager
    def _committing(self, stream: str) -> Iterator[None]:
        with self._stage("committing", stream), self.cancellation.committing(self.writer.uri):
            yield

    @contextmanager
    def _stage(
        self, what: str, stream: str, *, total: int = -1, rows_total: int = -1
    ) -> Iterator[float]:
        """Be at a stage, for those who look now and for the report; gives when it began."""
        going_on = activity(what, stream, total=total, rows_total=rows_total)
        with self.timeline.stage(what, stream) as start, going_on:
            yield start

    def _uneven(self, staged: Sequence[Staged]) -> tuple[str, ...]:
        """Say it when one task had most of a batch that was worth sharing out."""
        cores, sizes = self.runtime.cores, Counter[int]()
        for one in staged:
            sizes[one.split] += one.bytes
        if cores == 1 or not sizes:
            return ()
        (task, most), total = sizes.most_common(1)[0], sizes.total()
        share = most / max(1, total)
        if total < 2 * self.policies.min_file_bytes or share < max(_MOST_OF_TWO / cores, _LEAST):
            return ()
        return (
            f"task {task} wrote {share:.0%} of the bytes while {cores} cores were there: the "
            "input's parts are of uneven size; `repartition` a frame, or write Parquet in smaller "
            "row groups.",
        )

    def _tasks(self, parts: Sequence[_Part]) -> list[_Task]:
        """Share the splits out to as many tasks as there should be files."""
        tasks = []
        for part in parts:
            if part.reader is None:
                return [_Task(part, ())]
            files = number_of_files(
                int(max(part.batch.bytes, 0) * part.batch.output_ratio),
                self.runtime.cores,
                self.policies.min_file_bytes,
                self.policies.target_file_bytes,
            )
            tasks += [_Task(part, group) for group in _groups(part.batch.splits, files)]
        return tasks

    def _staged(self, tasks: Sequence[_Task], plan: TablePlan, size: int) -> list[Staged]:
        first = tasks[0].part
        if first.batch.frame is not None:
            shape = first.shape.aligned(plan.schema)
            return run_frame(
                self.runtime,
                first.batch.frame,
                partial(land_frame, shape, plan.sink),
                discard=self.writer.discard,
                strays=self.writer.drop_strays,
            )
        items = [
            (i, task.part.reader, task.part.shape.aligned(plan.schema), task.splits)
            for i, task in enumerate(tasks)
        ]
        return run_tasks(
            self.runtime,
            partial(land_splits, plan.sink, first.batch.remembered),
            items,
            size=size,
            discard=self.writer.discard,
            strays=self.writer.drop_strays,
        )


@dataclass(frozen=True)
class _Part:
    """One batch with its kernels."""

    batch: Batch
    reader: Reader | None
    shape: Shape

    def without(self, files: Collection[str]) -> _Part:
        """The same without some files."""
        splits = tuple(split for split in self.batch.splits if split.uri not in files)
        size = self.batch.bytes * len(splits) // max(1, len(self.batch.splits))
        return replace(self, batch=replace(self.batch, splits=splits, bytes=size, records=-1))


@dataclass(frozen=True)
class _Task:
    """What one Spark task lands: some splits of one batch."""

    part: _Part
    splits: tuple[Split, ...]


def _together(batches: Sequence[Batch]) -> Batch:
    """One batch that stands for several that land in one commit."""
    if len(batches) == 1:
        return batches[0]
    digests = "".join(batch.digest for batch in batches)
    return replace(
        batches[-1],
        records=sum(batch.records for batch in batches),
        bytes=sum(batch.bytes for batch in batches),
        notes=tuple(dict.fromkeys(note for batch in batches for note in batch.notes)),
        digest=hashlib.sha256(digests.encode()).hexdigest() if digests else "",
    )


def columns_of(batch: Batch) -> pa.Schema:
    """The columns of a batch as its source has them."""
    if batch.reader is not None:
        return batch.reader.schema
    if batch.frame is None:
        raise TypeError("a batch has a reader or a frame")
    return normalise(from_spark_json(batch.frame.schema.json()))


def _misfit(conflict: TypeConflict, parts: Sequence[_Part]) -> str:
    """The first value for which the table's column is too narrow, in words."""
    for part in parts:
        names = {new.lower(): old for old, new in part.shape.names}
        column = names.get(conflict.path.lower(), "")
        if column and part.reader is not None:
            found = first_misfit(part.reader, part.batch.splits, column, conflict.table)
            if found:
                return found
    return ""


def _described(incoming: pa.Schema, plan: TablePlan) -> dict[str, str]:
    """The columns that a batch brought, as the table spells and types them, in words."""
    known = {f.name.lower(): f for f in plan.schema if f.name not in plan.untyped}
    fields = [known.get(field.name.lower(), field) for field in incoming]
    return {field.name: type_name(field.type) for field in fields}


def _union(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of all batches that land together, in order of first appearance.

    Raises:
        SchemaConflict: two of them don't go together.
    """
    merged = schemas[0]
    for schema in schemas[1:]:
        try:
            merged = plan_evolution(merged, schema, "evolve", Mode.APPEND).schema
        except TypeConflict as conflict:  # of two batches: no table's column is to blame
            raise SchemaConflict(conflict.message, conflict.hint) from None
    return merged


def _groups(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Contiguous groups of about equal size, at most `count` and none empty.

    >>> [len(group) for group in _groups([Split("a")] * 5, 2)]
    [3, 2]
    """
    count = max(1, min(count, len(splits)))
    size, larger = divmod(len(splits), count)
    groups, start = [], 0
    for i in range(count):
        end = start + size + (i < larger)
        groups.append(tuple(splits[start:end]))
        start = end
    return groups
