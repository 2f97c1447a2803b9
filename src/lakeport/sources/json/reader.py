"""Newline-delimited JSON -> record batches of exactly the declared types.

The native kernel reads lines that are exactly as declared. All others are parsed record by record,
and every line where the kernel can't be loaded. Which way a record went makes no difference to its
values.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords, SourceError, UnknownFields
from lakeport.host.activity import advance
from lakeport.model import Scan, Split, UnknownPolicy
from lakeport.native import kernel
from lakeport.native.arrays import array_of
from lakeport.schema.types import Field, count_leaves, merge_kinds
from lakeport.sources.input import lines
from lakeport.sources.json.record import (
    Fault,
    JsonColumn,
    RecordParser,
    batch_of,
    batch_of_rows,
    columns_of,
    schema_of,
    spec_of,
)
from lakeport.sources.singer.metadata import MESSAGE_KEYS, ReceiveTimes, RecordMetadata
from lakeport.sources.splits import open_range
from lakeport.sources.spool import read_sidecar

if TYPE_CHECKING:
    from lakeport.native._kernel import Parser

BLOCK = 4 << 20
_BOM = b"\xef\xbb\xbf"

_MOST = 64

Unknown = dict[str, tuple[str, int]]
"""Undeclared field -> kind of its values, number of records that have it."""

_BLANK = b" \t\r"
_CELLS = 16 << 20

OnBad = Callable[[BadRecord], None]
OnUnknown = Callable[[Unknown, int], None]

_ONE_A_LINE = (
    "JSON lines hold one object on each line. A file with objects over several lines, or with "
    "several on one, is read if it is called `.json`, or with `--source-format json`."
)


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """Whole lines.

    Attributes:
        data: the lines, the newline of the last one left out.
        first: ordinal of the first of them within the split, from 0.
        is_cut: they are the first 4096 bytes of a line that is longer than the limit, and was not
            held in memory.
    """

    data: bytes
    first: int
    is_cut: bool = False


def read_blocks(split: Split, limit: int) -> Iterator[JsonBlock]:
    """Read a range of a file that begins and ends between two lines.

    Args:
        split: what to read; `start` must be the start of a line.
        limit: bytes that a line may have.

    Raises:
        SourceError: the file can't be read, or is shorter than the split says.
    """
    first = 0
    with open_range(split) as file:
        for found in lines.read_blocks(cast(BinaryIO, _Range(file, split)), limit, BLOCK):
            if found.too_long is not None:
                yield JsonBlock(found.too_long, first, is_cut=True)
                first += 1
                continue
            with memoryview(found.data) as whole:
                data = bytes(whole[: found.end - 1])
            yield JsonBlock(_unmarked(data), first)
            first += data.count(b"\n") + 1


class _Range:
    """The bytes of a split, from where its file stands."""

    def __init__(self, file: BinaryIO, split: Split) -> None:
        self._fill = lines.get_fill_function(file)
        self._uri = split.uri
        self._left = split.end - split.start if split.end >= 0 else -1

    def readinto(self, view: memoryview) -> int:
        count = self._fill(view if self._left < 0 else view[: self._left]) or 0
        advance(count)
        if self._left > 0 and not count:
            raise SourceError(
                f"file {self._uri!r} ends {self._left} bytes before it should",
                "leave the file as it is during the load, then load again.",
            )
        self._left -= count if self._left > 0 else 0
        return count


def _unmarked(data: bytes) -> bytes:
    """Lines without the byte order marks before them, which files have that were joined."""
    data = data.removeprefix(_BOM)
    return data.replace(b"\n" + _BOM, b"\n") if b"\xef" in data else data


def cut_lines(data: bytes, start: int, most: int) -> tuple[list[bytes], int]:
    """Some lines from `start` on, and where the next one begins."""
    found: list[bytes] = []
    while len(found) < most and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        found.append(data[start:end])
        start = end + 1
    return found, start


class LineNumbers:
    """Ordinals of lines within a split -> line numbers of the input."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._runs: list[tuple[int, int]] | None = None

    def __getitem__(self, ordinal: int) -> int:
        """Tell a line's number, from 1; 0 where lines mean nothing.

        Raises:
            SourceError: the sidecar with the numbers can't be read.
        """
        if not self._split.lines:
            return self._split.first_line + ordinal if self._split.first_line else 0
        if self._runs is None:
            self._runs = read_sidecar(self._split, self._split.lines)
        first, line = self._runs[bisect.bisect_right(self._runs, (ordinal, 2**64)) - 1]
        return line + ordinal - first


class SplitReader:
    """Reads one split once.

    Args:
        reader: how its records are written, and what they are read as.
        split: the split.
        on_bad: takes every bad record; may raise.
        on_unknown: takes the undeclared fields of good records, and the line number where that is
            known (0 else); may raise.
        survey: whether undeclared fields are expected, so that finding them must be fast.
    """

    def __init__(
        self,
        reader: JsonReader,
        split: Split,
        on_bad: OnBad,
        on_unknown: OnUnknown,
        *,
        survey: bool = False,
    ) -> None:
        self._reader, self._split = reader, split
        self._on_bad, self._on_unknown = on_bad, on_unknown
        self._numbers = LineNumbers(split)
        self._schema = reader.schema
        self._native = _native_parser(reader, survey)
        self._parser = RecordParser(reader)
        if reader.metadata is not None:
            self._received = ReceiveTimes(split, reader.metadata.batched)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the good records, one batch for each block that has any."""
        limit = self._reader.max_record_mb
        most = max(1, _CELLS // max(1, count_leaves(self._schema)))
        for block in _by_lines(read_blocks(self._split, limit << 20), most):
            if block.is_cut:
                fault = Fault("", f"longer than the limit of {limit} MB")
                self._bad(block.first, fault, block.data)
                continue
            parts = [part for part in self._convert(block) if len(part)]
            if parts:
                yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _convert(self, block: JsonBlock) -> Iterator[pa.RecordBatch]:
        first = block.first
        if self._native is None:
            yield from self._line_by_line(block.data.split(b"\n"), first)
            return
        at, few = 0, 1
        while True:
            rows, lines, columns, stop, told = self._native.parse(block.data, at)
            if lines:
                if told:
                    self._on_unknown({name: (kind, count) for name, kind, count in told}, 0)
                pairs = zip(self._schema.types, columns, strict=True)
                batch = batch_of([array_of(t, parts) for t, parts in pairs], rows, self._schema)
                yield self._stamped(batch, range(first, first + rows))
                first += lines
            if stop is None:
                return
            few = 1 if lines else min(2 * few, _MOST)  # a stop costs as much as some lines here
            left, at = cut_lines(block.data, stop[0], few)
            yield from self._line_by_line(left, first)
            first += len(left)

    def _line_by_line(self, lines: Sequence[bytes], first: int) -> Iterator[pa.RecordBatch]:
        rows: list[list[Any]] = []
        good: list[int] = []
        for ordinal, line in enumerate(lines, first):
            text = line.strip(_BLANK)
            if not text:
                continue
            try:
                row = self._parser.record(text)
            except Fault as fault:
                self._bad(ordinal, fault, line.removesuffix(b"\r"))
                continue
            if self._parser.unknown:
                found = {name: (kind, 1) for name, kind in self._parser.unknown.items()}
                self._on_unknown(found, self._numbers[ordinal])
            rows.append(row)
            good.append(ordinal)
        if rows:
            yield self._stamped(batch_of_rows(rows, self._schema), good)

    def _stamped(self, batch: pa.RecordBatch, ordinals: Sequence[int]) -> pa.RecordBatch:
        metadata = self._reader.metadata
        return batch if metadata is None else metadata.fill(batch, self._received.look_up(ordinals))

    def _bad(self, ordinal: int, fault: Fault, raw: bytes) -> None:
        line, name = self._numbers[ordinal], self._reader.stream
        self._on_bad(BadRecord(name, line, fault.column, fault.reason, raw, self._split.file))


def _native_parser(reader: JsonReader, survey: bool) -> Parser | None:
    """Return the kernel's parser of a reader's lines, which stops at what it can't read.

    None where the kernel can't be loaded.

    Args:
        reader: how records are written, and what they are read as.
        survey: whether to tell undeclared fields instead of stopping at them.
    """
    native = kernel()
    if native is None:
        return None
    drop = reader.unknown is UnknownPolicy.DROP
    unknown: Literal["refuse", "drop", "tell"] = "drop" if drop else "refuse"
    keys = MESSAGE_KEYS if reader.envelope and reader.metadata else {}
    columns = reader.columns
    return native.parser(
        [(c.name, "mixed", None) if c.mixed else spec_of(c.name, c.type) for c in columns],
        [i for i, c in enumerate(columns) if c.required],
        reader.envelope,
        [(keys[c.name], i) for i, c in enumerate(columns) if c.name in keys],
        "tell" if survey else unknown,
        drop,
    )


def _by_lines(blocks: Iterable[JsonBlock], most: int) -> Iterator[JsonBlock]:
    """Cut blocks to some of no more lines: each record takes room for every column."""
    for block in blocks:
        if block.is_cut or block.data.count(b"\n") < most:
            yield block
            continue
        lines = block.data.split(b"\n")
        for start in range(0, len(lines), most):
            yield JsonBlock(b"\n".join(lines[start : start + most]), block.first + start)


def merge_unknown(into: Unknown, more: Unknown) -> None:
    """Add what was found undeclared in some records to what was found before."""
    for name, (kind, count) in more.items():
        known, before = into.get(name, ("null", 0))
        into[name] = merge_kinds(known, kind), before + count


_columns_of = lru_cache(maxsize=64)(columns_of)


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Source kernel for files of one JSON record per line; a `lakeport.model.Reader`.

    Splits begin and end between two lines, and may leave the last newline out. Blank lines are
    passed over.

    Attributes:
        stream: the stream's name.
        fields: the declared columns.
        envelope: whether lines are Singer RECORD messages of this stream.
        unknown: what to do with undeclared fields. Undeclared members of declared objects can't
            become columns: they are dropped with `drop`. Otherwise they make the record bad, unless
            the object has a member for them (`FieldType.rest`).
        skip_bad: whether `read` leaves bad records out.
        key_properties: columns without which a record is bad.
        extra: undeclared fields that are columns, with their table types.
        max_record_mb: MiB that a line may have.
        metadata: what the target knows about the records, for `fields` with the metadata's
            columns (see `sources.singer.metadata`).

    Raises:
        InputError: column names are empty or differ only in case.
    """

    stream: str
    fields: tuple[Field, ...]
    envelope: bool
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE
    skip_bad: bool = False
    key_properties: tuple[str, ...] = ()
    extra: tuple[tuple[str, pa.DataType], ...] = ()
    max_record_mb: int = 100
    metadata: RecordMetadata | None = None

    def __post_init__(self) -> None:
        """Check the columns' names.

        Raises:
            InputError: one is empty, or two differ only in case.
        """
        _ = self.columns

    @property
    def columns(self) -> tuple[JsonColumn, ...]:
        """The columns that records are read as."""
        return _columns_of(self.stream, self.fields, self.extra, self.key_properties, self.unknown)

    @property
    def schema(self) -> pa.Schema:
        """The columns that `read` yields, in order: the declared ones, then `extra`."""
        return schema_of(self.columns)

    def tolerant(self) -> JsonReader:
        """The same reader with `skip_bad`."""
        return replace(self, skip_bad=True)

    def extended(self, unknown: Mapping[str, pa.DataType]) -> JsonReader:
        """The same reader with these undeclared fields as columns behind the others.

        Raises:
            InputError: a name is empty, or differs from another column's only in case.
        """
        return replace(self, extra=(*self.extra, *unknown.items()))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read a split, about 4 MB of its lines at a time.

        Raises:
            BadRecords: a record breaks the schema (unless `skip_bad`).
            UnknownFields: a record holds an undeclared field (unless they are dropped).
            SourceError: the file can't be read.
        """
        on_bad = self._skip if self.skip_bad else self._fail
        yield from SplitReader(self, split, on_bad, self._surprise)

    def scan(self, split: Split) -> Scan:
        """Check every record of a split without raising for bad records or unknown fields.

        With policy `drop`, `unknown` also has the dotted paths of undeclared members of objects.

        Raises:
            SourceError: the file can't be read.
        """
        bad: list[BadRecord] = []
        unknown: Unknown = {}
        batches = SplitReader(
            self, split, bad.append, lambda found, _: merge_unknown(unknown, found), survey=True
        )
        rows = sum(batch.num_rows for batch in batches)
        return Scan(
            rows=rows,
            bad=tuple(bad),
            unknown={name: kind for name, (kind, _) in unknown.items()},
            unknown_values={name: count for name, (_, count) in unknown.items()},
        )

    def _skip(self, bad: BadRecord) -> None:
        """The scan has counted it."""

    def _fail(self, bad: BadRecord) -> None:
        torn = not self.envelope and bad.reason in {"cut off", "not JSON"}
        raise BadRecords((bad,), hint=_ONE_A_LINE if torn else "")

    def _surprise(self, found: Unknown, line: int) -> None:
        if self.unknown is UnknownPolicy.DROP:
            return
        name = next(iter(found))
        where = f" (line {line})" if line else ""
        raise UnknownFields(
            f"stream {self.stream!r} holds the field {name!r}, which its schema does not "
            f"declare{where}",
            f"the policy is `unknown_fields: {self.unknown.value}`: declare the field in the "
            "stream's schema, or choose `evolve` to add it as a column or `drop` to leave it out.",
        )
