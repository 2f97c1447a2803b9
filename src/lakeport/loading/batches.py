"""A report in the making: adds up what happens during a run."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.engine.base import EngineReport
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.sql import quoted
from lakeport.errors import BadRecord, ConfigError, LakeportError, SchemaConflict
from lakeport.host.command import command_line, masked
from lakeport.loading.conflicts import first_misfit
from lakeport.loading.expect.result import ExpectationResult, added
from lakeport.loading.expect.sieve import Findings, Sieve
from lakeport.loading.quarantine import Rejections
from lakeport.loading.report import Failure, LandingReport, StreamReport, Timeline
from lakeport.model import Batch, Landed, Mode, Reader, Split, Staged
from lakeport.native import parser
from lakeport.schema.casting import is_json, normalise
from lakeport.schema.evolution import TypeConflict, fits, plan_evolution
from lakeport.schema.exact import narrows
from lakeport.schema.named import type_name
from lakeport.schema.nested import ValueFound, emptied, reopened
from lakeport.schema.sparktypes import from_spark_json
from lakeport.schema.types import declared_type
from lakeport.shape import Shape
from lakeport.sources.csv.reader import CsvReader
from lakeport.sources.files.folders import FolderReader

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.types import DataFrame
    from lakeport.loading.transform.transform import Made
    from lakeport.model import Batch
    from lakeport.writers.base import TablePlan, TableWriter


class ReportBuilder:
    """Adds up what happens during a run.

    Args:
        run_id: the run's name.
        target: URI of the destination.
        secrets: values to mask in the error.
        now: reads the clock, UTC.
        tick: reads a clock that never steps back, in seconds.

    Attributes:
        timeline: takes down when what is done.
        engine: what ran the tasks; set before the report is finished.
    """

    def __init__(
        self,
        run_id: str,
        target: str = "",
        *,
        secrets: Iterable[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = Timeline(tick)
        self.engine = EngineReport()
        self._now = now
        self._run_id, self._target = run_id, target
        self._secrets = tuple(secrets)
        self._started = now()
        self._command = command_line()
        self._streams: dict[str, StreamReport] = {}
        self._stray = 0
        self._quarantine: dict[str, None] = {}
        self._rejections = Rejections()
        self._warnings: dict[str, None] = {}
        self._state: bytes | None = None

    def landed(self, landed: Landed, seconds: float = 0.0) -> None:
        """Add a batch, and the seconds that it took."""
        old = self._stream(landed.stream)
        self._streams[landed.stream] = replace(
            old,
            table=landed.table,
            rows=old.rows + landed.rows,
            files=old.files + (0 if landed.skipped else len(landed.files)),
            bytes=old.bytes + (0 if landed.skipped else landed.bytes),
            batches=old.batches + 1,
            skipped_batches=old.skipped_batches + landed.skipped,
            removed_files=old.removed_files + landed.removed_files,
            first_version=_first(old.first_version, landed.version),
            last_version=_first(landed.version, old.last_version),
            seconds=old.seconds + seconds,
            warnings=_unique(old.warnings, landed.warnings),
            notes=_unique(old.notes, landed.notes),
            columns={**old.columns, **landed.columns},
            source_columns={**old.source_columns, **landed.source_columns},
            removed_rows=_sum(old.removed_rows, landed.removed_rows),
            merged=_added(old.merged, landed.merged),
        )

    def retired(self, landed: Landed) -> None:
        """Add a commit that took rows of earlier versions out of use."""
        old = self._stream(landed.stream)
        self._streams[landed.stream] = replace(
            old,
            table=landed.table,
            files=old.files + len(landed.files),
            bytes=old.bytes + landed.bytes,
            removed_files=old.removed_files + landed.removed_files,
            first_version=_first(old.first_version, landed.version),
            last_version=landed.version,
            warnings=_unique(old.warnings, landed.warnings),
            removed_rows=_sum(old.removed_rows, landed.removed_rows),
        )

    def rejected(self, stream: str, count: int) -> None:
        """Add bad records of a stream that were set aside."""
        old = self._stream(stream)
        self._streams[stream] = replace(old, rejected=old.rejected + count)

    def dropped(self, stream: str, fields: Mapping[str, int]) -> None:
        """Add undeclared fields that were left out: field -> records that held it."""
        old = self._stream(stream)
        total = dict(old.dropped)
        for name, count in fields.items():
            total[name] = total.get(name, 0) + count
        self._streams[stream] = replace(old, dropped=total)

    def expected(self, stream: str, results: Iterable[ExpectationResult]) -> None:
        """Add what came of a stream's expectations."""
        old = self._stream(stream)
        self._streams[stream] = replace(old, expectations=added(old.expectations, tuple(results)))

    def stray(self, count: int) -> None:
        """Add lines that belong to no stream."""
        self._stray += count

    def quarantined(self, records: Iterable[BadRecord], uris: Iterable[str]) -> None:
        """Add bad records, by their reasons, and the files that hold them."""
        self._rejections.add(records)
        self._quarantine.update(dict.fromkeys(uris))

    def state(self, state: bytes) -> None:
        """Remember the STATE that went out."""
        self._state = state

    def warn(self, text: str, stream: str = "") -> None:
        """Add a sentence, once, to a stream or to the whole run."""
        if not stream:
            self._warnings[text] = None
            return
        old = self._stream(stream)
        self._streams[stream] = replace(old, warnings=_unique(old.warnings, (text,)))

    def note(self, stream: str, table: str, text: str) -> None:
        """Add a line about a stream that brought nothing."""
        old = self._stream(stream)
        self._streams[stream] = replace(old, table=table, notes=_unique(old.notes, (text,)))

    def finish(self, error: BaseException | None = None) -> LandingReport:
        """The report, of a run that failed if there is an error."""
        seconds = self.timeline.elapsed()
        spans, left_out = self.timeline.spans(seconds)
        read, written = self.timeline.paces(seconds)
        return LandingReport(
            run_id=self._run_id,
            target=self._target,
            started=self._started,
            finished=self._now(),
            seconds=seconds,
            streams=tuple(self._streams.values()),
            stray_lines=self._stray,
            quarantine=tuple(self._quarantine),
            state=self._state,
            warnings=tuple(self._warnings),
            error=Failure.of(error).scrubbed(self._secrets) if error else None,
            parser=parser(),
            command=None if self._command is None else masked(self._command, self._secrets),
            reasons=self._rejections.told(),
            spans=spans,
            streams_left_out=left_out,
            pace=written,
            reading_pace=read,
            engine=self.engine,
        )

    def _stream(self, name: str) -> StreamReport:
        return self._streams.get(name) or StreamReport(name)


def _first(*versions: int | None) -> int | None:
    """The first version that there is."""
    return next((version for version in versions if version is not None), None)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    """The sums of two counts; what one of them does not know is not known of both."""
    if not one or not other:
        return one or other
    return {name: one[name] + other[name] for name in one if name in other}


def _unique(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def columns_of(batch: Batch) -> pa.Schema:
    """The columns of a batch as its source has them."""
    if batch.reader is not None:
        return batch.reader.schema
    if batch.frame is None:
        raise TypeError("a batch has a reader or a frame")
    return normalise(from_spark_json(batch.frame.schema.json()))


def opened_columns(batch: Batch, columns: pa.Schema) -> pa.Schema:
    """A reader's columns, with the types of `lakeport.schema.nested` where the batch has none."""
    return pa.schema([reopened(f, batch.untyped.get(f.name, f.type)) for f in columns])


def read_columns(batches: Sequence[Batch]) -> dict[str, str]:
    """The columns of batches as their source has them, with types in words; frames tell none."""
    schemas = [batch.reader.schema for batch in batches if batch.reader is not None]
    return {f.name: type_name(declared_type(f)) for schema in schemas for f in schema}


def described(incoming: pa.Schema, plan: TablePlan) -> dict[str, str]:
    """The columns that a batch brought, as the table spells and types them, in words."""
    known = {f.name.lower(): f for f in plan.schema if f.name not in plan.untyped}
    fields = [known.get(field.name.lower(), field) for field in incoming]
    return {field.name: type_name(declared_type(field)) for field in fields}


def union(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of all batches that land together, in order of first appearance.

    Raises:
        SchemaConflict: two of them don't go together.
    """
    merged = schemas[0]
    for schema in schemas[1:]:
        try:
            merged = plan_evolution(merged, schema, "evolve", Mode.APPEND, fresh=True).schema
        except TypeConflict as conflict:  # of two batches: no table's column is to blame
            raise SchemaConflict(conflict.message, conflict.hint) from None
    return merged


@dataclass(frozen=True)
class Part:
    """One batch with its kernels.

    Attributes:
        batch: the batch.
        reader: None where a frame is run.
        shape: of the rows that land.
        sieve: holds them to what is expected of them.
        frame: is run in place of the reader.
        made: how the frame was made.
    """

    batch: Batch
    reader: Reader | None
    shape: Shape
    sieve: Sieve | None = None
    frame: DataFrame | None = None
    made: Made | None = None

    def without(self, files: Collection[str]) -> Part:
        """The same without some files."""
        splits = tuple(split for split in self.batch.splits if split.uri not in files)
        size = self.batch.bytes * len(splits) // max(1, len(self.batch.splits))
        return replace(self, batch=replace(self.batch, splits=splits, bytes=size, records=-1))

    def fitted(self, table: pa.Schema) -> Part:
        """Return the part with columns in the table's types, where their values may have equals.

        Numbers stay the same numbers, moments the same moments. A text column takes what a CSV
        file says as it stands there; nothing else becomes text.
        """
        there = {f.name.lower(): f.type for f in table if not is_json(f)}
        narrowed, texts, types = dict(self.shape.narrowed), set[str](), dict[str, pa.DataType]()
        for source, name in self.shape.names:
            own, wanted = self.shape.schema.field(name), there.get(name.lower(), pa.null())
            type_ = own.type
            nothing = is_json(own) or pa.types.is_null(type_) or pa.types.is_null(wanted)
            if nothing or source in self.shape.rules.types or type_ == wanted:
                continue
            if narrows(type_, wanted) and not fits(type_, wanted):
                narrowed[source] = types[name] = wanted
            elif pa.types.is_string(wanted) and not pa.types.is_nested(type_):
                texts.add(source)
        reader = self.reader and _as_text(self.reader, texts)
        if reader:
            types |= {name: pa.string() for source, name in self.shape.names if source in texts}
        source = reader.schema if reader else self.shape.source
        schema = pa.schema([f.with_type(types.get(f.name, f.type)) for f in self.shape.schema])
        shape = replace(self.shape, source=source, schema=schema, narrowed=narrowed)
        return replace(self, reader=reader or self.reader, shape=shape)


def _as_text(reader: Reader, columns: Collection[str]) -> Reader | None:
    """Return a reader that gives columns of CSV files as they stand there; None for others."""
    if isinstance(reader, FolderReader):
        inner = _as_text(reader.inner, columns)
        return inner and replace(reader, inner=inner)
    return reader.as_text(columns) if columns and isinstance(reader, CsvReader) else None


def staged_of(results: Sequence[Staged | Findings]) -> list[Staged]:
    """The staged objects among what tasks give."""
    return [one for one in results if isinstance(one, Staged)]


@dataclass(frozen=True)
class Task:
    """What one Spark task lands: some splits of one batch."""

    part: Part
    splits: tuple[Split, ...]


def misfit(conflict: TypeConflict, parts: Sequence[Part]) -> str:
    """The first value for which the table's column is too narrow, in words."""
    for part in parts:
        names = {new.lower(): old for old, new in part.shape.names}
        column = names.get(conflict.path.lower(), "")
        if column and part.reader is not None:
            found = first_misfit(part.reader, part.batch.splits, column, conflict.table)
            if found:
                return found
    return ""


def without_type(conflict: TypeConflict, parts: Sequence[Part]) -> list[Part] | None:
    """The parts without a type in the place of a conflict, if none of their rows has a value there.

    Returns:
        None where there is a value, or the user declares the type. Reads all rows of the parts.
    """
    found = []
    for part in parts:
        shape, path = part.shape, f"{conflict.path.lower()}."
        columns = {f"{new.lower()}.": (old, new) for old, new in shape.names}
        at = max((name for name in columns if path.startswith(name)), key=len, default=None)
        if at is None:
            found.append(part)
            continue
        source, name = columns[at]
        known = shape.untyped.get(source, shape.source.field(source).type)
        type_ = _voided(known, [one for one in path.removeprefix(at).split(".") if one])
        if type_ is None or source in shape.rules.types or not _is_empty(part, source, type_):
            return None
        schema = pa.schema([f.with_type(type_) if f.name == name else f for f in shape.schema])
        untyped = {**shape.untyped, source: type_}
        found.append(replace(part, shape=replace(shape, schema=schema, untyped=untyped)))
    return found


def _voided(type_: pa.DataType, path: Sequence[str]) -> pa.DataType | None:
    """A type with null in the place of a path; None where there is no such place."""
    if not path:
        return pa.null()
    name, *rest = path
    if pa.types.is_struct(type_):
        members = list(type_)
        at = next((i for i, f in enumerate(members) if f.name.lower() == name), None)
        inner = None if at is None else _voided(members[at].type, rest)
        if at is None or inner is None:
            return None
        members[at] = members[at].with_type(inner)
        return pa.struct(members)
    if pa.types.is_list(type_) and name == "element":
        inner = _voided(type_.value_type, rest)
        return None if inner is None else pa.list_(type_.value_field.with_type(inner))
    if pa.types.is_map(type_) and name == "value":
        inner = _voided(type_.item_type, rest)
        return None if inner is None else pa.map_(type_.key_type, type_.item_field.with_type(inner))
    return None


def _is_empty(part: Part, column: str, type_: pa.DataType) -> bool:
    """Whether no row of a part has a value where a column's type is null."""
    try:
        if (frame := part.frame) is not None:
            with translated():
                found = frame.where(frame[quoted(column)].isNotNull())
                return pa.types.is_null(type_) and bool(found.isEmpty())
        for split in part.batch.splits:
            for batch in part.reader.read(split) if part.reader else ():
                emptied(batch.column(column), type_)
    except (LakeportError, ValueFound):
        return False
    return True


_MOST_OF_TWO: Final = 1.7  # a task is said to have too much beyond this multiple of its fair share,
_LEAST: Final = 0.3  # and of the whole


def together(batches: Sequence[Batch]) -> Batch:
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


def groups(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Contiguous groups of about equal size, at most `count` and none empty.

    >>> [len(group) for group in groups([Split("a")] * 5, 2)]
    [3, 2]
    """
    count = max(1, min(count, len(splits)))
    size, larger = divmod(len(splits), count)
    found, start = [], 0
    for i in range(count):
        end = start + size + (i < larger)
        found.append(tuple(splits[start:end]))
        start = end
    return found


def uneven(staged: Sequence[Staged], cores: int, min_file_bytes: int) -> tuple[str, ...]:
    """Say it when one task had most of a batch that was worth sharing out.

    Args:
        staged: what the tasks have written.
        cores: how many of them ran at once.
        min_file_bytes: of twice as much it is worth it.
    """
    sizes = Counter[int]()
    for one in staged:
        sizes[one.split] += one.bytes
    if cores == 1 or not sizes:
        return ()
    (task, most), total = sizes.most_common(1)[0], sizes.total()
    share = most / max(1, total)
    if total < 2 * min_file_bytes or share < max(_MOST_OF_TWO / cores, _LEAST):
        return ()
    return (
        f"task {task} wrote {share:.0%} of the bytes while {cores} cores were there: the "
        "input's parts are of uneven size; `repartition` a frame, or write Parquet in smaller "
        "row groups.",
    )


def check_streams(config: DestinationConfig, streams: Iterable[str], wanted: bool) -> None:
    """Refuse what is meant for one stream, and one table for several, where there are more.

    Args:
        config: the target's.
        streams: the names seen so far.
        wanted: whether rows are transformed, or something is expected of them.

    Raises:
        ConfigError: naming the streams.
    """
    names = list(dict.fromkeys(streams))
    if len(names) < 2:
        return
    told = ", ".join(map(repr, names))
    if wanted:
        raise ConfigError(
            f"`sql`, `python` and `expect` are about one stream, and the source has {told}",
            "land the streams one by one.",
        )
    ruled = next((key for key in ("columns", "rename", "drop") if getattr(config, key)), "")
    if ruled:
        raise ConfigError(
            f"`{ruled}` is about the columns of one stream, and the source has {told}",
            "land the streams one by one (`catalog` takes a schema for each of many).",
        )
    pattern = config.table_pattern
    if pattern is not None and "{stream}" not in pattern:
        raise ConfigError(
            f"streams {names[0]!r} and {names[1]!r} would both land in table {pattern!r}",
            "leave `table` out, so that each stream has its own table, or write `{stream}` "
            "in it, such as `raw_{stream}`.",
        )


def leaves_table(
    config: DestinationConfig, batch: Batch, writer: Callable[[], TableWriter]
) -> bool:
    """Whether a stream that brought no record leaves an empty table: where an append has none.

    Files leave nothing, as there is nothing to put in one.

    Args:
        config: the target's.
        batch: with the stream's columns.
        writer: gives its table.
    """

    if config.mode is not Mode.APPEND or config.file_type != "delta":
        return False
    return len(columns_of(batch)) > 0 and writer().current() is None


def raise_first(
    landings: Mapping[str, Future[None]], secrets: Sequence[str], warn: Callable[[str], None]
) -> None:
    """Raise the first stream's error; those of the others become warnings, so none hides.

    Args:
        landings: stream -> how it has landed.
        secrets: are left out of what is said.
        warn: takes a sentence for the user.
    """
    errors = {name: error for name, done in landings.items() if (error := done.exception())}
    for name, error in list(errors.items())[1:]:
        words = Failure.of(error).scrubbed(secrets).message
        warn(f"stream {name!r} failed, too: {words}")
    for error in errors.values():
        raise error
