"""Read byte ranges of UTF-8 CSV files as typed record batches.

A quote opens a quoted field only at the field's start; a quote elsewhere in an unquoted field is
an ordinary character (`5" pipe`). Newlines inside quoted fields belong to the field. Behind the
closing quote the field has ended (RFC 4180, section 2): text there, even a space, makes the record
bad.
"""

from __future__ import annotations

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import BadRecord, BadRecords, SourceError
from lakeport.host.activity import add_progress
from lakeport.model import Scan, Split
from lakeport.native import kernel
from lakeport.native.arrays import array_of
from lakeport.schema.types import TEXT_KINDS, format_type, is_number
from lakeport.sources.csv.conversion import KindBits, convert_texts
from lakeport.sources.csv.dialect import (
    PLAIN_NUMBER,
    AmountFormat,
    CsvDialect,
    Format,
    read_numbered_rows,
)
from lakeport.sources.splits import open_range

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser, Spec


MAX_RECORD_BYTES = 100 << 20
BLOCK_BYTES = 4 << 20
VALUE_OPTIONS = ("decimal", "thousands", "currency", "date_format")
"""Names of the `CsvOptions` that decide how texts become numbers and dates."""

ColumnNames = tuple[str, ...]
"""The columns of one file, in its order; a column to leave out has an empty name."""

_HINT_QUARANTINE = (
    "correct the source, or set `on_bad_record: quarantine` (`--on-bad-record quarantine`) to land "
    "the good records and set the bad ones aside."
)


class CsvBlock(NamedTuple):
    """Consecutive whole records of a CSV file, as bytes.

    Attributes:
        data: the bytes; they end at a record's end or at the end of the input.
        line: line number of the first record, from 1.
        is_in_quotes: whether the input ends inside a quoted field, which begins in `data`.
        has_stray_text: whether text stands behind a closing quote.
    """

    data: bytes
    line: int
    is_in_quotes: bool
    has_stray_text: bool = False


class JoinTraces(Flag):
    """Signs that a CSV file was concatenated from several files."""

    MARK = 1
    """A byte order mark before a record."""
    HEADER = 2
    """A record that repeats the header."""
    MARKED_HEADER = 4
    """A record that repeats the header behind a byte order mark."""


class RecordEnd(NamedTuple):
    """Where the last whole record in some bytes ends, and whether a quote is open there.

    Attributes:
        offset: one past it; 0 if no record ends.
        is_in_quotes: whether the bytes end inside quotes.
        has_stray_text: whether text stands between a closing quote and the end of its field.
        lines: how many line breaks are before `offset`.
    """

    offset: int
    is_in_quotes: bool
    has_stray_text: bool
    lines: int


def find_record_end(data: bytes, dialect: CsvDialect) -> RecordEnd:
    r"""Find the end of the last whole record in `data`, which starts at a record's start.

    >>> find_record_end(b'a,"x\ny"\nb,"z\n', CsvDialect())
    RecordEnd(offset=8, is_in_quotes=True, has_stray_text=False, lines=2)
    """
    native = kernel()
    if native is not None and dialect.is_native:
        delimiter = ord(dialect.delimiter)
        quote = ord(dialect.quote) if dialect.quote else None
        return RecordEnd(*native.csv_end(data, delimiter, quote))
    masked = _mask_literals(data, dialect)
    quoted, limit = _find_quoted_fields(masked, dialect), len(data)
    is_in_quotes = bool(quoted) and quoted[-1][1] > limit
    ends = (dialect.delimiter + "\r\n").encode()
    has_stray_text = any(stop < limit and masked[stop] not in ends for _, stop in quoted)
    offset = 0
    for start, stop in reversed(quoted):
        if stop <= limit and (offset := masked.rfind(b"\n", stop, limit) + 1):
            break
        limit = start
    offset = offset or masked.rfind(b"\n", 0, limit) + 1
    return RecordEnd(offset, is_in_quotes, has_stray_text, data.count(b"\n", 0, offset))


def _find_quoted_fields(data: bytes, dialect: CsvDialect) -> list[tuple[int, int]]:
    """Return offsets (start, end) of quoted fields; an unclosed one ends at `len(data) + 1`."""
    if not dialect.quote:
        return []
    quote, delimiter = (re.escape(mark.encode()) for mark in (dialect.quote, dialect.delimiter))
    field = rb"(?<![^\r\n%s])%s(?:[^%s]++|%s%s)*+(%s)?" % (delimiter, *[quote] * 5)
    return [
        (found.start(), found.end() if found[1] else len(data) + 1)
        for found in re.finditer(field, data)
    ]


def _mask_literals(data: bytes, dialect: CsvDialect) -> bytes:
    """Replace comments and escaped characters by as many `_`, so that offsets stay the same."""
    if dialect.comment:
        data = re.sub(_comment_pattern(dialect), lambda line: b"_" * len(line[0]), data)
    if not dialect.escape:
        return data
    return re.sub(re.escape(dialect.escape.encode()) + rb"(?s:.)", b"__", data)


def _comment_pattern(dialect: CsvDialect) -> bytes:
    return rb"(?m)^" + re.escape(dialect.comment.encode()) + rb"[^\r\n]*"


def remove_comments(data: bytes, dialect: CsvDialect) -> bytes:
    """Return data without lines that begin with the comment mark, even in quoted fields."""
    if not dialect.comment or dialect.comment.encode() not in data:
        return data
    return re.sub(_comment_pattern(dialect) + rb"(?:\r?\n|\r|\Z)", b"", data)


def split_records(
    data: bytes, dialect: CsvDialect, *, keep_blank: bool = False
) -> Iterator[tuple[bytes, int]]:
    r"""Yield each whole record without its line break, and the number of lines before it.

    Comments are left out. So are blank lines unless `keep_blank`: where records have one field,
    they are records.

    >>> list(split_records(b'a\n\n"b\nc"\nd', CsvDialect()))
    [(b'a', 0), (b'"b\nc"', 2), (b'd', 4)]
    """
    masked = _mask_literals(data, dialect)
    quoted = _find_quoted_fields(masked, dialect)
    start = lines = index = 0
    for match in re.finditer(rb"\r\n|\n|\r|\Z", masked):
        while index < len(quoted) and quoted[index][1] <= match.start():
            index += 1
        if index < len(quoted) and quoted[index][0] < match.start() < len(data):
            continue
        is_comment = bool(dialect.comment) and data.startswith(dialect.comment.encode(), start)
        is_record = match.start() > start or (keep_blank and match.start() < len(data))
        if is_record and not is_comment:
            yield data[start : match.start()], lines
        lines += data.count(b"\n", start, match.end())
        start = match.end()


def read_blocks(
    source: BinaryIO,
    split: Split,
    dialect: CsvDialect,
    stream: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[CsvBlock]:
    """Yield a split's whole records in blocks; BadRecords if one exceeds `max_record_bytes`.

    `source` stands at the split's start. A file that is shorter than the split is a SourceError.
    """
    position, stop, line = split.start, split.end, split.first_line
    rest = b""
    while True:
        want = max(block_bytes, len(rest))  # doubles, so that a long record is not read over again
        data = source.read(want if stop < 0 else min(want, stop - position))
        position += len(data)
        add_progress(len(data))
        if not data:
            break
        rest += data
        end = find_record_end(rest, dialect)
        if end.offset:
            yield CsvBlock(rest[: end.offset], line, False, end.has_stray_text)
            line += end.lines
            rest = rest[end.offset :]
        elif len(rest) > max_record_bytes:
            reason = f"the record is longer than {max_record_bytes >> 20} MB"
            reason += ": a quote is not closed" if end.is_in_quotes else ""
            raise BadRecords((BadRecord(stream, line, "", reason, rest[:1000]),))
    if position < stop:
        raise SourceError(
            "a CSV file became shorter while it was read", "load it when it is complete."
        )
    if rest:
        end = find_record_end(rest, dialect)
        yield CsvBlock(rest, line, end.is_in_quotes, end.has_stray_text)


class NativeParser:
    """Parses blocks of CSV records of one layout into record batches, by the native kernel.

    Args:
        columns: of the file; a column to leave out has an empty name.
        schema: the columns to read; those that the file lacks are null.
        required: columns that a record must have a value in.
        formatted: columns whose texts are not plain, which the kernel does not read.
    """

    def __init__(
        self,
        columns: Sequence[str],
        schema: pa.Schema,
        dialect: CsvDialect,
        required: Collection[str],
        formatted: Collection[str] = (),
    ) -> None:
        self._schema = schema
        known = {*schema.names}
        self._names = [name for name in columns if name in known]
        specs = {name: _kernel_spec(schema.field(name)) for name in self._names}
        is_readable = (
            all(specs.values())
            and not set(required) - specs.keys()
            and not specs.keys() & set(formatted)
        )
        fields = [(spec, n in required) if (spec := specs.get(n)) else None for n in columns]
        self._parser = create_kernel_parser(dialect, fields) if is_readable else None

    def parse(self, block: CsvBlock) -> pa.RecordBatch | None:
        """Parse a block; None if a record may be bad, or the native kernel can't read it."""
        if self._parser is None or block.is_in_quotes or block.has_stray_text:
            return None
        found = self._parser.parse(block.data)
        if found is None:
            return None
        rows, columns = found
        arrays = {
            name: array_of(self._schema.field(name).type, parts)
            for name, parts in zip(self._names, columns, strict=True)
        }
        whole = [
            arrays[field.name] if field.name in arrays else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(whole, schema=self._schema)


def match_kinds_natively(
    parser: CsvParser | None, block: CsvBlock, kinds: Sequence[KindBits]
) -> list[KindBits] | None:
    """Return each column's bits of `kinds` that its texts fit; None if the kernel can't decide.

    It does what `lakeport.sources.csv.conversion.match_kinds` does, by the kernel.
    """
    if parser is None or block.is_in_quotes or block.has_stray_text:
        return None
    found = parser.kinds(block.data, kinds)
    return None if found is None else list(found)


def create_kernel_parser(
    dialect: CsvDialect, fields: Sequence[tuple[Spec, bool] | None]
) -> CsvParser | None:
    """Return a native CSV parser; None if the kernel is missing or can't read the dialect.

    A field is None to leave it out, else its column and whether a value is required.
    """
    native = kernel()
    if native is None or not dialect.is_native:
        return None
    quote = ord(dialect.quote) if dialect.quote else None
    return native.csv_parser(ord(dialect.delimiter), quote, dialect.null_values, fields)


def _kernel_spec(column: pa.Field) -> Spec | None:
    """Return a column's name, kind and decimal size for the native kernel; None if unsupported."""
    if pa.types.is_decimal128(column.type):
        return column.name, "decimal", (column.type.precision, column.type.scale)
    kind = TEXT_KINDS.get(column.type)
    return None if kind is None else (column.name, kind.value, None)


class CsvLayout(NamedTuple):
    """Columns, dialect and header that one or several CSV files have in common.

    Attributes:
        headers: their header as it stands there, and as other programs would write it.
    """

    columns: ColumnNames
    dialect: CsvDialect = CsvDialect()
    headers: frozenset[bytes] = frozenset()


def remove_join_traces(block: CsvBlock, layout: CsvLayout) -> tuple[CsvBlock, JoinTraces]:
    r"""Remove byte order marks and repeated headers; return the rest and the traces found.

    >>> layout = CsvLayout(("a", "b"), headers=frozenset({b"a,b"}))
    >>> block, traces = remove_join_traces(CsvBlock(b"1,2\r\na,b\n3,4\n", 1, False), layout)
    >>> block.data, traces
    (b'1,2\n3,4\n', <JoinTraces.HEADER: 2>)
    """
    data, found = block.data, JoinTraces(0)
    marks = [mark for mark in (BOM_UTF8, *layout.headers) if mark[:1] in data and mark in data]
    if not any(data.startswith(m) or b"\n" + m in data or b"\r" + m in data for m in marks):
        return block, found
    kept = []
    for record, _ in split_records(data, layout.dialect, keep_blank=len(layout.columns) == 1):
        text = _remove_marks(record)
        if text in layout.headers:
            found |= JoinTraces.HEADER if text == record else JoinTraces.MARKED_HEADER
        else:
            found |= JoinTraces(0) if text == record else JoinTraces.MARK
            kept.append(text + b"\n")
    if not found:
        return block, found
    data = b"".join(kept)
    end = find_record_end(data, layout.dialect)
    return CsvBlock(data, block.line, end.is_in_quotes, end.has_stray_text), found


def _remove_marks(record: bytes) -> bytes:
    """Remove all byte order marks at the start of a record."""
    while record.startswith(BOM_UTF8):
        record = record.removeprefix(BOM_UTF8)
    return record


class ParsedBlock(NamedTuple):
    """One block, parsed into columns of texts.

    Attributes:
        columns: the file's columns; no type is applied yet, null values are null.
        ordinals: for each row its ordinal among the block's records.
        bad: ordinal among the block's records -> the reason why that record is bad.
    """

    columns: list[pa.StringArray]
    ordinals: Sequence[int]
    bad: dict[int, str]


def parse_block(block: CsvBlock, width: int, dialect: CsvDialect) -> ParsedBlock:
    """Parse a block's fields as texts; a record is bad unless it has `width` fields of UTF-8.

    Records with open quotes, or text behind a closing quote, are bad, too.
    """
    data = remove_comments(block.data, dialect)
    if block.has_stray_text or _find_undecodable(data):
        return _parse_without_faults(block, width, dialect)
    bad: dict[int, str] = {}
    if block.is_in_quotes:
        whole = list(split_records(data, dialect, keep_blank=width == 1))
        data = data[: len(data) - len(whole[-1][0])]
        bad[len(whole) - 1] = "a quoted field is not closed: the input ends inside it"
    if not data or (width > 1 and not data.strip(b"\r\n")):
        return ParsedBlock([pa.array([], pa.string())] * width, range(0), bad)
    table, ragged = _parse_texts(data, width, dialect)
    bad |= {n: f"expected {_count_fields(width)}, found {found}" for n, found in ragged.items()}
    columns = [_combine_chunks(column) for column in table.columns]
    return ParsedBlock(columns, _good_ordinals(table.num_rows, bad), bad)


def _parse_texts(data: bytes, width: int, dialect: CsvDialect) -> tuple[pa.Table, dict[int, int]]:
    """Parse all fields as text; return the table, and each ragged record's ordinal with its width.

    Ragged records are not in the table.
    """
    import pyarrow.csv as pc_csv

    ragged: dict[int, int] = {}
    if data.startswith(BOM_UTF8):  # text, as the file's own was left out; pyarrow drops one
        data = BOM_UTF8 + data

    def skip_row(row: Any) -> str:
        ragged[row.number - 1] = row.actual_columns
        return "skip"

    names = [str(i) for i in range(width)]
    table = pc_csv.read_csv(
        pa.py_buffer(data),
        pc_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        pc_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            ignore_empty_lines=width > 1,
            invalid_row_handler=skip_row,
        ),
        pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, ragged


def _count_fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _good_ordinals(rows: int, bad: Mapping[int, str]) -> Sequence[int]:
    """Return each good row's ordinal among the block's records, skipping the ordinals in `bad`."""
    if not bad:
        return range(rows)
    return [n for n in range(rows + len(bad)) if n not in bad][:rows]


def _find_undecodable(data: bytes) -> str:
    """Return a reason that names the first byte that is not UTF-8; empty for valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 text at byte {error.start} of the record"
    return ""


def _find_fault(record: bytes, dialect: CsvDialect) -> str:
    """Return why a record is not UTF-8 or misquoted, which pyarrow misses; empty if it is good."""
    if fault := _find_undecodable(record):
        return fault
    return "text after a closing quote" if find_record_end(record, dialect).has_stray_text else ""


def _parse_without_faults(block: CsvBlock, width: int, dialect: CsvDialect) -> ParsedBlock:
    """Parse a block without its records that are misquoted or not UTF-8; list those in `bad`."""
    good: list[bytes] = []
    bad: dict[int, str] = {}
    places: list[int] = []
    records = split_records(block.data, dialect, keep_blank=width == 1)
    for ordinal, (raw, _) in enumerate(records):
        if fault := _find_fault(raw, dialect):
            bad[ordinal] = fault
        else:
            good.append(raw + b"\n")
            places.append(ordinal)
    is_in_quotes = block.is_in_quotes and len(good) + len(bad) - 1 not in bad
    inner = parse_block(CsvBlock(b"".join(good), block.line, is_in_quotes), width, dialect)
    bad |= {places[n]: reason for n, reason in inner.bad.items()}
    return ParsedBlock(inner.columns, [places[n] for n in inner.ordinals], bad)


@dataclass(frozen=True, slots=True)
class CsvReader:
    """Reader of splits of CSV files; implements `lakeport.model.Reader`.

    Splits name plain UTF-8 files and begin and end at record ends, behind the header.

    Attributes:
        schema: the columns to yield; those that a file lacks are null in its rows.
        layout_of: uri -> index into `layouts`, where it is not 0.
        required: columns that a record must have a value in.
        formats: formats of the columns whose numbers or dates are not plain.
        skip_bad: whether `read` leaves bad records out.
        empty: columns without a value, of which quoted fields, too, are null.
        is_joined: whether to leave out repeated headers, and byte order marks before records.
        given: those of `VALUE_OPTIONS` that the user set, which hints don't propose.
    """

    stream: str
    schema: pa.Schema
    layouts: tuple[CsvLayout, ...]
    layout_of: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    formats: Mapping[str, Format] = field(default_factory=dict)
    skip_bad: bool = False
    empty: frozenset[str] = frozenset()
    is_joined: bool = False
    given: frozenset[str] = frozenset()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield a split's good records; raise BadRecords for a bad one, unless `skip_bad`.

        Columns that the schema lacks are left out: the plan refuses a file that may not have them.
        A file that can't be read is a SourceError.
        """
        for batch, bad, _ in self._read_blocks(split):
            if bad and not self.skip_bad:
                raise BadRecords(tuple(bad), len(bad), self._hint(split, bad[0]))
            if batch.num_rows:
                yield batch

    def scan(self, split: Split) -> Scan:
        """Read a split; return its bad records, and count good ones and undeclared values."""
        rows = 0
        bad: list[BadRecord] = []
        extra = self._extra_columns(split)
        counts = dict.fromkeys(extra, 0)
        for batch, found, parsed in self._read_blocks(split, as_texts=bool(extra)):
            rows += batch.num_rows
            bad += found
            if parsed is not None:
                for name, position in extra.items():
                    column = parsed.columns[position]
                    counts[name] += len(column) - column.null_count
        kinds = {name: "string" if counts[name] else "null" for name in extra}
        return Scan(rows, tuple(bad), kinds, counts)

    def skip_bad_records(self) -> CsvReader:
        """Return the same reader, which skips bad records in `read`."""
        return replace(self, skip_bad=True)

    def add_columns(self, unknown: Mapping[str, pa.DataType]) -> CsvReader:
        """Return the same reader with these further columns behind the others."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))

    def as_text(self, columns: Collection[str]) -> CsvReader:
        """Return the same reader, which leaves some columns as text."""
        text = [f.with_type(pa.string()) if f.name in columns else f for f in self.schema]
        formats = {name: how for name, how in self.formats.items() if name not in columns}
        return replace(self, schema=pa.schema(text), formats=formats)

    def _layout(self, split: Split) -> CsvLayout:
        return self.layouts[self.layout_of.get(split.uri, 0)]

    def _hint(self, split: Split, bad: BadRecord) -> str:
        """Return the hint for a bad record: options that may read it, or how to quarantine it."""
        if bad.value:
            type_, format_ = self.schema.field(bad.column).type, self.formats.get(bad.column)
            hint = hint_for_value(bad.value, type_, format_, self.given)
        else:
            hint = hint_for_reason(bad.reason, self._layout(split).dialect)
        return f"{hint} Or {_HINT_QUARANTINE}" if hint else _HINT_QUARANTINE

    def _extra_columns(self, split: Split) -> dict[str, int]:
        """Return positions (from 0) by name of a file's columns that the schema lacks."""
        known = set(self.schema.names)
        names = self._layout(split).columns
        return {n: i for i, n in enumerate(names) if n and n not in known}

    def _read_blocks(
        self, split: Split, *, as_texts: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, list[BadRecord], ParsedBlock | None]]:
        """Yield each block's good records, bad ones, and texts (None if parsed natively).

        With `as_texts`, pyarrow parses each block; the kernel keeps no texts.
        """
        layout = self._layout(split)
        columns, dialect, _ = layout
        native = NativeParser(columns, self.schema, dialect, self.required, self.formats)
        for whole in read_split_blocks(split, dialect, self.stream):
            block = remove_join_traces(whole, layout)[0] if self.is_joined else whole
            batch = None if as_texts else native.parse(block)
            if batch is not None:
                yield self._null_empty(batch), [], None
            else:
                parsed = parse_block(block, len(columns), dialect)
                batch, bad = self._convert(parsed, whole, split)
                yield self._null_empty(batch), bad, parsed

    def _null_empty(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replace empty texts by null in the columns that have no value at all."""
        for name in self.empty:
            place, texts = batch.schema.get_field_index(name), batch.column(name)
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
            batch = batch.set_column(place, batch.schema.field(place), texts)
        return batch

    def _convert(
        self, parsed: ParsedBlock, block: CsvBlock, split: Split
    ) -> tuple[pa.RecordBatch, list[BadRecord]]:
        """Convert a block's texts to the schema's types; return the good rows and bad records."""
        columns = self._layout(split).columns
        faults = {n: ("", reason) for n, reason in parsed.bad.items()}
        arrays: list[pa.Array] = []
        wrong: pa.BooleanArray | None = None
        for column in self.schema:
            values, mask = pa.nulls(len(parsed.ordinals), column.type), None
            if column.name in columns:
                texts = parsed.columns[columns.index(column.name)]
                format_ = self.formats.get(column.name)
                values, mask = convert_texts(texts, column.type, format_)
            arrays.append(values)
            for at_fault, reason in self._find_faults(column.name, values, mask):
                wrong = at_fault if wrong is None else pc.or_(wrong, at_fault)
                for row in pc.indices_nonzero(at_fault).to_pylist():
                    faults.setdefault(parsed.ordinals[row], (column.name, reason))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if wrong is not None:
            batch = batch.filter(pc.invert(wrong))
        return batch, self._locate_bad(faults, block, split) if faults else []

    def _find_faults(
        self, column: str, values: pa.Array, failed: pa.BooleanArray | None
    ) -> Iterator[tuple[Any, str]]:
        """Yield masks of a column's invalid and missing values, each with the reason."""
        if failed is not None:
            yield failed, f"the text is not a value of type {format_type(values.type)}"
        if column in self.required and values.null_count:
            yield values.is_null(), "missing required field"

    def _locate_bad(
        self, faults: dict[int, tuple[str, str]], block: CsvBlock, split: Split
    ) -> list[BadRecord]:
        """Return a BadRecord, with line number and raw bytes, for each ordinal in `faults`.

        Args:
            faults: ordinal among the block's records -> the column at fault, and the reason.
        """
        found: list[BadRecord] = []
        columns, dialect, headers = self._layout(split)
        keep_blank = len(columns) == 1
        ordinals = count()
        for raw, before in split_records(block.data, dialect, keep_blank=keep_blank):
            if self.is_joined:
                raw = _remove_marks(raw)
                rest = split_records(raw + b"\n", dialect, keep_blank=keep_blank)
                if raw in headers or not any(rest):
                    continue
            if (ordinal := next(ordinals)) in faults:
                column, reason = faults[ordinal]
                line = block.line + before
                texts = name_texts(raw, columns, dialect)
                found.append(BadRecord(self.stream, line, column, reason, raw, split.file, texts))
        return found


def name_texts(
    raw: bytes, columns: ColumnNames, dialect: CsvDialect
) -> tuple[tuple[str, str], ...]:
    """Return (column, text) of each field of a record, without nulls; () if it can't be parsed.

    >>> name_texts(b"1;NA;x;y", ("a", "b", "c"), CsvDialect(delimiter=";"))
    (('a', '1'), ('c', 'x'), ('column_4', 'y'))
    """
    try:
        [(_, row)] = read_numbered_rows(raw.decode(), dialect)
    except (ValueError, csv.Error):
        return ()
    names = [*columns, *(f"column_{n + 1}" for n in range(len(columns), len(row)))]
    named = zip(names, row, strict=False)
    return tuple((name, text) for name, text in named if name and text)


def read_split_blocks(split: Split, dialect: CsvDialect, stream: str) -> Iterator[CsvBlock]:
    """Open a split's file and yield its blocks of records; SourceError if it can't be read.

    See `read_blocks`.
    """
    with open_range(split) as source:
        yield from read_blocks(source, split, dialect, stream)


def hint_for_reason(reason: str, dialect: CsvDialect) -> str:
    """Return a hint on CSV options that may cure a bad record's `reason`; empty if none would."""
    if "UTF-8" in reason:
        return (
            "the file was read as UTF-8: `--encoding` names another one, such as cp1252 (Western), "
            "cp1250 (Central European) or cp850 (MS-DOS)."
        )
    read = f"the file was read with {dialect}"
    if "quote" in reason:
        return f"{read}: `--quote` and `--escape` say otherwise, `--quote ''` that there are none."
    if "expected" in reason:
        return f"{read}: `--delimiter`, `--quote` and `--skip-rows` say otherwise."
    return ""


def hint_for_value(
    text: str, type_: pa.DataType, format_: Format | None, given: Collection[str]
) -> str:
    """Return a hint on a column's text that is no date or number; empty for other types.

    Options that were given are not proposed again. The hint holds nothing of the text.
    """
    as_text = "declared as `string`, the column lands its texts."
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        if "date_format" in given:
            return f"it is no date by `--date-format`; {as_text}"
        return "if it is a date in another order, say so with `--date-format`, such as %d/%m/%Y."
    if not is_number(type_):
        return ""
    if not re.search("[0-9]", text):
        return f"`--null-value` makes null of a text that means so; {as_text}"
    number = format_ or PLAIN_NUMBER
    if re.fullmatch(number.pattern, text.strip()):
        return f"the type does not hold its digits: declare a wider one, or {as_text}"
    marks = ", ".join(number.describe(is_whole=False)) or "decimal point"
    options = [f"`--{option}`" for option in ("decimal", "thousands") if option not in given]
    others = f"{' and '.join(options)} set other marks; " if options else ""
    if isinstance(number, AmountFormat) and number.unit:
        return (
            f"the column's amounts are in {number.unit!r} ({marks}), and those in another currency "
            f"would become the same numbers; {others}{as_text}"
        )
    if "currency" not in given and re.search(r"[^\d.,'\s+-]", text):
        return f"if it is an amount, `--currency` names its currency, or `%`; {others}{as_text}"
    if not options:
        return f"it is no number of those that you asked for ({marks}); {as_text}"
    return f"if it is a number of another country, set {' and '.join(options)}."
