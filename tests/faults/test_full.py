"""The disk takes no more: a limit on the size of files stands for one that is full."""

from __future__ import annotations

import json
import random
import resource
from pathlib import Path

import pytest

from tests.contract.targets import record, singer
from tests.faults.kit import Lake, land, run, users

pytestmark = pytest.mark.by_threads
LIMIT = 1 << 20


def small_disk() -> None:
    """No file of this process and its children gets larger than the limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def test_the_spool_is_full(delta_lake: Lake) -> None:
    """What landed before stays, with its STATE; nothing of the rest is seen."""
    large = [record("users", id=i, name="x" * 200_000) for i in range(10, 19)]
    lines = users(10, 5) + singer(*large)
    found = run(*land(delta_lake, "--set", "maximum_batch_rows=10"), given=lines, before=small_disk)
    assert found.code == 3, found.err
    assert "can't spool the input" in found.err
    assert "Hint: " in found.err
    assert "Traceback" not in found.err
    assert delta_lake.ids() == list(range(10))
    assert [value["bookmarks"]["users"] for value in found.states] == [5]
    assert delta_lake.staged() == []


def test_the_lake_is_full(parquet_lake: Lake, tmp_path: Path) -> None:
    """No object is visible, and nothing half-written is left."""
    draw = random.Random(1)
    source = tmp_path / "noise.jsonl"
    with source.open("w") as file:
        for i in range(300):
            file.write(json.dumps({"id": i, "noise": draw.randbytes(5_000).hex()}) + "\n")
    found = run(*land(parquet_lake, source=source), before=small_disk)
    assert found.code == 5, found.err
    assert "Hint: " in found.err
    assert "Traceback" not in found.err
    assert parquet_lake.objects("noise") == []
    assert parquet_lake.staged() == []
