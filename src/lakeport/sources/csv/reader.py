"""CSV source kernel: byte ranges of plain UTF-8 CSV files -> typed record batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import BadRecord, BadRecords, SourceError, UnknownFields
from lakeport.model import Scan, Split, UnknownPolicy
from lakeport.sources.csv.dialect import Dialect
from lakeport.sources.csv.formats.readings import Format, convert_by
from lakeport.sources.csv.hints import hint_for
from lakeport.sources.csv.native import NativeRows
from lakeport.sources.csv.records import (
    BOM,
    Block,
    blocks,
    record_end,
    records,
    without_comments,
    without_joints,
)
from lakeport.sources.splits import open_split

Layout = tuple[str, ...]
"""The columns of one file, in its order; empty names are those of columns to leave out."""


class Form(NamedTuple):
    """What files may share: their columns, and how they are written."""

    layout: Layout
    dialect: Dialect = Dialect()


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
    block: Block


def texts_of(block: Block, width: int, dialect: Dialect) -> Texts:
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


def _parsed(data: bytes, width: int, dialect: Dialect) -> tuple[pa.Table, dict[int, int]]:
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


def _fault(record: bytes, dialect: Dialect) -> str:
    """What no parser would tell of a record; empty if nothing."""
    stray = record_end(record, dialect).stray
    return _undecodable(record) or ("text after a closing quote" if stray else "")


def _sifted(block: Block, width: int, dialect: Dialect) -> Texts:
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
    inner = texts_of(Block(b"".join(good), block.line, torn), width, dialect)
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
        headers: spellings of headers, which are no rows.
        marks: whether byte order marks before records are left out.
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
    headers: tuple[bytes, ...] = ()
    marks: bool = False

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
        layout, dialect = self._form(split)
        native = NativeRows(layout, self.schema, dialect, self.required, self.formats)
        blank = len(layout) == 1
        for block in blocks_of(split, dialect, self.stream):
            if self.headers or self.marks:
                block, _ = without_joints(
                    block, dialect, self.headers, marks=self.marks, blank=blank
                )
            batch = None if as_texts else native.batch(block)
            if batch is not None:
                yield self._without_quotes(batch), [], None
            else:
                texts = texts_of(block, len(layout), dialect)
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
        block, blank, dialect = texts.block, len(texts.columns) == 1, self._form(split).dialect
        for ordinal, (raw, before) in enumerate(records(block.data, dialect, blank=blank)):
            if ordinal in faults:
                column, reason = faults[ordinal]
                line = block.line + before
                found.append(BadRecord(self.stream, line, column, reason, raw, split.file))
        return found


def blocks_of(split: Split, dialect: Dialect, stream: str) -> Iterator[Block]:
    """Read a split block by block.

    Raises:
        BadRecords: a record is too long.
        SourceError: the file can't be read.
    """
    try:
        with open_split(split) as source:
            source.seek(split.start)
            yield from blocks(source, split, dialect, stream)
    except OSError as error:
        raise SourceError(
            f"file {split.uri!r} can't be read: {error.strerror or error}",
            "check that the file is there and that this user may read it.",
        ) from error
