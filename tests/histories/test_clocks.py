"""Two writers of one table on S3, of which one has its clock a day back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import lakeport
from tests.contract.targets import S3Files
from tests.histories.checker import Row
from tests.histories.stores import Store, arrow

DAY = 86_400_000
MOMENTS = {"timestamp", "modificationTime", "deletionTimestamp", "lastUpdated", "inCommitTimestamp"}


def put_back(store: Store, version: int) -> None:
    """Have a commit be one of a writer whose clock is a day back."""
    assert isinstance(store.files, S3Files)
    key = f"lake/{store.config['table']}/_delta_log/{version:020d}.json"
    actions = map(json.loads, store.files.read(key).splitlines())
    lines = [json.dumps(_earlier(action)) for action in actions]
    client, bucket = store.files.client, store.files.bucket
    client.put_object(Bucket=bucket, Key=key, Body="\n".join(lines).encode())
    client.delete_object(Bucket=bucket, Key=key.replace(".json", ".crc"))  # has the moment, too


def _earlier(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {n: v - DAY if n in MOMENTS else _earlier(v) for n, v in value.items()}


def test_a_writer_whose_clock_is_a_day_back(
    one_spark: None, tables: Callable[[str], Store]
) -> None:
    store = tables("s3")
    store.create_table()
    modes = ("append", "append", "merge", "overwrite", "append", "merge")
    steps = [(f"r{n}", mode, Row(n % 3, f"r{n}", f"p{n % 3}")) for n, mode in enumerate(modes)]

    def land(run_id: str, mode: str, row: Row) -> Any:
        return lakeport.land(arrow([row]), store.config, mode=mode, run_id=run_id)

    for number, step in enumerate(steps, 1):
        assert land(*step).streams[0].last_version == number
        if number % 2:
            put_back(store, number)
    assert [land(*step).rows for step in steps] == [0] * len(steps)
    values = [["r0"], ["r0", "r1"], ["r0", "r1", "r2"], ["r3", "r1", "r2"]]
    values += [["r3", "r1", "r2", "r4"], ["r3", "r1", "r5", "r4"]]
    for number, want in enumerate(values, 1):
        _, found = store.reader.content(number)
        assert sorted(row.value for row in found) == sorted(want), number
    table = store.table()
    assert table.vacuum().deleted == 0
    assert table.undo(steps[-1][0]).restored == len(steps) - 1
    assert store.reader.content()[1] == store.reader.content(len(steps) - 1)[1]
    assert Counter(commit.step for commit in store.reader.commits())["r0"] == 1
