"""Clocks that step back by a day: between two loads, and beside a writer whose clock is ahead."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.loading import stream as stream_loading

DAY = timedelta(days=1)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def ids(path: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(str(path), version=version).to_pyarrow_table()["id"].to_pylist())


def put_ahead(table: Path, version: int) -> int:
    """Have a commit be one of a writer whose clock is a day ahead; return its time in ms."""
    path = table / "_delta_log" / f"{version:020d}.json"
    ahead = int((datetime.now(UTC) + DAY).timestamp() * 1000)
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = ahead
        if "add" in action:
            action["add"]["modificationTime"] = ahead
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    os.utime(path, (ahead / 1000, ahead / 1000))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's, of the file before
    return ahead


def test_commits_go_on_behind_one_from_the_future(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lakeport.land(rows(1), tmp_path, table="t")
    lakeport.land(rows(2), tmp_path, table="t", run_id="ahead")
    ahead = put_ahead(path, 1)
    (path / "_delta_log" / f"{1:020d}.crc").unlink(missing_ok=True)  # it has the commit's time, too

    assert lakeport.land(rows(3), tmp_path, table="t", run_id="now").rows == 1
    assert lakeport.land(rows(3), tmp_path, table="t", run_id="now").rows == 0
    lakeport.land(rows(2, 4), tmp_path, table="t", mode="merge", merge_keys="id", run_id="m")
    assert [ids(path, version) for version in range(4)] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]

    table = lakeport.Table(path)
    assert [entry.version for entry in table.history()] == [3, 2, 1, 0]
    before = datetime.fromtimestamp(ahead / 1000, UTC) - DAY / 2
    assert table.preview(timestamp=before)["id"].to_pylist() == [1]
    assert table.vacuum().deleted == 0
    table.undo("m")
    assert ids(path) == [1, 2, 3]


def test_files_of_an_earlier_hour_are_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        """Steps back by a day and then stands still."""

        offset = timedelta()
        start = datetime(2024, 5, 2, 12, tzinfo=UTC)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return cls.start - cls.offset

    monkeypatch.setattr(stream_loading, "datetime", Clock)
    keys: dict[str, Any] = {"file_type": "parquet", "table": "t"}
    lakeport.land(rows(1), tmp_path, run_id="a", **keys)
    Clock.offset = DAY
    lakeport.land(rows(2), tmp_path, run_id="b", **keys)
    lakeport.land(rows(3), tmp_path, run_id="c", **keys)
    Clock.offset = timedelta()
    assert lakeport.land(rows(1), tmp_path, run_id="a", **keys).rows == 0
    lakeport.land(rows(4), tmp_path, run_id="d", **keys)
    names = sorted(path.name for path in (tmp_path / "t").glob("*.parquet"))
    assert [name[:15] for name in names] == ["20240501-120000"] * 2 + ["20240502-120000"] * 2
    assert sorted(pq.read_table(tmp_path / "t")["id"].to_pylist()) == [1, 2, 3, 4]
