"""Batches of a load: their columns, the kernels of their rows, and their split into tasks."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.errors import SchemaConflict
from lakeport.loading.expect.arrow import CheckCounts, RowChecker
from lakeport.model import Batch, Mode, Reader, Split, Staged
from lakeport.schema.casting import can_narrow
from lakeport.schema.evolution import TypeConflict, can_store, plan_evolution
from lakeport.schema.hints import quote_names
from lakeport.schema.nested import change_field_type, is_json
from lakeport.schema.types import Field, Kind, fit_json_type, format_type, get_logical_type
from lakeport.shape import ColumnRules, Shape, apply_header_case, plan_shape
from lakeport.sources.csv.reader import CsvReader
from lakeport.sources.files.declared_columns import column_types
from lakeport.sources.files.folders import FolderReader
from lakeport.sources.json.inference import list_dates
from lakeport.sources.json.reader import JsonReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.loading.transform.transform import TransformedBatch
    from lakeport.writers.base import TablePlan, TableWriter


_SKEW_FACTOR: Final = 1.7  # a task is said to have too much beyond this multiple of its fair share,
_LEAST_SKEW: Final = 0.3  # and of the whole


@dataclass(frozen=True)
class Policies:
    """Settings that all destinations share, applied to batches: columns, keys, number of files."""

    config: DestinationConfig

    @cached_property
    def rules(self) -> ColumnRules:
        """Types, names and columns left out, by the keys `columns`, `rename` and `drop`."""
        keys = self.config
        return ColumnRules(column_types(keys.columns), keys.rename, frozenset(keys.drop))

    @property
    def internal_prefix(self) -> str | None:
        """The prefix of the internal columns; None where there are none."""
        return self.config.internal_columns_prefix if self.config.internal_columns else None

    @property
    def min_file_bytes(self) -> int:
        """Bytes that a file should have at least."""
        return int(self.config.min_file_size_mb * 2**20)

    def number_of_files(self, size: int, cores: int) -> int:
        """Return how many files to write for `size` bytes, at least 1.

        One per core while each has the minimum size; more where files would pass the target size.
        An unknown size (negative) gets one per core.
        """
        if size < 0:
            return max(1, cores)
        target = int(self.config.target_file_size_mb * 2**20)
        parallel = min(cores, size // max(1, self.min_file_bytes))
        return max(1, parallel, math.ceil(size / max(1, target)))

    def group_splits(self, batch: Batch, cores: int) -> list[tuple[Split, ...]]:
        """Group a batch's splits into one group a task, as many as it should become files."""
        size = int(max(batch.bytes, 0) * batch.output_ratio)
        return group_splits(batch.splits, self.number_of_files(size, cores))

    def shape(
        self,
        columns: pa.Schema,
        batch: Batch,
        clock: datetime | None = None,
        source_names: Collection[str] = (),
    ) -> Shape:
        """Plan how a batch's columns become the table's: names, types, constants, internal columns.

        `clock` is the time of the load, `source_names` are the source's columns before a transform.
        """
        return plan_shape(
            columns,
            clock=clock,
            internal_prefix=self.internal_prefix,
            header_case=self.config.column_header_format,
            constants=tuple(self.config.constant_columns.items()),
            rules=self.rules.without_absent_types(columns.names, source_names),
            untyped=batch.untyped,
        )

    def name_in_table(self, column: str) -> str:
        """Return the name that a source's column has in its table."""
        name = self.rules.rename.get(column, column)
        return apply_header_case(name, self.config.column_header_format)

    def fit_json_reader(self, reader: Reader, writer: TableWriter) -> tuple[Reader, list[str]]:
        """Return the reader, with types that fit the table (see `fit_json_type`), and notes.

        The notes are about new columns: with mixed list items, or with strings that are all dates.
        CSV files have each list as the text of its JSON, which tells strings from other items.
        """
        if isinstance(reader, FolderReader):
            inner, notes = self.fit_json_reader(reader.inner, writer)
            return replace(reader, inner=inner), notes
        if not isinstance(reader, JsonReader):
            return reader, []
        types = {f.name: fit_json_type(f.type, None) for f in reader.fields}
        mixed = [f for f in reader.fields if types[f.name] != f.type]
        notes = []
        if (mixed or reader.dates) and self.config.file_type != "csv":
            existing = None if self._replaces_columns else writer.read_existing()
            table = {f.name.lower(): f for f in existing.schema} if existing else {}
            stored = {f.name: table.get(self.name_in_table(f.name).lower()) for f in reader.fields}
            inferred = {f.name for f in reader.dates}
            for f in reader.fields:
                part, dates = stored[f.name], f.name in inferred
                types[f.name] = f.type if part is None else fit_json_type(f.type, part, dates=dates)
            new = {name for name, part in stored.items() if part is None} - self.rules.drop
            if names := [f.name for f in mixed if f.name in new]:
                notes.append(
                    f"the schema gives items of lists no one type: {quote_names(names)}; strings "
                    "land as they are, other items as the text of their JSON; a column declared as "
                    "`json` keeps both apart"
                )
            as_text = [f for f in reader.dates if f not in reader.fields]
            notes += _note_dates([f for f in as_text if f.name in new])
        fields = tuple(replace(f, type=types[f.name]) for f in reader.fields)
        return replace(reader, fields=fields), notes

    @property
    def _replaces_columns(self) -> bool:
        """Whether the load is an overwrite that takes its own columns, and not the table's."""
        keeps = self.config.partition_keys or self.config.schema_evolution == "strict"
        return self.config.mode is Mode.OVERWRITE and not keeps

    def partition_keys(self, batch: Batch) -> tuple[str, ...]:
        """Return table columns to partition by: the config's keys, then the batch's own."""
        case = self.config.column_header_format
        own = self.rules.rename_keys(batch.partition_keys, "to partition by")
        names = (apply_header_case(name, case) for name in self.config.partition_keys + own)
        return tuple(dict.fromkeys(names))

    def rename_keys(self, batch: Batch) -> Batch:
        """Return the batch with its own merge keys renamed as in the table, if it merges by them.

        The config's `merge_keys` go before a batch's own ones.
        """
        if self.config.mode is not Mode.MERGE or self.config.merge_keys:
            return batch
        keys = self.rules.rename_keys(batch.key_properties, "to merge by")
        return replace(batch, key_properties=keys)


def _note_dates(columns: Sequence[Field]) -> Iterator[str]:
    """Yield a note about new columns with strings that are all dates; none for no columns."""
    paths = [path for f in columns for path, _ in list_dates(f.type, f.name)]
    if paths:
        flat = next(
            (f for f in columns if f.type.kind is not Kind.STRUCT and not f.type.item), None
        )
        option = shlex.quote(f"{flat.name}={flat.type.kind.value}") if flat else ""
        yield (
            f"text that is all ISO dates or times stays text: {quote_names(paths)}; "
            "`--infer-dates` (`infer_dates`) gives it types"
            + (f", `--column {option}` (`columns`) does for one column" if flat else "")
        )


def merge_batches(batches: Sequence[Batch]) -> Batch:
    """Return the last batch, with rows and bytes of all summed, and notes and digests joined."""
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


def group_splits(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Group splits into at most `count` contiguous groups of about equal size, none empty.

    >>> [len(group) for group in group_splits([Split("a")] * 5, 2)]
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


def skew_warnings(staged: Sequence[Staged], cores: int, min_file_bytes: int) -> tuple[str, ...]:
    """Return a warning if one task wrote far more bytes than its share; none for small batches."""
    sizes = Counter[int]()
    for one in staged:
        sizes[one.split] += one.bytes
    if cores == 1 or not sizes:
        return ()
    (task, most), total = sizes.most_common(1)[0], sizes.total()
    share = most / max(1, total)
    if total < 2 * min_file_bytes or share < max(_SKEW_FACTOR / cores, _LEAST_SKEW):
        return ()
    return (
        f"task {task} wrote {share:.0%} of the bytes while {cores} cores were there: the "
        "input's parts are of uneven size; `repartition` a frame, or write Parquet in smaller "
        "row groups.",
    )


def open_untyped(batch: Batch, columns: pa.Schema) -> pa.Schema:
    """Return a reader's columns, with open types (`schema.nested`) where the batch has no value."""
    return pa.schema([change_field_type(f, batch.untyped.get(f.name, f.type)) for f in columns])


def describe_source(batches: Sequence[Batch]) -> dict[str, str]:
    """Return column -> type in words, as the batches' readers have them; empty for frames."""
    schemas = [batch.reader.schema for batch in batches if batch.reader is not None]
    return {f.name: format_type(get_logical_type(f)) for schema in schemas for f in schema}


def describe_columns(incoming: pa.Schema, plan: TablePlan) -> dict[str, str]:
    """Return each column's type by name, such as `decimal(10,2)`, as the table has the column."""
    known = {f.name.lower(): f for f in plan.schema if f.name not in plan.untyped}
    fields = [known.get(field.name.lower(), field) for field in incoming]
    return {field.name: format_type(get_logical_type(field)) for field in fields}


def union_columns(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Merge the schemas of a commit's batches, in order; SchemaConflict if types clash."""
    merged = schemas[0]
    for schema in schemas[1:]:
        try:
            merged = plan_evolution(
                merged, schema, "evolve", Mode.APPEND, between_batches=True
            ).schema
        except TypeConflict as conflict:  # of two batches, not with a table
            raise SchemaConflict(conflict.message, conflict.hint) from None
    return merged


@dataclass(frozen=True)
class BatchPart:
    """One batch of a commit, with the objects that read, check and shape its rows.

    Attributes:
        reader: reads its splits; None where a frame is run.
        shape: makes the table's columns of its rows.
        checker: checks its rows; None where nothing is expected of them.
        frame: the Spark frame that is run in place of the reader.
        transformed: the batch as a transform made it, with what `frame` reads.
    """

    batch: Batch
    reader: Reader | None
    shape: Shape
    checker: RowChecker | None = None
    frame: DataFrame | None = None
    transformed: TransformedBatch | None = None

    def without_files(self, files: Collection[str]) -> BatchPart:
        """Return the part without splits of the `files` (URIs), and its size scaled down."""
        splits = tuple(split for split in self.batch.splits if split.uri not in files)
        size = self.batch.bytes * len(splits) // max(1, len(self.batch.splits))
        return replace(self, batch=replace(self.batch, splits=splits, bytes=size, records=-1))

    def fit_table(self, table: pa.Schema) -> BatchPart:
        """Return the part with columns read as the table's types, if their values may fit.

        Numbers and times keep their values. A text column takes the text of a CSV file as it is;
        nothing else becomes text.
        """
        known = {f.name.lower(): f.type for f in table if not is_json(f)}
        narrowed, texts, types = dict(self.shape.narrowed), set[str](), dict[str, pa.DataType]()
        for source, name in self.shape.names:
            own, wanted = self.shape.schema.field(name), known.get(name.lower(), pa.null())
            type_ = own.type
            open_ = is_json(own) or pa.types.is_null(type_) or pa.types.is_null(wanted)
            if open_ or source in self.shape.rules.types or type_ == wanted:
                continue
            if can_narrow(type_, wanted) and not can_store(type_, wanted):
                narrowed[source] = types[name] = wanted
            elif pa.types.is_string(wanted) and not pa.types.is_nested(type_):
                texts.add(source)
        reader = self.reader and _read_as_text(self.reader, texts)
        if reader:
            types |= {name: pa.string() for source, name in self.shape.names if source in texts}
        source = reader.schema if reader else self.shape.source
        schema = pa.schema([f.with_type(types.get(f.name, f.type)) for f in self.shape.schema])
        shape = replace(self.shape, source=source, schema=schema, narrowed=narrowed)
        return replace(self, reader=reader or self.reader, shape=shape)


def _read_as_text(reader: Reader, columns: Collection[str]) -> Reader | None:
    """Return a CSV reader that reads `columns` as text; None for no columns or other formats."""
    if isinstance(reader, FolderReader):
        inner = _read_as_text(reader.inner, columns)
        return inner and replace(reader, inner=inner)
    return reader.as_text(columns) if columns and isinstance(reader, CsvReader) else None


def staged_objects(results: Sequence[Staged | CheckCounts]) -> list[Staged]:
    """Return the staged objects among the results of tasks."""
    return [one for one in results if isinstance(one, Staged)]


@dataclass(frozen=True)
class TaskInput:
    """The splits of one batch that one task lands; no splits if Spark computes a frame."""

    part: BatchPart
    splits: tuple[Split, ...]

    @property
    def bytes(self) -> int:
        """About how many bytes the task reads; -1 where that is unknown."""
        batch = self.part.batch
        return max(-1, batch.bytes * len(self.splits) // max(1, len(batch.splits)))
