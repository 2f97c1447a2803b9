"""Sink of Delta tables: stage the batches of one task as Parquet files of one partition each.

Rows of many partitions come mixed. They are buffered until a partition has the rows of a row group,
or all partitions together exceed the memory budget; then the largest is written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.delta_log.actions import format_partition_value, partition_folder
from lakeport.model import Staged, Storage
from lakeport.writers.delta.stats import INDEXED_COLUMNS, find_nan_leaves, list_leaves, make_stats
from lakeport.writers.parquet import EncodedParquet
from lakeport.writers.timing import measure_upload, pause_stage, share_stage

EMPTY_VALUES = "empty_partition_values"
"""Key of `Staged.token`: rows whose empty partition value became null."""

_CLOSED_AT_ONCE = 8
_EXTENSIONS = {"none": "", "uncompressed": "", "gzip": ".gz"}
_Values = tuple[Any, ...]
_Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class DeltaSink:
    """Stages the batches of one task as data files. Picklable.

    Attributes:
        folder: the table's key; empty when it is the storage's root.
        files: schema of the data files (see `state.file_schema`).
        partitions: partition column -> its physical name, in the table's order.
        compression: Parquet codec.
        target_file_bytes: size at which a file is closed.
        row_group_rows: rows of a row group.
        memory_bytes: limit of the buffered rows.
        open_files: limit of files open at once.
        indexed_columns: number of leaf columns that get statistics; -1 for all.
        job: seed of the files' names, the same for each attempt of a task, and of no other job.
    """

    storage: Storage
    folder: str
    files: pa.Schema
    partitions: Mapping[str, str] = field(default_factory=dict)
    compression: str = "snappy"
    target_file_bytes: int = 256 << 20
    row_group_rows: int = 1 << 17
    memory_bytes: int = 128 << 20
    open_files: int = 32
    indexed_columns: int = INDEXED_COLUMNS
    job: uuid.UUID = field(default_factory=uuid.uuid4)

    def for_rewrite(self, path: str) -> DeltaSink:
        """Return the sink for the files that replace a data file, with names of their own."""
        return replace(self, job=uuid.uuid5(self.job, path))

    def write(self, batches: Iterator[pa.RecordBatch], split: int) -> list[Staged]:
        """Stage the rows of task `split`; return the files. On an error, discard all of them."""
        pool = _PartitionPool(self, split)
        try:
            for batch in (
                _join_small(batches, self.memory_bytes // 4) if self.partitions else batches
            ):
                for values, rows in split_by_partition(batch, tuple(self.partitions)):
                    pool.add(values, rows)
            return pool.finish()
        except BaseException:
            pool.abort()
            raise


def _join_small(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Join small batches to batches of at most `max_bytes`; larger ones stay as they are.

    A single row of a partition takes about a kilobyte per column, nearly all of it Arrow's
    overhead. Where partitions are many, only larger batches give parts of several rows.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if held and size + batch.nbytes > max_bytes:
            yield _concat(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _concat(held)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the batches as one; a single batch stays as it is, as Arrow would copy it."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def split_by_partition(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[_Values, pa.RecordBatch]]:
    """Split a batch: yield each partition's values and its rows without these columns.

    Rows of a partition stay in their order; an empty batch yields nothing.

    >>> batch = pa.record_batch({"c": ["x", "y", "x"], "n": [1, 2, 3]})
    >>> [(v, r.column("n").to_pylist()) for v, r in split_by_partition(batch, ["c"])]
    [(('x',), [1, 3]), (('y',), [2])]
    """
    if not len(batch):
        return
    if not columns:
        yield (), batch
        return
    codes = np.zeros(len(batch), dtype=np.int64)  # one number a row, the same for the same values
    for number, name in enumerate(columns):
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        if number:  # without gaps, so that the product stays below the square of the rows
            codes = np.unique(codes, return_inverse=True)[1]
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    rows = batch.drop_columns(list(columns))
    order = np.argsort(codes, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        values = tuple(batch.column(name)[part[0]].as_py() for name in columns)
        yield values, rows if len(part) == len(batch) else rows.take(pa.array(part))


def relabel(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with other names, nested ones too, without copying values."""
    return pa.record_batch(_RelabelledBatch(batch, schema))


@dataclass(frozen=True)
class _RelabelledBatch:
    """Exports a batch through Arrow's C interface under another schema."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__()[1]


class _Part:
    """Buffered rows of one partition, and its open file."""

    def __init__(self, texts: _Texts, sink: DeltaSink, split: int) -> None:
        self.rows = self.bytes = self.empty = self._files = 0
        self.file: _PartitionFile | None = None
        self._held: list[pa.RecordBatch] = []
        self._sink = sink
        self._split = split
        self._partition = dict(zip(sink.partitions.values(), texts, strict=True))
        self._texts = json.dumps(texts)
        self._folder = partition_folder(dict(zip(sink.partitions, texts, strict=True)))

    def buffer(self, rows: pa.RecordBatch, *, emptied: bool) -> None:
        """Buffer rows; if `emptied`, count them as rows whose partition value becomes null."""
        self._held.append(rows)
        self.rows += len(rows)
        self.bytes += rows.nbytes
        self.empty += len(rows) if emptied else 0

    def flush(self) -> list[Staged]:
        """Write the buffered rows as a row group; if the file is full then, stage and return it."""
        if self._held:
            if self.file is None:
                self.file = _PartitionFile(self._sink, self._next_key(), self._split)
            self.file.write_group(self._held)
            self._held, self.rows, self.bytes = [], 0, 0
            if self.file.bytes_written >= self._sink.target_file_bytes:
                return self.close()
        return []

    def close(self) -> list[Staged]:
        """Stage the open file and return it in a list, which is empty without an open file."""
        if self.file is None:
            return []
        file, empty = self.file, self.empty
        staged = file.stage(self._partition, empty)
        self.file, self.empty = None, 0
        return [staged]

    def _next_key(self) -> str:
        """Return a new key for the partition's next file, the same in each attempt of the task."""
        codec = self._sink.compression
        self._files += 1
        # From the values: the folders of two may be one on a disk that ignores case.
        unique = uuid.uuid5(self._sink.job, f"{self._split}/{self._texts}/{self._files}")
        name = f"part-{self._split:05d}-{unique}.c000{_EXTENSIONS.get(codec, f'.{codec}')}.parquet"
        return "/".join(part for part in (self._sink.folder, self._folder, name) if part)


class _PartitionPool:
    """Buffers and open files of one task's partitions, within limits of memory and files."""

    def __init__(self, sink: DeltaSink, split: int) -> None:
        self._sink = sink
        self._split = split
        self._parts: dict[_Texts, _Part] = {}
        self._bytes = 0
        self._staged: list[Staged] = []

    def add(self, values: _Values, rows: pa.RecordBatch) -> None:
        """Buffer rows of a partition; flush it if large, and the largest if memory is exceeded."""
        texts = tuple(format_partition_value(value) for value in values)
        part = self._parts.get(texts)
        if part is None:
            part = self._parts[texts] = _Part(texts, self._sink, self._split)
        before = part.bytes
        part.buffer(rows, emptied="" in values)
        self._bytes += part.bytes - before
        full = part.rows >= self._sink.row_group_rows
        if full or part.bytes >= self._sink.memory_bytes // 2:
            self._flush(part)
        while self._bytes > self._sink.memory_bytes:
            self._flush(max(self._parts.values(), key=lambda item: item.bytes))

    def finish(self) -> list[Staged]:
        """Flush and close every partition, up to 8 at once; return all staged files."""
        before, left = list(self._staged), list(self._parts.values())
        if len(left) < 2:
            return before + [file for part in left for file in self._close(part)]
        executor = ThreadPoolExecutor(min(len(left), _CLOSED_AT_ONCE), "lakeport-close")
        close = share_stage(self._close)
        try:
            with pause_stage():
                closed = list(executor.map(close, left))
        finally:
            executor.shutdown(cancel_futures=True)
        return before + [file for files in closed for file in files]

    def _close(self, part: _Part) -> list[Staged]:
        """Flush and close a partition; return its files."""
        filled = part.flush()
        self._staged.extend(filled)
        rest = part.close()
        self._staged.extend(rest)
        return filled + rest

    def abort(self) -> None:
        """Abort the uploads of open files, and discard staged ones."""
        for part in self._parts.values():
            if part.file is not None:
                part.file.abort()
        for staged in self._staged:
            self._sink.storage.discard(staged)

    def _flush(self, part: _Part) -> None:
        """Flush a partition, and close the largest file if too many are open."""
        self._bytes -= part.bytes
        self._staged += part.flush()
        opened = [item for item in self._parts.values() if item.file is not None]
        if len(opened) > self._sink.open_files:
            largest = max(opened, key=lambda item: item.file.bytes_written if item.file else 0)
            self._bytes -= largest.bytes
            self._staged += largest.flush()
            self._staged += largest.close()


class _PartitionFile(EncodedParquet):
    """A Parquet data file of one partition."""

    def __init__(self, sink: DeltaSink, key: str, split: int) -> None:
        out = measure_upload(sink.storage.stage(key, "application/vnd.apache.parquet"))
        super().__init__(out, sink.files, sink.compression, store_schema=False)
        self._sink = sink
        self._key = key
        self._split = split
        self._leaves = list_leaves(sink.files)
        self._nans: set[int] = set()

    def write_group(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write batches as one row group; note columns with NaN for the statistics."""
        named = [relabel(batch, self._sink.files) for batch in batches]
        for batch in named:
            self._nans |= find_nan_leaves(batch, self._leaves)
        table = pa.Table.from_batches(named, schema=self._sink.files)
        self.write_groups(table, len(table))

    def stage(self, partition: Mapping[str, str | None], emptied_rows: int) -> Staged:
        """Finish the file; return it with statistics and the count of emptied values."""
        staged = self.finish(self._key, self._split)
        stats = make_stats(
            self.footer, self._sink.files, nans=self._nans, indexed=self._sink.indexed_columns
        )
        token = {**staged.token, EMPTY_VALUES: emptied_rows} if emptied_rows else staged.token
        return replace(staged, token=token, partition=dict(partition), stats=stats)
