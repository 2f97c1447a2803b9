"""Plan the load of files that declare their columns' types, and read them batch by batch."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lakeport.errors import SchemaConflict, SourceError
from lakeport.model import Batch, Scan, Split
from lakeport.schema.casting import can_convert, normalise_schema, note_zoneless
from lakeport.schema.nested import find_untyped_columns, replace_untyped_columns
from lakeport.schema.types import (
    TIMESTAMP,
    check_column_names,
    find_duplicate,
    get_logical_type,
    to_table_field,
)
from lakeport.sources.files.declared_columns import column_types
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import DEFAULT_LIMITS, UnpackLimits
from lakeport.sources.splits import (
    DeclaredReader,
    Footer,
    align_batch,
    explain_read_errors,
    name_file_in_errors,
)
from lakeport.sources.typed import avro, ipc, orc, parquet

_BATCH_ROWS = 1 << 16
_DECIMALS = {
    pa.int8(): pa.decimal128(3, 0),
    pa.int16(): pa.decimal128(5, 0),
    pa.int32(): pa.decimal128(10, 0),
    pa.int64(): pa.decimal128(19, 0),
}


class _TypedFormat(NamedTuple):
    """The functions that read one file format, and its name for error messages.

    Attributes:
        read_batches: yields a split's rows with the file's own types.
        count_rows: returns a split's number of rows without reading them; None if it can't.
    """

    name: str
    read_footer: Callable[[SourceFile, UnpackLimits], Footer]
    read_batches: Callable[[Split, UnpackLimits], Iterator[pa.RecordBatch]]
    output_ratio: float
    count_rows: Callable[[Split], int] | None = None


_FORMATS = {
    "parquet": _TypedFormat(
        "Parquet", parquet.read_footer, parquet.read_batches, 1.0, parquet.count_rows
    ),
    "arrow": _TypedFormat("Arrow IPC", ipc.read_footer, ipc.read_batches, 0.4),
    "orc": _TypedFormat("ORC", orc.read_footer, orc.read_batches, 1.0),
    "avro": _TypedFormat("Avro", avro.read_footer, avro.read_batches, 0.6),
}


def plan_typed(files: FileSet) -> Batch:
    """Plan one batch of Parquet, Arrow, ORC or Avro files: merge their schemas, make splits.

    Raises:
        InputError: a file is not of its format, or the files' columns don't go together.
        MissingDependency: a format's package is not installed.
    """
    format_ = _FORMATS[files.format]
    read_footer = partial(read_checked_footer, limits=files.limits)
    footers = sorted(files.run(read_footer, files.make_plain()), key=lambda footer: footer.file.uri)
    rows = [footer.rows for footer in footers]
    schema, mixed = merge_schemas(footers, column_types(files.config.columns))
    check_column_names(files.stream, schema.names)
    return Batch(
        files.stream,
        0,
        reader=TypedReader(replace_untyped_columns(schema), files.format, files.limits, mixed),
        splits=split_at_parts(footers, files.split_bytes),
        bytes=sum(file.bytes for file in files.files),
        output_ratio=format_.output_ratio,
        records=-1 if -1 in rows else sum(rows),
        notes=tuple(dict.fromkeys(note for footer in footers for note in footer.notes)),
        untyped=find_untyped_columns(schema),
    )


def read_checked_footer(file: SourceFile, limits: UnpackLimits = DEFAULT_LIMITS) -> list[Footer]:
    """Read a file's footer in a task; return it in a list, with types that tables can store.

    Raises:
        SourceError: it is not of its format, a column's type can't be stored, two columns have one
            name, or it would unpack to more than the limits allow.
    """
    format_ = _FORMATS[file.format]
    # Reading the names raises ValueError, too, if one is not UTF-8.
    with file.translate_errors(), explain_read_errors(file.name, format_.name):
        found = format_.read_footer(file, limits)
        names = found.schema.names
        if (double := find_duplicate(names)) is not None:
            raise SourceError(
                f"file {file.name!r} has {names.count(double)} columns with the name {double!r}",
                "rename them where the file is written.",
            )
        with name_file_in_errors(file.name):
            schema = normalise_schema(found.schema, keep_untyped=True)
    return [found._replace(schema=schema, notes=note_zoneless(found.schema))]


def merge_schemas(
    footers: Sequence[Footer], declared: Mapping[str, pa.DataType]
) -> tuple[pa.Schema, frozenset[str]]:
    """Merge files' schemas: a column gets the narrowest type that holds the values of all files.

    Integers and floats of different widths get the wider, and together a double; integers and
    decimals get a decimal, dates and timestamps a timestamp. Members that some files lack are null
    there. A column without a value in any file stays untyped.

    Returns:
        The schema, and the declared columns that differ in type between files, whose values the
        reader has to convert file by file.

    Raises:
        SchemaConflict: the types of a column that is not declared don't go together.
    """
    types: dict[str, pa.DataType] = {}
    owners: dict[str, str] = {}
    mixed: set[str] = set()
    for footer in footers:
        for column in footer.schema:
            name, found = column.name, get_logical_type(column)
            known = types.setdefault(name, found)
            owner = owners.setdefault(name, footer.file.name)
            wider = _find_wider_type(known, found)
            if name in declared and known != found and not pa.types.is_null(found):
                mixed.add(name)
                wider = declared[name]
            if wider is None:
                hint = "load them into different tables, or rewrite one of them."
                plain = all(can_convert(type_, pa.string()) for type_ in (known, found))
                if plain or not any(map(pa.types.is_string, (known, found))):
                    type_name, words = ("string", "text") if plain else ("json", "JSON")
                    option = shlex.quote(f"{name}={type_name}")
                    hint = f"`--column {option}` lands all of its values as {words}. Or {hint}"
                raise SchemaConflict(
                    f"column {name!r} is {_describe_type(known)} in file {owner!r}, "
                    f"but {_describe_type(found)} in file {footer.file.name!r}",
                    hint,
                )
            types[name] = wider
    schema = pa.schema([to_table_field(name, type_) for name, type_ in types.items()])
    return schema, frozenset(mixed)


def _describe_type(type_: pa.DataType) -> str:
    """Return the name of a type for messages; JSON is `JSON text`."""
    return "JSON text" if isinstance(type_, pa.JsonType) else str(type_)


def _find_wider_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds both types' values exactly; None if there is none."""
    if a.equals(b, check_metadata=True) or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _merge_structs(a, b)
    if pa.types.is_list(a) and pa.types.is_list(b):
        item = _merge_fields(a.value_field, b.value_field)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(a) and pa.types.is_map(b):
        key, value = (
            _find_wider_type(a.key_type, b.key_type),
            _merge_fields(a.item_field, b.item_field),
        )
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


def _merge_fields(a: pa.Field, b: pa.Field) -> pa.Field | None:
    """Return a field of the wider type, as tables store it; None if there is none."""
    wider = _find_wider_type(get_logical_type(a), get_logical_type(b))
    return None if wider is None else to_table_field(a.name, wider)


def _merge_structs(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return a struct with the members of both; None if a member's two types have no wider one."""
    found: dict[str, pa.Field] = {}
    for member in (*a, *b):
        wider = _merge_fields(found.get(member.name, member), member)
        if wider is None:
            return None
        found[member.name] = wider
    return pa.struct(list(found.values()))


def split_at_parts(footers: Sequence[Footer], split_bytes: int) -> tuple[Split, ...]:
    """Make splits of about `split_bytes` each; files are cut only between parts (row groups)."""
    splits: list[Split] = []
    for footer in footers:
        start = size = 0
        for index, size_of_part in enumerate(footer.part_bytes):
            if size and size + size_of_part > split_bytes:
                splits.append(footer.file.split(start, index, 0))
                start, size = index, 0
            size += size_of_part
        if footer.part_bytes:
            splits.append(footer.file.split(start, len(footer.part_bytes), 0))
    return tuple(splits)


@dataclass(frozen=True, slots=True)
class TypedReader(DeclaredReader):
    """Reader of splits of Parquet, Arrow, ORC or Avro files.

    Attributes:
        mixed: columns with a declared type that have other types in other files.
    """

    format: str
    limits: UnpackLimits = DEFAULT_LIMITS
    mixed: frozenset[str] = frozenset()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield a split's rows with the types of `schema`; raise SourceError for a damaged file."""
        for batch in _FORMATS[self.format].read_batches(split, self.limits):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                with name_file_in_errors(split.uri):
                    rows = align_batch(batch.slice(start, _BATCH_ROWS), self.schema, self.mixed)
                yield rows

    def scan(self, split: Split) -> Scan:
        """Count a split's rows: from metadata where the format has them, else by reading."""
        format_ = _FORMATS[self.format]
        if format_.count_rows is not None:
            return Scan(format_.count_rows(split))
        return Scan(sum(batch.num_rows for batch in format_.read_batches(split, self.limits)))
