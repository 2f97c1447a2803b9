"""Parquet files as a source.

A text of a megabyte that a million rows repeat is stored once, and each row is a few bits; Arrow
would write it out for all rows of a batch. So such columns are read as dictionaries, and cut into
pieces of rows before they are written out, which counts as unpacking.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SchemaConflict, SourceError
from lakeport.model import Scan, Split
from lakeport.schema.calendars import HybridCalendar
from lakeport.schema.casting import TIMESTAMP, cast_batch, normalise
from lakeport.schema.exact import as_declared, convertible
from lakeport.schema.nested import leaves, open_columns
from lakeport.schema.text import cast_declared
from lakeport.schema.types import check_names, declared_type, repeated, storable
from lakeport.sources.content import asked_for
from lakeport.sources.files.declared import column_types
from lakeport.sources.files.file_set import FilePlan, FileSet
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import DEFAULT, ExpansionGuard, UnpackLimits
from lakeport.sources.splits import DeclaredReader, open_split

_LARGE = 1 << 30  # bytes that a row group's column can't reach are no matter
_PACKED = 4  # bytes for each value: what takes more hardly repeats, and Arrow is slow to look
_PIECE = 64 << 20


def repeating_columns(metadata: Any, groups: Sequence[int]) -> list[str]:
    """Paths of the columns that may repeat long texts.

    Args:
        metadata: footer of a Parquet file whose row groups have been checked.
        groups: the row groups that are read.
    """
    found = dict[str, None]()
    for column in _chunks(metadata, groups):
        if (
            column.physical_type == "BYTE_ARRAY"
            and column.num_values * column.total_uncompressed_size > _LARGE
            and column.num_values * _PACKED > column.total_compressed_size
        ):
            found[column.path_in_schema] = None
    return list(found)


def packed_bytes(metadata: Any, groups: Sequence[int]) -> int:
    """Bytes that row groups take in the file; see `repeating_columns`."""
    return sum(column.total_compressed_size for column in _chunks(metadata, groups))


def _chunks(metadata: Any, groups: Sequence[int]) -> Iterator[Any]:
    for group in map(metadata.row_group, groups):
        yield from map(group.column, range(group.num_columns))


def in_pieces(batch: pa.RecordBatch, guard: ExpansionGuard) -> Iterator[pa.RecordBatch]:
    """A batch's rows in pieces whose repeated texts have 64 MiB at most, or are one row.

    Raises:
        SourceError: written out they are too many bytes.
    """
    size = sum(map(_text_bytes, batch.columns))
    if size > _PIECE and batch.num_rows > 1:
        half = batch.num_rows // 2
        for rows in (range(half), range(half, batch.num_rows)):
            # A slice of lists would keep the elements of all.
            yield from in_pieces(batch.take(pa.array(rows)), guard)
    else:
        guard.add(size)
        yield batch


def _text_bytes(array: Any) -> int:
    """Bytes that the texts of dictionaries have once they are written out."""
    t = array.type
    if pa.types.is_dictionary(t):
        if not (pa.types.is_string(t.value_type) or pa.types.is_binary(t.value_type)):
            return 0
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0)
    if pa.types.is_struct(t):
        return sum(map(_text_bytes, array.flatten()))
    if pa.types.is_map(t):
        entries = pa.list_(pa.struct([("key", t.key_type), ("value", t.item_type)]))
        return _text_bytes(array.cast(entries))
    return _text_bytes(pc.list_flatten(array)) if t.num_fields else 0


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


def stored_schema(parquet: Any) -> pa.Schema:
    """The columns of an open `ParquetFile`, with ENUM as the text that it is, also within others.

    Arrow reads the logical type ENUM as bytes; the Parquet format says that it is UTF-8 text.
    """
    schema = parquet.schema_arrow
    leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    if not any(leaf.logical_type.type == "ENUM" for leaf in leaves):
        return schema
    rest = iter(leaves)
    return pa.schema([field.with_type(_with_text(field.type, rest)) for field in schema])


def _with_text(t: Any, leaves: Iterator[Any]) -> Any:
    """A type with its ENUMs as text; takes its leaf columns from `leaves`, in the file's order."""
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_with_text(f.type, leaves)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_with_text(t.key_type, leaves), _with_text(t.item_type, leaves))
    if t.num_fields:
        return pa.list_(_with_text(t.value_type, leaves))
    return pa.string() if next(leaves).logical_type.type == "ENUM" else t


def as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch, its dictionaries written out or its ENUMs as text; the bytes stay as they are."""
    if batch.schema.types == schema.types:
        return batch
    arrays = [
        pc.cast(array, options=pc.CastOptions(field.type, allow_invalid_utf8=True))
        if array.type != field.type
        else array
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_values(batch: pa.RecordBatch) -> None:
    """Check that texts are UTF-8 and decimals have no more digits than their type.

    No reader of the table could do without, and Arrow takes both from the file as they are.

    Raises:
        SourceError: one is not; the message names the column.
    """
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        for path, leaf in leaves(array, name):
            is_text = leaf.type in _TEXTS
            if not is_text and not pa.types.is_decimal(leaf.type):
                continue
            try:
                leaf.validate(full=True)
            except pa.ArrowInvalid:
                raise _refused(path, is_text) from None


def _refused(path: str, is_text: bool) -> SourceError:
    if is_text:
        return SourceError(
            f"column {path!r} holds text that is not UTF-8",
            "write it as UTF-8, or as a column of bytes.",
        )
    return SourceError(
        f"column {path!r} holds decimals of more digits than its type has",
        "write it with a wider type.",
    )


def has_int96(parquet: Any) -> list[str]:
    """The columns of an open `ParquetFile` that hold INT96 timestamps, if only within others."""
    leaves = (parquet.schema.column(i) for i in range(len(parquet.schema)))
    names = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    return [name for name in parquet.schema_arrow.names if name.partition(".")[0] in names]


def check_int96(us: pa.RecordBatch, ns: pa.RecordBatch, s: pa.RecordBatch) -> None:
    """Check that microseconds hold all that INT96 timestamps say.

    Arrow cuts INT96 to the unit that it is asked for, and wraps what the unit can't reach, at
    2**64. The remainder of nanoseconds to microseconds is right all the same, as both wrap alike;
    whole seconds never wrap.

    Args:
        us: rows as Arrow reads them with microseconds.
        ns: the same rows, with nanoseconds.
        s: the same rows, with seconds.

    Raises:
        SourceError: a value is finer than microseconds, or of another year than 1 to 9999; the
            message names the column.
    """
    for name, *arrays in zip(us.schema.names, us.columns, ns.columns, s.columns, strict=True):
        for (path, micros), (_, nanos), (_, seconds) in zip(
            *(leaves(array, name) for array in arrays), strict=True
        ):
            if micros.type == nanos.type:  # another type than INT96
                continue
            _check_leaf(path, *(leaf.cast(pa.int64()) for leaf in (micros, nanos, seconds)))


def _check_leaf(path: str, us: Any, ns: Any, s: Any) -> None:
    found = pc.min_max(s).as_py()
    if found["min"] is None:
        return
    if found["min"] < _FIRST_SECOND or found["max"] > _LAST_SECOND:
        raise SourceError(
            f"column {path!r} holds a date outside the years 1 to 9999",
            "correct the values in the source, or make the column text.",
        )
    if pc.any(pc.not_equal(pc.subtract(ns, pc.multiply(us, 1000)), 0)).as_py():
        raise SourceError(
            f"column {path!r} holds timestamps that are finer than microseconds",
            "round them to microseconds where the file is written, or make the column text.",
        )


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
def naming(uri: str) -> Iterator[None]:
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
        with naming(file.uri):
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
            with naming(split.uri):
                check_int96(micros, nanos, calendar.rebase(seconds) if calendar else seconds)


@dataclass(frozen=True, slots=True)
class ParquetReader(DeclaredReader):
    """Reads splits of Parquet files; implements `lakeport.model.Reader`.

    Attributes:
        limits: what the texts of a split that dictionaries repeat may become.
        mixed: see `aligned`.
    """

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
                with naming(split.uri):
                    rows = as_stored(as_stored(batch, plain), stored)
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


def plan_parquet(files: FileSet) -> FilePlan:
    """Read the footers, put their columns together, and cut the files between row groups.

    Raises:
        InputError: a file is no Parquet, or the files' columns don't go together.
    """
    limits = files.options.limits
    footers = sorted(
        files.run(partial(read_footer, limits=limits), files.plain()), key=lambda f: f.file.uri
    )
    schema, mixed = union(footers, column_types(files.options.columns))
    check_names(files.stream, schema.names)
    return FilePlan(
        reader=ParquetReader(normalise(schema), limits=limits, mixed=mixed),
        splits=split_groups(footers, files.options.split_bytes),
        bytes=sum(file.bytes for file in files.files),
        output_ratio=1.0,
        records=sum(footer.rows for footer in footers),
        untyped=open_columns(schema),
    )
