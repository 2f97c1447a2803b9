"""Numbers as they are written -> the numbers that columns hold, or why they can't.

Nothing here builds a number longer than a column's, so an exponent of any size costs nothing.
"""

from __future__ import annotations

_EXACT = 2.0**53  # from here on not every integer is a double
_EXPONENT_DIGITS = 19  # more than any text has digits


def significand(literal: str) -> tuple[str, int]:
    """Take a number apart: digits without zeros at either end, and the power of ten of the last.

    Zero has no digits.

    Args:
        literal: a JSON number; also with a plus sign, or without digits on one side of the point.

    Example:
        >>> significand("-0.0120e5"), significand("0e9")
        (('12', 2), ('', 9))
    """
    digits, power = _written(literal)
    significant = digits.rstrip("0")
    return significant, power + len(digits) - len(significant)


def double(literal: str) -> float:
    """Read a number as the double next to it, if that is still the number that was written.

    Fractions are rounded, as JSON readers do it. What is refused: a number beyond the doubles,
    one so small that nothing but zero is left, and an integral one, however it is written, that
    the double does not give back in as many digits. (`1e23` is given back, although no double is
    a power of ten that large; so is any text that a program writes for a double.)

    Args:
        literal: as for `significand`.

    Raises:
        ValueError: the reason, in words for a bad record.

    Example:
        >>> double("9007199254740992.0"), double("1e23"), double("5e-324")
        (9007199254740992.0, 1e+23, 5e-324)
        >>> double("9007199254740993.0")
        Traceback (most recent call last):
        ValueError: integer with more digits than a double holds \
(declare the column an integer, a decimal or a string)
    """
    number = float(literal)
    size = abs(number)
    if 0 < size < _EXACT:
        return number
    if size == float("inf"):
        raise ValueError("number too large for a double")
    digits, power = _written(literal)
    if not size and digits:
        raise ValueError("number too small for a double, which would be zero")
    integral = power >= 0 or not digits[power:].strip("0")
    if size and integral:
        again = f"{size:.{len(digits) - 1}e}", repr(size)
        if (digits, power) not in map(_written, again):
            raise ValueError(
                "integer with more digits than a double holds "
                "(declare the column an integer, a decimal or a string)"
            )
    return number


def _written(literal: str) -> tuple[str, int]:
    """All digits from the first that is not zero, and the power of ten of the last."""
    mantissa, _, exponent = literal.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    shift = int(exponent.lstrip("+-").lstrip("0")[:_EXPONENT_DIGITS] or 0)
    power = (-shift if exponent.startswith("-") else shift) - len(fraction)
    return (whole + fraction).lstrip("0"), power
