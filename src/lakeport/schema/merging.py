"""One type for values that may have any of two: what `anyOf` and inference need."""

from __future__ import annotations

from lakeport.schema.types import MAX_PRECISION, Field, FieldType, Kind

_JSON = FieldType(Kind.JSON)
_TEXTS = (Kind.STRING, Kind.TIMESTAMP, Kind.DATE, Kind.BINARY)
_LONG_DIGITS = 19
_OPENING = {Kind.STRUCT: frozenset("{"), Kind.LIST: frozenset("[")}


def merge_types(a: FieldType, b: FieldType) -> FieldType:
    """Tell the narrowest type that holds the values of both without losing any.

    Integers and numbers give a number, dates and times a time, other kinds of text a string,
    objects the members of both, lists a list of both items; what else is mixed is JSON text.

    Example:
        >>> merge_types(FieldType(Kind.INTEGER), FieldType(Kind.NUMBER)).kind
        <Kind.NUMBER: 'number'>
    """
    if a == b or b.kind is Kind.NULL:
        return a
    kinds = {a.kind, b.kind}
    if Kind.NULL in kinds:
        return b
    if kinds == {Kind.STRUCT}:
        return _struct(a, b)
    if kinds == {Kind.LIST}:
        return FieldType(Kind.LIST, item=merge_types(a.item or _JSON, b.item or _JSON))
    if kinds == {Kind.INTEGER}:
        return FieldType(Kind.INTEGER, precision=max(a.precision, b.precision))
    if kinds == {Kind.INTEGER, Kind.NUMBER}:
        return _JSON if a.precision or b.precision else FieldType(Kind.NUMBER)
    if kinds <= {Kind.DECIMAL, Kind.INTEGER}:
        return _decimal(a, b)
    if kinds == {Kind.TIMESTAMP, Kind.DATE}:
        return FieldType(Kind.TIMESTAMP)
    if all(t.kind in _TEXTS or t.text for t in (a, b)):
        return FieldType(Kind.STRING)
    mine, theirs = _opening(a), _opening(b)
    return FieldType(Kind.JSON, opening=mine | theirs) if mine and theirs else _JSON


def merge_fields(a: tuple[Field, ...], b: tuple[Field, ...]) -> tuple[Field, ...]:
    """Merge two sets of columns; the order is that of `a`, then what only `b` has.

    A column is required only where both require it.

    Example:
        >>> one = (Field("n", FieldType(Kind.INTEGER)),)
        >>> [f.type.kind.value for f in merge_fields(one, (Field("n", FieldType(Kind.NUMBER)),))]
        ['number']
    """
    if a == b:
        return a
    theirs = {f.name: f for f in b}
    mine = {f.name for f in a}
    both = [_merged(f, theirs.get(f.name)) for f in a]
    return (*both, *(Field(f.name, f.type) for f in b if f.name not in mine))


def _merged(mine: Field, other: Field | None) -> Field:
    if other is None:
        return Field(mine.name, mine.type)
    return Field(mine.name, merge_types(mine.type, other.type), mine.required and other.required)


def _struct(a: FieldType, b: FieldType) -> FieldType:
    fields = merge_fields(a.fields, b.fields)
    if len({f.name.lower() for f in fields}) < len(fields):
        return FieldType(Kind.JSON, opening=_OPENING[Kind.STRUCT])
    return FieldType(Kind.STRUCT, fields=fields, rest=a.rest or b.rest)


def _opening(t: FieldType) -> frozenset[str]:
    return _OPENING.get(t.kind, t.opening)


def _decimal(a: FieldType, b: FieldType) -> FieldType:
    """A decimal with the integer digits and the fraction digits of both, if that fits."""
    whole = max(_LONG_DIGITS if t.kind is Kind.INTEGER else t.precision - t.scale for t in (a, b))
    scale = max(a.scale, b.scale)
    if whole + scale > MAX_PRECISION:
        return _JSON
    text = all(t.text for t in (a, b))
    return FieldType(Kind.DECIMAL, precision=whole + scale, scale=scale, text=text)
