"""Batches of rejected records alone make no version, and repeated runs add nothing twice."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.loading.replay import replay

SCHEMA = {"properties": {"id": {"type": "integer"}}}


def tap(lake: Path, *ids: Any, state: Any = None, **keys: Any) -> lakeport.LandingReport:
    """Land records of the stream `s`, of which those with a text as `id` are bad."""
    messages: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": ["id"]},
        *({"type": "RECORD", "stream": "s", "record": {"id": each}} for each in ids),
        *([{"type": "STATE", "value": state}] if state else []),
    ]
    lines = io.BytesIO("".join(f"{json.dumps(each)}\n" for each in messages).encode())
    return lakeport.land(lines, lake, **{"on_bad_record": "quarantine", **keys})


def table(lake: Path) -> tuple[int, list[int]]:
    """The version of the table `s`, and the ids of its rows."""
    found = DeltaTable(lake / "s")
    return found.version(), sorted(found.to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_rejected_records_alone_make_no_version(tmp_path: Path, mode: str) -> None:
    tap(tmp_path, 1, 2, state={"at": 1})
    report = tap(tmp_path, "x", "y", "z", state={"at": 2}, mode=mode)
    assert table(tmp_path) == (0, [1, 2])
    assert report.state == b'{"at": 2}'
    assert (report.rows, report.rejected, report.files, report.ok) == (0, 3, 0, True)
    (stream,) = report.streams
    assert (stream.rejected, stream.batches, stream.last_version) == (3, 1, None)
    assert stream.table == str(tmp_path / "s")
    assert bool(stream.warnings) == (mode == "overwrite")
    assert sum(reason.count for reason in report.reasons) == 3
    assert len(Path(report.quarantine[0]).read_text().splitlines()) == 3
    assert tap(tmp_path, 3, "x", state={"at": 3}).streams[0].last_version == 1


def test_a_new_table_is_made_as_for_a_stream_without_records(tmp_path: Path) -> None:
    report = tap(tmp_path, "x")
    assert (report.rejected, report.streams[0].last_version) == (1, 0)
    assert table(tmp_path) == (0, [])


def test_a_repeated_run_skips_the_batch_and_counts_its_records(tmp_path: Path) -> None:
    tap(tmp_path, 1)
    tap(tmp_path, "x", run_id="r")
    again = tap(tmp_path, "x", run_id="r")
    assert (again.streams[0].skipped_batches, again.rejected) == (1, 1)
    assert again.streams[0].warnings == ()
    with pytest.raises(lakeport.RunMismatch):
        tap(tmp_path, 2, run_id="r")
    assert table(tmp_path) == (0, [1])


def test_batches_of_a_run_before_and_after_are_landed_once(tmp_path: Path) -> None:
    tap(tmp_path, 0)
    ids = (1, 2, "x", "y", 3, "z")
    for skipped in (0, 3):
        report = tap(tmp_path, *ids, run_id="r", maximum_batch_rows=2)
        (stream,) = report.streams
        assert (stream.batches, stream.skipped_batches, stream.rejected) == (3, skipped, 3)
        assert stream.warnings == ()
        assert table(tmp_path) == (2, [0, 1, 2, 3])


def test_records_are_replayed_once(tmp_path: Path) -> None:
    tap(tmp_path, 1)
    tap(tmp_path, "x", run_id="r")
    corrected = tmp_path / "corrected.jsonl"
    corrected.write_text('{"id": "y"}\n')
    keys: dict[str, Any] = {"run": "r", "records_from": corrected, "engine": "threads"}
    (first,) = replay(tmp_path, "s", **keys)
    assert (first.rows, first.before) == (0, False)
    (again,) = replay(tmp_path, "s", **keys)
    assert (again.rows, again.before) == (0, True)
    corrected.write_text('{"id": 7}\n')
    (of_the_replay,) = replay(tmp_path, "s", **{**keys, "run": "replay:r"})
    assert of_the_replay.rows == 1
    (before,) = replay(tmp_path, "s", **{**keys, "run": "replay:r"})
    assert before.before
    assert table(tmp_path) == (1, [1, 7])


def test_rows_that_all_violate_an_expectation_make_no_version(tmp_path: Path) -> None:
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="s")
    expect = [{"not_null": "id", "otherwise": "quarantine"}]
    bad = pa.table({"id": pa.array([None, None], pa.int64())})
    report = lakeport.land(bad, tmp_path, table="s", expect=expect)
    assert (report.rejected, report.streams[0].expectations[0].failed) == (2, 2)
    assert table(tmp_path) == (0, [1])


def write_header(lake: Path) -> str:
    (lake / "empty.csv").write_text("id\n")
    return str(lake / "empty.csv")


@pytest.mark.parametrize(
    "source", [write_header, lambda _: pa.table({"id": pa.array([], pa.int64())})]
)
def test_a_source_without_rows_adds_no_version_but_a_column(
    tmp_path: Path, source: Callable[[Path], Any]
) -> None:
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="s")
    lakeport.land(source(tmp_path), tmp_path, table="s")
    assert table(tmp_path) == (0, [1])
    more = pa.table({"id": pa.array([], pa.int64()), "more": pa.array([], pa.int64())})
    (stream,) = lakeport.land(more, tmp_path, table="s").streams
    assert stream.notes[0].startswith("1 column added: more;")
    assert table(tmp_path) == (1, [1])
