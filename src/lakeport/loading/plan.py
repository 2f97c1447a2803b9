"""Plan a load: read its source and its table, and say what the load would do; write nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from lakeport.config.load import load_target
from lakeport.destinations import check_place, open_table
from lakeport.errors import LakeportError, SchemaConflict
from lakeport.host.activity import activity
from lakeport.loading.prepare import PreparedLoad, check_streams, prepare
from lakeport.sources.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.engine.base import Engine
    from lakeport.loading.batches import BatchPart
    from lakeport.loading.transform.rules import RowRules
    from lakeport.model import Batch, Reader, Split
    from lakeport.sources.csv.dialect import CsvOptions
    from lakeport.sources.files.declared_columns import ColumnDeclaration
    from lakeport.writers.base import ExistingTable, TablePlan, TableWriter

_MOST_FAULTS: Final = 3  # bad records that a plan describes
_FAILS_WARNING: Final = (
    "the load would fail on its bad records; `on_bad_record: quarantine` (`--on-bad-record "
    "quarantine`) lands the good ones and sets the bad ones aside."
)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column that a load would write.

    Attributes:
        name: its name in the table.
        type: its type in the table, in words such as `integer`.
        change: how the table's column changes: empty for not at all, `new`, or a sentence.
    """

    name: str
    type: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Plan of a load for one table: its columns, and estimated rows and files.

    Attributes:
        stream: the stream's name.
        table: the table's URI.
        exists: whether the table exists.
        columns: the stream's columns, then those that only the table has.
        partition_keys: columns by which the table is partitioned.
        rows: estimated rows that the load adds; None when unknown.
        files: estimated files that the load writes; None when unknown.
        version: the newest version of a Delta table that exists; None otherwise.
        warnings: sentences for the user.
        notes: see `lakeport.model.Batch`.
        bad: how many records can't be landed: the load fails, or quarantines them, as configured.
        first_bad: the faults of the first three bad records.
    """

    stream: str
    table: str
    exists: bool
    columns: tuple[ColumnPlan, ...]
    partition_keys: tuple[str, ...] = ()
    rows: int | None = None
    files: int | None = None
    version: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bad: int = 0
    first_bad: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """Plan of a load for all its tables.

    Attributes:
        target: URI of the destination.
        file_type: `delta`, `parquet` or `csv`.
        mode: `append`, `overwrite` or `merge`.
        streams: a plan for each table.
        warnings: sentences that concern no single stream.
        source: the source's name, such as a file's; may be empty.
        engine: the engine that would run the tasks, and why.
    """

    target: str
    file_type: str
    mode: str
    streams: tuple[StreamPlan, ...]
    warnings: tuple[str, ...] = ()
    source: str = ""
    engine: str = ""

    def __repr__(self) -> str:
        """Return file type, mode, target and tables, in one line; `to_dict` has the rest."""
        tables = ", ".join(stream.table for stream in self.streams)
        return (
            f"LandingPlan({self.file_type}, {self.mode}, to {self.target}: {tables or 'nothing'})"
        )

    def _repr_html_(self) -> str:
        """Return the plan as notebooks show it: source, steps, tables and their columns."""
        from lakeport.html.document import build_notebook_part
        from lakeport.html.run import render_plan_page

        return build_notebook_part(render_plan_page(self.to_dict()))

    def to_json(self) -> str:
        """Return the plan as one JSON object on one line; streams have -1 in place of None."""
        return json.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a dict of JSON values, keyed by attribute names."""
        streams = [
            {name: -1 if value is None else value for name, value in asdict(stream).items()}
            for stream in self.streams
        ]
        return {"plan": 1, **asdict(self), "streams": streams}


def plan(
    source: Any,
    to: Target | DestinationConfig | None = None,
    *,
    source_format: str = "",
    csv: CsvOptions | None = None,
    schema: ColumnDeclaration | None = None,
    stray_lines: Literal["fail", "skip"] = "fail",
    records_path: str = "",
    sheet: str = "",
    sheet_column: str = "",
    infer_dates: bool = False,
    sql: str = "",
    python: str | Callable[[DataFrame], DataFrame] = "",
    views: Mapping[str, DataFrame] | None = None,
    expect: Sequence[Mapping[str, Any] | Expectation] = (),
    full_refresh: bool = False,
    **keys: Unpack[TargetKeys],
) -> LandingPlan:
    """Return what `lakeport.land` would do with the same arguments; write nothing.

    The source is read to its end, because only that shows schemas, rows and types. Undeclared
    fields of Singer records are not searched.

    Raises:
        LakeportError: as `lakeport.land`, for all that shows without landing.
    """
    from lakeport.sources.files.declared_columns import load_declaration

    options = ReadOptions(
        source_format,
        csv,
        load_declaration(schema),
        stray_lines,
        records_path,
        sheet,
        sheet_column,
        infer_dates,
    )
    prepared = replace(
        prepare(load_target(to, keys), source=source, start_engine=False), writes=False
    )
    with prepared.engine:
        prepared = prepared.for_full_refresh() if full_refresh else prepared
        check_place(prepared.config, prepared.storage)
        from lakeport.loading.transform.rules import RowRules

        rules = RowRules.from_arguments(prepared, sql, python, views, expect)
        rules.check()
        streams: dict[str, _StreamScan] = {}
        notes: list[str] = []
        with (
            prepared.open_source(source, options, lambda *_: None) as (opened, ready),
            activity("reading", opened.name, total=opened.bytes),
        ):
            rules, _ = rules.bind(opened)
            for flush in opened:
                names = [*opened.streams(), *(batch.stream for batch in flush.batches)]
                check_streams(prepared.config, names, bool(rules))
                for batch in (batch for batch in flush.batches if not batch.schema_only):
                    counts = _count_records(ready.engine, batch)
                    streams.setdefault(batch.stream, _StreamScan()).add(batch, counts)
                for record in flush.bad:
                    if record.stream in streams:
                        streams[record.stream].counts += _RecordCounts(0, 1, (record.fault,))
                notes += flush.notes.values()
                opened.discard(flush)
        config, storage = prepared.config, prepared.storage
        hinted: dict[str, str] = {}
        plans = tuple(
            _plan_stream(prepared, name, one, rules, hinted) for name, one in streams.items()
        )
        warnings = (*ready.warnings, *notes)
        mode = config.mode.value
        engine = prepared.engine.describe("engine" in config.model_fields_set)
        return LandingPlan(
            storage.uri(), config.file_type, mode, plans, warnings, opened.name, engine
        )


@dataclass(frozen=True, slots=True)
class _RecordCounts:
    """Numbers of good (-1: unknown) and bad records of a stream, and the first faults in words."""

    good: int
    bad: int = 0
    faults: tuple[str, ...] = ()

    def __add__(self, other: _RecordCounts) -> _RecordCounts:
        good = -1 if self.good < 0 or other.good < 0 else self.good + other.good
        return _RecordCounts(
            good, self.bad + other.bad, (self.faults + other.faults)[:_MOST_FAULTS]
        )


_NO_RECORDS: Final = _RecordCounts(0)


@dataclass
class _StreamScan:
    """Result of reading one stream to its end: its last batch, record counts and bytes."""

    batch: Batch | None = None
    counts: _RecordCounts = _NO_RECORDS
    bytes: int = 0
    batches: int = 0

    def add(self, batch: Batch, counts: _RecordCounts) -> None:
        """Add a batch's counts and size; keep it as the last batch, unless it only deletes rows."""
        if self.batch is None or not batch.has_deleted_keys:
            self.batch = batch
        self.counts += counts
        self.bytes += max(0, batch.bytes)
        self.batches += 1


def _count_records(engine: Engine, batch: Batch) -> _RecordCounts:
    """Count a batch's good and bad records, if need be by a scan; -1 for Spark frames."""
    from lakeport.sources.json.reader import JsonReader

    if batch.reader is None or (batch.records >= 0 and not isinstance(batch.reader, JsonReader)):
        return _RecordCounts(batch.records)
    with activity("checking", batch.stream, total=batch.bytes):
        read = partial(_count_split, batch.reader)
        parts = engine.run_tasks(f"check {batch.stream}", read, batch.splits)
    return sum(parts, _NO_RECORDS)


def _count_split(reader: Reader, split: Split) -> list[_RecordCounts]:
    """Count a split's good and bad records, in a task; return them as a list of one."""
    scan = reader.scan(split)
    faults = tuple(bad.fault for bad in scan.bad[:_MOST_FAULTS])
    return [_RecordCounts(scan.rows, len(scan.bad), faults)]


def _plan_stream(
    prepared: PreparedLoad,
    stream: str,
    scan: _StreamScan,
    rules: RowRules,
    hinted: dict[str, str],
) -> StreamPlan:
    """Plan one stream's load from the scan of its source and its table's current state.

    `hinted` is as of `ChangeNotes`.
    """
    from lakeport.loading.batches import BatchPart, Policies
    from lakeport.loading.conflicts import ChangeNotes
    from lakeport.schema.spark_schema import columns_of
    from lakeport.schema.types import check_column_count

    if scan.batch is None:
        raise TypeError("a stream that was seen has a batch")
    policies = Policies(prepared.config)
    writer = open_table(prepared.config, prepared.storage, prepared.engine, stream, writes=False)
    seen, reader_notes = scan.batch, list[str]()
    if seen.reader is not None:
        reader, reader_notes = policies.fit_json_reader(seen.reader, writer)
        seen = replace(seen, reader=reader)
    planned = rules.plan_batch(prepared, seen)
    batch = planned.batch
    source = columns_of(seen).names if rules.transform else ()
    shape = policies.shape(planned.columns, batch, source_names=source)
    check_column_count(stream, shape.schema, prepared.config.max_columns)
    keys = policies.partition_keys(batch)
    existing = writer.read_existing()
    size = int(scan.bytes * scan.batch.output_ratio)
    files = policies.number_of_files(size, prepared.engine.cores)
    counts = scan.counts
    part = BatchPart(batch, batch.reader if batch is seen else None, shape)
    fails = (_FAILS_WARNING,) if counts.bad and prepared.config.on_bad_record == "fail" else ()
    table, refused = _plan_table(writer, part, keys, existing)
    changes = ChangeNotes(writer, prepared.config, hinted)
    # Without a good record a load makes no file; an empty Delta load may still add columns.
    changes_table = counts.good or (prepared.config.file_type == "delta" and not counts.bad)
    return StreamPlan(
        stream,
        writer.uri,
        existing is not None,
        _plan_columns(shape.schema, existing, table.evolution.dropped if table else ()),
        keys or (existing.partition_keys if existing else ()),
        None if counts.good < 0 or batch is not seen else counts.good,
        max(files, scan.batches),
        existing.version if existing is not None and existing.version >= 0 else None,
        (*batch.warnings, *(table.warnings if table else (refused,)), *fails),
        (
            *batch.notes,
            *planned.notes,
            *reader_notes,
            *(changes.describe(batch, table, [part]) if table and changes_table else ()),
        ),
        counts.bad,
        counts.faults,
    )


def _plan_columns(
    incoming: pa.Schema, existing: ExistingTable | None, dropped: Collection[str]
) -> tuple[ColumnPlan, ...]:
    """List incoming columns as new, changed or equal, then the columns that only the table has.

    `dropped` are those of the latter that the load drops.
    """
    from lakeport.schema.types import format_type, get_logical_type

    table = {} if existing is None else {field.name.lower(): field for field in existing.schema}
    plans = []
    for field in incoming:
        there = table.pop(field.name.lower(), None)
        change = ""
        if existing is not None and there is None:
            change = "new"
        elif (
            there is not None
            and existing is not None
            and existing.typed
            and get_logical_type(there) != get_logical_type(field)
        ):
            change = f"{format_type(get_logical_type(there))} in the table"
        plans.append(ColumnPlan(field.name, format_type(get_logical_type(field)), change))
    for field in table.values():
        change = "dropped" if field.name in dropped else "only in the table: null"
        plans.append(ColumnPlan(field.name, format_type(get_logical_type(field)), change))
    return tuple(plans)


def _plan_table(
    writer: TableWriter, part: BatchPart, keys: tuple[str, ...], existing: ExistingTable | None
) -> tuple[TablePlan | None, str]:
    """Return the writer's plan, or None and why the load would fail if the schema conflicts."""
    from lakeport.loading.conflicts import explain_conflict, find_misfit
    from lakeport.schema.evolution import TypeConflict

    def plan_part(part: BatchPart) -> TablePlan:
        return writer.plan(part.shape.schema, part.batch, keys, datetime.now(UTC), 1)

    try:
        try:
            return plan_part(part), ""
        except TypeConflict as conflict:
            if existing is None:
                raise
            fitted, names = part.fit_table(existing.schema), dict(part.shape.names)
            planned = plan_part(fitted)
            for source, type_ in fitted.shape.narrowed.items():
                narrow = TypeConflict(
                    names[source], type_, part.shape.schema.field(names[source]).type, conflict.hint
                )
                if find_misfit(narrow, [part]):
                    raise narrow from None
            return planned, ""
    except SchemaConflict as conflict:
        explained = conflict
        if isinstance(conflict, TypeConflict):
            misfit = find_misfit(conflict, [part])
            explained = explain_conflict(conflict, writer.uri, existing, misfit)
        return None, f"the load would fail: {_format_error(explained)}"


def _format_error(error: LakeportError) -> str:
    """Return an error's message, with its hint in parentheses."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
