"""Partitions of Delta tables, on every destination that holds them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.conftest import Land
from tests.contract.targets import Target

DELTA = ("local-delta", "delta_s3-delta", "delta_azure-delta")
HARD = ["a b", "a/b", "100%", "%2F", "a=b", "é", "..", "Inc.", "\n", "x" * 300, None]
DAYS = [date(2024, 2, 29), None]


def rows(*values: tuple[int, str | None, date | None]) -> pa.Table:
    ids, cities, days = zip(*values, strict=True)
    return pa.table({"id": ids, "city": pa.array(cities, pa.string()), "day": pa.array(days)})


@pytest.mark.parametrize("target", DELTA, indirect=True)
def test_an_overwrite_replaces_the_partitions_that_it_brings(target: Target, land: Land) -> None:
    """Also for values that are hard to name, across batches, and beside a table of like name."""
    keys: dict[str, Any] = {"partition_keys": ["city", "day"], "internal_columns": False}
    places = [(city, day) for city in HARD for day in DAYS]
    land(rows(*((n, *place) for n, place in enumerate(places))), table="user", **keys)
    land(rows((1, "Inc.", None)), table="user_events", **keys)
    files = set(target.data_keys("user"))
    first = {key: target.files.read(key) for key in target.files.keys() if "_log/0" in key}  # noqa: SIM118

    replaced = [("Inc.", None), (None, None), ("a/b", DAYS[0]), ("x" * 300, DAYS[0])]
    again = [(100 + n, *place) for n, place in enumerate([*replaced, *replaced])]
    batches = {"maximum_batch_rows": 2, "mode": "overwrite"}
    report = land(rows(*again), table="user", **batches, **keys)

    kept = {(n, *place) for n, place in enumerate(places) if place not in replaced}
    found = {(row["id"], row["city"], row["day"]) for row in target.rows("user")}
    assert found == kept | set(again)
    assert target.delta("user").version() == 1
    assert report.rows == len(again)
    assert len(files - set(target.data_keys("user"))) == len(replaced)
    assert target.ids("user_events") == [1]
    assert first == {key: target.files.read(key) for key in first}
    old = target.delta("user")
    old.load_as_version(0)
    assert old.to_pyarrow_table().num_rows == len(places)
