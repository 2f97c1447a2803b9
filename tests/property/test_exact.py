"""A value of another type is the same value, or it is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeport.schema.casting import InexactError, can_convert, convert_exactly

LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
DECIMAL = st.decimals(-(10**8), 10**8, places=2)
DOUBLE = st.floats() | st.integers(-300, 300).map(float) | DECIMAL.map(float)
DATE = st.dates()
MOMENT = st.datetimes(timezones=st.just(UTC)) | DATE.map(
    lambda d: datetime(d.year, d.month, d.day, tzinfo=UTC)
)
UTC_TIME = pa.timestamp("us", "UTC")
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int64(): LONG,
    pa.float64(): DOUBLE,
    pa.decimal128(12, 2): DECIMAL,
    pa.bool_(): st.booleans(),
    pa.date32(): DATE,
    UTC_TIME: MOMENT,
}
TYPES = [*VALUES, pa.string(), pa.decimal128(4, 1), pa.decimal128(38, 10), pa.decimal128(22, 2)]
TYPED = st.sampled_from(list(VALUES)).flatmap(
    lambda t: st.tuples(st.just(t), st.lists(VALUES[t] | st.none(), min_size=1, max_size=5))
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same one, of whichever types."""
    if isinstance(one, date) and isinstance(other, date):
        return moment(one) == moment(other)
    if isinstance(one, float) and isinstance(other, Decimal):
        return float(other) == one
    if isinstance(one, Decimal) and isinstance(other, float):
        return round(Decimal(repr(other)), 10) == one
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(Fraction(one) == Fraction(other)) if math.isfinite(one) else one == other


def moment(value: date) -> datetime:
    return (
        value
        if isinstance(value, datetime)
        else datetime(value.year, value.month, value.day, tzinfo=UTC)
    )


@given(TYPED, st.sampled_from(TYPES))
def test_a_value_is_the_same_or_refused(typed: tuple[Any, list[Any]], target: Any) -> None:
    source, values = typed
    column = pa.array(values, source)
    if not can_convert(source, target):
        if column.null_count < len(column) and source != target:
            with pytest.raises(TypeError):
                convert_exactly(column, target)
        return
    try:
        found = convert_exactly(column, target)
    except InexactError as error:
        assert values[error.index] is not None
        convert_exactly(column[: error.index], target)  # it is the first
        return
    assert found.type == target
    if target == pa.string() and source != target:
        back = convert_exactly(found, source) if source in (pa.int64(), pa.date32()) else None
        assert back is None or back.equals(column)
        return
    for before, after in zip(column.to_pylist(), found.to_pylist(), strict=True):
        assert (before is None) == (after is None)
        assert before is None or same(before, after)


@given(TYPED)
@example((pa.float64(), [-0.0]))
def test_what_was_made_text_is_read_again(typed: tuple[Any, list[Any]]) -> None:
    source, values = typed
    column = pa.array(
        [v for v in values if not (isinstance(v, float) and not math.isfinite(v))], source
    )
    if not len(column):
        return
    assert convert_exactly(convert_exactly(column, pa.string()), source).equals(column)


@given(LONG)
def test_an_integer_becomes_a_double_only_if_it_is_that(value: int) -> None:
    column = pa.array([value])
    try:
        assert convert_exactly(column, pa.float64())[0].as_py() == value
    except InexactError:
        assert abs(value) > 2**53


@pytest.mark.parametrize(
    "text", ["", " 1", "1_000", "0x10", "1e5", "nan", "١", "1.0", "9223372036854775808"]
)
def test_texts_that_are_no_integers(text: str) -> None:
    with pytest.raises(InexactError):
        convert_exactly(pa.array([text]), pa.int64())


def test_a_rounded_value_is_named_before_one_that_is_too_large() -> None:
    with pytest.raises(InexactError) as failure:
        convert_exactly(pa.array([0.5, 0.25, 1000.0]), pa.decimal128(4, 1))
    assert (failure.value.index, failure.value.value) == (1, 0.25)


@given(st.lists(LONG | st.none(), min_size=1, max_size=5), st.sampled_from([0, 2, 10]))
def test_an_integer_comes_back_from_a_decimal(values: list[int | None], scale: int) -> None:
    column = pa.array(values, pa.int64())
    for type_ in (pa.decimal128(20 + scale, scale), pa.decimal128(38, scale)):
        assert convert_exactly(convert_exactly(column, type_), pa.int64()).equals(column)
