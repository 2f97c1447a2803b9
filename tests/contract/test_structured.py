"""Structured streams: what every destination promises for micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeport
from tests.contract.targets import Target
from tests.streaming.kit import COLUMNS, Inbox

pytestmark = pytest.mark.spark


def kept(target: Target) -> set[str]:
    """Everything in the store but reports, of which each run leaves one."""
    return {key for key in target.files.keys() if "/reports/" not in key}  # noqa: SIM118


def test_a_stream_lands_once(target: Target, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "in")
    inbox.add(range(10))
    inbox.add(range(10, 25))

    def run(columns: str = COLUMNS, where: str = "true") -> lakeport.LandingStream:
        stream = lakeport.land_stream(
            inbox.stream(columns, where),
            target.config(table="events"),
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
        )
        assert stream.wait(300)
        return stream

    first = run()
    assert target.ids("events") == list(range(25))
    (told,) = first.report.streams
    assert (first.report.rows, told.batches, told.files) == (25, 2, 2)
    assert first.last_report is not None
    assert first.last_report.rows == 15

    before = kept(target)
    for name in ("1", ".1.crc"):  # as if the query had been killed before Spark knew of the batch
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    again = run()
    assert again.id == first.id == again.report.run_id
    assert again.report.streams[0].skipped_batches == 1
    assert again.report.rows == 0
    assert kept(target) == before

    inbox.add(range(30, 33))
    assert run(where="id < 0").report.streams == ()  # a micro-batch without rows leaves nothing
    assert kept(target) == before

    inbox.add(range(25, 30), extra="x")
    assert run(f"{COLUMNS}, extra string").report.rows == 5
    rows = sorted(target.rows("events"), key=lambda row: int(row["id"]))
    assert [int(row["id"]) for row in rows] == list(range(30))
    assert [row.get("extra") for row in rows] == [None] * 25 + ["x"] * 5
    assert [row["name"] for row in rows] == [f"n{i}" for i in range(30)]
    if target.format == "delta":
        table = target.delta("events")
        assert table.version() == 2
        assert table.transaction_version(f"lakeport:{first.id}:events") == 3
