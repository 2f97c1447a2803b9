"""Statistics: every bound holds for every value, and what is not certain is left out."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeport.delta_log.actions import add_action, metadata_action
from lakeport.delta_log.state import grow_schema
from lakeport.writers.delta.stats import find_nan_leaves, list_leaves, make_stats


def stats(table: pa.Table, rows: int = 2, **more: Any) -> dict[str, Any]:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=rows)
    footer = pq.read_metadata(file)
    return dict(json.loads(make_stats(footer, table.schema, **more), parse_float=Decimal))


def test_bounds_by_type() -> None:
    moments = [datetime(2024, 1, 1, 0, 0, 0, n, UTC) for n in (1999, 2001, 3000)]
    table = pa.table(
        {
            "i": [3, None, -5],
            "f": [1.5, -2.5, None],
            "d": pa.array(
                [Decimal("1.50"), Decimal("12345678901234567890.25"), None], pa.decimal128(38, 2)
            ),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": [date(2024, 1, 2), date(1, 1, 1), None],
            "t": ["b", "a", "c"],
            "flag": [True, False, None],
            "raw": [b"a", b"b", None],
            "none": pa.nulls(3, pa.string()),
            "s": pa.array([{"x": 1, "y": "q"}, None, {"x": None, "y": "p"}]),
            "l": [[1], [2], None],
        }
    )
    found = stats(table)
    assert found["numRecords"] == 3
    assert found["minValues"] == {
        "i": -5,
        "f": Decimal("-2.5"),
        "d": Decimal("1.50"),
        "at": "2024-01-01T00:00:00.001Z",
        "day": "0001-01-01",
        "t": "a",
        "s": {"x": 1, "y": "p"},
    }
    assert found["maxValues"] == {
        "i": 3,
        "f": Decimal("1.5"),
        "d": Decimal("12345678901234567890.25"),
        "at": "2024-01-01T00:00:00.003Z",
        "day": "2024-01-02",
        "t": "c",
        "s": {"x": 1, "y": "q"},
    }
    assert found["nullCount"] == {
        "i": 1, "f": 1, "d": 1, "at": 0, "day": 1, "t": 0, "flag": 1, "raw": 1, "none": 3,
        "s": {"x": 2, "y": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 31 + "b"),
        ("a" * 31 + "\ud7ff" + "z", "a" * 31 + "\ue000"),
        ("a" + "\U0010ffff" * 40, "b"),
        ("\U0010ffff" * 40, None),
    ],
)
def test_long_texts(text: str, bound: str | None) -> None:
    found = stats(pa.table({"t": [text]}))
    assert found["minValues"]["t"] == text[:32]
    assert found["maxValues"].get("t") == bound
    assert bound is None or bound.encode() >= text.encode()


def test_what_is_not_certain_is_left_out() -> None:
    assert "f" not in stats(pa.table({"f": [1.0, float("inf")]}))["maxValues"]
    table = pa.table({"s": [{"f": 1.0}, {"f": float("nan")}], "g": [1.0, 2.0]})
    nans = find_nan_leaves(table.to_batches()[0], list_leaves(table.schema))
    assert nans == {0}
    assert stats(table, nans=nans)["minValues"] == {"g": 1}
    far = pa.table({"at": pa.array([2**60], pa.timestamp("us", "UTC"))})
    assert stats(far)["maxValues"] == {}
    huge = stats(pa.table({"t": ["x" * 10_000]}))
    assert huge["nullCount"] == {"t": 0}


def test_only_the_first_columns_have_bounds() -> None:
    table = pa.table({f"c{n}": [n] for n in range(40)})
    assert len(stats(table)["minValues"]) == 32
    assert len(stats(table, indexed=-1)["minValues"]) == 40


def test_delta_rs_skips_by_them_and_finds_every_row(tmp_path: Any) -> None:
    texts = ["a" * 40, "a" * 40 + "b", "z\U0010ffff" * 30]
    tables = [pa.table({"t": [text], "n": [n], "f": [float(n)]}) for n, text in enumerate(texts)]
    actions = []
    for n, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{n}.parquet")
        footer = pq.read_metadata(tmp_path / f"{n}.parquet")
        size = (tmp_path / f"{n}.parquet").stat().st_size
        actions.append(add_action(f"{n}.parquet", {}, size, 0, make_stats(footer, table.schema)))
    schema = grow_schema(None, tables[0].schema)
    protocol = '{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}'
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text(
        "\n".join([protocol, metadata_action("id", schema, [], {}, 0), *actions])
    )
    table = DeltaTable(str(tmp_path))
    for n, text in enumerate(texts):
        found = table.to_pyarrow_table(filters=[("t", "=", text)])
        assert found.column("n").to_pylist() == [n]
        assert table.to_pyarrow_table(filters=[("n", "=", n)]).num_rows == 1
