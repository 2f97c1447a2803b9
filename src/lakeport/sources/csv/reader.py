"""CSV source kernel: byte ranges of plain UTF-8 CSV files -> typed record batches.

A quote opens a quoted field only at the field's start; a quote elsewhere in an unquoted field is
an ordinary character (`5" pipe`). Newlines inside quoted fields belong to the field. Behind the
closing quote the field has ended (RFC 4180, section 2): text there, even a space, makes the record
bad.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import BadRecord, BadRecords, SourceError, UnknownFields
from lakeport.host.activity import advance
from lakeport.model import Scan, Split, UnknownPolicy
from lakeport.native import kernel
from lakeport.native.arrays import array_of
from lakeport.schema.types import TEXT_KINDS
from lakeport.sources.csv.dialect import CsvDialect
from lakeport.sources.csv.readings import Format, convert_by
from lakeport.sources.splits import open_range

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser, Spec


BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""


MAX_RECORD_BYTES = 100 << 20
BLOCK_BYTES = 4 << 20

Layout = tuple[str, ...]
"""The columns of one file, in its order; empty names are those of columns to leave out."""

_OTHERWISE = (
    "correct the source, or set `on_bad_record: quarantine` (`--on-bad-record quarantine`) to land "
    "the good records and set the bad ones aside."
)


class CsvBlock(NamedTuple):
    """Whole records.

    Attributes:
        data: the bytes; they end at a record's end or at the end of the input.
        line: line number of the first one, from 1.
        torn: whether the input ends inside a quoted field, which begins in `data`.
        stray: whether text stands behind a closing quote.
    """

    data: bytes
    line: int
    torn: bool
    stray: bool = False


class Joints(Flag):
    """Traces in a CSV file of several that were joined into it."""

    MARK = 1
    """A byte order mark before a record."""
    HEADER = 2
    """A record that repeats the header."""
    HEADER_MARKED = 4
    """The same, behind a byte order mark."""


class End(NamedTuple):
    """Where the last record of some bytes ends.

    Attributes:
        offset: one past it; 0 if no record ends.
        torn: whether the bytes end inside quotes.
        stray: whether text stands between a closing quote and the end of its field.
        lines: how many line breaks are before `offset`.
    """

    offset: int
    torn: bool
    stray: bool
    lines: int


def record_end(data: bytes, dialect: CsvDialect) -> End:
    r"""Find the last record that ends in `data`, which starts at a record's start.

    >>> record_end(b'a,"x\ny"\nb,"z\n', CsvDialect())
    End(offset=8, torn=True, stray=False, lines=2)
    """
    native = kernel()
    if native is not None and dialect.native:
        delimiter = ord(dialect.delimiter)
        return End(*native.csv_end(data, delimiter, ord(dialect.quote) if dialect.quote else None))
    offset, torn, stray = _end(_masked(data, dialect), dialect)
    return End(offset, torn, stray, data.count(b"\n", 0, offset))


def _end(data: bytes, dialect: CsvDialect) -> tuple[int, bool, bool]:
    spans, upper = _quoted(data, dialect), len(data)
    torn = bool(spans) and spans[-1][1] > upper
    ends = (dialect.delimiter + "\r\n").encode()
    stray = any(stop < upper and data[stop] not in ends for _, stop in spans)
    for start, stop in reversed(spans):
        if stop <= upper and (found := data.rfind(b"\n", stop, upper)) >= 0:
            return found + 1, torn, stray
        upper = start
    return data.rfind(b"\n", 0, upper) + 1, torn, stray


def _quoted(data: bytes, dialect: CsvDialect) -> list[tuple[int, int]]:
    """Return where quoted fields begin and end; one that is not closed ends beyond the data."""
    if not dialect.quote:
        return []
    quote, delimiter = (re.escape(mark.encode()) for mark in (dialect.quote, dialect.delimiter))
    field = rb"(?<![^\r\n%s])%s(?:[^%s]++|%s%s)*+(%s)?" % (delimiter, *[quote] * 5)
    return [
        (found.start(), found.end() if found[1] else len(data) + 1)
        for found in re.finditer(field, data)
    ]


def _masked(data: bytes, dialect: CsvDialect) -> bytes:
    """The same bytes but for comments, and for what an escape takes literally, and it."""
    if dialect.comment:
        data = re.sub(_comments(dialect), lambda line: b"_" * len(line[0]), data)
    if not dialect.escape:
        return data
    return re.sub(re.escape(dialect.escape.encode()) + rb"(?s:.)", b"__", data)


def _comments(dialect: CsvDialect) -> bytes:
    return rb"(?m)^" + re.escape(dialect.comment.encode()) + rb"[^\r\n]*"


def without_comments(data: bytes, dialect: CsvDialect) -> bytes:
    """Leave out the lines that begin as comments do, wherever they stand."""
    if not dialect.comment or dialect.comment.encode() not in data:
        return data
    return re.sub(_comments(dialect) + rb"(?:\r?\n|\r|\Z)", b"", data)


def records(
    data: bytes, dialect: CsvDialect, *, blank: bool = False
) -> Iterator[tuple[bytes, int]]:
    r"""Cut whole records apart; comments are none.

    Args:
        blank: whether a line without content is a record, as it is where records have one field;
            it is left out otherwise.

    Yields:
        The record's bytes without its line break, and how many lines are before it.

    >>> list(records(b'a\n\n"b\nc"\nd', CsvDialect()))
    [(b'a', 0), (b'"b\nc"', 2), (b'd', 4)]
    """
    masked = _masked(data, dialect)
    quoted = _quoted(masked, dialect)
    start = lines = index = 0
    for match in re.finditer(rb"\r\n|\n|\r|\Z", masked):
        while index < len(quoted) and quoted[index][1] <= match.start():
            index += 1
        if index < len(quoted) and quoted[index][0] < match.start() < len(data):
            continue
        comment = bool(dialect.comment) and data.startswith(dialect.comment.encode(), start)
        content = match.start() > start or (blank and match.start() < len(data))
        if content and not comment:
            yield data[start : match.start()], lines
        lines += data.count(b"\n", start, match.end())
        start = match.end()


def blocks(
    source: BinaryIO,
    split: Split,
    dialect: CsvDialect,
    stream: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[CsvBlock]:
    """Read a split, which begins and ends between two records, block by block.

    Args:
        source: the split's file, standing at the split's start.
        split: the part of a plain UTF-8 file that a task reads.
        dialect: how the file is written.
        stream: the stream's name, for messages.
        block_bytes: about how much to read at a time.
        max_record_bytes: the longest record.

    Raises:
        BadRecords: a record is longer than `max_record_bytes`.
        SourceError: the file is shorter than the split says.
    """
    position, end, line = split.start, split.end, split.first_line
    rest = b""
    while True:
        want = max(block_bytes, len(rest))  # doubles, so that a long record is not read over again
        data = source.read(want if end < 0 else min(want, end - position))
        position += len(data)
        advance(len(data))
        if not data:
            break
        rest += data
        cut, torn, stray, lines = record_end(rest, dialect)
        if cut:
            yield CsvBlock(rest[:cut], line, False, stray)
            line += lines
            rest = rest[cut:]
        elif len(rest) > max_record_bytes:
            reason = f"the record is longer than {max_record_bytes >> 20} MB"
            reason += ": a quote is not closed" if torn else ""
            raise BadRecords((BadRecord(stream, line, "", reason, rest[:1000]),))
    if position < end:
        raise SourceError(
            "a CSV file became shorter while it was read", "load it when it is complete."
        )
    if rest:
        _, torn, stray, _ = record_end(rest, dialect)
        yield CsvBlock(rest, line, torn, stray)


class NativeRows:
    """Blocks of one layout -> record batches.

    Args:
        layout: the columns of the file; empty names are those of columns to leave out.
        schema: the columns to read; those that the file lacks are null.
        dialect: how the file is written.
        required: columns that a record must have a value in.
        foreign: columns whose texts are not plain, which the kernel does not read.
    """

    def __init__(
        self,
        layout: Sequence[str],
        schema: pa.Schema,
        dialect: CsvDialect,
        required: Collection[str],
        foreign: Collection[str] = (),
    ) -> None:
        self._schema = schema
        known = {*schema.names}
        self._names = [name for name in layout if name in known]
        specs = {name: _spec(schema.field(name)) for name in self._names}
        readable = all(specs.values()) and not set(required) - specs.keys()
        readable = readable and not specs.keys() & set(foreign)
        fields = [(spec, n in required) if (spec := specs.get(n)) else None for n in layout]
        self._parser = _parser(dialect, fields) if readable else None

    def batch(self, block: CsvBlock) -> pa.RecordBatch | None:
        """All records of a block; None if any of them has to be looked at."""
        if self._parser is None or block.torn or block.stray:
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


def kinds_parser(width: int, dialect: CsvDialect) -> CsvParser | None:
    """Return the kernel's parser of files with so many columns; None where it can't read them."""
    return _parser(dialect, [None] * width)


def native_kinds(
    parser: CsvParser | None, block: CsvBlock, kinds: Sequence[int]
) -> list[int] | None:
    """Return for each column those of `kinds` that all its texts fit; None if one is not sure.

    See `lakeport.sources.csv.values.kinds_of`.
    """
    if parser is None or block.torn or block.stray:
        return None
    found = parser.kinds(block.data, kinds)
    return None if found is None else list(found)


def _parser(dialect: CsvDialect, fields: Sequence[tuple[Spec, bool] | None]) -> CsvParser | None:
    native = kernel()
    if native is None or not dialect.native:
        return None
    quote = ord(dialect.quote) if dialect.quote else None
    return native.csv_parser(ord(dialect.delimiter), quote, dialect.null_values, fields)


def _spec(column: pa.Field) -> Spec | None:
    if pa.types.is_decimal128(column.type):
        return column.name, "decimal", (column.type.precision, column.type.scale)
    kind = TEXT_KINDS.get(column.type)
    return None if kind is None else (column.name, kind.value, None)


class Form(NamedTuple):
    """What files may share.

    Attributes:
        layout: their columns.
        dialect: how they are written.
        headers: their header as it stands there, and as other programs would write it.
    """

    layout: Layout
    dialect: CsvDialect = CsvDialect()
    headers: frozenset[bytes] = frozenset()


def without_joints(block: CsvBlock, form: Form) -> tuple[CsvBlock, Joints]:
    r"""Remove byte order marks before records and repeated headers: traces of joined files.

    Returns:
        The other records, and which traces were found.

    >>> form = Form(("a", "b"), headers=frozenset({b"a,b"}))
    >>> block, joints = without_joints(CsvBlock(b"1,2\r\na,b\n3,4\n", 1, False), form)
    >>> block.data, joints
    (b'1,2\n3,4\n', <Joints.HEADER: 2>)
    """
    data, found = block.data, Joints(0)
    marks = [mark for mark in (BOM, *form.headers) if mark[:1] in data and mark in data]
    if not any(data.startswith(m) or b"\n" + m in data or b"\r" + m in data for m in marks):
        return block, found
    kept = []
    for record, _ in records(data, form.dialect, blank=len(form.layout) == 1):
        text = _unmarked(record)
        if text in form.headers:
            found |= Joints.HEADER if text == record else Joints.HEADER_MARKED
        else:
            found |= Joints(0) if text == record else Joints.MARK
            kept.append(text + b"\n")
    if not found:
        return block, found
    data = b"".join(kept)
    end = record_end(data, form.dialect)
    return CsvBlock(data, block.line, end.torn, end.stray), found


def _unmarked(record: bytes) -> bytes:
    """Return a record without the byte order marks before it."""
    while record.startswith(BOM):
        record = record.removeprefix(BOM)
    return record


class Texts(NamedTuple):
    """One block, as text.

    Attributes:
        columns: the file's columns; no type is applied yet, null values are null.
        rows: for each row its ordinal among the block's records.
        bad: ordinal among the block's records -> what is wrong with that one.
        block: where it comes from.
    """

    columns: list[pa.StringArray]
    rows: Any
    bad: dict[int, str]
    block: CsvBlock


def texts_of(block: CsvBlock, width: int, dialect: CsvDialect) -> Texts:
    """Parse a block strictly; records that are not `width` fields of UTF-8 text are set aside."""
    data = without_comments(block.data, dialect)
    if block.stray or _undecodable(data):
        return _sifted(block, width, dialect)
    bad: dict[int, str] = {}
    if block.torn:
        whole = list(records(data, dialect, blank=width == 1))
        data = data[: len(data) - len(whole[-1][0])]
        bad[len(whole) - 1] = "a quoted field is not closed: the input ends inside it"
    if not data or (width > 1 and not data.strip(b"\r\n")):
        return Texts([pa.array([], pa.string())] * width, _ordinals(0, {}), bad, block)
    table, ragged = _parsed(data, width, dialect)
    bad |= {n: f"expected {_fields(width)}, found {found}" for n, found in ragged.items()}
    columns = [_joined(column) for column in table.columns]
    return Texts(columns, _ordinals(table.num_rows, bad), bad, block)


def _parsed(data: bytes, width: int, dialect: CsvDialect) -> tuple[pa.Table, dict[int, int]]:
    """All fields as text; and the records of another width: ordinal -> fields found."""
    import pyarrow.csv as pc_csv

    ragged: dict[int, int] = {}
    if data.startswith(BOM):  # the file's own was left out: this is text, and pyarrow drops one
        data = BOM + data

    def set_aside(row: Any) -> str:
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
            invalid_row_handler=set_aside,
        ),
        pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, ragged


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _ordinals(rows: int, bad: Mapping[int, str]) -> Any:
    """Which records of the block became rows: all but the bad ones."""
    if not bad:
        return range(rows)
    return [n for n in range(rows + len(bad)) if n not in bad][:rows]


def _undecodable(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 text at byte {error.start} of the record"
    return ""


def _fault(record: bytes, dialect: CsvDialect) -> str:
    """What no parser would tell of a record; empty if nothing."""
    stray = record_end(record, dialect).stray
    return _undecodable(record) or ("text after a closing quote" if stray else "")


def _sifted(block: CsvBlock, width: int, dialect: CsvDialect) -> Texts:
    """Parse a block without its records that have a fault."""
    good: list[bytes] = []
    bad: dict[int, str] = {}
    places: list[int] = []
    for ordinal, (raw, _) in enumerate(records(block.data, dialect, blank=width == 1)):
        if fault := _fault(raw, dialect):
            bad[ordinal] = fault
        else:
            good.append(raw + b"\n")
            places.append(ordinal)
    torn = block.torn and len(good) + len(bad) - 1 not in bad
    inner = texts_of(CsvBlock(b"".join(good), block.line, torn), width, dialect)
    bad |= {places[n]: reason for n, reason in inner.bad.items()}
    return Texts(inner.columns, [places[n] for n in inner.rows], bad, block)


@dataclass(frozen=True, slots=True)
class CsvReader:
    """Reads CSV splits; implements `lakeport.model.Reader`.

    Splits name plain UTF-8 files and begin and end at record ends, behind the header.

    Attributes:
        stream: the stream's name, for messages.
        schema: the columns to yield; those that a file lacks are null in its rows.
        forms: the different ones that the files have.
        files: uri -> index into `forms`, where it is not 0.
        unknown: what to do with a file's columns that `schema` lacks.
        required: columns that a record must have a value in.
        formats: columns whose numbers or dates are not plain -> how they are written.
        skip_bad: whether `read` leaves bad records out.
        empty: columns without a value, of which quoted fields, too, are null.
        joined: whether to leave out repeated headers, and byte order marks before records.
    """

    stream: str
    schema: pa.Schema
    forms: tuple[Form, ...]
    files: Mapping[str, int] = field(default_factory=dict)
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE
    required: frozenset[str] = frozenset()
    formats: Mapping[str, Format] = field(default_factory=dict)
    skip_bad: bool = False
    empty: frozenset[str] = frozenset()
    joined: bool = False

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        extra = self._extra(split)
        if extra and self.unknown is not UnknownPolicy.DROP:
            raise UnknownFields(
                f"stream {self.stream!r} has columns that its schema does not declare: "
                + ", ".join(repr(name) for name in extra),
                "declare them, or set `unknown_fields` to `evolve` or `drop`.",
            )
        for batch, bad, _ in self._read(split):
            if bad and not self.skip_bad:
                raise BadRecords(tuple(bad), len(bad), self._hint(split, bad[0]))
            if batch.num_rows:
                yield batch

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        rows = 0
        bad: list[BadRecord] = []
        extra = self._extra(split)
        counts = dict.fromkeys(extra, 0)
        for batch, found, texts in self._read(split, as_texts=bool(extra)):
            rows += batch.num_rows
            bad += found
            if texts is not None:
                for name, position in extra.items():
                    column = texts.columns[position]
                    counts[name] += len(column) - column.null_count
        kinds = {name: "string" if counts[name] else "null" for name in extra}
        return Scan(rows, tuple(bad), kinds, counts)

    def tolerant(self) -> CsvReader:
        """See `lakeport.model.Reader.tolerant`."""
        return replace(self, skip_bad=True)

    def extended(self, unknown: Mapping[str, pa.DataType]) -> CsvReader:
        """See `lakeport.model.Reader.extended`."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))

    def as_text(self, columns: Collection[str]) -> CsvReader:
        """Return a reader that leaves the values of columns as they stand in the file."""
        text = [f.with_type(pa.string()) if f.name in columns else f for f in self.schema]
        formats = {name: how for name, how in self.formats.items() if name not in columns}
        return replace(self, schema=pa.schema(text), formats=formats)

    def _form(self, split: Split) -> Form:
        return self.forms[self.files.get(split.uri, 0)]

    def _hint(self, split: Split, bad: BadRecord) -> str:
        place = self.schema.get_field_index(bad.column)
        type_ = self.schema.field(place).type if place >= 0 else pa.null()
        return hint_for(bad, type_, self._form(split).dialect)

    def _extra(self, split: Split) -> dict[str, int]:
        known = set(self.schema.names)
        return {n: i for i, n in enumerate(self._form(split).layout) if n and n not in known}

    def _read(
        self, split: Split, *, as_texts: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, list[BadRecord], Texts | None]]:
        """Block by block: the good records, the bad ones, and the texts if they were needed."""
        layout, dialect, _ = form = self._form(split)
        native = NativeRows(layout, self.schema, dialect, self.required, self.formats)
        for whole in blocks_of(split, dialect, self.stream):
            block = without_joints(whole, form)[0] if self.joined else whole
            batch = None if as_texts else native.batch(block)
            if batch is not None:
                yield self._without_quotes(batch), [], None
            else:
                texts = texts_of(block, len(layout), dialect)._replace(block=whole)
                batch, bad = self._typed(texts, split)
                yield self._without_quotes(batch), bad, texts

    def _without_quotes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Null for empty texts in the columns that have nothing else."""
        for name in self.empty:
            place, texts = batch.schema.get_field_index(name), batch.column(name)
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
            batch = batch.set_column(place, batch.schema.field(place), texts)
        return batch

    def _typed(self, texts: Texts, split: Split) -> tuple[pa.RecordBatch, list[BadRecord]]:
        layout = self._form(split).layout
        faults = {n: ("", reason) for n, reason in texts.bad.items()}
        arrays: list[pa.Array] = []
        wrong: pa.BooleanArray | None = None
        for column in self.schema:
            values, mask = pa.nulls(len(texts.rows), column.type), None
            if column.name in layout:
                column_texts = texts.columns[layout.index(column.name)]
                format_ = self.formats.get(column.name)
                values, mask = convert_by(format_, column_texts, column.type)
            arrays.append(values)
            for at_fault, reason in self._at_fault(column.name, values, mask):
                wrong = at_fault if wrong is None else pc.or_(wrong, at_fault)
                for row in pc.indices_nonzero(at_fault).to_pylist():
                    faults.setdefault(texts.rows[row], (column.name, reason))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if wrong is not None:
            batch = batch.filter(pc.invert(wrong))
        return batch, self._located(faults, texts, split) if faults else []

    def _at_fault(self, name: str, values: pa.Array, mask: Any) -> Iterator[tuple[Any, str]]:
        if mask is not None:
            yield mask, f"the text is not a value of type {values.type}"
        if name in self.required and values.null_count:
            yield values.is_null(), "missing required field"

    def _located(
        self, faults: dict[int, tuple[str, str]], texts: Texts, split: Split
    ) -> list[BadRecord]:
        found: list[BadRecord] = []
        block, blank = texts.block, len(texts.columns) == 1
        _, dialect, headers = self._form(split)
        ordinals = count()
        for raw, before in records(block.data, dialect, blank=blank):
            if self.joined:
                raw = _unmarked(raw)
                if raw in headers or not any(records(raw + b"\n", dialect, blank=blank)):
                    continue
            if (ordinal := next(ordinals)) in faults:
                column, reason = faults[ordinal]
                line = block.line + before
                found.append(BadRecord(self.stream, line, column, reason, raw, split.file))
        return found


def blocks_of(split: Split, dialect: CsvDialect, stream: str) -> Iterator[CsvBlock]:
    """Read a split block by block.

    Raises:
        BadRecords: a record is too long.
        SourceError: the file can't be read.
    """
    with open_range(split) as source:
        yield from blocks(source, split, dialect, stream)


def hint_for(bad: BadRecord, type_: pa.DataType, dialect: CsvDialect) -> str:
    """How the file was read, and which option reads it otherwise.

    Args:
        bad: the record.
        type_: of the column at fault; null if the whole record is.
        dialect: by which it was read.
    """
    if way := _of_column(type_) if bad.column else way_to_read(bad.reason, dialect):
        return f"{way} Or {_OTHERWISE}"
    return _OTHERWISE


def way_to_read(reason: str, dialect: CsvDialect) -> str:
    """What to try where a record can't be cut into fields; empty if nothing."""
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


def _of_column(type_: pa.DataType) -> str:
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "if it is a date in another order, say so with `--date-format`, such as %d/%m/%Y."
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_integer(type_):
        return "if it is a number of another country, set `--decimal` and `--thousands`."
    return ""
