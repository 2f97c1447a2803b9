"""Files of one load whose columns differ: one type where nothing is lost, or what is declared."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import LakeportError, SchemaConflict

WHOLE = pa.array([1, 2], pa.int64())
SHORT = pa.array([7], pa.int32())
NULLS = pa.array([3.0, None])
FRACTION = pa.array([1.5, None])
LONG = pa.array([2**53 + 1], pa.int64())
MONEY = pa.array([Decimal("1.25")], pa.decimal128(9, 2))
DAY = pa.array([date(2024, 1, 2)])
MOMENT = pa.array([datetime(2024, 1, 2, 3)])
TEXT = pa.array(["x"])
OBJECT = pa.array([{"p": 1}])
LIST = pa.array([[1, 2]])

Write = Callable[[pa.Table, Path], Any]
FORMATS: dict[str, Write] = {
    "parquet": lambda table, path: pq.write_table(table, path),
    "arrow": lambda table, path: feather.write_feather(table, str(path)),
    "orc": lambda table, path: orc.write_table(table, path),
}


def landed(folder: Path, arrays: list[pa.Array], format_: str, **options: Any) -> pa.ChunkedArray:
    """The column `v` of a load of files, one for each array, read back by delta-rs."""
    source = folder / "source"
    source.mkdir()
    for number, column in enumerate(arrays):
        FORMATS[format_](pa.table({"v": column}), source / f"{number}.{format_}")
    lakeport.land(str(source), str(folder / "lake"), table="t", **options)
    return DeltaTable(folder / "lake" / "t").to_pyarrow_table().column("v")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("columns", "type_"),
    [
        ([WHOLE, NULLS], pa.float64()),
        ([WHOLE, FRACTION, SHORT], pa.float64()),
        ([SHORT, MONEY], pa.decimal128(12, 2)),
        ([WHOLE, MONEY], pa.decimal128(21, 2)),
        ([DAY, MOMENT], pa.timestamp("us", "UTC")),
    ],
)
def test_the_order_of_files_does_not_matter(
    tmp_path: Path, format_: str, columns: list[pa.Array], type_: pa.DataType
) -> None:
    found = []
    for number, order in enumerate(permutations(columns)):
        folder = tmp_path / str(number)
        folder.mkdir()
        column = landed(folder, list(order), format_)
        assert column.type == type_
        found.append(sorted(column.to_pylist(), key=repr))
    assert all(values == found[0] for values in found)
    wanted = [value for column in columns for value in column.to_pylist()]
    if type_ == pa.timestamp("us", "UTC"):
        wanted = [datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 2, 3, tzinfo=UTC)]
    assert sorted(map(str, found[0])) == sorted(
        str(value if value is None else pa.scalar(value, type_).as_py()) for value in wanted
    )


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("columns", "name", "values"),
    [
        ([WHOLE, NULLS], "integer", [1, 2, 3, None]),
        ([NULLS, LONG], "integer", [3, None, 2**53 + 1]),
        ([WHOLE, FRACTION], "double", [1.0, 2.0, 1.5, None]),
        ([FRACTION, LONG], "decimal(20,2)", [Decimal("1.50"), None, Decimal(2**53 + 1)]),
        ([MONEY, FRACTION], "double", [1.25, 1.5, None]),
        ([WHOLE, TEXT], "string", ["1", "2", "x"]),
        ([WHOLE, OBJECT], "json", ["1", "2", '{"p":1}']),
        ([LIST, OBJECT], "json", ["[1,2]", '{"p":1}']),
        ([pa.array(['"x"', "{}"]), OBJECT], "json", ['"x"', "{}", '{"p":1}']),
    ],
)
def test_a_declaration_settles_it(
    tmp_path: Path, format_: str, columns: list[pa.Array], name: str, values: list[Any]
) -> None:
    column = landed(tmp_path, columns, format_, columns={"v": name})
    assert sorted(column.to_pylist(), key=str) == sorted(values, key=str)


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.parametrize(("name", "strings"), [("string", ["a", "7"]), ("json", ['"a"', "7"])])
def test_json_beside_another_type(
    tmp_path: Path, format_: str, name: str, strings: list[str]
) -> None:
    json = pa.array(['"a"', "7"], pa.json_())
    column = landed(tmp_path, [json, pa.array([1, 2])], format_, columns={"v": name})
    assert sorted(column.to_pylist()) == sorted([*strings, "1", "2"])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([WHOLE, TEXT], {}, "'v' is int64 in file '0.parquet', but string in file '1.parquet'"),
        ([MONEY, FRACTION], {}, "'v' is decimal128"),
        ([LONG, FRACTION], {}, "without losing digits"),
        ([WHOLE, FRACTION], {"columns": {"v": "integer"}}, "as integer, which 1.5 is not"),
        ([TEXT, WHOLE], {"columns": {"v": "json"}}, "as json, which 'x' is not"),
        ([LIST, OBJECT], {}, "'v' is list"),
        ([LONG, FRACTION], {"columns": {"v": "double"}}, "as double, which 9007199254740993 is"),
    ],
)
def test_what_would_be_lost_is_refused(
    tmp_path: Path, columns: list[pa.Array], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(LakeportError, match=message) as caught:
        landed(tmp_path, columns, "parquet", **options)
    assert options or "--column" in caught.value.hint


def test_frames_with_and_without_nulls(tmp_path: Path) -> None:
    whole, nulls = pd.DataFrame({"v": [1, 2]}), pd.DataFrame({"v": [3, None]})
    lake = str(tmp_path)
    lakeport.land(whole, lake, table="t")
    lakeport.land(nulls, lake, table="t")  # each value has an equal
    with pytest.raises(SchemaConflict, match="'v' is integer in the table"):
        lakeport.land(pd.DataFrame({"v": [4.5]}), lake, table="t")
    lakeport.land(nulls, lake, table="u")
    lakeport.land(whole, lake, table="u")
    tables = [DeltaTable(tmp_path / name).to_pyarrow_table().column("v") for name in "tu"]
    assert [table.type for table in tables] == [pa.int64(), pa.float64()]
    for table in tables:
        assert sorted(table.to_pylist(), key=str) == pytest.approx([1, 2, 3, None], nan_ok=True)
