"""Read newline-delimited JSON as record batches of exactly the declared types.

The native kernel reads lines that are exactly as declared. Python parses all others, and every line
where the kernel can't be loaded. Both ways give a record the same values.
"""

from __future__ import annotations

import bisect
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import pyarrow as pa

from lakeport.errors import BadRecord, BadRecords, SourceError, UnknownFields
from lakeport.host.activity import add_progress
from lakeport.model import Scan, Split, UnknownPolicy
from lakeport.native import kernel
from lakeport.native.arrays import array_of
from lakeport.schema.types import Field, count_leaves, merge_kinds, to_arrow_field
from lakeport.sources.input import lines
from lakeport.sources.json.record import (
    Fault,
    RecordParser,
    create_batch,
    create_batch_from_rows,
    resolve_columns,
    to_kernel_spec,
)
from lakeport.sources.singer.metadata import MESSAGE_KEYS, ReceiveTimes, RecordMetadata
from lakeport.sources.splits import open_range
from lakeport.sources.spool import read_sidecar

if TYPE_CHECKING:
    from lakeport.native._kernel import Parser

BLOCK_BYTES = 4 << 20

_MAX_LINES_IN_PYTHON = 64  # before the kernel is tried again

UnknownCounts = dict[str, tuple[str, int]]
"""Undeclared field -> kind of its values, number of records that have it."""

_BLANK = b" \t\r"
_CELLS_PER_BATCH = 16 << 20

OnBad = Callable[[BadRecord], None]
OnUnknown = Callable[[UnknownCounts, int], None]

_HINT_LINES = (
    "JSON lines hold one object on each line. A file with objects over several lines, or with "
    "several on one, is read if it is called `.json`, or with `--source-format json`."
)


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """Consecutive whole lines of a split; or the beginning of one line that is too long.

    Attributes:
        data: the lines, the newline of the last one left out.
        first_line: ordinal of the first line within the split, from 0.
        is_cut: whether `data` is the first 4096 bytes of one line that exceeds the limit, whose
            rest was not kept.
    """

    data: bytes
    first_line: int
    is_cut: bool = False


def read_json_blocks(split: Split, max_line_bytes: int) -> Iterator[JsonBlock]:
    """Yield a split's lines in blocks; of a line over `max_line_bytes`, its first 4096 bytes.

    A file that can't be read, or is shorter than the split, is a SourceError.
    """
    first = 0
    with open_range(split) as file:
        part = cast(BinaryIO, _SplitFile(file, split))
        for found in lines.read_blocks(part, max_line_bytes, BLOCK_BYTES):
            if found.too_long is not None:
                yield JsonBlock(found.too_long, first, is_cut=True)
                first += 1
                continue
            with memoryview(found.data) as whole:
                data = bytes(whole[: found.end - 1])
            yield JsonBlock(_remove_marks(data), first)
            first += data.count(b"\n") + 1


class _SplitFile:
    """Readable part of a file that ends with a split; SourceError if the file ends before."""

    def __init__(self, file: BinaryIO, split: Split) -> None:
        self._fill = lines.get_fill_function(file)
        self._uri = split.uri
        self._left = split.end - split.start if split.end >= 0 else -1

    def readinto(self, view: memoryview) -> int:
        """Read into a buffer up to the split's end; return the number of bytes, 0 at the end."""
        count = self._fill(view if self._left < 0 else view[: self._left]) or 0
        add_progress(count)
        if self._left > 0 and not count:
            raise SourceError(
                f"file {self._uri!r} ends {self._left} bytes before it should",
                "leave the file as it is during the load, then load again.",
            )
        self._left -= count if self._left > 0 else 0
        return count


def _remove_marks(data: bytes) -> bytes:
    """Return lines without byte order marks before them, as joined files have them."""
    data = data.removeprefix(BOM_UTF8)
    return data.replace(b"\n" + BOM_UTF8, b"\n") if b"\xef" in data else data


def take_lines(data: bytes, start: int, max_lines: int) -> tuple[list[bytes], int]:
    """Return up to `max_lines` lines from the offset `start` on, and the offset behind them."""
    found: list[bytes] = []
    while len(found) < max_lines and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        found.append(data[start:end])
        start = end + 1
    return found, start


class LineNumbers:
    """Maps the ordinals of lines within a split to their line numbers in the input."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._runs: list[tuple[int, int]] | None = None

    def __getitem__(self, ordinal: int) -> int:
        """Return a line's number, from 1; 0 if unknown, SourceError for an unreadable sidecar."""
        if not self._split.lines:
            return self._split.first_line + ordinal if self._split.first_line else 0
        if self._runs is None:
            self._runs = read_sidecar(self._split, self._split.lines)
        first, line = self._runs[bisect.bisect_right(self._runs, (ordinal, 2**64)) - 1]
        return line + ordinal - first


class SplitReader:
    """Iterable of the record batches of one split; may be iterated once.

    Args:
        on_bad: called with every bad record; may raise.
        on_unknown: called with the undeclared fields of good records, and the line number if that
            is known (0 else); may raise.
        expects_unknown: whether undeclared fields are expected, so that finding them must be fast.
    """

    def __init__(
        self,
        reader: JsonReader,
        split: Split,
        on_bad: OnBad,
        on_unknown: OnUnknown,
        *,
        expects_unknown: bool = False,
    ) -> None:
        self._reader, self._split = reader, split
        self._on_bad, self._on_unknown = on_bad, on_unknown
        self._numbers = LineNumbers(split)
        self._schema = reader.schema
        self._native = _create_parser(reader, expects_unknown)
        self._parser = RecordParser(
            reader.columns, reader.unknown, envelope=reader.envelope, metadata=bool(reader.metadata)
        )
        if reader.metadata is not None:
            self._received = ReceiveTimes(split, reader.metadata.batched_micros)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the good records, one batch for each block that has any."""
        limit = self._reader.max_record_mb
        most = max(1, _CELLS_PER_BATCH // max(1, count_leaves(self._schema)))
        for block in _limit_lines(read_json_blocks(self._split, limit << 20), most):
            if block.is_cut:
                fault = Fault("", f"longer than the limit of {limit} MB")
                self._report_bad(block.first_line, fault, block.data)
                continue
            parts = [part for part in self._convert(block) if len(part)]
            if parts:
                yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _convert(self, block: JsonBlock) -> Iterator[pa.RecordBatch]:
        """Yield a block's good records, parsed by the native kernel, else by Python."""
        first = block.first_line
        if self._native is None:
            yield from self._parse_lines(block.data.split(b"\n"), first)
            return
        at, few = 0, 1
        while True:
            rows, lines, columns, stop, unknown = self._native.parse(block.data, at)
            if lines:
                if unknown:
                    self._on_unknown({name: (kind, count) for name, kind, count in unknown}, 0)
                pairs = zip(self._schema.types, columns, strict=True)
                batch = create_batch([array_of(t, parts) for t, parts in pairs], rows, self._schema)
                yield self._add_metadata(batch, range(first, first + rows))
                first += lines
            if stop is None:
                return
            # A stop of the kernel costs as much as some lines in Python.
            few = 1 if lines else min(2 * few, _MAX_LINES_IN_PYTHON)
            left, at = take_lines(block.data, stop[0], few)
            yield from self._parse_lines(left, first)
            first += len(left)

    def _parse_lines(self, lines: Sequence[bytes], first_ordinal: int) -> Iterator[pa.RecordBatch]:
        """Yield one batch of the good records in lines, parsed in Python; none if all are bad.

        Blank lines are skipped. `first_ordinal` is that of the first line within the split.
        """
        rows: list[list[Any]] = []
        good: list[int] = []
        for ordinal, line in enumerate(lines, first_ordinal):
            text = line.strip(_BLANK)
            if not text:
                continue
            try:
                row = self._parser.parse(text)
            except Fault as fault:
                self._report_bad(ordinal, fault, line.removesuffix(b"\r"))
                continue
            if self._parser.unknown:
                found = {name: (kind, 1) for name, kind in self._parser.unknown.items()}
                self._on_unknown(found, self._numbers[ordinal])
            rows.append(row)
            good.append(ordinal)
        if rows:
            yield self._add_metadata(create_batch_from_rows(rows, self._schema), good)

    def _add_metadata(self, batch: pa.RecordBatch, ordinals: Sequence[int]) -> pa.RecordBatch:
        """Return a batch with its metadata columns filled by its lines' ordinals, if it has any."""
        metadata = self._reader.metadata
        return batch if metadata is None else metadata.fill(batch, self._received.look_up(ordinals))

    def _report_bad(self, ordinal: int, fault: Fault, raw: bytes) -> None:
        """Call `on_bad` with a bad record, its line number and the split's file."""
        line, name = self._numbers[ordinal], self._reader.stream
        self._on_bad(BadRecord(name, line, fault.column, fault.reason, raw, self._split.file))


def _create_parser(reader: JsonReader, expects_unknown: bool) -> Parser | None:
    """Return the native parser for a JsonReader's lines; None if the native kernel is missing.

    With `expects_unknown`, it reports undeclared fields instead of stopping at them.
    """
    native = kernel()
    if native is None:
        return None
    drop = reader.unknown is UnknownPolicy.DROP
    unknown: Literal["refuse", "drop", "tell"] = "drop" if drop else "refuse"
    keys = MESSAGE_KEYS if reader.envelope and reader.metadata else {}
    columns = reader.columns
    return native.parser(
        [to_kernel_spec(c.name, c.type) for c in columns],
        [i for i, c in enumerate(columns) if c.required],
        reader.envelope,
        [(keys[c.name], i) for i, c in enumerate(columns) if c.name in keys],
        "tell" if expects_unknown else unknown,
        drop,
    )


def _limit_lines(blocks: Iterable[JsonBlock], max_lines: int) -> Iterator[JsonBlock]:
    """Split blocks into blocks of at most `max_lines` lines, to bound the memory of a batch."""
    for block in blocks:
        if block.is_cut or block.data.count(b"\n") < max_lines:
            yield block
            continue
        lines = block.data.split(b"\n")
        for start in range(0, len(lines), max_lines):
            yield JsonBlock(b"\n".join(lines[start : start + max_lines]), block.first_line + start)


def merge_unknown(totals: UnknownCounts, more: UnknownCounts) -> None:
    """Merge undeclared fields into the dict `totals`: add their counts and merge their kinds."""
    for name, (kind, count) in more.items():
        known, before = totals.get(name, ("null", 0))
        totals[name] = merge_kinds(known, kind), before + count


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Reader of files with one JSON record per line; implements `lakeport.model.Reader`.

    Splits begin and end between two lines, and may leave the last newline out. Blank lines are
    skipped.

    Attributes:
        fields: the declared columns.
        envelope: whether lines are Singer RECORD messages of this stream.
        unknown: the policy for undeclared fields. Undeclared members of declared objects can't
            become columns: they are dropped with `drop`. Otherwise they make the record bad, unless
            the object has a member for them (`FieldType.rest`).
        skip_bad: whether `read` leaves bad records out.
        key_properties: columns without which a record is bad.
        extra: undeclared fields that are columns, with their table types.
        max_record_mb: MiB that a line may have.
        metadata: values of the metadata's columns, if `fields` has them (see
            `sources.singer.metadata`).
        dates: the inferred columns with texts that are all dates or date-times in ISO 8601, with
            these types; `fields` may have them as strings.
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
    dates: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError if a column's name is empty, or two differ only in case."""
        _ = self.columns

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of a record batch: the declared `fields`, then the undeclared `extra`."""
        return resolve_columns(
            self.stream, self.fields, self.extra, self.key_properties, self.unknown
        )

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of `read`: the declared columns, then `extra`."""
        return pa.schema([to_arrow_field(c.name, c.type) for c in self.columns])

    def skip_bad_records(self) -> JsonReader:
        """Return the same reader, which skips bad records in `read`."""
        return replace(self, skip_bad=True)

    def add_columns(self, unknown: Mapping[str, pa.DataType]) -> JsonReader:
        """Return the same reader with these fields as further columns; InputError for bad names."""
        return replace(self, extra=(*self.extra, *unknown.items()))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield a split's good records in batches; BadRecords for a bad one without `skip_bad`.

        Raises:
            UnknownFields: a record holds an undeclared field (unless they are dropped).
            SourceError: the file can't be read.
        """
        on_bad = self._ignore_bad if self.skip_bad else self._raise_bad
        yield from SplitReader(self, split, on_bad, self._raise_unknown)

    def scan(self, split: Split) -> Scan:
        """Read a split; return its bad records and undeclared fields, and count good records.

        With policy `drop`, `unknown` also has the dotted paths of undeclared members of objects.
        """
        bad: list[BadRecord] = []
        unknown: UnknownCounts = {}
        batches = SplitReader(
            self,
            split,
            bad.append,
            lambda found, _: merge_unknown(unknown, found),
            expects_unknown=True,
        )
        rows = sum(batch.num_rows for batch in batches)
        return Scan(
            rows=rows,
            bad=tuple(bad),
            unknown={name: kind for name, (kind, _) in unknown.items()},
            unknown_values={name: count for name, (_, count) in unknown.items()},
        )

    def _ignore_bad(self, bad: BadRecord) -> None:
        """Do nothing: the scan has counted the record."""

    def _raise_bad(self, bad: BadRecord) -> None:
        """Raise BadRecords, with a hint on objects over several lines if that may be the reason."""
        may_span_lines = not self.envelope and bad.reason in {"cut off", "not JSON"}
        raise BadRecords((bad,), hint=_HINT_LINES if may_span_lines else "")

    def _raise_unknown(self, found: UnknownCounts, line: int) -> None:
        """Raise UnknownFields for the first undeclared field, unless such fields are dropped."""
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
