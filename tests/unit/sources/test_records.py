"""Records in lists and from generators, landed in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport.errors import ConfigError, InputError, LakeportError
from lakeport.sources.records import RecordOptions, record_batches


def landed(source: Any, root: Path) -> list[dict[str, Any]]:
    lakeport.land(source, root, table="t", internal_columns=False)
    rows: list[dict[str, Any]] = lakeport.Table(root / "t").preview(1_000_000).to_pylist()
    return rows


def test_a_list_of_dicts_is_a_frame(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "name": "Ada", "tags": [{"a": 1}], "at": datetime(2024, 1, 1, tzinfo=UTC)},
        {"id": 2.5, "price": Decimal("1.10"), "day": date(2024, 1, 1), "tags": [{"b": "x"}]},
        {"price": Decimal("12345.678"), "raw": b"\x00"},
    ]
    found = landed(rows, tmp_path)
    names = ["id", "name", "tags", "at", "price", "day", "raw"]
    assert list(found[0]) == names
    assert [row["id"] for row in found] == [1.0, 2.5, None]
    assert found[0]["tags"] == [{"a": 1, "b": None}] and found[1]["tags"] == [{"a": None, "b": "x"}]
    assert [row["price"] for row in found] == [None, Decimal("1.10"), Decimal("12345.678")]
    assert (found[0]["at"], found[1]["day"], found[2]["raw"]) == (
        datetime(2024, 1, 1, tzinfo=UTC),
        date(2024, 1, 1),
        b"\x00",
    )


def test_a_generator_is_read_in_parts(tmp_path: Path) -> None:
    waiting = list[int]()

    def records() -> Iterator[dict[str, Any]]:
        for number in range(150_000):
            waiting.append(number)
            yield {"id": number, "v": number if number < 70_000 else number + 0.5}
            if number > 140_000:
                yield {"late": "x"}

    _, batches = record_batches(records(), tmp_path, 65_536, RecordOptions())
    rows = sum(len(batch) for batch in batches)
    assert rows == 150_000 + 9_999 and list(tmp_path.iterdir()) == []
    found = landed(records(), tmp_path)
    assert (len(found), found[1]["v"], found[-1]) == (
        rows,
        1.0,
        {"id": None, "v": None, "late": "x"},
    )


BIG = 2**53 + 1
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([], "the list is empty"),
        (iter([]), "there are no records"),
        ([{}, {}], "the records have no keys"),
        ([{"a": 1}, 5], "record 2 is of type 'int'"),
        (iter(["a"]), "record 1 is of type 'str'"),
        ([{1: 2}], "a key of type 'int'"),
        ([{"v": True}, {"v": 1}], "'v' mixes values that no one type holds: bool and int"),
        ([{"v": "a"}, {"v": b"a"}], "bytes and str"),
        ([{"v": date(2024, 1, 1)}, {"v": datetime(2024, 1, 1)}], "date and datetime"),
        ([{"v": [{"w": True}, {"w": 1}]}], r"'v\[\].w' mixes"),
        ([{"v": datetime(2024, 1, 1)}, {"v": datetime(2024, 1, 1, tzinfo=UTC)}], "without a zone"),
        ([{"v": time(1, tzinfo=UTC)}], "times of day with a zone"),
        ([{"v": pd.NaT}], "which are NaTType"),
        ([{"v": [{"w": json.loads("[" * 40 + "]" * 40)}]}], "'v' is nested deeper than 40 levels"),
        ([{"v": pd.Timestamp("2024-03-04T00:00:00.000000001")}], "microseconds can't hold"),
        ([{"v": Decimal("Infinity")}], "which are Decimal"),
        ([{"v": BIG}, {"v": 0.5}], "holds the values of 'v' exactly, which are float and int"),
        ([{"v": 2**70}], "more than 64 bits"),
        ([{"v": "\ud800"}], "surrogate"),
        ([{"v": object()}], "which are object"),
    ],
)
def test_what_no_table_could_hold(tmp_path: Path, source: Any, words: str) -> None:
    with pytest.raises((InputError, ConfigError), match=words):
        landed(source, tmp_path)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (1, "a", "mix"),
        (BIG, 0.5, "double|exact"),
        (Decimal("0.1"), 0.5, "Decimal and float"),
        ([{"w": Decimal("0.1")}], [{"w": 0.5}], r"'v\[\].w' mixes .*: Decimal and float"),
        ({"w": "a"}, {"w": b"a"}, "'v.w' mixes .*: bytes and str"),
        (True, 1, "mix"),
        ([NOON], [NOON.replace(tzinfo=None)], r"'v\[\]' mixes .* without a zone"),
    ],
)
def test_parts_that_do_not_go_together(tmp_path: Path, first: Any, then: Any, words: str) -> None:
    with pytest.raises(LakeportError, match=words):
        _, batches = record_batches(iter([{"v": first}, {"v": then}]), tmp_path, 1, RecordOptions())
        list(batches)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_moments_of_several_zones_are_the_same_in_any_parts(tmp_path: Path, rows: int) -> None:
    moments = [NOON.astimezone(timezone(timedelta(hours=h))) for h in (2, 0, -5)]
    records = [{"v": v, "n": [{"w": v}]} for v in moments]
    schema, batches = record_batches(iter(records), tmp_path, rows, RecordOptions())
    assert schema.types[0] == pa.timestamp("us", "UTC")
    assert [row for batch in batches for row in batch.to_pylist()] == records


def test_whole_numbers_beside_decimals_are_the_same_in_any_parts(tmp_path: Path) -> None:
    _, batches = record_batches(
        iter([{"v": 7}, {"v": Decimal("1.5")}]), tmp_path, 1, RecordOptions()
    )
    assert [batch["v"].to_pylist() for batch in batches] == [[7], [Decimal("1.5")]]


VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
NESTED = st.none() | st.lists(
    st.dictionaries(st.sampled_from("xyz"), st.none() | st.text(), min_size=1)
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 9)}, optional={"v": VALUES, "s": st.none() | st.text(), "n": NESTED}
    ),
    min_size=1,
    max_size=8,
)


@given(RECORDS, st.integers(1, 4))
def test_values_are_exact_or_refused(records: list[dict[str, Any]], rows: int) -> None:
    folder = Path(mkdtemp())
    try:
        schema, batches = record_batches(iter(records), folder, rows, RecordOptions())
        found = [row for batch in batches for row in batch.to_pylist()]
    except InputError:
        kinds = {type(record.get("v")) for record in records} - {type(None)}
        texts = repr(records)
        assert kinds == {int, float} or "\\ud" in texts
        return
    finally:
        shutil.rmtree(folder)
    for record, row in zip(records, found, strict=True):
        for name in schema.names:
            wanted = record.get(name)
            if name == "n" and wanted:
                wanted = [
                    {key: item.get(key) for key in got}
                    for item, got in zip(wanted, row["n"], strict=True)
                ]
            assert row[name] == wanted


LARGE = 2**53 + 1


@pytest.mark.parametrize("rows", [1, 40_000])  # of one part, and of several
@pytest.mark.parametrize(
    ("values", "type_", "found"),
    [
        ([LARGE, 2.0], "integer", [LARGE, 2]),
        ([LARGE, 1.5], "decimal(38,2)", [Decimal(LARGE), Decimal("1.5")]),
        ([LARGE, 1.5], "double", "'x' is declared as double, which '9007199254740993' is not"),
        ([LARGE, 1.5], "integer", "'x' is declared as integer, which '1.5' is not"),
        ([Decimal("1.5"), 2.5], "double", [1.5, 2.5]),
        ([2**70, None, 1], "decimal(38,0)", [Decimal(2**70), None, Decimal(1)]),
        ([1, True], "integer", "'x' mixes values"),
    ],
)
def test_a_declared_type_settles_which_numbers_records_have(
    tmp_path: Path, values: list[Any], type_: str, found: Any, rows: int
) -> None:
    records = [{"x": value} for value in values for _ in range(rows)]

    def load() -> None:
        lakeport.land(
            records,
            tmp_path,
            table="t",
            columns={"x": type_},
            file_type="delta",
            internal_columns=False,
        )

    if isinstance(found, str):
        with pytest.raises(LakeportError, match=found):
            load()
    else:
        load()
        there = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["x"].to_pylist()
        assert there[::rows] == found
        assert len(there) == len(records)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("type_", ["integer", "double"])
def test_a_declared_type_settles_which_numbers_frames_have(
    tmp_path: Path, frame: Any, type_: str
) -> None:
    """As pandas makes doubles of whole numbers beside nulls, loads differ without it."""
    for values in ([1, 2], [1.0, None]):
        lakeport.land(
            frame({"x": values}), tmp_path, table="t", columns={"x": type_}, internal_columns=False
        )
    found = ds.dataset(tmp_path / "t").to_table()["x"]
    assert found.type == (pa.int64() if type_ == "integer" else pa.float64())
    assert sorted(found.drop_null().to_pylist()) == [1, 1, 2]
