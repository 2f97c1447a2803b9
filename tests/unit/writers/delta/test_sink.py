"""The files of many partitions: closed several at a time, in order; none stays when one fails."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.delta_log.state import file_schema, grow_schema
from lakeport.errors import DestinationError
from lakeport.storage.local import STAGING, LocalStageWriter, LocalStorage
from lakeport.writers.delta.sink import DeltaSink, _join_small, split_by_partition

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def sink(root: Path) -> DeltaSink:
    files = file_schema(grow_schema(None, SCHEMA), SCHEMA, without=["k"])
    return DeltaSink(LocalStorage(str(root)), "t", files, {"k": "k"})


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"k": [f"k{i:02}" for i in range(count)], "n": range(count)}, SCHEMA)


def test_files_are_closed_several_at_a_time_and_told_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(4)
    finish = LocalStageWriter.finish

    def waits(writer: LocalStageWriter) -> Mapping[str, Any]:
        together.wait(30)  # breaks unless others come
        return finish(writer)

    monkeypatch.setattr(LocalStageWriter, "finish", waits)
    staged = sink(tmp_path).write(iter([rows(16)]), 0)
    assert [item.partition["k"] for item in staged] == [f"k{i:02}" for i in range(16)]
    assert {item.rows for item in staged} == {1}


def test_nothing_stays_staged_when_one_can_not_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = LocalStageWriter.finish

    def fails(writer: LocalStageWriter) -> Mapping[str, Any]:
        if "k=k05" in writer._uri:
            raise DestinationError("the disk is full", "free space.")
        return finish(writer)

    monkeypatch.setattr(LocalStageWriter, "finish", fails)
    with pytest.raises(DestinationError, match="the disk is full"):
        sink(tmp_path).write(iter([rows(40)]), 0)
    assert list((tmp_path / STAGING).iterdir()) == []


def test_small_batches_are_joined_before_they_are_cut_by_partition() -> None:
    small = [rows(20).slice(start, 1) for start in range(20)]
    (joined,) = _join_small(iter(small), 1 << 20)
    assert joined.equals(rows(20))
    sizes = [len(b) for b in _join_small(iter([*small, rows(20), *small]), rows(20).nbytes)]
    assert sum(sizes) == 60 and 20 in sizes and len(sizes) < 7
    assert list(_join_small(iter([]), 1)) == []


def test_many_values_of_many_columns_stay_with_their_rows() -> None:
    count, columns = 10_000, list("abcde")  # whose values have 10 ** 20 combinations
    names = {name: [(i * 7 + at) % count for i in range(count)] for at, name in enumerate(columns)}
    batch = pa.record_batch({**names, "n": range(count)})
    found = {rows["n"][0].as_py(): values for values, rows in split_by_partition(batch, columns)}
    assert found == dict(enumerate(zip(*names.values(), strict=True)))
