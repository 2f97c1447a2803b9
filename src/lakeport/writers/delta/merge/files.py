"""The data files of a Delta table: their rows, their values' bounds, and how they are written anew.

Runs without Spark; `TableFiles` is pickled into tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lakeport.delta_log.actions import DataFile, Statistics, parse_path, parse_value
from lakeport.delta_log.reader import DeltaLog
from lakeport.delta_log.state import file_schema, physical_names
from lakeport.errors import SchemaConflict
from lakeport.model import Staged, Storage
from lakeport.schema.casting import InexactError
from lakeport.schema.hints import format_alter_command
from lakeport.schema.nested import UnexpectedValue, restore_untyped
from lakeport.schema.rebase import HybridCalendar
from lakeport.shape import fit_column
from lakeport.writers.delta.sink import DeltaSink, relabel
from lakeport.writers.delta.untyped import name_unreadable_file

if TYPE_CHECKING:
    from lakeport.engine.base import Engine

Bounds = tuple[pa.Scalar, pa.Scalar]
"""The least and the greatest value of a column in a file."""

NO_VALUES = "no values"
"""Stands for the bounds of a column that a file has only nulls of."""

_ROWS = 1 << 17
_TASKS_PER_CORE = 4
_AHEAD_BYTES = 16 << 20  # uncompressed
_EPSILON = timedelta(milliseconds=1)


@dataclass(frozen=True)
class TableFiles:
    """How a table's rows are read from its files.

    Attributes:
        log: the table's.
        schema: the table's columns, partition columns included.
        files: the same columns under the names that they have in the files.
        partitions: physical names of the partition columns.
        untyped: physical names of columns with places that never had a value -> their types with
            those of `lakeport.schema.nested` there.
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
        """Name the columns as files do; see `state.file_schema` for the arguments."""
        physical = physical_names(schema_json, partitions).values()
        files = file_schema(schema_json, columns)
        return cls(log, columns, files, frozenset(physical), untyped)

    def columns(self, file: DataFile, names: Sequence[str]) -> pa.Table:
        """Some columns of a file, of the table's types; those that it lacks are null.

        Raises:
            DestinationError: the file can't be read.
        """
        places = [self.schema.get_field_index(name) for name in names]
        batches = list(self._read(file, places, _ROWS * 8))
        return pa.Table.from_batches(batches, pa.schema([self.schema.field(i) for i in places]))

    def batches(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """All rows of a file, in order.

        Raises:
            DestinationError: the file can't be read.
            SchemaConflict: another program has written a value into a column that never had one.
        """
        return self._read(file, range(len(self.schema)), _ROWS)

    def _key(self, file: DataFile) -> str:
        return "/".join(filter(None, (self.log.folder, parse_path(file.path))))

    def _read(self, file: DataFile, places: Sequence[int], rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        wanted = [self.files.field(place) for place in places]
        schema = pa.schema([self.schema.field(place) for place in places])
        key = self._key(file)
        storage = self.log.storage
        with storage.open(key) as source, name_unreadable_file(storage.uri(key)):
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            calendar = HybridCalendar.of_parquet(parquet.metadata)
            names = {f.name for f in wanted}
            left_out = self.untyped.keys() - names if len(names) == len(self.files) else set()
            there = [n for n in parquet.schema_arrow.names if n in names or n in left_out]
            for stored in read_in_parts(parquet, rows, there):
                batch = calendar.rebase(stored) if calendar else stored
                for name in left_out.intersection(there):
                    self._untyped_column(batch, name)  # a value in it is refused
                arrays = [self._column(batch, field, file) for field in wanted]
                named = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(wanted))
                yield relabel(named, schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, file: DataFile) -> pa.Array:
        if field.name in self.partitions:
            value = parse_value(file.partition.get(field.name), field.type)
            return pa.repeat(pa.scalar(value, field.type), len(batch))
        known = (
            self._untyped_column(batch, field.name) if field.name in batch.schema.names else None
        )
        return fit_column(known, field, len(batch))

    def _untyped_column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of a file, of the types of `lakeport.schema.nested` where it had no value."""
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
    parquet: Any, rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of an open Parquet file, asked for by some row groups after the other.

    Arrow reads ahead all that it is asked for: few requests to a store, but all of it in memory.

    Args:
        parquet: a `pyarrow.parquet.ParquetFile`.
        rows: the most of a batch.
        columns: their names in the file; None for all.
    """
    groups: list[int] = []
    size = 0
    for group in range(parquet.metadata.num_row_groups):
        groups.append(group)
        size += parquet.metadata.row_group(group).total_byte_size
        if size >= _AHEAD_BYTES or group == parquet.metadata.num_row_groups - 1:
            yield from parquet.iter_batches(rows, row_groups=groups, columns=columns)
            groups, size = [], 0


def bounds(
    file: DataFile, statistics: Statistics, name: str, type_: pa.DataType
) -> Bounds | str | None:
    """The least and the greatest value of a column in a file.

    Args:
        file: the file.
        statistics: its statistics, with decimals.
        name: the column's physical name.
        type_: the column's type.

    Returns:
        None if nothing is known; `NO_VALUES` if the column is null in every row.
    """
    try:
        if name in file.partition:
            value = parse_value(file.partition[name], type_)
            if value is None:
                return NO_VALUES
            return pa.scalar(value, type_), pa.scalar(value, type_)
        nulls = (statistics.null_count or {}).get(name)
        if nulls is not None and nulls == statistics.num_records:
            return NO_VALUES
        low = _typed((statistics.min_values or {}).get(name), type_)
        high = _typed((statistics.max_values or {}).get(name), type_)
        if low is None or high is None:
            return None
        if isinstance(high, datetime):
            high += _EPSILON  # some writers cut what is below a millisecond off
        return pa.scalar(low, type_), pa.scalar(high, type_)
    except (ValueError, OverflowError, ArithmeticError, TypeError):
        return None


def _typed(value: Any, type_: pa.DataType) -> Any:
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
        moment = parse_value(value, type_)
        return moment if type_.tz else moment.replace(tzinfo=None)
    return None


class _WithStaged(Protocol):
    """What a task made of a file."""

    @property
    def staged(self) -> Sequence[Staged]:
        """The files that take its place."""
        ...


R = TypeVar("R", bound=_WithStaged)


def rewrite_files(
    engine: Engine,
    what: str,
    kernel: Callable[[tuple[int, tuple[DataFile, ...]]], list[R]],
    files: Sequence[DataFile],
    storage: Storage,
) -> list[R]:
    """Run a kernel on a table's files, in tasks of about the same size.

    Args:
        engine: runs the tasks.
        what: the job, in words.
        kernel: takes a task's number and files.
        files: the files; none, and nothing is run.
        storage: where the kernel stages.
    """
    if not files:
        return []
    tasks = list(enumerate(balance_files(files, engine.cores * _TASKS_PER_CORE)))
    return engine.run_tasks(what, kernel, tasks, discard=partial(discard_rewritten, storage))


def discard_rewritten(storage: Storage, done: Iterable[_WithStaged]) -> None:
    """Drop what was staged in place of files."""
    for one in done:
        for staged in one.staged:
            storage.discard(staged)


def collect_rewritten(storage: Storage, done: Iterator[R]) -> list[R]:
    """Return what a task makes of its files one by one; on an error nothing of it stays staged."""
    found: list[R] = []
    try:
        for one in done:
            found.append(one)
    except BaseException:
        discard_rewritten(storage, found)
        raise
    return found


@dataclass(frozen=True)
class ConvertedFile:
    """A file with other types; `wrong` is the first value that has no equal."""

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    wrong: str = ""


@dataclass(frozen=True)
class FileConverter:
    """The kernel: reads files of the table, and writes them with other types. Pickled into tasks.

    Attributes:
        table: how they are read.
        sink: where the new files go; None to look at the values alone.
        convert: makes the batches to write of those that are read; raises `InexactError`.
    """

    table: TableFiles
    sink: DeltaSink | None
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[ConvertedFile]:
        """Convert a task's files, up to the first that can't be."""
        return collect_rewritten(self.table.log.storage, self._files(*item))

    def _files(self, number: int, files: Sequence[DataFile]) -> Iterator[ConvertedFile]:
        for file in files:
            done = self._file(file, number)
            yield done
            if done.wrong:
                return

    def _file(self, file: DataFile, number: int) -> ConvertedFile:
        rows = 0

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in self.table.batches(file):
                rows += len(batch)
                yield batch if self.convert is None else self.convert(batch)

        try:
            if self.sink is None:
                for _ in converted():
                    pass
                return ConvertedFile(rows=rows)
            sink = self.sink.in_place_of(file.path)
            return ConvertedFile(tuple(sink.write(converted(), number)), rows)
        except InexactError as error:
            return ConvertedFile(wrong=repr(error.value) if error.value != "" else "an empty text")


def convert_files(
    kernel: FileConverter, files: Sequence[DataFile], engine: Engine | None
) -> list[ConvertedFile]:
    """Run the kernel on data files; without an engine, in this thread."""
    if not files:
        return []
    if engine is None:
        return kernel((0, tuple(files)))

    what = f"rewrite files of {kernel.table.log.uri}"
    return rewrite_files(engine, what, kernel, files, kernel.table.log.storage)


def balance_files(files: Sequence[DataFile], count: int) -> list[tuple[DataFile, ...]]:
    """Groups of about the same size, at most `count` and none empty.

    >>> files = [DataFile(name, size) for name, size in zip("abc", (1, 9, 8))]
    >>> [[file.path for file in group] for group in balance_files(files, 2)]
    [['b'], ['c', 'a']]
    """
    groups: list[list[DataFile]] = [[] for _ in range(min(count, len(files)))]
    sizes = [0] * len(groups)
    for file in sorted(files, key=lambda item: -item.bytes):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        sizes[least] += file.bytes + 1
    return [tuple(group) for group in groups]
