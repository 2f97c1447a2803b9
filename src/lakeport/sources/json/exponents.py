"""Exponents in whole lines, found before a parser makes something else of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from lakeport.sources.json.arrow import below

__all__ = ["Exponents"]

_EXACT = 2**53
_MINUS, _BACKSLASH, _U, _ZERO, _E = b"-\\u0e"
_LOWER = 0x20
_ZEROS = b"0" * 200
_REACH = 12
_LONG = 100
_DECIMAL_BOUND = 30


def _codes(chars: bytes) -> Any:
    found = np.zeros(256, np.bool_)
    found[list(chars)] = True
    return found


_DIGIT = _codes(b"0123456789")
_MANTISSA = _codes(b"+-.0123456789")
_BEFORE = _codes(b'"[:, \t\r\n')
_BEHIND = _codes(b'"]}, \t\r\n')
_ASCII = _codes(b"2346")  # first digit of the escapes of digits, signs, points and `e`
_BESIDE = _codes(b'"\\+-.0123456789bBdDeE')


class Exponents:
    """How small the numbers in tidy lines may be, from how they are written.

    Looked at only when asked, and once. May take other text for a number.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._bytes = np.frombuffer(text, np.uint8)

    @cached_property
    def beyond_decimals(self) -> bool:
        """Whether pyarrow must not read decimals from this.

        It looks its powers of ten up in a table, beyond whose end (76) it takes what it finds.
        """
        return self._lowest >= _DECIMAL_BOUND or self._hidden()

    def kept(self, doubles: Any) -> bool:
        """Whether an array of doubles surely holds the numbers as they were written.

        Fractions count as kept; see `numbers.double`, which decides on the others one by one.
        """
        zero = pc.any(pc.equal(doubles, 0.0)).as_py()
        return below(doubles, _EXACT) and not (zero and self._beyond_doubles)

    def keep(self, double: float) -> bool:
        """The same for one double."""
        return 0 < abs(double) < _EXACT or (double == 0 and not self._beyond_doubles)

    @cached_property
    def _beyond_doubles(self) -> bool:
        """Whether a double may be zero although the number is not."""
        return self._lowest >= _LONG or _ZEROS in self._text

    @cached_property
    def _lowest(self) -> int:
        """The lowest exponent with its sign turned; below 10 it is 0, beyond 99 it is 100."""
        codes = self._bytes
        at = np.flatnonzero(codes[:-2] == _MINUS)
        at = at[(codes[at - 1] | _LOWER) == _E]
        at = at[_DIGIT[codes[at + 1]] & _DIGIT[codes[at + 2]]]
        end = at + 1
        for _ in range(_REACH):
            end = end + _DIGIT[codes[end]]
        number = (_BEHIND | _DIGIT)[codes[end]]
        at, end = at[number], end[number]
        first = at - 2
        for _ in range(_REACH):
            first = first - _MANTISSA[codes[first]]
        number = (_BEFORE | _MANTISSA)[codes[first]]
        at, end = at[number], end[number]
        if not len(at):
            return 0
        pairs = (codes[at + 1] - _ZERO) * 10 + codes[at + 2] - _ZERO
        return int(np.where(end - at > len("-99"), _LONG, pairs).max())

    def _hidden(self) -> bool:
        """Whether a number in a string may be written with escapes, such as `1\\u0065-9`."""
        if b"\\" not in self._text:
            return False
        codes = self._bytes
        at = np.flatnonzero(codes[:-6] == _BACKSLASH)
        at = at[_ASCII[codes[at + 4]]]
        at = at[(codes[at + 1] == _U) & (codes[at + 2] == _ZERO) & (codes[at + 3] == _ZERO)]
        return bool((_BESIDE[codes[at - 1]] & _BESIDE[codes[at + 6]]).any())
