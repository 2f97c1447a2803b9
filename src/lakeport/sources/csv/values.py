"""Texts of one CSV column -> values, vectorised and exact; and what type a column's texts allow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.schema.literals import parse_double

BOOLEAN, INTEGER, NUMBER, DATE, TIMESTAMP, ZONED = 1, 2, 4, 8, 16, 32
"""Kinds that texts can have besides text, as bits; of timestamps, those without and with a zone."""

ANY_KIND = 63
"""The set of all of them."""

_UTC = pa.timestamp("us", "UTC")
_TYPES: dict[int, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    INTEGER: pa.int64(),
    NUMBER: pa.float64(),
    DATE: pa.date32(),
    TIMESTAMP: _UTC,
    ZONED: _UTC,
}
_YEARS = {
    pa.date32(): (-719_162, 2_932_896),
    _UTC: (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
_MAX_DIGITS = 17  # what a double printed in full has
_TOO_EXACT = rf"^-?[0.]*[1-9](?:\.?[0-9]){{{_MAX_DIGITS},}}"
_EXACT_INTEGER = 15  # characters of numbers that any double keeps
_LONG_INTEGER = r"^-?[0-9]{16,}$"  # may lie beyond 2**53
_NOT_WRITTEN_BY_PROGRAMS = r"^(?:\+|-?0[0-9]|-?[0-9]+[eE][0-9])"
_EXACT = 2.0**53
_ZERO = r"^[+-]?[0.]+(?:[eE].*)?$"
_STAMP = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)
_PATTERNS = {
    pa.int64(): r"^-?[0-9]+$",
    pa.float64(): r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$",
    pa.bool_(): r"^(?i:true|false|1|0)$",
    pa.date32(): r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    _UTC: _STAMP,
}


def type_of_kinds(kinds: int) -> pa.DataType:
    """The narrowest type that a set of kinds allows.

    Text where none is left, and where all are: no text is of every kind, so there was none.
    """
    if kinds == ANY_KIND:
        return pa.string()
    for kind, type_ in _TYPES.items():
        if kinds & kind:
            return type_
    return pa.string()


def kinds_of(texts: pa.StringArray, kinds: int = ANY_KIND) -> int:
    """Which of `kinds` all texts of a column can be; nulls and empty texts fit all.

    A text fits a kind only if nothing of it would be lost: `00123`, `+1`, 64 bits exceeded or a
    number with more digits than a double keeps are text. So is `12E12`, which may be a code: where
    programs write an exponent, the number has a point or the exponent a sign. Times with and
    without a zone are text together.

    >>> type_of_kinds(kinds_of(pa.array(["1", "2.5", None])))
    DataType(double)
    """
    texts = _filled(texts)
    for part in (texts[:8], texts):
        for kind, fits in _FITS.items():
            if not kinds & kind:
                continue
            if kind == NUMBER and kinds & INTEGER:  # plain integers: no need to look again
                fitting = not _too_long(part)
            else:
                fitting = bool(kind in (TIMESTAMP, ZONED) and kinds & DATE) or fits(part)
            if not fitting:
                kinds &= ~kind
    return kinds


def _filled(texts: pa.StringArray) -> pa.StringArray:
    return texts.filter(pc.fill_null(pc.not_equal(texts, ""), False))


def _longest(texts: pa.StringArray) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _too_long(texts: pa.StringArray) -> bool:
    """Whether there are integers that a double may not keep."""
    if _longest(texts) <= _EXACT_INTEGER:
        return False
    return _any(pc.match_substring_regex(texts, _LONG_INTEGER))


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())


def _is_integer(texts: pa.StringArray) -> bool:
    try:
        back = texts.cast(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return bool(back.equals(texts))


def _is_number(texts: pa.StringArray) -> bool:
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    if _any(_lost(texts, values)) or _any(
        pc.match_substring_regex(texts, _NOT_WRITTEN_BY_PROGRAMS)
    ):
        return False
    return not (
        _too_long(texts)
        or (_longest(texts) > _MAX_DIGITS and _any(pc.match_substring_regex(texts, _TOO_EXACT)))
    )


def _is_boolean(texts: pa.StringArray) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, r"^(?i:true|false)$")).as_py() is not False)


def _fits_whole(type_: pa.DataType, unlike: str = "") -> Any:
    """Return what tells whether all texts are of a type, and none of them like a pattern."""

    def fits(texts: pa.StringArray) -> bool:
        if unlike and _any(pc.match_substring_regex(texts, unlike)):
            return False
        return _quick(texts, type_) is not None or convert(texts, type_)[1] is None

    return fits


_FITS: dict[int, Any] = {
    BOOLEAN: _is_boolean,
    INTEGER: _is_integer,
    NUMBER: _is_number,
    DATE: _fits_whole(pa.date32()),
    TIMESTAMP: _fits_whole(_UTC, r"[Zz+]|.{10}[Tt ][0-9:.]*-"),
    ZONED: _fits_whole(_UTC, r"[Tt ][0-9:.]+\s*$"),
}


def convert(texts: pa.StringArray, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Turn texts into values of `type_`, which no conversion may round, wrap or guess.

    Naive timestamps are UTC. Which numbers a double keeps: `schema.literals.parse_double`.

    Returns:
        The values, null where a text does not fit; and a mask of those, None if there are none.

    >>> convert(pa.array(["7", "x"]), pa.int64())[1].to_pylist()
    [False, True]
    """
    if type_ == pa.string():
        return texts, None
    quick = _quick(texts, type_)
    if quick is not None:
        return quick, None
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    quick = _quick(texts, type_)
    if quick is not None:
        return quick, None
    return _careful(texts, type_)


def _quick(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    """All values at once where all are written as Arrow reads them; else None."""
    if type_ not in (pa.int64(), pa.float64(), pa.date32(), _UTC):
        return None
    try:
        values = texts.cast(type_)
    except pa.ArrowInvalid:
        return _quick_naive(texts) if type_ == _UTC else None
    if type_ == pa.int64() and any(_any(pc.match_substring(texts, x)) for x in "xX"):
        return None
    lost = _lost(texts, values)
    return None if _any(lost) else values


def _quick_naive(texts: pa.StringArray) -> pa.Array | None:
    try:
        values = texts.cast(pa.timestamp("us")).cast(_UTC)
    except pa.ArrowInvalid:
        return None
    return None if _any(_lost(texts, values)) else values


def _lost(texts: pa.StringArray, values: pa.Array) -> Any:
    """Where a value is not what its text says, although Arrow took it."""
    if values.type in _YEARS:
        low, high = _YEARS[values.type]
        units = values.cast(pa.int32() if values.type == pa.date32() else pa.int64())
        return pc.or_(pc.less(units, low), pc.greater(units, high))
    if values.type == pa.float64():
        return _lost_doubles(texts, values)
    return pa.nulls(len(values), pa.bool_())


def _lost_doubles(texts: pa.StringArray, values: pa.Array) -> Any:
    """Infinities, zeros that are none, and integers that the double does not give back."""
    lost = pc.invert(pc.is_finite(values))
    zero = pc.equal(values, 0.0)
    if _any(zero):
        lost = pc.or_(lost, pc.and_not(zero, pc.match_substring_regex(texts, _ZERO)))
    large = pc.fill_null(pc.greater_equal(pc.abs(values), _EXACT), False)
    if _any(large):
        checked = pa.array([not _kept(text) for text in texts.filter(large).to_pylist()])
        lost = pc.replace_with_mask(lost, large, checked)
    return lost


def _kept(number: str) -> bool:
    try:
        parse_double(number)
    except ValueError:
        return False
    return True


def _careful(texts: pa.StringArray, type_: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    plain = _as_arrow_reads(pc.ascii_trim_whitespace(texts), type_)
    pattern = _PATTERNS.get(type_) or _decimal_pattern(type_)
    fits = pc.match_substring_regex(plain, pattern)
    plain = pc.if_else(fits, plain, None)
    if type_ == _UTC:
        plain = _with_offset(plain)
    elif type_ == pa.bool_():
        values = pc.match_substring_regex(plain, r"^(?i:true|1)$")
        return values, masked(texts, values)
    values = _cast_each(plain, type_)
    lost = pc.fill_null(_lost(plain, values), False)
    values = pc.if_else(lost, None, values)
    return values, masked(texts, values)


def _decimal_pattern(type_: pa.Decimal128Type) -> str:
    """Texts with no more digits than the type has: of too many, Arrow drops the first ones."""
    return (
        rf"^[+-]?0{{1,2}}[0-9]{{0,{type_.precision - type_.scale}}}(?:\.[0-9]{{0,{type_.scale}}})?$"
    )


def masked(texts: pa.StringArray, values: pa.Array) -> pa.BooleanArray | None:
    """Where there is a text, and no value became of it; None if nowhere."""
    if values.null_count == texts.null_count:
        return None
    return pc.and_(texts.is_valid(), values.is_null())


def _as_arrow_reads(texts: pa.StringArray, type_: pa.DataType) -> pa.StringArray:
    if type_ == pa.int64():
        texts = pc.replace_substring_regex(texts, r"^\+([0-9])", r"\1")
        return pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0*$", r"\1")
    if type_ == _UTC:
        return pc.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    if pa.types.is_decimal(type_):
        texts = pc.replace_substring_regex(texts, r"^([+-]?)0*(\.?[0-9])", r"\10\2")
        return pc.replace_substring_regex(texts, r"(\.[0-9]*?)0+$", r"\1")
    return texts


def _with_offset(texts: pa.StringArray) -> pa.StringArray:
    """Dates and naive timestamps with the offset that Arrow wants in every text."""
    texts = pc.ascii_upper(texts)
    texts = pc.replace_substring_regex(texts, r"^([-0-9]{10})$", r"\1T00:00:00")
    return pc.replace_substring_regex(texts, r"^(.{10}[T ][0-9:.]+)$", r"\1Z")


def _cast_each(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    """Cast; where Arrow refuses, halve until only the texts at fault are null."""
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
    middle = len(texts) // 2
    return pa.concat_arrays([_cast_each(texts[:middle], type_), _cast_each(texts[middle:], type_)])
