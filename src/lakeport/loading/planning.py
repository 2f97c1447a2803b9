"""What a load would do, found out by reading the source and the table and writing neither."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lakeport.config.load import load_target
from lakeport.errors import LakeportError, SchemaConflict
from lakeport.loading.plan import ColumnPlan, LandingPlan, StreamPlan
from lakeport.sources.open import open_source
from lakeport.sources.options import ReadOptions
from lakeport.sources.spool.location import open_spool

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.loading.run import Target
    from lakeport.model import Batch, Reader, Split, Storage
    from lakeport.sources.csv.options import CsvOptions
    from lakeport.sources.files.declared import Declared
    from lakeport.spark import workers
    from lakeport.spark.session import Runtime
    from lakeport.writers.base import Current, TableWriter

__all__ = ["plan"]


def plan(
    source: Any,
    to: Target | DestinationConfig,
    *,
    source_format: str = "",
    csv: CsvOptions | None = None,
    schema: Declared | None = None,
    stray_lines: Literal["fail", "skip"] = "fail",
    **keys: Any,
) -> LandingPlan:
    """Tell what `lakeport.land` would do with the same arguments, without writing anything.

    The source is read to its end, because schemas, rows and types are known only then. Undeclared
    fields of Singer records are not looked for.

    Raises:
        LakeportError: as `lakeport.land`, as far as it shows without landing.
    """
    from lakeport.destinations import (
        check_layout,
        check_place,
        destination,
        open_storage,
        worker_packages,
    )
    from lakeport.sources.files.declared import declaration
    from lakeport.spark.session import Runtime

    config = load_target(to, keys)
    options = ReadOptions(source_format, csv, declaration(schema), stray_lines)
    warnings = (*config.warnings, *check_layout(config))
    storage = open_storage(config)
    needs = destination(config.destination).jars if config.file_type == "delta" else frozenset()
    runtime = Runtime.start(needs, config.spark, small=True)
    check_place(config, storage)
    seen: dict[str, _Seen] = {}
    with open_spool(config, runtime) as spool:
        opened = open_source(source, options, config, spool, runtime, lambda *_: None)
        if runtime.adopted or not runtime.is_local:
            workers.check(runtime, worker_packages(config, source))
        for flush in opened:
            for batch in (batch for batch in flush.batches if not batch.schema_only):
                seen.setdefault(batch.stream, _Seen()).add(batch, _records(runtime, batch))
            opened.landed(flush)
    streams = [_stream(config, storage, runtime, stream, each) for stream, each in seen.items()]
    return LandingPlan(storage.uri(), config.file_type, config.mode.value, tuple(streams), warnings)


@dataclass
class _Seen:
    """What the source has of one stream."""

    batch: Batch | None = None
    rows: int = 0
    bytes: int = 0
    batches: int = 0

    def add(self, batch: Batch, records: int) -> None:
        self.batch = batch
        self.rows = -1 if records < 0 or self.rows < 0 else self.rows + records
        self.bytes += max(0, batch.bytes)
        self.batches += 1


def _records(runtime: Runtime, batch: Batch) -> int:
    """The records of a batch, counted where its source does not tell; -1 for Spark's frames."""
    from lakeport.spark.jobs import run_tasks

    if batch.records >= 0 or batch.reader is None:
        return batch.records
    return sum(run_tasks(runtime, partial(_count, batch.reader), batch.splits))


def _count(reader: Reader, split: Split) -> list[int]:
    scan = reader.scan(split)
    return [scan.rows + len(scan.bad)]


def _stream(
    config: DestinationConfig, storage: Storage, runtime: Runtime, stream: str, seen: _Seen
) -> StreamPlan:
    from lakeport.destinations import open_table
    from lakeport.loading.stream import Policies, columns_of
    from lakeport.shape.columns import header_name, plan_shape
    from lakeport.writers.files.writer import number_of_files

    if seen.batch is None:
        raise TypeError("a stream that was seen has a batch")
    policies = Policies.of(config)
    shape = plan_shape(
        columns_of(seen.batch),
        internal_prefix=policies.internal_prefix,
        header_case=policies.header_case,
        constants=policies.constants,
    )
    names = dict.fromkeys((*policies.partition_keys, *seen.batch.partition_keys))
    keys = tuple(header_name(name, policies.header_case) for name in names)
    writer = open_table(config, storage, runtime, stream, writes=False)
    now = writer.current()
    files = number_of_files(
        int(seen.bytes * seen.batch.output_ratio),
        runtime.cores,
        policies.min_file_bytes,
        policies.target_file_bytes,
    )
    return StreamPlan(
        stream,
        writer.uri,
        now is not None,
        _columns(shape.schema, now),
        keys or (now.partition_keys if now else ()),
        seen.rows,
        max(files, seen.batches),
        now.version if now else -1,
        (*seen.batch.warnings, *_warnings(writer, shape.schema, seen.batch, keys)),
    )


def _columns(incoming: pa.Schema, now: Current | None) -> tuple[ColumnPlan, ...]:
    """The stream's columns and what each means for the table, then those that only it has."""
    table = {} if now is None else {field.name.lower(): field for field in now.schema}
    plans = []
    for field in incoming:
        there = table.pop(field.name.lower(), None)
        change = ""
        if now is not None and there is None:
            change = "new"
        elif there is not None and there.type != field.type:
            change = f"{there.type} in the table"
        plans.append(ColumnPlan(field.name, str(field.type), change))
    plans += [
        ColumnPlan(field.name, str(field.type), "only in the table: null")
        for field in table.values()
    ]
    return tuple(plans)


def _warnings(
    writer: TableWriter, incoming: pa.Schema, batch: Batch, keys: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        return writer.plan(incoming, batch, keys, datetime.now(UTC), 1).warnings
    except SchemaConflict as conflict:
        return (f"the load would fail: {_sentence(conflict)}",)


def _sentence(error: LakeportError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
