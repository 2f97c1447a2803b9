"""The keys of a merge: which row of a batch counts, and which files may hold one."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.delta_log.actions import DataFile, Statistics
from lakeport.writers.delta.files import NO_VALUES, read_bounds
from lakeport.writers.delta.row_changes import KeyIndex, KeyRanges, RowMatches

Keys = list[tuple[Any, ...]]


def columns(keys: Keys, types: list[pa.DataType]) -> list[pa.ChunkedArray]:
    each = list(zip(*keys, strict=True)) if keys else [()] * len(types)
    half = len(keys) // 2
    return [
        pa.chunked_array([list(values[:half]), list(values[half:])], type=type_)
        for values, type_ in zip(each, types, strict=True)
    ]


def pairs(hits: RowMatches) -> list[tuple[int, int]]:
    return list(zip(hits.rows.tolist(), hits.chosen.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_the_last_row_of_each_key_is_found(seed: int) -> None:
    chance = random.Random(seed)
    types = [pa.int64(), pa.string(), pa.date32()][: 1 + seed % 3]
    makers = [
        lambda: chance.choice([-(2**62), 0, 1, 2, 2**62]),
        lambda: chance.choice(["", "a", "ab", "é"]),
        lambda: date(2024, 1, chance.randrange(1, 4)),
    ][: len(types)]

    def key(*, nulls: bool = False) -> tuple[Any, ...]:
        return tuple(None if nulls and chance.random() < 0.2 else make() for make in makers)

    batch = [key() for _ in range(chance.randrange(1, 60))]
    table = [key(nulls=True) for _ in range(50)]
    last = {value: place for place, value in enumerate(batch)}
    index = KeyIndex(columns(batch, types))
    assert index.last.tolist() == sorted(last.values())
    assert pairs(index.find(columns(table, types))) == [
        (place, last[value]) for place, value in enumerate(table) if value in last
    ]


def test_an_empty_table_and_an_empty_batch() -> None:
    index = KeyIndex(columns([(1,)], [pa.int64()]))
    assert pairs(index.find(columns([], [pa.int64()]))) == []
    for types in ([pa.int64()], [pa.int64(), pa.string()]):
        row = (1, "a")[: len(types)]
        assert pairs(KeyIndex(columns([], types)).find(columns([row], types))) == []


def test_pairs_of_many_values_are_told_apart() -> None:
    """Their numbers, of which there are as many as values times values, need 64 bits."""
    many = pa.chunked_array([np.arange(70_000)])
    index = KeyIndex([many, many])
    same, other = index.find([many, many]), index.find([many, pc.add(many, 1)])
    assert pairs(same) == [(place, place) for place in range(70_000)]
    assert not len(other)


@pytest.mark.parametrize("seed", range(6))
def test_no_file_with_a_key_is_left_out(seed: int) -> None:
    chance = random.Random(seed)
    types = [pa.int64(), pa.string()]
    pick = lambda: (chance.randrange(30), chance.choice("abcdef"))  # noqa: E731
    ranges = KeyRanges(columns([pick() for _ in range(5)], types))
    batch = {*zip(*(column.to_pylist() for column in ranges._columns), strict=True)}
    left_out = 0
    for _ in range(100):
        rows = [pick() for _ in range(3)]
        known: list[Any] = []
        for place, type_ in enumerate(types):
            values = [row[place] for row in rows]
            low, high = pa.scalar(min(values), type_), pa.scalar(max(values), type_)
            known.append((low, high) if chance.random() < 0.8 else None)
        if not ranges.overlaps(known):
            left_out += 1
            assert not batch & set(rows)
    assert left_out


TS = pa.timestamp("us", "UTC")
AT = "2024-01-01T00:00:00.123Z"
MOMENT = datetime(2024, 1, 1, 0, 0, 0, 123000, UTC)


@pytest.mark.parametrize(
    ("type_", "low", "high", "expected"),
    [
        (pa.int64(), 1, 9, (1, 9)),
        (pa.string(), "a", "b", ("a", "b")),
        (pa.date32(), "2024-01-01", "2024-02-01", (date(2024, 1, 1), date(2024, 2, 1))),
        (TS, AT, AT, (MOMENT, MOMENT.replace(microsecond=124000))),
        (pa.decimal128(9, 2), 1.25, 7, (Decimal("1.25"), Decimal("7.00"))),
        (pa.float64(), 1.5, 2.5, None),
        (pa.date32(), "+10000-01-01", "+10000-01-01", None),
    ],
)
def test_bounds_from_statistics(type_: Any, low: Any, high: Any, expected: Any) -> None:
    stats = {"numRecords": 2, "minValues": {"c": low}, "maxValues": {"c": high}}
    entry = DataFile("f", 1, {}, json.dumps(stats))
    found = read_bounds(entry, entry.statistics(), "c", type_)
    assert (None if found is None else tuple(s.as_py() for s in found)) == expected


def test_bounds_that_are_unknown_empty_or_a_partition_s() -> None:
    entry = DataFile("f", 1, {"p": "7", "q": None})
    statistics = Statistics(3, null_count={"c": 3, "d": 1})
    seven = pa.scalar(7, pa.int32())
    assert read_bounds(entry, statistics, "p", pa.int32()) == (seven, seven)
    assert read_bounds(entry, statistics, "q", pa.int32()) == NO_VALUES
    assert read_bounds(entry, statistics, "c", pa.int32()) == NO_VALUES
    assert read_bounds(entry, statistics, "d", pa.int32()) is None
    assert read_bounds(entry, entry.statistics(), "d", pa.int32()) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"numRecords": "x"}', '{"minValues": 1}', "NaN"])
def test_damaged_statistics_tell_nothing(text: str) -> None:
    entry = DataFile("f", 1, {}, text)
    assert read_bounds(entry, entry.statistics(), "c", pa.int64()) is None


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_both_zeros_are_one_key_as_in_sql(type_: pa.DataType) -> None:
    batch = columns([(-0.0, 1), (0.0, 1), (0.0, 2)], [type_, pa.int64()])
    index = KeyIndex(batch)
    assert index.last.tolist() == [1, 2]
    found = index.find(columns([(-0.0, 2), (0.0, 1), (None, 1), (0.5, 1)], [type_, pa.int64()]))
    assert pairs(found) == [(0, 2), (1, 1)]
