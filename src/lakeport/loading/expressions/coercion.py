"""The types that are computed with, and which type two of them have in common, as Spark says.

Source: Spark's `AnsiTypeCoercion`. Decimals, and what is nested, only pass through.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa

from lakeport.loading.expressions.bound import Bound, Call, Constant
from lakeport.loading.expressions.kernels import casts, decimals
from lakeport.loading.expressions.kernels.decimals import MOST_SCALE
from lakeport.loading.expressions.kernels.numbers import MOST_PLACES
from lakeport.loading.expressions.tokens import Beyond
from lakeport.schema.types import MAX_PRECISION, TIMESTAMP

__all__ = [
    "CASTS_BY_NAME",
    "INTEGERS",
    "as_decimal",
    "cast_to",
    "common",
    "date_of",
    "is_exact",
    "moment_of",
    "need",
    "to_common",
]

INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS: Final = dict(zip(INTEGERS, (3, 5, 10, 20), strict=True))
"""Type of integers -> digits of the decimal that they are beside one."""
_PLAIN: Final = (*INTEGERS, pa.float64(), pa.string(), pa.bool_(), pa.date32(), TIMESTAMP)
CASTS_BY_NAME: Final = {
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
"""A type's name in `CAST` -> the type."""
_DATE: Final = re.compile(r"(?!0000)\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"(?!0000)\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")


def need(expression: Bound, *types: pa.DataType) -> Bound:
    """An expression of one of these types.

    Raises:
        Beyond: it is of another, or an exact decimal.
    """
    if expression.type not in types or _is_decimal(expression):
        raise Beyond
    return expression


def common(expressions: list[Bound]) -> pa.DataType:
    """The type that Spark makes of several that stand beside one another.

    Raises:
        Beyond: there is none that is known here.
    """
    types = {one.type for one in expressions if one.type != pa.null()}
    if not types or not types <= set(_PLAIN):
        raise Beyond
    if any(map(_is_decimal, expressions)):
        # An exact decimal beside a double becomes one; beside an integer, both are decimals.
        floats = [one for one in expressions if one.type == pa.float64() and not _is_decimal(one)]
        if not floats:
            raise Beyond
    if len(types) == 1:
        return types.pop()
    if types <= set(INTEGERS):
        return max(types, key=INTEGERS.index)
    if types <= {*INTEGERS, pa.float64()}:
        return pa.float64()
    raise Beyond


def to_common(expressions: list[Bound], *, compared: bool = False) -> list[Bound]:
    """The same, each of the type that they have in common.

    Args:
        expressions: which stand beside one another.
        compared: whether they are compared: a text that is written out is then read as a date.
    """
    if compared:
        expressions = _read_as_dates(expressions)
        if is_exact(expressions):
            return _beside(expressions)
    wanted = common(expressions)
    return [cast_to(one, wanted) for one in expressions]


def cast_to(expression: Bound, type_: pa.DataType) -> Bound:
    """An expression as another type, by `CAST`.

    Raises:
        Beyond: there is no rule for these types.
    """
    have = expression.type
    if _is_decimal(expression):
        if type_ != pa.float64():
            raise Beyond
        return Constant(expression.value, type_)  # type: ignore[union-attr]
    if have == type_:
        return expression
    if pa.types.is_decimal(type_):
        return _cast_to_decimal(expression, type_)
    if have == pa.null() and type_ in _PLAIN:
        return Constant(None, type_)
    if isinstance(expression, Constant) and have in INTEGERS and type_ == pa.int64():
        return Constant(expression.value, type_)
    kernel = casts.CASTS.get((have, type_))
    if kernel is None and have in INTEGERS:
        kernel = casts.CASTS.get((pa.int64(), type_))
    if kernel is None:
        raise Beyond
    return Call(kernel, (expression,), type_)


def _cast_to_decimal(expression: Bound, type_: pa.DataType) -> Bound:
    have, known = expression.type, (*INTEGERS, pa.float64(), pa.string())
    if type_.scale > (MOST_PLACES if have == pa.float64() else MOST_SCALE):
        raise Beyond
    if have not in known and not pa.types.is_decimal(have):
        raise Beyond
    return Call(decimals.as_decimal, (expression, Constant(None, type_)), type_)


def _read_as_dates(expressions: list[Bound]) -> list[Bound]:
    types = {one.type for one in expressions}
    if TIMESTAMP in types:
        return [_as_moment(one) for one in expressions]
    return [_as_date(one) for one in expressions] if pa.date32() in types else expressions


def _beside(expressions: list[Bound]) -> list[Bound]:
    """Decimals that are compared, each with the digits of all of them."""
    found = [one if one.type == pa.null() else as_decimal(one) for one in expressions]
    types = [one.type for one in found if one.type != pa.null()]
    scale = max(t.scale for t in types)
    digits = max(t.precision - t.scale for t in types) + scale
    if digits > MAX_PRECISION:
        raise Beyond
    return [
        Constant(one.value, pa.decimal128(digits, scale)) if isinstance(one, Constant) else one
        for one in found
    ]


def is_exact(expressions: list[Bound]) -> bool:
    """Whether numbers beside one another are decimals: one is, and none is a double."""
    if any(one.type == pa.float64() and not _is_decimal(one) for one in expressions):
        return False
    return any(pa.types.is_decimal(one.type) or _is_decimal(one) for one in expressions)


def as_decimal(one: Bound) -> Bound:
    """A number as the decimal that Spark makes of it beside another.

    Raises:
        Beyond: it is no integer and no decimal.
    """
    if pa.types.is_decimal(one.type):
        return one
    if one.type not in _DIGITS and not _is_decimal(one):
        raise Beyond
    if not isinstance(one, Constant):
        return Call(casts.WHOLE[_DIGITS[one.type]], (one,), pa.decimal128(_DIGITS[one.type], 0))
    value = Decimal(one.value) if one.exact is None else one.exact
    digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
    return Constant(value, pa.decimal128(max(digits, scale), scale))


def _as_date(one: Bound) -> Bound:
    if not isinstance(one, Constant) or one.type != pa.string():
        return one
    return Constant(date_of(one.value), pa.date32())


def _as_moment(one: Bound) -> Bound:
    if isinstance(one, Constant) and one.type == pa.string():
        return Constant(moment_of(one.value), TIMESTAMP)
    return cast_to(one, TIMESTAMP) if one.type == pa.date32() else one


def date_of(text: str) -> date:
    """A date that is written out in full."""
    if not _DATE.fullmatch(text):
        raise Beyond
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Beyond from None


def moment_of(text: str) -> datetime:
    """A timestamp that is written out, or the beginning of a date, in UTC."""
    if not _MOMENT.fullmatch(text) and not _DATE.fullmatch(text):
        raise Beyond
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise Beyond from None


def _is_decimal(expression: Bound) -> bool:
    return isinstance(expression, Constant) and expression.exact is not None
