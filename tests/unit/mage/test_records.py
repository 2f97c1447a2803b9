from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lakeport.errors import InputError
from lakeport.mage.records import to_arrow_table, to_singer_lines, unwrap_records
from lakeport.mage.running import StreamSchemas

DAY = datetime(2024, 3, 4, tzinfo=UTC)
NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([1, np.int64(2), np.int8(3)], pa.int64(), [1, 2, 3]),
        ([True, np.bool_(False)], pa.bool_(), [True, False]),
        ([1, np.float32(1.5), np.float64("nan")], pa.float64(), [1.0, 1.5, None]),
        ([1, pd.NA, NAN], pa.int64(), [1, None, None]),
        ([pd.Timestamp(DAY), pd.NaT, DAY], pa.timestamp("us", "UTC"), [DAY, None, DAY]),
        ([np.datetime64("2024-03-04T00:00:00.000000000")], pa.timestamp("us"), None),
        ([np.array(["2024-03-04", "NaT"], "M8[ns]")], pa.list_(pa.timestamp("us")), None),
        ([np.array([1, 2]), [3]], pa.list_(pa.int64()), [[1, 2], [3]]),
        ([{"x": NAN}, {"x": 1.0}], None, [{"x": None}, {"x": 1.0}]),
        ([{}, {}], pa.struct([]), [{}, {}]),
        ([None, NAN], pa.null(), [None, None]),
        ([Decimal("1E+30"), Decimal("1E-20")], pa.string(), ["1E+30", "1E-20"]),
        ([{"at": DAY, "x": NAN}, [1]], pa.string(), None),
        ([DAY, DAY.replace(tzinfo=None)], pa.string(), None),
        ([[1.5], [True]], pa.string(), ["[1.5]", "[true]"]),
    ],
)
def test_values_have_the_type_that_holds_all_of_them(
    values: list[Any], type_: pa.DataType | None, expected: list[Any] | None
) -> None:
    """What numpy and pandas wrap is not told apart; what tables don't have is JSON text."""
    column = to_arrow_table(unwrap_records([{"a": v} for v in values], "s", StreamSchemas()))["a"]
    assert type_ is None or column.type == type_
    assert expected is None or column.to_pylist() == expected


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp("2024-03-04T00:00:00.000000001"),
        pd.Timedelta(1, "ns"),
        np.datetime64("2024-03-04T00:00:00.000000001"),
        np.array([1500, 0], "m8[ns]"),
        np.datetime64(400_000, "Y"),
    ],
)
def test_times_lose_no_digits(value: Any) -> None:
    with pytest.raises(InputError, match="microseconds can't hold"):
        unwrap_records([{"a": [value]}], "s", StreamSchemas())


def test_json_text_is_json() -> None:
    table = to_arrow_table([{"a": {"at": DAY, "x": Decimal("1.50")}}, {"a": [date(2024, 3, 4)]}])
    assert table["a"].to_pylist() == ['{"at":"2024-03-04T00:00:00Z","x":1.50}', '["2024-03-04"]']


def test_lines_hold_numbers_as_numbers() -> None:
    records = unwrap_records(
        [{"d": Decimal("1.50"), "n": np.int64(2), "x": NAN}], "s", StreamSchemas()
    )
    assert b'"record": {"d":1.50,"n":2,"x":null}}' in to_singer_lines(records, "s", None)
    endless = [{"a": [{"x": float("inf")}]}]
    assert b'"record": {"a":[{"x":Infinity}]}}' in to_singer_lines(endless, "s", None)


def test_names_that_are_no_text() -> None:
    table = to_arrow_table(unwrap_records([{1: "a", None: 2}], "s", StreamSchemas()))
    assert table.to_pylist() == [{"1": "a", "None": 2}]
    with pytest.raises(InputError, match="record 1 of stream 's' has two keys of one name"):
        unwrap_records([{1: "a", "1": "b"}], "s", StreamSchemas())
    with pytest.raises(InputError, match="column 'a' has a text"):
        to_arrow_table([{"a": "\ud800"}])
