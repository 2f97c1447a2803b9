"""Any partition value survives the log, the folder's name and the way back, for delta-rs too."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakeport.delta_log.actions import (
    add_action,
    format_partition_value,
    metadata_action,
    parse_partition_value,
    quote_path,
)
from lakeport.delta_log.state import file_schema, grow_schema
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.sink import DeltaSink, split_by_partition

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
HARD = st.sampled_from(
    [
        "a b",
        "a:b",
        "a/b",
        "100%",
        "%2F",
        "a=b",
        "é",
        "🦀",
        "..",
        ".",
        "\n",
        "\\",
        "x" * 400,
        "+",
        "#",
    ]
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("n", pa.int32()),
        ("flag", pa.bool_()),
        ("amount", pa.decimal128(9, 2)),
        ("value", pa.int64()),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "text": st.none() | HARD | TEXT,
        "at": st.none()
        | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
        "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "flag": st.none() | st.booleans(),
        "amount": st.none() | st.decimals(0, Decimal("9999999.99"), places=2),
        "value": st.integers(-(2**63), 2**63 - 1),
    }
)


def staged_table(
    root: str,
    rows: list[dict[str, Any]],
    keys: list[str],
    schema: pa.Schema = SCHEMA,
    **bounds: Any,
) -> DeltaTable:
    """Write rows through the sink and commit them with delta-rs."""
    storage = LocalStorage(root)
    files = file_schema(grow_schema(None, schema), schema, without=keys)
    sink = DeltaSink(storage, "t", files, {key: key for key in keys}, **bounds)
    batches = iter([pa.RecordBatch.from_pylist(rows, schema=schema)])
    actions = []
    for item in sink.write(batches, 0):
        storage.publish(item, item.key)
        path = quote_path(item.key.removeprefix("t/"))
        assert f"t/{unquote(path)}" == item.key
        actions.append(
            add_action(item.key.removeprefix("t/"), item.partition, item.bytes, 0, item.stats)
        )
    log = Path(root, "t", "_delta_log")
    log.mkdir(parents=True)
    metadata = metadata_action("id", grow_schema(None, schema), keys, {}, 0)
    protocol = '{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}'
    (log / f"{0:020d}.json").write_text("\n".join([protocol, metadata, *actions]))
    return DeltaTable(f"{root}/t")


@given(
    st.lists(ROW, min_size=1, max_size=8),
    st.lists(st.sampled_from(SCHEMA.names[:-1]), min_size=1, max_size=3, unique=True),
)
def test_values_survive(rows: list[dict[str, Any]], keys: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        found = staged_table(root, rows, keys).to_pyarrow_table().to_pylist()
    blank = {"text"} & set(keys)
    expected = [{k: None if k in blank and v == "" else v for k, v in r.items()} for r in rows]
    assert Counter(map(_frozen, found)) == Counter(map(_frozen, expected))


@given(st.lists(ROW, max_size=30), st.integers(1, 3000), st.integers(1, 4))
def test_bounds_on_memory_and_files_lose_nothing(
    rows: list[dict[str, Any]], memory: int, opened: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = staged_table(
            root,
            rows,
            ["flag"],
            memory_bytes=memory,
            open_files=opened,
            row_group_rows=3,
            target_file_bytes=2000,
        )
        found = table.to_pyarrow_table().to_pylist()
    assert Counter(map(_frozen, found)) == Counter(map(_frozen, rows))


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | st.integers(0, 3)), max_size=50))
def test_splitting_keeps_rows_and_their_order(rows: list[tuple[str | None, int | None]]) -> None:
    batch = pa.record_batch(
        {
            "a": pa.array([a for a, _ in rows], pa.string()),
            "b": pa.array([b for _, b in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    parts = dict[Any, list[int]]()
    for values, part in split_by_partition(batch, ["a", "b"]):
        assert part.schema.names == ["n"]
        assert values not in parts
        parts[values] = part.column("n").to_pylist()
    expected: dict[Any, list[int]] = {}
    for n, row in enumerate(rows):
        expected.setdefault(row, []).append(n)
    assert parts == expected


@given(ROW)
def test_values_of_the_log_come_back_typed(row: dict[str, Any]) -> None:
    for name, value in row.items():
        text = format_partition_value(value)
        assert parse_partition_value(text, SCHEMA.field(name).type) == (
            None if value == "" else value
        )


def _frozen(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SCHEMA.names)
