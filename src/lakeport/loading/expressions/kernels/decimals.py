"""`CAST` to decimals, of values that need no rounding, and of doubles."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.kernels.casts import read
from lakeport.loading.expressions.kernels.numbers import MOST_PLACES, units

__all__ = ["MOST_SCALE", "as_decimal"]

MOST_SCALE: Final = 10
_WHOLE: Final = pa.decimal128(19, 0)
_WIDE: Final = pa.decimal128(38, MOST_SCALE)
_TEXT: Final = r"\A-?[0-9]{1,18}(\.[0-9]{1,10})?\z"


def as_decimal(values: Any, like: pa.Scalar) -> Any:
    """Values as decimals of another one's type; of doubles, as they are written.

    Raises:
        pa.ArrowInvalid: digits would get lost.
    """
    if pa.types.is_floating(values.type):
        return _of_doubles(values, like.type)
    if pa.types.is_string(values.type):
        return read(values, _TEXT, _WIDE).cast(like.type)
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64()).cast(_WIDE).cast(like.type)
    return values.cast(like.type)


def _of_doubles(values: Any, type_: pa.DataType) -> Any:
    whole = units(values, pa.scalar(type_.scale)).cast(pa.int64()).cast(_WHOLE)
    if type_.scale:
        one = Decimal(1).scaleb(-type_.scale)
        whole = pc.multiply(whole, pa.scalar(one, pa.decimal128(MOST_PLACES + 1, type_.scale)))
    return whole.cast(type_)
