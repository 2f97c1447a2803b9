"""Open the files of splits, digest what is read of them, and share code of typed readers."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, cast

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Scan, Split
from lakeport.schema.casting import cast_batch, explain_failed_cast, normalise_schema
from lakeport.schema.nested import iterate_leaves
from lakeport.schema.text import cast_to_declared
from lakeport.schema.types import get_logical_type

if TYPE_CHECKING:
    from lakeport.sources.files.source_file import SourceFile

_MODULUS = 1 << 256

_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


class ContentDigest:
    """SHA-256 of the bytes read from one split, in order or in parts; threads may add parts."""

    def __init__(self) -> None:
        self._ordered = hashlib.sha256()
        self._parts = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Add the next bytes of an in-order read."""
        self._ordered.update(data)
        self._bytes += len(data)

    def add_part(self, offset: int, data: bytes) -> None:
        """Add bytes read at an offset, in any order of calls and from any thread."""
        part = hashlib.sha256(offset.to_bytes(8, "big"))
        part.update(data)
        with self._lock:  # several threads come in any order: a sum does not depend on it
            self._parts = (self._parts + int.from_bytes(part.digest(), "big")) % _MODULUS
            self._bytes += len(data)

    def digest(self) -> str:
        """Return the SHA-256 of all bytes, in hex; empty if there were none."""
        if not self._bytes:
            return ""
        parts = self._parts.to_bytes(32, "big")
        return hashlib.sha256(self._ordered.digest() + parts).hexdigest()


_current: ContextVar[ContentDigest | None] = ContextVar("lakeport_content", default=None)


@contextmanager
def digest_reads() -> Iterator[ContentDigest]:
    """Context manager: hash the bytes that this thread reads from files of `hash_reads`."""
    content, before = ContentDigest(), _current.get()
    _current.set(content)
    try:
        yield content
    finally:
        _current.set(before)  # `reset` would insist on the context, which generators outlive


def is_digesting() -> bool:
    """Whether this thread is within `digest_reads`."""
    return _current.get() is not None


def hash_reads(file: BinaryIO, *, in_order: bool = True) -> BinaryIO:
    """Wrap a file so that `digest_reads` hashes its bytes; outside of it, return the file itself.

    Args:
        in_order: it is read from one place on; otherwise in any order, by one thread at a time.
    """
    content = _current.get()
    return file if content is None else cast(BinaryIO, _DigestedFile(file, content, in_order))


class _DigestedFile(io.RawIOBase):
    """A file whose bytes go into a digest as they are read."""

    def __init__(self, file: BinaryIO, content: ContentDigest, in_order: bool) -> None:
        self._file, self._content, self._in_order = file, content, in_order

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes (-1: all) and add them to the digest."""
        offset = 0 if self._in_order else self._file.tell()
        data = self._file.read(size)
        if self._in_order:
            self._content.add(data)
        else:
            self._content.add_part(offset, data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer and add the bytes to the digest; return their number, 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()


def open_split(split: Split, *, in_order: bool = True) -> BinaryIO:
    """Open a split's file, seekable and at offset 0; within `digest_reads`, reads are hashed.

    Args:
        in_order: it will be read from one place on; otherwise in any order.

    Raises:
        OSError: a local file can't be read.
        DestinationError: the store does not give it.
    """
    if split.storage is not None:
        return hash_reads(split.storage.open(split.key), in_order=in_order)
    return hash_reads(Path(split.uri).open("rb", buffering=0), in_order=in_order)


@contextmanager
def open_range(split: Split) -> Iterator[BinaryIO]:
    """Context manager that opens a split's file at the split's start; SourceError if unreadable."""
    try:
        with open_split(split) as source:
            source.seek(split.start)
            yield source
    except OSError as error:
        raise SourceError(
            f"file {split.uri!r} can't be read: {error.strerror or error}",
            "check that it is there, that this user may read it, and that nothing changes it "
            "during the load.",
        ) from error


@dataclass(frozen=True, slots=True)
class DeclaredReader:
    """Base of readers for inputs with typed columns, such as Parquet, where no record is bad."""

    schema: pa.Schema

    def skip_bad_records(self) -> Self:
        """Return this reader: it has no bad records to skip."""
        return self

    def add_columns(self, unknown: Mapping[str, pa.DataType]) -> Self:
        """Return the same reader with undeclared columns added behind the others."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))


@dataclass(frozen=True, slots=True)
class InMemoryReader(DeclaredReader):
    """Reader that yields the same in-memory rows for every split."""

    rows: pa.Table

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches, whichever the split."""
        yield from self.rows.to_batches()

    def scan(self, split: Split) -> Scan:
        """Return the number of rows, whichever the split."""
        return Scan(self.rows.num_rows)


class Footer(NamedTuple):
    """Schema, part sizes and row count of one file, as its metadata say. Picklable.

    Attributes:
        schema: its columns, with the types that they have in the file.
        part_bytes: about the size of each part that can be read by itself, such as a row group.
        rows: the number of rows; -1 if the metadata do not say.
        notes: see `Batch`.
    """

    file: SourceFile
    schema: pa.Schema
    part_bytes: tuple[int, ...]
    rows: int = -1
    notes: tuple[str, ...] = ()


@contextmanager
def explain_read_errors(uri: str, format_: str) -> Iterator[None]:
    """Context manager: turn a format library's errors into SourceError naming file and format."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SourceError(
            f"file {uri!r} can't be read as {format_}: {reason}",
            f"check that the file is there, whole, and {format_} indeed.",
        ) from error


@contextmanager
def name_file_in_errors(uri: str) -> Iterator[None]:
    """Context manager: put the file's name before the message of a SourceError."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"file {uri!r}: {error.message}", error.hint) from error


def align_batch(
    batch: pa.RecordBatch, schema: pa.Schema, mixed: Collection[str] = ()
) -> pa.RecordBatch:
    """Cast a file's batch to the schema's columns, types and order; missing columns become null.

    Args:
        mixed: columns with a declared type that have other types in other files.

    Raises:
        SourceError: a cast would change a value, or a value is invalid for its own type.
        InputError: a value can't be cast to the declared type.
    """
    _check_values(batch)
    arrays: list[pa.Array] = []
    fields: list[pa.Field] = []
    for column in schema:
        position = batch.schema.get_field_index(column.name)
        found = position >= 0
        arrays.append(batch.column(position) if found else pa.nulls(batch.num_rows, column.type))
        fields.append(batch.schema.field(position) if found else column)
    stored = pa.schema(fields)
    own = normalise_schema(stored) if mixed else stored
    target = [own.field(f.name) if f.name in mixed else f for f in schema]
    rows = cast_batch(pa.RecordBatch.from_arrays(arrays, schema=stored), pa.schema(target))
    for name in mixed:
        place = schema.get_field_index(name)
        column, type_ = rows.column(place), get_logical_type(schema.field(place))
        with explain_failed_cast(name, column.type, type_):
            column = cast_to_declared(column, own.field(name), type_)
        rows = rows.set_column(place, schema.field(place), column)
    return rows


def _check_values(batch: pa.RecordBatch) -> None:
    """Raise SourceError for text that is not UTF-8, or decimals beyond their type's precision.

    Readers of the table rely on both, and Arrow takes values from the file without a check.
    """
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        for path, leaf in iterate_leaves(array, name):
            is_text = leaf.type in _TEXTS
            if not is_text and not pa.types.is_decimal(leaf.type):
                continue
            try:
                leaf.validate(full=True)
            except pa.ArrowInvalid:
                if is_text:
                    raise SourceError(
                        f"column {path!r} holds text that is not UTF-8",
                        "write it as UTF-8, or as a column of bytes.",
                    ) from None
                raise SourceError(
                    f"column {path!r} holds decimals of more digits than its type has",
                    "write it with a wider type.",
                ) from None
