"""Bounds of columns, from texts and numbers as logs hold them, against the values themselves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from lakeport.delta_log.actions import DataFile, format_partition_value
from lakeport.delta_log.history import VersionFile
from lakeport.lake.facts import build_column_facts, parse_leaf_columns
from lakeport.lake.records import ColumnFacts

LONGS = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.decimals(-(10**16), 10**16, places=2)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
WHOLE_MOMENTS = MOMENTS.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)
TYPES: dict[str, tuple[st.SearchStrategy[Any], Callable[[str], Any]]] = {
    "long": (LONGS, int),
    "decimal(18,2)": (DECIMALS, Decimal),
    "double": (st.floats(allow_nan=False, allow_infinity=False), float),
    "date": (st.dates(), date.fromisoformat),
    "string": (TEXTS, str),
    "timestamp_ntz": (WHOLE_MOMENTS, datetime.fromisoformat),
}
"""Type -> its values, and how a bound's text is read."""


def schema(type_: str) -> str:
    field = {"name": "v", "type": type_, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field]})


def told(type_: str, files: list[DataFile], by: tuple[str, ...] = ()) -> ColumnFacts:
    columns = parse_leaf_columns(schema(type_))
    known = [VersionFile(file, file.rows, 0) for file in files]
    (found,) = build_column_facts(
        known, columns, [frozenset(leaf.path for leaf in columns)], by, ()
    )
    return found


def encoded(value: Any) -> str:
    """A value as statistics hold it: a number with all its digits, or a text."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return json.dumps(value.isoformat(timespec="milliseconds"))
    return json.dumps(value.isoformat() if isinstance(value, date) else value)


def file(values: list[Any]) -> DataFile:
    present = [value for value in values if value is not None]
    low, high = (f'{{"v":{encoded(pick(present))}}}' if present else "{}" for pick in (min, max))
    nulls = f'{{"v":{values.count(None)}}}'
    stats = (
        f'{{"numRecords":{len(values)},"minValues":{low},"maxValues":{high},"nullCount":{nulls}}}'
    )
    return DataFile("f", 1, {}, stats)


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[list[Any]]]:
    type_ = draw(st.sampled_from(sorted(TYPES)))
    value = TYPES[type_][0]
    return type_, draw(st.lists(st.lists(st.none() | value, max_size=4), max_size=4))


@given(columns())
def test_statistics_of_files_are_those_of_all_their_values(
    column: tuple[str, list[list[Any]]],
) -> None:
    type_, files = column
    found = told(type_, [file(values) for values in files])
    every = [value for values in files for value in values]
    present = [value for value in every if value is not None]
    assert found.nulls == every.count(None)
    assert (found.minimum is None) == (found.maximum is None) == (not present)
    if present:
        assert found.minimum is not None and found.maximum is not None
        assert read(type_, found.minimum) == min(present)
        assert read(type_, found.maximum) == max(present)


@given(columns())
def test_partition_columns_count_their_rows(column: tuple[str, list[list[Any]]]) -> None:
    type_, parts = column
    values = [value for part in parts for value in part if not is_empty(value)]
    files = [
        DataFile("f", 1, {"v": format_partition_value(value)}, json.dumps({"numRecords": place}))
        for place, value in enumerate(values)
    ]
    found = told(type_, files, ("v",))
    assert found.role == "partition" and not found.approximate
    assert found.nulls == sum(n for n, value in enumerate(values) if value is None)
    present = [value for value in values[1:] if value is not None]
    if present:
        assert found.minimum is not None and found.maximum is not None
        assert read(type_, found.minimum) == min(present)
        assert read(type_, found.maximum) == max(present)


def is_empty(value: Any) -> bool:
    """Delta reads an empty text of a partition as null."""
    return bool(value == "")


def read(type_: str, text: str) -> Any:
    """A bound's text as its value."""
    return TYPES[type_][1](text)


def test_numbers_are_no_texts() -> None:
    files = [file([9]), file([10])]
    assert (told("long", files).minimum, told("long", files).maximum) == ("9", "10")
    texts = [file(["9"]), file(["10"])]
    assert (told("string", texts).minimum, told("string", texts).maximum) == ("10", "9")


def test_not_a_number_is_the_greatest() -> None:
    stats = '{"numRecords":2,"minValues":{"v":1.5},"maxValues":{"v":"NaN"},"nullCount":{"v":0}}'
    found = told("double", [DataFile("f", 1, {}, stats), file([math.pi])])
    assert (found.minimum, found.maximum) == ("1.5", "NaN")


def test_bounds_that_are_cut_say_so() -> None:
    long = told("string", [file(["a" * 32]), file(["b"])])
    assert "cut" in long.approximate
    assert told("string", [file(["\U0001f600" * 16])]).approximate
    assert told("string", [file(["a" * 31])]).approximate == ""
    assert "millisecond" in told("timestamp", [file([datetime(2024, 5, 1)])]).approximate
    zoned = file([datetime(2024, 5, 1, tzinfo=UTC)])
    assert told("timestamp", [zoned]).minimum == "2024-05-01T00:00:00Z"


def test_what_is_no_value_of_its_type_leaves_the_bounds_unknown() -> None:
    found = told("date", [file(["soon"])])
    assert (found.nulls, found.minimum, found.maximum) == (0, None, None)
    assert told("long", [DataFile("f", 1, {}, "{")]).nulls is None
    assert told("binary", [file(["x"])]).minimum is None
