"""Shape kernels: bring a source's columns to a table's names, types and order.

```
source        id  name  price(text)  note
rules         rename name=title   price is decimal(10,2)   drop note
table         id  title  price(decimal)
```
Rules name a column as the source does. What follows them (partition columns, keys of a merge) goes
by the names in the table.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import ConfigError, InputError, SourceError
from lakeport.schema.casting import InexactError, convert_exactly, explain_failed_cast
from lakeport.schema.evolution import TypeConflict
from lakeport.schema.hints import hint_missing_column, quote_names, sort_by_similarity
from lakeport.schema.nested import (
    EMPTY_STRUCT,
    UnexpectedValue,
    is_json,
    list_children,
    rebuild_nested,
    restore_untyped,
)
from lakeport.schema.text import cast_to_declared, to_json_column, unquote_json
from lakeport.schema.types import TIMESTAMP, get_logical_type, to_table_field

DELETED_AT = "_sdc_deleted_at"
SEQUENCE = "_sdc_sequence"
TABLE_VERSION = "_sdc_table_version"

HeaderCase = Literal["lower", "upper", "snake"]

_ACCENTS: Final = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")  # of Latin letters, decomposed
_LATIN: Final = str.maketrans(
    {"æ": "ae", "œ": "oe", "þ": "th", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ı": "i"}
)
"""Latin letters that Unicode does not decompose -> ASCII."""


@dataclass(frozen=True)
class ColumnRules:
    """Renames, dropped columns and declared types for one stream.

    Attributes:
        types: source column -> the type that its values get.
        rename: source column -> its name in the table.
        drop: source columns that are left out.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()

    def apply(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of source and table name of the columns kept; SourceError for a bad rule.

        Bad is a rule for a column that is not there, a new name that is taken, and to drop all.

        >>> ColumnRules(rename={"a": "b"}, drop=frozenset({"b"})).apply(["a", "b", "c"])
        [('a', 'b'), ('c', 'c')]
        """
        rules = {"declared": self.types, "renamed": self.rename, "dropped": sorted(self.drop)}
        for kind, columns in rules.items():
            for column in columns:
                if column not in names:
                    raise SourceError(
                        f"column {column!r} is {kind}, but the source has none of that name",
                        hint_missing_column(column, names, "it has")
                        if kind == "declared"
                        else f"it has {quote_names(sort_by_similarity(column, names))}.",
                    )
        kept = [(name, self.rename.get(name, name)) for name in names if name not in self.drop]
        if names and not kept:
            raise SourceError(
                f"every column of the source is dropped: {quote_names(names)}", "keep one at least."
            )
        owners: dict[str, str] = {}
        for old, new in kept:
            other = owners.setdefault(new.lower(), old)
            if other != old and {old, other} & self.rename.keys():
                renamed, there = (old, other) if old in self.rename else (other, old)
                raise SourceError(
                    f"column {renamed!r} is renamed to {self.rename[renamed]!r}, which is the name "
                    f"of {there!r}",
                    "choose another name, or rename or drop the other column, too.",
                )
        return kept

    def without_absent_types(self, names: Collection[str], source: Collection[str]) -> ColumnRules:
        """Return the rules without types of those `source` columns that `names` lacks.

        >>> rules = ColumnRules({"zip": pa.string(), "day": pa.date32()})
        >>> sorted(rules.without_absent_types(["day"], ["zip", "day"]).types)
        ['day']
        """
        types = {n: t for n, t in self.types.items() if n in names or n not in source}
        return replace(self, types=types)

    def rename_keys(self, names: Iterable[str], purpose: str) -> tuple[str, ...]:
        """Return the names of key columns in the table; ConfigError if one is dropped.

        `purpose` is that of the keys, for the error, such as `to merge by`.
        """
        keys = tuple(names)
        dropped = [name for name in keys if name in self.drop]
        if dropped:
            raise ConfigError(
                f"column {dropped[0]!r} is dropped, and the source has it as a key {purpose}",
                "keep it, or name other columns as keys.",
            )
        return tuple(self.rename.get(name, name) for name in keys)


def apply_header_case(name: str, case: HeaderCase | None) -> str:
    """Return a column's name in lower, upper or snake case; unchanged for None.

    Snake case may be empty: for a name without letters and digits.

    >>> apply_header_case("userId", "upper")
    'USERID'
    """
    match case:
        case "lower":
            return name.lower()
        case "upper":
            return name.upper()
        case "snake":
            return _to_snake_case(name)
    return name


def _to_snake_case(name: str) -> str:
    """Return a name in lower-case words joined by `_`; empty without any letter, digit or `_`.

    Latin letters lose accents, others stay: a Greek or Chinese name without them would be empty. A
    name in snake case, such as `_id` or `a__b`, stays as it is.

    >>> [_to_snake_case(name) for name in ("Unit Price (€)", "HTTPStatus", "Größe", "2024 Q1")]
    ['unit_price', 'http_status', 'grosse', '_2024_q1']
    """
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", name))
    text = ""
    for character, after in itertools.pairwise(unicodedata.normalize("NFC", plain) + " "):
        if not (character.isalnum() or unicodedata.category(character)[0] == "M"):
            text += "_" if character == "_" else " "
            continue
        before = text[-1:]
        if character.isupper() and (before.islower() or (before.isalnum() and after.islower())):
            text += " "  # between the words of userId, and of HTTPStatus
        text += character
    snake = re.sub("_* [_ ]*", "_", text.strip()).casefold().translate(_LATIN)
    return f"_{snake}" if snake[:1].isdigit() else snake


def list_internal_columns(prefix: str | None) -> tuple[str, ...]:
    """Return the names of the two internal columns, such as `_mage_created_at`; none for None."""
    return () if prefix is None else (f"{prefix}created_at", f"{prefix}updated_at")


def find_lowest_version(rows: pa.RecordBatch) -> int | None:
    """Return a batch's lowest `_sdc_table_version`; None if it is absent, null or no number.

    >>> find_lowest_version(pa.record_batch({"id": [1, 2], "_SDC_table_version": [8, 9]}))
    8
    >>> find_lowest_version(pa.record_batch({"_sdc_table_version": [8, None]})) is None
    True
    """
    names = [name.lower() for name in rows.schema.names]
    column = rows.column(names.index(TABLE_VERSION)) if TABLE_VERSION in names else None
    if column is None or column.null_count:
        return None
    try:
        lowest: int = math.floor(pc.min(column).as_py())
    except (TypeError, ValueError, OverflowError):  # text, NaN or infinity
        return None
    return lowest


def combine_lowest_versions(versions: Collection[int | None]) -> int | None:
    """Return the lowest of some table versions; None if there are none, or if any is None."""
    known = [version for version in versions if version is not None]
    return min(known) if known and len(known) == len(versions) else None


@dataclass(frozen=True)
class Shape:
    """Picklable function that converts a source's batches to the columns and types of a table.

    Attributes:
        source: the columns that the reader yields.
        names: pairs of source column and table column, in the source's order, without those that
            are left out.
        created: name of the column with the time of a row's first load; empty for none.
        updated: name of the column with the time of a row's last change; empty for none.
        clock: the time of the batch, for `created` and `updated`.
        schema: the table's columns, in order. Those that no source column feeds are null. A table
            may spell a name in another case.
        constants: table column of text -> its value in every row.
        rules: declared types of the source's columns.
        untyped: source column with untyped places -> its type with these places.
        narrowed: source column -> the narrower type of the table, which every value has to fit.
    """

    source: pa.Schema
    names: tuple[tuple[str, str], ...]
    created: str
    updated: str
    clock: datetime
    schema: pa.Schema
    constants: tuple[tuple[str, str], ...] = ()
    rules: ColumnRules = field(default_factory=ColumnRules)
    untyped: Mapping[str, pa.DataType] = field(default_factory=dict)
    narrowed: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield record batches with the table's columns; InputError for a value that doesn't fit.

        Rows for a table without columns are an InputError, too.
        """
        for batch in batches:
            if batch.num_rows and not self.schema.names:
                raise InputError(
                    "the records have no fields and the table no columns, so that their rows "
                    "would be lost",
                    "set `internal_columns: true`, or declare the columns of the records.",
                )
            yield self._shape_batch(batch)

    def align(self, table: pa.Schema) -> Shape:
        """Return a shape for the columns of `table`; those that the source lacks are null."""
        return replace(self, schema=table)

    def _shape_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch to the table's columns; fill in constants and internal columns."""
        at = {name: index for index, name in enumerate(batch.schema.names)}
        columns = {
            name.lower(): self._cast_source_column(source, batch.column(at[source]))
            for source, name in self.names
        }
        given = {name.lower(): self._source_field(source) for source, name in self.names}
        for name, value in self.constants:
            columns[name.lower()] = pa.repeat(pa.scalar(value, pa.string()), len(batch))
            given.pop(name.lower(), None)
        if self.created:
            stamp = pa.scalar(self.clock, TIMESTAMP)
            known = columns.get(self.created.lower())
            columns[self.created.lower()] = (
                pa.repeat(stamp, len(batch)) if known is None else pc.fill_null(known, stamp)
            )
            columns[self.updated.lower()] = pa.repeat(stamp, len(batch))
        arrays = [
            fit_column(columns.get(key), field, len(batch), given.get(key))
            for field in self.schema
            for key in (field.name.lower(),)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _source_field(self, name: str) -> pa.Field:
        """Return a source's field with its declared type, or its original one with null types."""
        if name in self.untyped:
            return pa.field(name, self.untyped[name])
        type_ = self.rules.types.get(name)
        return self.source.field(name) if type_ is None else to_table_field(name, type_)

    def _cast_source_column(self, name: str, column: pa.Array) -> pa.Array:
        """Cast a source's column to its declared or narrowed type; InputError for a misfit."""
        if name in self.untyped:
            try:
                return restore_untyped(column, self.untyped[name])
            except UnexpectedValue:
                raise InputError(
                    f"column {name!r} has a value where it had none when the source was looked at",
                    "land the source again once nobody writes to it.",
                ) from None
        narrow = self.narrowed.get(name)
        if narrow is not None:
            try:
                return convert_exactly(column, narrow)
            except InexactError:
                raise TypeConflict(dict(self.names)[name], narrow, column.type, "") from None
        type_ = self.rules.types.get(name)
        if type_ is None:
            return column
        with explain_failed_cast(name, column.type, type_):
            return cast_to_declared(column, self.source.field(name), type_)


def plan_shape(
    source: pa.Schema,
    *,
    clock: datetime | None = None,
    internal_prefix: str | None = "_mage_",
    header_case: HeaderCase | None = None,
    constants: Sequence[tuple[str, str]] = (),
    rules: ColumnRules | None = None,
    untyped: Mapping[str, pa.DataType] | None = None,
) -> Shape:
    """Plan the names, types and order of a source's columns in a table; InputError if names clash.

    Args:
        clock: the batch's time, aware; now when absent.
        internal_prefix: the prefix of `created_at` and `updated_at`; None leaves both out.
        header_case: spelling of every column, the internal ones too.
        constants: columns of text and their values, which replace a source's column of that name.
        rules: renames, dropped columns and declared types.
        untyped: source column with untyped places -> its type with these places.

    Raises:
        SourceError: see `ColumnRules.apply`.
        InputError: two columns get the same name, or a source column has the name of an internal
            one and is no date-time.
    """
    rules = rules or ColumnRules()
    open_ = {name: t for name, t in (untyped or {}).items() if name not in rules.types}
    kept = rules.apply(source.names)
    names = tuple((old, apply_header_case(new, header_case)) for old, new in kept)
    _check_name_clashes(names, header_case)
    types = {
        new: rules.types.get(old, open_.get(old, get_logical_type(source.field(old))))
        for old, new in names
    }
    spelt = {name.lower(): name for name in types}
    headed = [(name, apply_header_case(name, header_case)) for name, _ in constants]
    _check_name_clashes(headed, header_case)
    given = [value for _, value in constants]
    fixed = [(spelt.get(n.lower(), n), v) for (_, n), v in zip(headed, given, strict=True)]
    types.update((name, pa.string()) for name, _ in fixed)
    created = updated = ""
    if internal_prefix is not None:
        created, updated = (
            apply_header_case(name, header_case) for name in list_internal_columns(internal_prefix)
        )
        for name in (created, updated):
            if types.get(name) == pa.null():
                types[name] = TIMESTAMP
            if types.setdefault(name, TIMESTAMP) != TIMESTAMP:
                raise InputError(
                    f"column {name!r} is {types[name]} in the source, but the internal column of "
                    "that name is a date-time",
                    "set `internal_columns: false`, or another `internal_columns_prefix`.",
                )
    schema = pa.schema([to_table_field(name, type_) for name, type_ in types.items()])
    stamp = clock or datetime.now(UTC)
    return Shape(
        source, names, created, updated, stamp, schema, tuple(fixed), rules=rules, untyped=open_
    )


def _check_name_clashes(names: Sequence[tuple[str, str]], case: HeaderCase | None) -> None:
    """Raise InputError if two columns get table names that differ at most in case, or one none."""
    seen: dict[str, str] = {}
    under = f" under `column_header_format: {case}`" if case else ""
    for old, new in names:
        if not new and old:
            raise InputError(
                f"column {old!r} has no letter or digit, and so no name{under}",
                f"`--rename {shlex.quote(f'{old}=NAME')}` (`rename`) gives it one, "
                f"`--drop {shlex.quote(old)}` (`drop`) leaves it out.",
            )
        other = seen.setdefault(new.lower(), old)
        if other == old:
            continue
        alike = old.lower() == other.lower()
        raise InputError(
            f"columns {other!r} and {old!r} "
            + ("differ only in case" if alike else f"both become {new!r}{under}")
            + (f" and become one{under}" if alike and case else ""),
            f"a table can't hold both: `--rename {shlex.quote(f'{old}={new}_2')}` (`rename`) gives "
            f"one another name, `--drop {shlex.quote(old)}` (`drop`) leaves it out.",
        )


def fit_column(
    column: pa.Array | None, field: pa.Field, rows: int, source: pa.Field | None = None
) -> pa.Array:
    """Cast a column to the table's type; raise InputError for a value that it can't hold exactly.

    Args:
        column: the values; None for `rows` nulls.
        field: the table's column; a struct may have more members there than in `column`.
        source: the source's field, whose metadata mark JSON; None where the table's marks hold.

    >>> wider = pa.struct({"b": pa.int8(), "a": pa.int64()})
    >>> fit_column(pa.array([{"a": 1}]), pa.field("s", wider), 1).to_pylist()
    [{'b': None, 'a': 1}]
    """
    if column is None:
        return pa.nulls(rows, field.type)
    try:
        return _cast_nested(column, source, field)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {field.name!r} has a value that the table's type {field.type} can't hold "
            f"exactly; in the source it is {column.type}",
            "land it in another table or column, or declare the table's type in the source.",
        ) from None


def fit_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Cast batches to `schema`, absent columns to null; InputError if a value would change."""
    for batch in batches:
        at = {name: index for index, name in enumerate(batch.schema.names)}
        arrays = [
            fit_column(batch.column(at[f.name]) if f.name in at else None, f, batch.num_rows)
            for f in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_nested(column: pa.Array, source: pa.Field | None, target: pa.Field) -> pa.Array:
    """Cast a column, matching its members by name; raise ArrowInvalid if a value would change."""
    wanted = target.type
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    if source is not None and is_json(target):
        return to_json_column(column, source, target.name)
    if source is not None and is_json(source) and pa.types.is_string(wanted):
        return unquote_json(column)
    same = source is None or source.type.equals(wanted, check_metadata=True)
    if column.type == wanted and same:
        return column
    if column.type == EMPTY_STRUCT and pa.types.is_string(wanted):
        return pc.if_else(column.is_valid(), "{}", pa.scalar(None, wanted))
    if pa.types.is_struct(wanted):
        present = {child.name.lower(): i for i, child in enumerate(column.type)}
        children = [
            _cast_nested(pc.struct_field(column, [at]), source and source.type.field(at), child)
            if (at := present.get(child.name.lower())) is not None
            else pa.nulls(len(column), child.type)
            for child in wanted
        ]
        return rebuild_nested(column, children, wanted)
    if pa.types.is_list(wanted):
        ((_, values),) = list_children(column)
        values = _cast_nested(values, source and source.type.value_field, wanted.value_field)
        return rebuild_nested(column, [values], wanted)
    if pa.types.is_map(wanted):
        (_, keys), (_, items) = list_children(column)
        items = _cast_nested(items, source and source.type.item_field, wanted.item_field)
        return rebuild_nested(column, [keys.cast(wanted.key_type), items], wanted)
    return column.cast(wanted)
