"""A stream's handle, what can't be had for a stream, and what ends one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.engine.spark.settings import local_cores
from lakeport.errors import ConfigError, LakeportError, SchemaConflict, SourceError
from lakeport.loading.report import LandingReport
from lakeport.model import Landed
from tests.spans import check
from tests.streaming.kit import COLUMNS, Inbox, until


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    found = Inbox(tmp_path / "in")
    found.add(range(5))
    return found


Start = Callable[..., lakeport.LandingStream]


@pytest.fixture
def start(inbox: Inbox, tmp_path: Path) -> Start:
    def run(frame: Any = None, **more: Any) -> lakeport.LandingStream:
        given = {
            "table": "events",
            "file_type": "delta",
            "checkpoint": tmp_path / "checkpoint",
            **more,
        }
        to = given.pop("to", tmp_path / "lake")
        return lakeport.land_stream(frame or inbox.stream(), to, **given)

    return run


def rate(rows: int) -> Callable[[Any], Any]:
    return lambda spark: spark.readStream.format("rate").option("rowsPerSecond", rows).load()


def running() -> DriverSession:
    found = DriverSession._current
    assert found is not None
    return found


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.landed: list[Landed] = []
        self.reports: list[LandingReport] = []
        self.warnings: list[str] = []

    def on_progress(self, stream: str, records: int, size: int) -> None:
        raise AssertionError("a stream is not spooled")

    def on_state(self, state: bytes) -> None:
        raise AssertionError("a stream has no STATE")

    def on_landed(self, landed: Landed) -> None:
        self.landed.append(landed)

    def on_warning(self, text: str) -> None:
        self.warnings.append(text)

    def on_finished(self, report: LandingReport) -> None:
        self.reports.append(report)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"checkpoint": None}, "needs a checkpoint"),
        ({"checkpoint": " "}, "needs a checkpoint"),
        ({"table": None}, "no name of its own"),
        ({"mode": "overwrite"}, "would replace the table,"),
        ({"mode": "overwrite", "partition_keys": "id"}, "would replace the partitions"),
        ({"mode": "merge"}, "lacks the columns that identify a row"),
        ({"run_id": "r"}, "its checkpoint names the run"),
        ({"trigger": "once"}, "`once` is not offered"),
        ({"trigger": "soon"}, "'soon', which is no interval"),
        ({"trigger": -1}, "is -1"),
        ({"trigger": True}, "is True"),
        ({"trigger": float("nan")}, "is nan"),
        ({"trigger": float("inf")}, "is inf"),
        ({"trigger": timedelta(minutes=1)}, "is datetime.timedelta"),
        ({"trigger": "-5 seconds"}, "which is no interval"),
        ({"trigger": 1, "available_now": True}, "both given"),
        ({"frame": 3}, "int is no streaming DataFrame"),
        ({"frame": lambda spark: spark.range(3)}, "the frame is no stream"),
        ({"checkpoint": "nowhere://x/y"}, 'No FileSystem for scheme "nowhere"'),
        (
            {"frame": lambda spark: rate(1)(spark).groupBy("value").count()},
            "Invalid streaming output mode|output mode not supported",
        ),
    ],
)
def test_refused_before_it_starts(
    start: Start, tmp_path: Path, keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        start(**keys)
    assert caught.value.hint
    assert not (tmp_path / "lake" / "events").exists()


def test_a_checkpoint_is_one_tables(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    place = tmp_path / "progress [1]{a}*?"  # Spark takes such a name to read from for a pattern
    start(available_now=True, checkpoint=place).wait()
    for other in ({"table": "people"}, {"to": tmp_path / "other"}):
        with pytest.raises(ConfigError, match=r"belongs to the table .*/lake/events, not to"):
            start(checkpoint=place, **other)
    for inside in ("", "progress", "_delta_log/progress"):
        with pytest.raises(ConfigError, match="lies among the files of the table"):
            start(checkpoint=tmp_path / "lake" / "events" / inside)
    foreign = tmp_path / "foreign"
    (foreign / "offsets").mkdir(parents=True)
    (foreign / "metadata").write_text('{"id":"1"}')
    with pytest.raises(ConfigError, match="a query that is not lakeport's"):
        start(checkpoint=foreign)
    binding = place / "lakeport.json"
    shutil.rmtree(binding)
    binding.write_text("{")
    with pytest.raises(ConfigError, match="not written by this version"):
        start(checkpoint=place)


def test_the_report_of_a_stream_tells_when_what_was_done(
    start: Start, inbox: Inbox, tmp_path: Path
) -> None:
    inbox.add(range(5, 8))
    stream = start(available_now=True)
    stream.wait()
    found = check(stream.report)
    stages = ("planning", "writing", "reading", "encoding", "uploading", "committing")
    assert {("events", stage) for stage in stages} <= found.keys()
    assert sum(span.tasks for span in found["events", "encoding"]) >= 2
    assert stream.report.pace[-1][1:] == (stream.report.rows, stream.report.bytes)
    until(lambda: bool(lakeport.runs(tmp_path / "lake")))
    (kept,) = lakeport.runs(tmp_path / "lake")
    assert len(kept.report["spans"]) == len(stream.report.spans) and kept.report["pace"]
    assert stream.last_report is not None and stream.last_report.spans == ()


def test_strict_evolution_ends_the_stream(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    watcher = Watcher()
    start(available_now=True).wait()
    inbox.add(range(5, 8), extra="x")
    wider = inbox.stream(f"{COLUMNS}, extra string")
    stream = start(wider, available_now=True, schema_evolution="strict", observer=watcher)
    with pytest.raises(SchemaConflict, match="lacks column 'extra'"):
        stream.wait()
    assert not stream.active
    assert not stream.status.active
    (told,) = watcher.reports
    assert told.error is not None
    assert told.error.type == "SchemaConflict"
    reports = (tmp_path / "lake" / "_lakeport" / "reports").glob("*.json")
    kinds = {(json.loads(path.read_text())["error"] or {}).get("type") for path in reports}
    assert kinds == {None, "SchemaConflict"}
    with pytest.raises(SchemaConflict):
        stream.stop()
    assert start(wider, available_now=True).wait()  # the same rows, by another policy
    assert DeltaTable(str(tmp_path / "lake" / "events")).to_pyarrow_table().num_rows == 8


@pytest.mark.parametrize(("kind", "order"), [("delta", (0, 1)), ("parquet", (1, 0))])
def test_void_fits_any_type(
    kind: str, order: tuple[int, int], start: Start, inbox: Inbox, tmp_path: Path
) -> None:
    """A query that is begun anew knows types of places that had none before, and the reverse."""
    void = ("array() AS l", "void AS v", "struct(void AS a) AS o", "map() AS m")
    typed = ("array(5L) AS l", "7L AS v", "struct(1L AS a) AS o", "map('k', 1L) AS m")
    values = ([], None, {"a": None}, []), ([5], 7, {"a": 1}, [("k", 1)])
    names, wanted = ("l", "v", "o", "m"), list[dict[str, Any]]()
    for number, which in enumerate(order):
        columns = list((void, typed)[which])

        def frame(spark: Any, columns: list[str] = columns) -> Any:
            rows = inbox.stream()(spark).selectExpr("id", "cast(NULL AS void) AS void")
            return rows.selectExpr("id", *columns)

        inbox.add([100 + number])
        with start(frame, file_type=kind, available_now=True) as stream:
            stream.wait()
        fresh = range(5) if number == 0 else ()
        made = dict(zip(names, values[which], strict=True))
        wanted += [{"id": i, **made} for i in (*fresh, 100 + number)]
    place = tmp_path / "lake" / "events"
    parts = [pq.read_table(path) for path in sorted(place.rglob("*.parquet"))]
    if kind == "delta":
        parts = [DeltaTable(str(place)).to_pyarrow_table()]
    rows = [row for part in parts for row in part.to_pylist()]
    rows = [{name: row.get(name) for name in ("id", *names)} for row in rows]
    assert sorted(rows, key=lambda row: row["id"]) == wanted


def test_a_source_that_fails_ends_the_stream(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    def failing(spark: Any) -> Any:
        return inbox.stream()(spark).selectExpr("id", "CAST(name AS int) AS number")

    with pytest.raises(LakeportError) as caught:
        start(failing, available_now=True).wait()
    assert not isinstance(caught.value, ConfigError)
    assert "\tat " not in str(caught.value)
    assert not (tmp_path / "lake" / "events").exists()
    assert start(available_now=True).wait()


def test_an_endless_stream(start: Start, tmp_path: Path) -> None:
    watcher = Watcher()
    with start(rate(50), trigger=0.1, observer=watcher, auto_optimize=True) as stream:
        assert stream.active
        assert not stream.wait(0.01)
        until(lambda: len(watcher.landed) >= 3)
        # Another load takes up the same session; one that needs another is refused.
        assert lakeport.land(tmp_path / "in", tmp_path / "lake", table="people").rows == 5
        with pytest.raises(ConfigError, match="a stream runs on a session of lakeport's own"):
            lakeport.land(
                tmp_path / "in", tmp_path / "lake", table="x", spark={"spark.app.name": "other"}
            )
        endless = rate(1)(running().spark)
        with pytest.raises(SourceError, match="the frame is a stream"):
            lakeport.land(endless, tmp_path / "lake", table="x")
        seen = len(watcher.landed)
        until(lambda: len(watcher.landed) > seen)
        status = stream.status
        assert status.active
        assert status.rows >= 50
        assert status.message
    assert not stream.active
    assert stream.status.message == "Stopped"
    stream.stop()
    found = DeltaTable(str(tmp_path / "lake" / "events")).to_pyarrow_table()["value"].to_pylist()
    assert sorted(found) == list(range(len(found)))
    assert stream.report.rows == len(found) == sum(report.rows for report in watcher.reports)
    assert all(landed.rows for landed in watcher.landed)
    with start(rate(50), trigger="1 second") as stream:  # goes on where the first one stopped
        until(lambda: stream.report.rows > 0)
    found = DeltaTable(str(tmp_path / "lake" / "events")).to_pyarrow_table()["value"].to_pylist()
    assert sorted(found) == list(range(len(found)))


def test_small_micro_batches_make_one_file(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    for number in range(5, 9):
        inbox.add([number])

    def spread(spark: Any) -> Any:
        files = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 3)
        return files.json(str(inbox.folder)).repartition(7)

    stream = start(spread, available_now=True, file_type="parquet")
    stream.wait()
    (told,) = stream.report.streams
    assert (told.rows, told.batches, told.files) == (9, 2, 2)

    def unsized(spark: Any) -> Any:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40)
        return source.option("numPartitions", 9).load()

    with start(
        unsized, table="rate", file_type="parquet", checkpoint=tmp_path / "other", trigger=0
    ) as stream:
        until(lambda: stream.report.rows >= 160)
    told = stream.report.streams[0]
    # The first one's size is unknown: it makes one file for each core.
    assert told.files < told.batches + local_cores("local[*]")


def test_a_merge_lands_changes(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    inbox.add([3, 4, 5])

    def counted(spark: Any) -> Any:
        return inbox.stream()(spark).groupBy("id").count()

    stream = start(counted, available_now=True, mode="merge", merge_keys="id")
    stream.wait()
    rows = DeltaTable(str(tmp_path / "lake" / "events")).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["count"] for row in rows} == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 1}
    assert len(rows) == 6


def test_mages_sink(inbox: Inbox, tmp_path: Path, start: Start) -> None:
    sink = tmp_path / "sink.yaml"
    sink.write_text(
        "connector_type: amazon_s3\nbucket: lake\nprefix: raw/clicks\nfile_type: parquet\n"
        "buffer_timeout_seconds: 0.5\n"
    )
    with pytest.raises(ConfigError, match="needs a checkpoint"):
        lakeport.land_stream(inbox.stream(), sink)


def test_small_files_are_merged(start: Start, inbox: Inbox, tmp_path: Path) -> None:
    start(available_now=True).wait()
    place = str(tmp_path / "lake" / "events")
    row = DeltaTable(place).to_pyarrow_table().slice(0, 1)
    for number in range(5, 23):
        write_deltalake(place, row.set_column(0, "id", pa.array([number])), mode="append")
    inbox.add([23])
    start(available_now=True, auto_optimize=True).wait()
    table = DeltaTable(place)
    assert len(table.file_uris()) == 1
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(24))
