"""Convert the texts of a CSV column to typed values, exactly; find the types that texts fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.schema.literals import parse_double

if TYPE_CHECKING:
    from lakeport.sources.csv.dialect import Format

BOOLEAN, INTEGER, NUMBER, DATE, TIMESTAMP, ZONED = 1, 2, 4, 8, 16, 32
"""Kinds of values besides text, as bits. `TIMESTAMP` has no time zone, `ZONED` has one."""

KindBits = int
"""A set of kinds: the sum of their bits."""

ANY_KIND = 63
"""The set of all kinds."""

_NAIVE, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
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
_YEARS[_NAIVE] = _YEARS[_UTC]
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


def narrowest_type(kinds: KindBits) -> pa.DataType:
    """Return the narrowest Arrow type in a bit set of kinds; string for no kind and for `ANY_KIND`.

    No text is of every kind, so the column of the full set has none.
    """
    if kinds == ANY_KIND:
        return pa.string()
    for kind, type_ in _TYPES.items():
        if kinds & kind:
            return type_
    return pa.string()


def match_kinds(texts: pa.StringArray, kinds: KindBits = ANY_KIND) -> KindBits:
    """Return the bits of `kinds` that every text can be parsed as; ignore nulls and empty texts.

    A text fits a kind only if nothing of it would be lost: `00123`, `+1`, 64 bits exceeded or a
    number with more digits than a double keeps are text. So is `12E12`, which may be a code: where
    programs write an exponent, the number has a point or the exponent a sign. Times with and
    without a zone are text together.

    >>> narrowest_type(match_kinds(pa.array(["1", "2.5", None])))
    DataType(double)
    """
    texts = drop_empty(texts)
    for part in (texts[:8], texts):
        for kind, fits in _CHECKS.items():
            if not kinds & kind:
                continue
            if kind == NUMBER and kinds & INTEGER:  # all are integers: only their length matters
                is_fit = not _has_inexact_integers(part)
            else:
                is_fit = bool(kind in (TIMESTAMP, ZONED) and kinds & DATE) or fits(part)
            if not is_fit:
                kinds &= ~kind
    return kinds


def drop_empty(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts without nulls and empty ones."""
    return texts.filter(pc.fill_null(pc.not_equal(texts, ""), False))


def _max_length(texts: pa.StringArray) -> int:
    """Return the length of the longest text in bytes; 0 if there is none."""
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _has_inexact_integers(texts: pa.StringArray) -> bool:
    """Whether any text is an integer too long for a double to store exactly."""
    if _max_length(texts) <= _EXACT_INTEGER:
        return False
    return _matches(texts, _LONG_INTEGER)


def _is_any(mask: Any) -> bool:
    """Whether any value of a mask is true; a null is false."""
    return bool(pc.any(mask).as_py())


def _matches(texts: pa.StringArray, pattern: str) -> bool:
    """Whether any text matches a regular expression."""
    return _is_any(pc.match_substring_regex(texts, pattern))


def _are_integers(texts: pa.StringArray) -> bool:
    """Whether all texts are 64-bit integers in canonical form; False for `+1`, `007` or `1.0`."""
    try:
        back = texts.cast(pa.int64()).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return bool(back.equals(texts))


def _are_numbers(texts: pa.StringArray) -> bool:
    """Whether all texts are numbers that a double stores exactly; False for `+1` or `12E12`."""
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    if _is_any(_find_lost(texts, values)) or _matches(texts, _NOT_WRITTEN_BY_PROGRAMS):
        return False
    return not (
        _has_inexact_integers(texts)
        or (_max_length(texts) > _MAX_DIGITS and _matches(texts, _TOO_EXACT))
    )


def all_match(texts: pa.StringArray, pattern: str) -> bool:
    """Whether all texts match a regular expression; True for no text."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def _are_booleans(texts: pa.StringArray) -> bool:
    """Whether all texts are `true` or `false`, in any case."""
    return all_match(texts, r"^(?i:true|false)$")


def _create_check(type_: pa.DataType, excluded: str = "") -> Callable[[pa.StringArray], bool]:
    """Return a test that all texts convert to `type_` and none matches the regex `excluded`."""

    def fits(texts: pa.StringArray) -> bool:
        if excluded and _matches(texts, excluded):
            return False
        return convert_texts(texts, type_)[1] is None

    return fits


_CHECKS: dict[int, Callable[[pa.StringArray], bool]] = {
    BOOLEAN: _are_booleans,
    INTEGER: _are_integers,
    NUMBER: _are_numbers,
    DATE: _create_check(pa.date32()),
    TIMESTAMP: _create_check(_UTC, r"[Zz+]|.{10}[Tt ][0-9:.]*-"),
    ZONED: _create_check(_UTC, r"[Tt ][0-9:.]+\s*$"),
}


def convert_texts(
    texts: pa.StringArray, type_: pa.DataType, format_: Format | None = None
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Cast texts to `type_`; return values, null if invalid, and a mask of invalid texts or None.

    The mask is None if all texts fit. Nothing is rounded, wrapped or guessed. Naive timestamps are
    UTC. `schema.literals.parse_double` says which numbers a double keeps.

    >>> convert_texts(pa.array(["7", "x"]), pa.int64())[1].to_pylist()
    [False, True]
    >>> from lakeport.sources.csv.dialect import NumberFormat
    >>> format_ = NumberFormat(",", ".")
    >>> convert_texts(pa.array(["1.234,56", "1.5"]), pa.float64(), format_)[0].to_pylist()
    [1234.56, None]
    """
    if type_ == pa.string():
        return texts, None
    if format_ is not None:
        texts = _empty_to_null(pc.utf8_trim_whitespace(texts))
        fits = pc.match_substring_regex(texts, format_.pattern)
        values, _ = convert_texts(format_.normalize(pc.if_else(fits, texts, None)), type_)
        return values, _find_failed(texts, values)
    values = _cast_strict(texts, type_)
    if values is None:
        texts = _empty_to_null(texts)
        values = _cast_strict(texts, type_)
    return _convert_each(texts, type_) if values is None else (values, None)


def _empty_to_null(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _cast_strict(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    """Cast texts with Arrow; return None if it can't cast all of them to `type_` without loss."""
    if type_ not in (pa.int64(), pa.float64(), pa.date32(), _NAIVE, _UTC):
        return None
    try:
        values = texts.cast(type_)
    except pa.ArrowInvalid:
        naive = _cast_strict(texts, _NAIVE) if type_ == _UTC else None
        return None if naive is None else naive.cast(_UTC)
    if type_ == pa.int64() and any(_is_any(pc.match_substring(texts, x)) for x in "xX"):
        return None
    lost = _find_lost(texts, values)
    return None if _is_any(lost) else values


def _find_lost(texts: pa.StringArray, values: pa.Array) -> Any:
    """Return a mask of dates outside years 1 to 9999, or inexact doubles; nulls for other types."""
    if values.type in _YEARS:
        low, high = _YEARS[values.type]
        units = values.cast(pa.int32() if values.type == pa.date32() else pa.int64())
        return pc.or_(pc.less(units, low), pc.greater(units, high))
    if values.type == pa.float64():
        return _find_lost_doubles(texts, values)
    return pa.nulls(len(values), pa.bool_())


def _find_lost_doubles(texts: pa.StringArray, values: pa.Array) -> Any:
    """Return a mask of doubles that are not finite, underflowed to 0 or are rounded integers."""
    lost = pc.invert(pc.is_finite(values))
    zero = pc.equal(values, 0.0)
    if _is_any(zero):
        lost = pc.or_(lost, pc.and_not(zero, pc.match_substring_regex(texts, _ZERO)))
    large = pc.fill_null(pc.greater_equal(pc.abs(values), _EXACT), False)
    if _is_any(large):
        checked = pa.array([not _is_exact(text) for text in texts.filter(large).to_pylist()])
        lost = pc.replace_with_mask(lost, large, checked)
    return lost


def _is_exact(number: str) -> bool:
    """Whether a double can store a number's text without loss; see `parse_double`."""
    try:
        parse_double(number)
    except ValueError:
        return False
    return True


def _convert_each(
    texts: pa.StringArray, type_: pa.DataType
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Convert texts that Arrow refused; return values (null if invalid), and a mask or None."""
    plain = _rewrite_for_arrow(pc.ascii_trim_whitespace(texts), type_)
    pattern = _PATTERNS.get(type_) or _decimal_pattern(type_)
    fits = pc.match_substring_regex(plain, pattern)
    plain = pc.if_else(fits, plain, None)
    if type_ == _UTC:
        plain = _add_offset(plain)
    elif type_ == pa.bool_():
        values = pc.match_substring_regex(plain, r"^(?i:true|1)$")
        return values, _find_failed(texts, values)
    values = _cast_each(plain, type_)
    lost = pc.fill_null(_find_lost(plain, values), False)
    values = pc.if_else(lost, None, values)
    return values, _find_failed(texts, values)


def _decimal_pattern(type_: pa.Decimal128Type) -> str:
    """Return a regex of numbers whose digits fit a decimal type's precision and scale.

    Of longer texts, Arrow would drop the first digits.
    """
    return (
        rf"^[+-]?0{{1,2}}[0-9]{{0,{type_.precision - type_.scale}}}(?:\.[0-9]{{0,{type_.scale}}})?$"
    )


def _find_failed(texts: pa.StringArray, values: pa.Array) -> pa.BooleanArray | None:
    """Return a mask of texts that became null; None if there are none."""
    if values.null_count == texts.null_count:
        return None
    return pc.and_(texts.is_valid(), values.is_null())


def _rewrite_for_arrow(texts: pa.StringArray, type_: pa.DataType) -> pa.StringArray:
    """Remove plus signs and redundant zeros and points that Arrow's cast to `type_` refuses."""
    if type_ == pa.int64():
        texts = pc.replace_substring_regex(texts, r"^\+([0-9])", r"\1")
        return pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0*$", r"\1")
    if type_ == _UTC:
        return pc.replace_substring_regex(texts, r"(\.[0-9]{6})0+", r"\1")
    if pa.types.is_decimal(type_):
        texts = pc.replace_substring_regex(texts, r"^([+-]?)0*(\.?[0-9])", r"\10\2")
        return pc.replace_substring_regex(texts, r"(\.[0-9]*?)0+$", r"\1")
    return texts


def _add_offset(texts: pa.StringArray) -> pa.StringArray:
    """Add midnight to dates and `Z` to naive timestamps: Arrow wants an offset in every text."""
    texts = pc.ascii_upper(texts)
    texts = pc.replace_substring_regex(texts, r"^([-0-9]{10})$", r"\1T00:00:00")
    return pc.replace_substring_regex(texts, r"^(.{10}[T ][0-9:.]+)$", r"\1Z")


def _cast_each(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    """Cast texts to `type_`, with null for any that Arrow refuses; bisect to find those."""
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
    middle = len(texts) // 2
    return pa.concat_arrays([_cast_each(texts[:middle], type_), _cast_each(texts[middle:], type_)])
