"""Parquet source kernel: row groups of files -> record batches of one schema."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from lakeport.errors import SchemaConflict, SourceError
from lakeport.model import Scan, Split
from lakeport.schema.calendars import HybridCalendar
from lakeport.schema.casting import TIMESTAMP, cast_batch, normalise
from lakeport.schema.exact import as_declared, convertible
from lakeport.schema.text import cast_declared
from lakeport.schema.types import declared_type, repeated, storable
from lakeport.sources.content import asked_for
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.unpacking import DEFAULT, ExpansionGuard, UnpackLimits
from lakeport.sources.parquet.texts import in_pieces, packed_bytes, repeating_columns, written_out
from lakeport.sources.parquet.values import (
    as_text,
    check_int96,
    check_values,
    has_int96,
    stored_schema,
)
from lakeport.sources.splits import open_split

_BATCH_ROWS = 1 << 16
_DECIMALS = {
    pa.int8(): pa.decimal128(3, 0),
    pa.int16(): pa.decimal128(5, 0),
    pa.int32(): pa.decimal128(10, 0),
    pa.int64(): pa.decimal128(19, 0),
}


class Footer(NamedTuple):
    """What a Parquet file's footer tells. Picklable.

    Attributes:
        file: the file.
        schema: its columns with the types that a table stores, untyped places as such.
        groups: rows and bytes of each row group.
    """

    file: SourceFile
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return sum(rows for rows, _ in self.groups)


@contextmanager
def _opened(
    split: Split,
    int96: str = "us",
    dictionaries: Sequence[str] = (),
    checked: Sequence[int] = (),
) -> Iterator[Any]:
    """A split's `ParquetFile`.

    Args:
        split: the part of the file that a task reads.
        int96: the unit that INT96 timestamps are read with.
        dictionaries: paths of columns that are read as such.
        checked: the row groups whose columns' metadata may be asked for.
    """
    import pyarrow.parquet as pq

    uri = split.uri
    try:
        plain = split.storage is None and not asked_for()
        source = uri if plain else open_split(split, in_order=False)
        with pq.ParquetFile(
            source,
            pre_buffer=False,
            coerce_int96_timestamp_unit=int96,
            read_dictionary=list(dictionaries),
            page_checksum_verification=True,
        ) as file:
            if checked:
                _check_columns(
                    pq.ParquetFile(source, metadata=file.metadata, buffer_size=1), checked
                )
            yield file
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
        raise SourceError(
            f"file {uri!r} can't be read as Parquet: {str(error).splitlines()[0]}",
            "check that the file is there, whole, and Parquet indeed.",
        ) from error


def _check_columns(parquet: Any, groups: Sequence[int]) -> None:
    """Have Arrow refuse what a broken footer tells of columns; pyarrow ends the process over it.

    Args:
        parquet: a `ParquetFile` with a buffer, so that to begin with a row group reads no page.
        groups: the row groups.

    Raises:
        OSError: a column's metadata contradict the schema.
    """
    columns = range(parquet.metadata.num_columns)
    with parquet:
        for group in groups:
            next(parquet.reader.iter_batches(0, [group], columns), None)


@contextmanager
def _naming(uri: str) -> Iterator[None]:
    """Name the file in errors that name its column alone."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"file {uri!r}: {error.message}", error.hint) from error


def read_footer(file: SourceFile, limits: UnpackLimits = DEFAULT) -> list[Footer]:
    """Read one file's footer. Run inside tasks.

    Args:
        file: the file.
        limits: what its pages may become.

    Raises:
        SourceError: it is no whole Parquet file, a column's type can't be stored, two columns
            have one name, or its pages unpack to more than the limits allow.
    """
    with file.named(), _opened(file.split(0, -1, 0)) as parquet:
        names = parquet.schema_arrow.names
        if (double := repeated(names)) is not None:
            raise SourceError(
                f"file {file.name!r} has {names.count(double)} columns with the name {double!r}",
                "rename them where the file is written.",
            )
        meta = parquet.metadata
        groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
        sizes = tuple((group.num_rows, group.total_byte_size) for group in groups)
        ExpansionGuard(file.uri, limits, packed=file.bytes).add(sum(size for _, size in sizes))
        with _naming(file.uri):
            schema = normalise(stored_schema(parquet), open_places=True)
        return [Footer(file, schema, sizes)]


def union(
    footers: Sequence[Footer], declared: Mapping[str, pa.DataType]
) -> tuple[pa.Schema, frozenset[str]]:
    """All columns of all files by name, each of the narrowest type for the values of all files.

    Integers and floats of different widths get the wider, and together a double; integers and
    decimals get a decimal, dates and timestamps a timestamp. Members that some files lack are null
    there. What never had a value in any file stays untyped.

    Args:
        footers: the files'.
        declared: the types of columns that the user declares.

    Returns:
        The schema, and which of the declared columns have other types in other files, so that the
        reader has to convert each file's values.

    Raises:
        SchemaConflict: the types of a column that is not declared don't go together.
    """
    types: dict[str, pa.DataType] = {}
    owners: dict[str, str] = {}
    mixed: set[str] = set()
    for footer in footers:
        for column in footer.schema:
            name, found = column.name, declared_type(column)
            known = types.setdefault(name, found)
            owner = owners.setdefault(name, footer.file.name)
            wider = _wider(known, found)
            if name in declared and known != found and not pa.types.is_null(found):
                mixed.add(name)
                wider = declared[name]
            if wider is None:
                hint = "load them into different tables, or rewrite one of them."
                plain = all(convertible(type_, pa.string()) for type_ in (known, found))
                if plain or not any(map(pa.types.is_string, (known, found))):
                    form, told = ("string", "text") if plain else ("json", "JSON")
                    option = shlex.quote(f"{name}={form}")
                    hint = f"`--column {option}` lands all of its values as {told}. Or {hint}"
                raise SchemaConflict(
                    f"column {name!r} is {_told(known)} in file {owner!r}, "
                    f"but {_told(found)} in file {footer.file.name!r}",
                    hint,
                )
            types[name] = wider
    schema = pa.schema([storable(name, type_) for name, type_ in types.items()])
    return schema, frozenset(mixed)


def _told(type_: pa.DataType) -> str:
    return "JSON text" if isinstance(type_, pa.JsonType) else str(type_)


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if a.equals(b, check_metadata=True) or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _members(a, b)
    if pa.types.is_list(a) and pa.types.is_list(b):
        item = _wider_part(a.value_field, b.value_field)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(a) and pa.types.is_map(b):
        key, value = _wider(a.key_type, b.key_type), _wider_part(a.item_field, b.item_field)
        return None if key is None or value is None else pa.map_(key, value)
    for family in (pa.types.is_signed_integer, pa.types.is_floating):
        if family(a) and family(b):
            return a if a.bit_width >= b.bit_width else b
    if {pa.types.is_signed_integer(t) - pa.types.is_floating(t) for t in (a, b)} == {1, -1}:
        return pa.float64()
    if {pa.types.is_date32(t) - pa.types.is_timestamp(t) for t in (a, b)} == {1, -1}:
        return TIMESTAMP
    a, b = (_DECIMALS.get(t, t) for t in (a, b))
    if pa.types.is_decimal128(a) and pa.types.is_decimal128(b):
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale
        return pa.decimal128(precision, scale) if precision <= 38 else None
    return None


def _wider_part(a: pa.Field, b: pa.Field) -> pa.Field | None:
    wider = _wider(declared_type(a), declared_type(b))
    return None if wider is None else storable(a.name, wider)


def _members(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """An object with the members of both; None if one of them has two types that don't fit."""
    found: dict[str, pa.Field] = {}
    for member in (*a, *b):
        wider = _wider_part(found.get(member.name, member), member)
        if wider is None:
            return None
        found[member.name] = wider
    return pa.struct(list(found.values()))


def split_groups(footers: Sequence[Footer], split_bytes: int) -> tuple[Split, ...]:
    """Ranges of row groups of about `split_bytes` each; a row group is never cut."""
    splits: list[Split] = []
    for footer in footers:
        start = size = 0
        for index, (_, group_bytes) in enumerate(footer.groups):
            if size and size + group_bytes > split_bytes:
                splits.append(footer.file.split(start, index, 0))
                start, size = index, 0
            size += group_bytes
        if footer.groups:
            splits.append(footer.file.split(start, len(footer.groups), 0))
    return tuple(splits)


def aligned(
    batch: pa.RecordBatch, schema: pa.Schema, mixed: Collection[str] = ()
) -> pa.RecordBatch:
    """A batch's columns in the schema's order and types; those that it lacks are null.

    Args:
        batch: as the file has it.
        schema: the columns to return.
        mixed: columns with a declared type, which other files have with other ones.

    Raises:
        SourceError: a value would be changed by it, or is none of its type.
        InputError: a value is none of the declared type.
    """
    check_values(batch)
    arrays: list[pa.Array] = []
    fields: list[pa.Field] = []
    for column in schema:
        position = batch.schema.get_field_index(column.name)
        found = position >= 0
        arrays.append(batch.column(position) if found else pa.nulls(batch.num_rows, column.type))
        fields.append(batch.schema.field(position) if found else column)
    stored = pa.schema(fields)
    own = normalise(stored) if mixed else stored
    target = [own.field(f.name) if f.name in mixed else f for f in schema]
    rows = cast_batch(pa.RecordBatch.from_arrays(arrays, schema=stored), pa.schema(target))
    for name in mixed:
        place = schema.get_field_index(name)
        column, type_ = rows.column(place), declared_type(schema.field(place))
        with as_declared(name, column.type, type_):
            column = cast_declared(column, own.field(name), type_)
        rows = rows.set_column(place, schema.field(place), column)
    return rows


def _batches(parquet: Any, split: Split, columns: list[str] | None = None) -> Iterator[Any]:
    """A split's rows, as many as its row groups are said to have.

    Raises:
        SourceError: the pages hold fewer or more: the file is damaged.
    """
    groups = list(range(split.start, split.end))
    expected = sum(parquet.metadata.row_group(i).num_rows for i in groups)
    found = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
        found += batch.num_rows
        yield batch
    if found != expected:
        raise SourceError(
            f"file {split.uri!r} holds {found} rows where its footer tells {expected}",
            "the file is damaged: get it again.",
        )


def _check_int96(split: Split, columns: list[str], calendar: HybridCalendar | None) -> None:
    """Refuse INT96 timestamps that microseconds can't hold; see `check_int96`."""
    with _opened(split) as us, _opened(split, "ns") as ns, _opened(split, "s") as s:
        parts = (_batches(parquet, split, columns) for parquet in (us, ns, s))
        for micros, nanos, seconds in zip(*parts, strict=True):
            with _naming(split.uri):
                check_int96(micros, nanos, calendar.rebase(seconds) if calendar else seconds)


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads splits of Parquet files; implements `lakeport.model.Reader`.

    Attributes:
        stream: the stream's name.
        schema: the columns to yield.
        skip_bad: without effect: Parquet has no bad records, only bad files.
        limits: what the texts of a split that dictionaries repeat may become.
        mixed: see `aligned`.
    """

    stream: str
    schema: pa.Schema
    skip_bad: bool = False
    limits: UnpackLimits = DEFAULT
    mixed: frozenset[str] = frozenset()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        with _opened(split, checked=range(split.start, split.end)) as parquet:
            calendar = HybridCalendar.of_parquet(parquet.metadata)
            if columns := has_int96(parquet):
                _check_int96(split, columns, calendar)
            stored, plain = stored_schema(parquet), parquet.schema_arrow
            for batch in self._pieces(parquet, split):
                with _naming(split.uri):
                    rows = as_text(written_out(batch, plain), stored)
                    rows = calendar.rebase(rows) if calendar else rows
                    rows = aligned(rows, self.schema, self.mixed)
                yield rows

    def _pieces(self, parquet: Any, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's rows, with repeated texts as dictionaries, in pieces that fit the memory."""
        metadata, groups = parquet.metadata, range(split.start, split.end)
        guard = ExpansionGuard(split.uri, self.limits, packed_bytes(metadata, groups))
        repeating = repeating_columns(metadata, groups)
        again = _opened(split, dictionaries=repeating) if repeating else nullcontext(parquet)
        with again as opened:
            for batch in _batches(opened, split):
                yield from in_pieces(batch, guard)

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        with _opened(split) as parquet:
            groups = range(split.start, split.end)
            return Scan(sum(parquet.metadata.row_group(i).num_rows for i in groups))

    def tolerant(self) -> ParquetReader:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> ParquetReader:
        """See `lakeport.model.Reader.extended`; a Parquet file declares all that it holds."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))
