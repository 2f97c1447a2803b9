"""Read the data files of a Delta table, find those to rewrite, and rewrite them in tasks.

Nothing here needs Spark; `TableFiles` and `FileConverter` are pickled into tasks.

What a file lacks is null to every reader, whatever the column's type is. So columns and members
without a value stay out of files, and their first type is a change of the metadata alone. Parts of
lists and maps, and objects without known members, can't be left out: files have text there, and are
rewritten once there is a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lakeport.delta_log.actions import DataFile, Statistics, parse_partition_value
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.state import file_schema, physical_names
from lakeport.errors import DestinationError, SchemaConflict, SourceError
from lakeport.model import Staged, Storage
from lakeport.schema.casting import InexactError
from lakeport.schema.hints import format_alter_command
from lakeport.schema.nested import (
    UnexpectedValue,
    find_untyped_columns,
    is_untyped,
    restore_untyped,
)
from lakeport.schema.rebase import HybridCalendar
from lakeport.schema.spark_schema import list_part_types
from lakeport.shape import fit_column
from lakeport.writers.delta.sink import DeltaSink, relabel

if TYPE_CHECKING:
    from lakeport.engine.base import Engine

Bounds = tuple[pa.Scalar, pa.Scalar]
"""The lowest and the highest value of a column in a file."""

NO_VALUES = "no values"
"""In place of `Bounds` for a column that is null in every row of a file."""

_ROWS = 1 << 17
_TASKS_PER_CORE = 4
_AHEAD_BYTES = 16 << 20  # uncompressed
_FOOTER_READERS = 16
_EPSILON = timedelta(milliseconds=1)


@dataclass(frozen=True)
class TableFiles:
    """Reader of a table's rows from its data files. Picklable.

    Attributes:
        log: the table's log.
        schema: the table's columns, partition columns included.
        files: the same columns under their names in the files.
        partitions: physical names of the partition columns.
        untyped: physical names of columns with places that never had a value -> their types, with
            those of `lakeport.schema.nested` in these places.
    """

    log: DeltaLog
    schema: pa.Schema
    files: pa.Schema
    partitions: frozenset[str]
    untyped: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        log: DeltaLog,
        schema_json: Mapping[str, Any],
        columns: pa.Schema,
        partitions: Sequence[str],
        untyped: Mapping[str, pa.DataType],
    ) -> TableFiles:
        """Return a reader of these columns; `columns` and `partitions` use the table's names.

        `untyped` is as `map_untyped_columns` returns it.
        """
        physical = physical_names(schema_json, partitions).values()
        files = file_schema(schema_json, columns)
        return cls(log, columns, files, frozenset(physical), untyped)

    def read_columns(self, file: DataFile, names: Sequence[str]) -> pa.Table:
        """Read columns of a file, cast to the table's types; null where the file lacks one."""
        places = [self.schema.get_field_index(name) for name in names]
        batches = list(self._read(file, places, _ROWS * 8))
        return pa.Table.from_batches(batches, pa.schema([self.schema.field(i) for i in places]))

    def read_batches(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file, in order; DestinationError if it can't be read.

        Raises:
            SchemaConflict: another program has written a value into a column that never had one.
        """
        return self._read(file, range(len(self.schema)), _ROWS)

    def _read(
        self, file: DataFile, indexes: Sequence[int], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file in batches of at most `batch_rows` rows."""
        import pyarrow.parquet as pq

        wanted = [self.files.field(index) for index in indexes]
        schema = pa.schema([self.schema.field(index) for index in indexes])
        key = self.log.file_key(file.path)
        storage = self.log.storage
        with storage.open(key) as source, name_unreadable_file(storage.uri(key)):
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            calendar = HybridCalendar.of_parquet(parquet.metadata)
            names = {f.name for f in wanted}
            left_out = self.untyped.keys() - names if len(names) == len(self.files) else set()
            there = [n for n in parquet.schema_arrow.names if n in names or n in left_out]
            for stored in read_in_parts(parquet, batch_rows, there):
                batch = calendar.rebase(stored) if calendar else stored
                for name in left_out.intersection(there):
                    self._read_untyped(batch, name)  # a value in it is refused
                arrays = [self._column(batch, field, file) for field in wanted]
                named = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(wanted))
                yield relabel(named, schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, file: DataFile) -> pa.Array:
        """Return one column for a batch: its partition value repeated, stored values, or nulls."""
        if field.name in self.partitions:
            value = parse_partition_value(file.partition.get(field.name), field.type)
            return pa.repeat(pa.scalar(value, field.type), len(batch))
        known = self._read_untyped(batch, field.name) if field.name in batch.schema.names else None
        return fit_column(known, field, len(batch))

    def _read_untyped(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """Return a stored column; where the table has no value yet, its text becomes null type.

        Raises:
            SchemaConflict: it has a value there.
        """
        column = batch.column(name)
        if name not in self.untyped:
            return column
        try:
            return restore_untyped(column, self.untyped[name])
        except UnexpectedValue:
            raise SchemaConflict(
                f"column {name!r} of the table had no value so far, there or in a part of it, and "
                "a file that others wrote has one as text",
                f"{format_alter_command(self.log.uri, name, 'string')} keeps it as text."
                if pa.types.is_null(self.untyped[name])
                else "have its writer land it by another name, or overwrite the table.",
            ) from None


def read_in_parts(
    parquet: Any, batch_rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file; reads ahead about 16 MB of row groups.

    Arrow reads ahead all row groups that one call names: few requests, but all in memory.

    Args:
        parquet: a `pyarrow.parquet.ParquetFile`.
        batch_rows: the largest number of rows in a batch.
        columns: names of columns in the file; None for all.
    """
    groups: list[int] = []
    size = 0
    for group in range(parquet.metadata.num_row_groups):
        groups.append(group)
        size += parquet.metadata.row_group(group).total_byte_size
        if size >= _AHEAD_BYTES or group == parquet.metadata.num_row_groups - 1:
            yield from parquet.iter_batches(batch_rows, row_groups=groups, columns=columns)
            groups, size = [], 0


def read_bounds(
    file: DataFile, statistics: Statistics, name: str, type_: pa.DataType
) -> Bounds | str | None:
    """Return a column's lowest and highest value in a file, from the log's statistics.

    None if no bound is known; `NO_VALUES` if the column is null in every row.

    Args:
        file: the data file.
        statistics: the file's statistics, with decimals.
        name: the column's physical name.
        type_: the column's type.
    """
    try:
        if name in file.partition:
            value = parse_partition_value(file.partition[name], type_)
            if value is None:
                return NO_VALUES
            return pa.scalar(value, type_), pa.scalar(value, type_)
        nulls = (statistics.null_count or {}).get(name)
        if nulls is not None and nulls == statistics.num_records:
            return NO_VALUES
        low = _parse_bound((statistics.min_values or {}).get(name), type_)
        high = _parse_bound((statistics.max_values or {}).get(name), type_)
        if low is None or high is None:
            return None
        if isinstance(high, datetime):
            high += _EPSILON  # some writers cut what is below a millisecond off
        return pa.scalar(low, type_), pa.scalar(high, type_)
    except (ValueError, OverflowError, ArithmeticError, TypeError):
        return None


def _parse_bound(value: Any, type_: pa.DataType) -> Any:
    """Parse a bound from a file's statistics; None if absent, or for a type without bounds."""
    if value is None:
        return None
    if pa.types.is_integer(type_) and isinstance(value, int):
        return value
    if pa.types.is_string(type_) and isinstance(value, str):
        return value
    if pa.types.is_decimal(type_):
        return Decimal(value)
    if pa.types.is_date(type_):
        return date.fromisoformat(value[:10])
    if pa.types.is_timestamp(type_):
        moment = parse_partition_value(value, type_)
        if isinstance(moment, datetime):  # in the years 1 to 9999
            return moment if type_.tz else moment.replace(tzinfo=None)
    return None


def map_untyped_columns(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, pa.DataType]:
    """Map physical names to types, for the columns that are or contain a null type.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: the table's columns, with the types of `lakeport.schema.nested`.
    """
    return find_untyped_columns(file_schema(schema, columns))


def find_files_to_convert(
    log: DeltaLog,
    files: Sequence[DataFile],
    before: Mapping[str, pa.DataType | None],
    after: Mapping[str, pa.DataType],
) -> list[DataFile]:
    """Return the files that store a column with another type than its new one; reads footers.

    Args:
        log: the table's log.
        files: the table's data files.
        before: physical column -> its type with those of `lakeport.schema.nested` in places
            without a value; None to find every file that has the column.
        after: physical column -> its new type. A partition column counts if it has a value.

    Raises:
        DestinationError: a file can't be read.
    """
    import pyarrow.parquet as pq

    def has_text(file: DataFile) -> bool:
        values = file.partition
        if any(values[name] is not None for name in before if name in values):
            return True
        names = [name for name in before if name not in values]
        if not names:
            return False
        key = log.file_key(file.path)
        with log.storage.open(key) as opened, name_unreadable_file(log.storage.uri(key)):
            stored = {f.name: f.type for f in pq.ParquetFile(opened).schema_arrow}
        return any(_misfits(stored[n], before[n], after[n]) for n in names if n in stored)

    with ThreadPoolExecutor(min(_FOOTER_READERS, max(1, len(files))), "lakeport-footers") as pool:
        are_text = list(pool.map(has_text, files))
    return [file for file, is_text in zip(files, are_text, strict=True) if is_text]


def _misfits(file: pa.DataType, before: pa.DataType | None, after: pa.DataType) -> bool:
    """Whether a file's type differs from `after` where `before` is null; True if that is None."""
    if before is None:
        return True
    if is_untyped(before):
        return not is_untyped(after) and not file.equals(after)
    if pa.types.is_struct(before) and pa.types.is_struct(file) and pa.types.is_struct(after):
        there, wanted = {f.name: f.type for f in file}, {f.name: f.type for f in after}
        members = [f for f in before if f.name in there and f.name in wanted]
        return any(_misfits(there[f.name], f.type, wanted[f.name]) for f in members)
    parts = zip(
        list_part_types(file), list_part_types(before), list_part_types(after), strict=False
    )
    return any(_misfits(one[2], two[2], three[2]) for one, two, three in parts)


@contextmanager
def name_unreadable_file(uri: str) -> Iterator[None]:
    """Context manager that turns read errors into a DestinationError that names the file.

    Raises:
        DestinationError: the file is damaged, or its values can't be read for sure.
    """
    try:
        yield
    except SourceError as error:
        problem = f"can't read the data file {uri}: {error.message}"
        raise DestinationError(problem, error.hint) from error
    except pa.ArrowException as error:
        raise DestinationError(
            f"can't read the data file {uri}: {error}",
            "restore the file, or the table to a version without it.",
        ) from error


class _FileResult(Protocol):
    """Result of a task for one data file, with the files staged in its place."""

    @property
    def staged(self) -> Sequence[Staged]:
        """The files staged in its place."""
        ...


R = TypeVar("R", bound=_FileResult)


def rewrite_files(
    engine: Engine,
    description: str,
    rewrite: Callable[[tuple[int, tuple[DataFile, ...]]], list[R]],
    files: Sequence[DataFile],
    storage: Storage,
) -> list[R]:
    """Rewrite data files by `rewrite`, in tasks of about the same size; return the results.

    Without files no task runs. If a task fails, the files that others staged are discarded.

    Args:
        engine: runs the tasks.
        description: of the job, for progress and errors.
        rewrite: takes (task number, files); picklable.
        files: the data files.
        storage: where `rewrite` stages files.
    """
    if not files:
        return []
    tasks = list(enumerate(balance_files(files, engine.cores * _TASKS_PER_CORE)))
    return engine.run_tasks(
        description, rewrite, tasks, discard=partial(discard_rewritten, storage)
    )


def discard_rewritten(storage: Storage, results: Iterable[_FileResult]) -> None:
    """Discard all staged files that these results name."""
    for one in results:
        for staged in one.staged:
            storage.discard(staged)


def collect_rewritten(storage: Storage, results: Iterator[R]) -> list[R]:
    """Collect a task's results in a list; on an error, discard all files staged so far."""
    collected: list[R] = []
    try:
        for one in results:
            collected.append(one)
    except BaseException:
        discard_rewritten(storage, collected)
        raise
    return collected


@dataclass(frozen=True)
class ConvertedFile:
    """Result of converting a data file: the new files, or a value that can't be converted.

    Attributes:
        staged: the files staged in its place.
        misfit: the first value without an equal of its new type, in words; empty for none.
    """

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    misfit: str = ""


@dataclass(frozen=True)
class FileConverter:
    """Reads a task's data files, and stages them again with other column types. Picklable.

    Attributes:
        sink: stages the new files; None to only check the values.
        convert: casts a batch, raising `InexactError`; None where reading has cast it.
    """

    table: TableFiles
    sink: DeltaSink | None
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[ConvertedFile]:
        """Convert a task's files, up to the first with a misfit."""
        return collect_rewritten(self.table.log.storage, self._files(*item))

    def _files(self, task_number: int, files: Sequence[DataFile]) -> Iterator[ConvertedFile]:
        """Yield the converted files, up to the first with a value that can't be converted."""
        for file in files:
            converted = self._convert_file(file, task_number)
            yield converted
            if converted.misfit:
                return

    def _convert_file(self, file: DataFile, task_number: int) -> ConvertedFile:
        """Stage a converted copy of a file; without a sink, only check its values."""
        rows = 0

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in self.table.read_batches(file):
                rows += len(batch)
                yield batch if self.convert is None else self.convert(batch)

        try:
            if self.sink is None:
                for _ in converted():
                    pass
                return ConvertedFile(rows=rows)
            sink = self.sink.for_rewrite(file.path)
            return ConvertedFile(tuple(sink.write(converted(), task_number)), rows)
        except InexactError as error:
            return ConvertedFile(misfit=repr(error.value) if error.value != "" else "an empty text")


def convert_files(
    converter: FileConverter, files: Sequence[DataFile], engine: Engine | None
) -> list[ConvertedFile]:
    """Convert data files in the engine's tasks; without an engine, in this thread."""
    if not files:
        return []
    if engine is None:
        return converter((0, tuple(files)))

    description = f"rewrite files of {converter.table.log.uri}"
    return rewrite_files(engine, description, converter, files, converter.table.log.storage)


def balance_files(files: Sequence[DataFile], max_groups: int) -> list[tuple[DataFile, ...]]:
    """Split files into at most `max_groups` groups of about the same bytes; none is empty.

    >>> files = [DataFile(name, size) for name, size in zip("abc", (1, 9, 8))]
    >>> [[file.path for file in group] for group in balance_files(files, 2)]
    [['b'], ['c', 'a']]
    """
    groups: list[list[DataFile]] = [[] for _ in range(min(max_groups, len(files)))]
    sizes = [0] * len(groups)
    for file in sorted(files, key=lambda item: -item.bytes):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        sizes[least] += file.bytes + 1
    return [tuple(group) for group in groups]
