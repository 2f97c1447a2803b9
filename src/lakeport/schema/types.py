"""Types of columns: as a source declares them, as a table stores them, and as people name them.

A source's schema is a tuple of `Field`, whose `FieldType` says how JSON values are to be read. A
table's schema is a `pyarrow.Schema` restricted to the types that every destination can store:
string, int8 to int64, float32, float64, bool, date32, timestamp('us', 'UTC'), decimal128,
binary, list, struct and map. `to_arrow_type` leads from the first to the second.

Two kinds meet in the next one to the right:

```
null ─┬─ boolean ──────────┬─ string ── json
      └─ integer ── number ┘
```
Text columns hold strings as they are, and anything else as its JSON text.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from lakeport.errors import ConfigError, InputError
from lakeport.schema.literals import parse_double
from lakeport.schema.nested import JSON_METADATA, is_json, list_parts, replace_untyped

TIMESTAMP = pa.timestamp("us", "UTC")
"""The one timestamp type: microseconds since 1970, an instant in UTC."""


MAX_PRECISION = 38
"""Most decimal digits that a column can hold."""

_LONG_DIGITS = 19

_LONG = range(-(2**63), 2**63)


class Kind(StrEnum):
    """Kind of the values in a declared column."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DATE = "date"
    DECIMAL = "decimal"
    BINARY = "binary"
    JSON = "json"
    MIXED = "mixed"
    """Strings as they are, other values as the text of their JSON."""
    LIST = "list"
    STRUCT = "struct"
    NULL = "null"
    """Nothing but nulls was seen (inference only)."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """Declared type of a column: how its JSON values are parsed and stored.

    Attributes:
        kind: the kind of its values.
        precision: total digits of a decimal, 1 to 38; 19 for an inferred integer column with
            values that a double can't hold.
        scale: fraction digits of a decimal, 0 to `precision`.
        item: type of a list's items.
        fields: members of a struct; one without members is stored as JSON text.
        text: whether the values of a decimal come as JSON strings.
        opening: the brackets, `{`, `[` or both, with which a string may begin that is stored as
            the JSON it holds, since the column is declared as objects or lists; empty where
            strings are declared, too.
        rest: the member of a struct that holds its undeclared members as the text of a JSON object;
            empty where it may have none.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    item: FieldType | None = None
    fields: tuple[Field, ...] = ()
    text: bool = False
    opening: frozenset[str] = frozenset()
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A declared column, or a member of a declared struct.

    Attributes:
        name: as the source names it.
        type: the type of its values. Every column may be null.
        required: whether a record without a value for it is bad; not enforced within structs.
    """

    name: str
    type: FieldType
    required: bool = False


_PLAIN: dict[Kind, pa.DataType] = {
    Kind.STRING: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.DATE: pa.date32(),
    Kind.BINARY: pa.binary(),
    Kind.JSON: pa.string(),
    Kind.MIXED: pa.string(),
    Kind.NULL: pa.null(),
}

TEXT_KINDS: Mapping[pa.DataType, Kind] = {
    type_: kind
    for kind, type_ in _PLAIN.items()
    if kind not in (Kind.BINARY, Kind.JSON, Kind.MIXED, Kind.NULL)
}
"""Types of a table's columns that texts of CSV files or folders' names are read as -> kinds."""


def to_arrow_type(t: FieldType, *, keep_untyped: bool = False) -> pa.DataType:
    """Return the Arrow type in which a table stores a declared type.

    With `keep_untyped`, null types and structs without members stay, in place of text.

    >>> to_arrow_type(FieldType(Kind.LIST, item=FieldType(Kind.DECIMAL, precision=9, scale=2)))
    ListType(list<item: decimal128(9, 2)>)
    >>> to_arrow_type(FieldType(Kind.LIST, item=FieldType(Kind.NULL)), keep_untyped=True)
    ListType(list<item: null>)
    """
    if not keep_untyped:
        return replace_untyped(to_arrow_type(t, keep_untyped=True))
    if t.kind is Kind.LIST:
        return pa.list_(to_arrow_field("item", t.item or FieldType(Kind.JSON), keep_untyped=True))
    if t.kind is Kind.STRUCT:
        return pa.struct([to_arrow_field(f.name, f.type, keep_untyped=True) for f in t.fields])
    if t.kind is Kind.DECIMAL:
        return pa.decimal128(t.precision, t.scale)
    return _PLAIN[t.kind]


def to_arrow_field(name: str, t: FieldType, *, keep_untyped: bool = False) -> pa.Field:
    """Return the Arrow field that stores a declared type; JSON text is marked in its metadata.

    >>> is_json(to_arrow_field("v", FieldType(Kind.JSON)))
    True
    """
    metadata = JSON_METADATA if t.kind is Kind.JSON else None
    return pa.field(name, to_arrow_type(t, keep_untyped=keep_untyped), metadata=metadata)


def to_table_field(name: str, t: pa.DataType) -> pa.Field:
    """Return a table's field for a type; Arrow's JSON type becomes a string marked as JSON.

    >>> to_table_field("v", pa.json_()).type, is_json(to_table_field("v", pa.json_()))
    (DataType(string), True)
    """
    if isinstance(t, pa.JsonType):
        return pa.field(name, pa.string(), metadata=JSON_METADATA)
    return pa.field(name, t)


def get_logical_type(part: pa.Field) -> pa.DataType:
    """Return a field's type: Arrow's type JSON if its texts are marked as JSON."""
    return pa.json_() if is_json(part) else part.type


def is_number(type_: pa.DataType) -> bool:
    """Whether a type is one of integers, floats or decimals."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds)


def find_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once; None if there is none.

    >>> find_duplicate(["id", "name", "id"])
    'id'
    """
    return next((name for name, times in Counter(names).items() if times > 1), None)


def check_column_names(stream: str, names: Iterable[str], *, case_sensitive: bool = True) -> None:
    """Raise InputError if a column of a source has an empty name, or two have the same name.

    Names that differ only in case may be renamed or dropped on their way to the table, which can't
    hold both. `case_sensitive` is False for sources that can't hold both either.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not name:
            raise InputError(
                f"stream {stream!r} has a column with an empty name",
                "give it a name in the source, or leave it out of the stream's schema.",
            )
        folded = name if case_sensitive else name.lower()
        other = seen.get(folded)
        if other is not None:
            raise InputError(
                f"stream {stream!r} has two columns whose names clash: {other!r} and {name!r}",
                "rename one in the source, or leave it out there.",
            )
        seen[folded] = name


_JSON = FieldType(Kind.JSON)
_TEXTS = (Kind.STRING, Kind.TIMESTAMP, Kind.DATE, Kind.BINARY)
_OPENING = {Kind.STRUCT: frozenset("{"), Kind.LIST: frozenset("[")}


def merge_types(a: FieldType, b: FieldType) -> FieldType:
    """Return the narrowest type that holds the values of both types without loss.

    Integers and numbers give a number, dates and times a time, other kinds of text a string,
    objects the members of both, lists a list of both items; what else is mixed is JSON text.

    >>> merge_types(FieldType(Kind.INTEGER), FieldType(Kind.NUMBER)).kind
    <Kind.NUMBER: 'number'>
    """
    if a == b or b.kind is Kind.NULL:
        return a
    kinds = {a.kind, b.kind}
    if Kind.NULL in kinds:
        return b
    if kinds == {Kind.STRUCT}:
        return _merge_structs(a, b)
    if kinds == {Kind.LIST}:
        return FieldType(Kind.LIST, item=merge_types(a.item or _JSON, b.item or _JSON))
    if kinds == {Kind.INTEGER}:
        return FieldType(Kind.INTEGER, precision=max(a.precision, b.precision))
    if kinds == {Kind.INTEGER, Kind.NUMBER}:
        return _JSON if a.precision or b.precision else FieldType(Kind.NUMBER)
    if kinds <= {Kind.DECIMAL, Kind.INTEGER}:
        return _merge_decimals(a, b)
    if kinds == {Kind.TIMESTAMP, Kind.DATE}:
        return FieldType(Kind.TIMESTAMP)
    if all(t.kind in _TEXTS or t.text for t in (a, b)):
        return FieldType(Kind.STRING)
    mine, theirs = _opening_brackets(a), _opening_brackets(b)
    return FieldType(Kind.JSON, opening=mine | theirs) if mine and theirs else _JSON


def fit_json_type(t: FieldType, stored: pa.Field | None, *, dates: bool = False) -> FieldType:
    """Return a type for reading JSON into a table's column, at any depth of it.

    Mixed values are read as JSON where the column is marked so, dates as strings where it has them.

    Args:
        stored: the table's column, or the part of one; None: all mixed values are read as JSON.
        dates: whether dates were inferred, so that they may be strings.

    >>> tags = FieldType(Kind.LIST, item=FieldType(Kind.MIXED))
    >>> plain = pa.field("tags", pa.list_(pa.string()))
    >>> [fit_json_type(tags, part).item.kind.value for part in (plain, None)]
    ['mixed', 'json']
    """
    if t.kind is Kind.MIXED:
        return _JSON if stored is None or is_json(stored) else t
    if dates and t.kind in (Kind.DATE, Kind.TIMESTAMP):
        return (
            FieldType(Kind.STRING) if stored is not None and pa.types.is_string(stored.type) else t
        )
    parts = {} if stored is None else {n.lower(): part for n, part in list_parts(stored.type)}

    def fit(name: str, part: FieldType) -> FieldType:
        found = parts.get(name.lower())
        keeps = stored is not None and found is None
        return part if keeps else fit_json_type(part, found, dates=dates)

    members = tuple(replace(f, type=fit(f.name, f.type)) for f in t.fields)
    return replace(t, item=t.item and fit("element", t.item), fields=members)


def merge_fields(a: tuple[Field, ...], b: tuple[Field, ...]) -> tuple[Field, ...]:
    """Merge two sets of columns: those of `a` in their order, then those that only `b` has.

    A column is required only where both require it.

    >>> one = (Field("n", FieldType(Kind.INTEGER)),)
    >>> [f.type.kind.value for f in merge_fields(one, (Field("n", FieldType(Kind.NUMBER)),))]
    ['number']
    """
    if a == b:
        return a
    theirs = {f.name: f for f in b}
    mine = {f.name for f in a}
    both = [_merge_field(f, theirs.get(f.name)) for f in a]
    return (*both, *(Field(f.name, f.type) for f in b if f.name not in mine))


def _merge_field(mine: Field, other: Field | None) -> Field:
    """Merge a column with its namesake; required only if both are, not if `other` is None."""
    if other is None:
        return Field(mine.name, mine.type)
    return Field(mine.name, merge_types(mine.type, other.type), mine.required and other.required)


def _merge_structs(a: FieldType, b: FieldType) -> FieldType:
    """Return a struct with the members of both; JSON text if names differ only in case."""
    fields = merge_fields(a.fields, b.fields)
    if len({f.name.lower() for f in fields}) < len(fields):
        return FieldType(Kind.JSON, opening=_OPENING[Kind.STRUCT])
    return FieldType(Kind.STRUCT, fields=fields, rest=a.rest or b.rest)


def _opening_brackets(t: FieldType) -> frozenset[str]:
    """Return the brackets that a string of this type's JSON may begin with; empty if none."""
    return _OPENING.get(t.kind, t.opening)


def _merge_decimals(a: FieldType, b: FieldType) -> FieldType:
    """Return a decimal with the integer and fraction digits of both; JSON beyond 38 digits."""
    whole = max(_LONG_DIGITS if t.kind is Kind.INTEGER else t.precision - t.scale for t in (a, b))
    scale = max(a.scale, b.scale)
    if whole + scale > MAX_PRECISION:
        return _JSON
    text = all(t.text for t in (a, b))
    return FieldType(Kind.DECIMAL, precision=whole + scale, scale=scale, text=text)


def classify_number(literal: str) -> str:
    """Classify a number literal: `integer`, `number`, or `string` if neither is exact.

    >>> classify_number("9223372036854775808")
    'string'
    """
    if literal.removeprefix("-").isdecimal():
        return "integer" if len(literal) <= 20 and int(literal) in _LONG else "string"
    try:
        parse_double(literal)
    except ValueError:
        return "string"
    return "number"


def merge_kinds(a: str, b: str) -> str:
    """Return the kind for values of both kinds; `string` or `json` if they clash.

    >>> merge_kinds("integer", "number"), merge_kinds("boolean", "number")
    ('number', 'string')
    """
    if a == b or b == "null":
        return a
    if a == "null":
        return b
    if {a, b} == {"integer", "number"}:
        return "number"
    return "json" if "json" in (a, b) else "string"


def kind_to_arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type in which a table stores an undeclared field of this kind."""
    return to_arrow_type(FieldType(Kind(kind)))


_NAMES = {
    "string": Kind.STRING,
    "text": Kind.STRING,
    "integer": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "long": Kind.INTEGER,
    "int64": Kind.INTEGER,
    "number": Kind.NUMBER,
    "double": Kind.NUMBER,
    "float64": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "datetime": Kind.TIMESTAMP,
    "json": Kind.JSON,
}
_DECIMAL = re.compile(r"decimal\((\d+)(?:,(\d+))?\)")
_TYPE_NAMES = {
    pa.int64(): "integer",
    pa.float64(): "double",
    pa.float32(): "float32",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "no value yet",
    pa.json_(): "json",
}


def parse_type_name(name: str, column: str) -> FieldType:
    """Parse a declared type's name, such as `decimal(10,2)`; ConfigError for an unknown name.

    >>> parse_type_name("decimal(10, 2)", "price").scale
    2
    """
    text = name.lower().replace(" ", "")
    if text in _NAMES:
        return FieldType(_NAMES[text])
    match = _DECIMAL.fullmatch(text)
    if match:
        precision, scale = int(match[1]), int(match[2] or 0)
        if 0 < precision <= MAX_PRECISION and scale <= precision:
            return FieldType(Kind.DECIMAL, precision, scale)
    close = difflib.get_close_matches(text, [*_NAMES, "decimal(10,2)"], n=1)
    raise ConfigError(
        f"column {column!r} is declared as {name!r}, which is no type"
        + (f"; did you mean {close[0]!r}?" if close else ""),
        "types: string, integer, number (or double), boolean, date, timestamp, json, "
        f"decimal(precision, scale) with a precision of 1 to {MAX_PRECISION}.",
    )


def format_type(type_: pa.DataType) -> str:
    """Return a type's name for people, such as `decimal(10,2)`; `object` for any struct.

    >>> [format_type(t) for t in (pa.int64(), pa.decimal128(10, 2), pa.list_(pa.int64()))]
    ['integer', 'decimal(10,2)', 'list of integer']
    """
    if type_ in _TYPE_NAMES:
        return _TYPE_NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"list of {format_type(get_logical_type(type_.value_field))}"
    if pa.types.is_struct(type_):
        return "object"
    return "map" if pa.types.is_map(type_) else str(type_)


def check_column_count(
    stream: str, columns: pa.Schema, max_columns: int, *, complete: bool = True
) -> None:
    """Raise InputError if columns and members of objects are more than `max_columns`.

    The hint names the object with the most members. `complete` is False where the source may have
    further columns.
    """
    count = count_columns(columns)
    if count <= max_columns:
        return
    sizes = {field.name: _count_members(field.type) for field in columns}
    widest = max(sizes, key=lambda name: sizes[name])
    enough = count + count // 10 + 10 if complete else max(20 * max_columns, count)
    more = f"`--set max_columns={enough}`"
    if sizes[widest] > len(columns):
        what = f"of which object {widest!r} has {sizes[widest]:,}"
        hint = (
            f"where its keys are data, `--column {shlex.quote(f'{widest}=json')}` keeps it as JSON "
            f"text; {more} takes the keys for columns all the same."
        )
    else:
        what = f"the records' own keys are {len(columns):,} of them"
        hint = (
            f"{more} takes them for columns all the same. Where the keys are data, put them into "
            "one field of the record in the source, and declare that as `json`."
        )
    shown = f"{count:,}" if complete else f"more than {max_columns:,}"
    raise InputError(
        f"stream {stream!r} has {shown} columns "
        f"and members of objects, {what}, and `max_columns` is {max_columns:,}",
        hint,
    )


def count_columns(columns: Iterable[pa.Field]) -> int:
    """Count columns and the members of their objects, at any depth.

    >>> count_columns([pa.field("a", pa.list_(pa.struct([("b", pa.int64()), ("c", pa.int64())])))])
    3
    """
    return sum(1 + _count_members(field.type) for field in columns)


def count_leaves(columns: Iterable[pa.Field]) -> int:
    """Count the flat arrays that hold the values of a batch with these columns.

    >>> items = pa.list_(pa.struct([("c", pa.int64())]))
    >>> count_leaves(pa.schema([("a", pa.int64()), ("b", items)]))
    2
    """
    return sum(max(1, _count_members(field.type)) for field in columns)


def _count_members(type_: pa.DataType) -> int:
    """Count the members of objects within a type, at any depth."""
    if pa.types.is_struct(type_):
        return sum(1 + _count_members(member.type) for member in type_)
    if pa.types.is_list(type_):
        return _count_members(type_.value_type)
    return _count_members(type_.item_type) if pa.types.is_map(type_) else 0
