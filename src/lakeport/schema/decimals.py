"""Which decimal a JSON Schema asks for."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from lakeport.errors import InputError
from lakeport.schema.numbers import significand
from lakeport.schema.types import MAX_PRECISION, FieldType, Kind

_DEFAULT_SCALE = 18
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class _Reporter(Protocol):
    def error(self, path: tuple[str, ...], what: str, hint: str = "") -> InputError: ...


def decimal_type(
    schema: Mapping[str, Any],
    reporter: _Reporter,
    path: tuple[str, ...],
    *,
    text: bool = False,
) -> FieldType | None:
    """Tell the decimal that a `number` or `string` schema asks for; None if it asks for none.

    `x-precision` and `x-scale` (or `precision` and `scale` beside `format: singer.decimal`) say
    it outright; `multipleOf` gives the fraction digits of a number; `singer.decimal` alone means
    38 digits, 18 of them after the point.

    Raises:
        InputError: more than 38 digits, or values that are not numbers.
    """
    singer = schema.get("format") == "singer.decimal"
    precision, scale = schema.get("x-precision"), schema.get("x-scale")
    if singer:
        precision = schema.get("precision") if precision is None else precision
        scale = schema.get("scale") if scale is None else scale
    if precision is not None or scale is not None:
        return _declared(precision, scale, reporter, path, text)
    if not text and schema.get("multipleOf") is not None:
        return FieldType(Kind.DECIMAL, MAX_PRECISION, _step_scale(schema, reporter, path))
    if singer:
        return FieldType(Kind.DECIMAL, MAX_PRECISION, _DEFAULT_SCALE, text=text)
    return None


def _declared(
    precision: Any, scale: Any, reporter: _Reporter, path: tuple[str, ...], text: bool
) -> FieldType:
    p = MAX_PRECISION if precision is None else precision
    s = 0 if scale is None else scale
    if type(p) is not int or type(s) is not int or p < 1 or not 0 <= s <= p:
        raise reporter.error(path, f"asks for a decimal of precision {p!r} and scale {s!r}")
    if p > MAX_PRECISION:
        raise reporter.error(
            path,
            f"asks for decimals of {p} digits; {MAX_PRECISION} is the most that a table can hold",
            "lower the precision, or declare the column a string.",
        )
    return FieldType(Kind.DECIMAL, p, s, text=text)


def _step_scale(schema: Mapping[str, Any], reporter: _Reporter, path: tuple[str, ...]) -> int:
    """Fraction digits of `multipleOf`, cut to 18 where the integer digits may need the room."""
    step = _decimal(schema["multipleOf"])
    if step is None or step <= 0:
        raise reporter.error(path, "has a `multipleOf` that is not a number above zero")
    scale = _fraction_digits(step)
    bounds = [_decimal(schema[b]) for b in _BOUNDS if schema.get(b) is not None]
    whole = max((b.adjusted() + 1 for b in bounds if b is not None), default=MAX_PRECISION)
    if scale > _DEFAULT_SCALE and (len(bounds) < 2 or whole + scale > MAX_PRECISION):
        return _DEFAULT_SCALE
    return scale


def _fraction_digits(step: Decimal) -> int:
    _, power = significand(str(step))
    return max(0, -power)


def _decimal(value: Any) -> Decimal | None:
    """The number as it was written, not as a double holds it; None if it is not finite."""
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError):  # an integer too long to be written
        return None
    return number if number.is_finite() else None
