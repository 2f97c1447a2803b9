"""A load for an orchestrator: its run id, its end from outside, and which errors are retried."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakeport import errors
from lakeport.integrations import job as job_module
from lakeport.integrations.job import Job, join_run_id, may_retry
from lakeport.loading.cancellation import EndRequested
from lakeport.loading.report import Failure, Observer
from lakeport.model import Landed
from lakeport.pipeline.report import LoadReport, PipelineReport
from tests.orchestrators.observers import Interrupted

PEOPLE = pa.table({"id": [1, 2]})
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def lake_report(*failures: Failure) -> PipelineReport:
    """The report of a run whose loads failed."""
    loads = [LoadReport(str(n), "failed", error=error) for n, error in enumerate(failures)]
    return PipelineReport("one", "lake.yaml", NOW, NOW, 0.0, tuple(loads))


def land(folder: Path, job: Job, **options: Any) -> Any:
    return job.land(PEOPLE, folder / "lake", {}, {"table": "people", **options})


def rows(folder: Path) -> int:
    return int(DeltaTable(folder / "lake" / "people").to_pyarrow_table().num_rows)


def test_tries_of_one_name_add_their_rows_once(tmp_path: Path) -> None:
    assert [land(tmp_path, Job("dag", "task", "one")).rows for _ in range(2)] == [2, 0]
    assert land(tmp_path, Job("dag", "task", "two")).rows == 2
    assert rows(tmp_path) == 4


@pytest.mark.parametrize(
    ("options", "run_id"),
    [({}, "dag/one"), ({"run_id": "mine"}, "mine"), ({"mode": "overwrite"}, None)],
)
def test_a_load_that_appends_has_the_run_id(
    tmp_path: Path, options: Mapping[str, Any], run_id: str | None
) -> None:
    found = land(tmp_path, Job("dag", "one"), **options).run_id
    assert found == run_id or (run_id is None and "dag" not in found)


def test_a_lake_file_is_run_with_secrets_and_repeated(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id\n1\n2\n")
    file = tmp_path / "lake.yaml"
    file.write_text("target: ./lake\nloads: {people: {from: {files: people.csv}}}\n")
    keys, options = {"object_key_path": "below"}, {"only": ["people"]}
    first, second = (Job("dag", "one").run(str(file), keys, options) for _ in range(2))
    assert first.run_id == second.run_id == "dag/one"
    assert first["people"].run_id == "dag/one/people"
    assert (first.rows, second.rows) == (2, 0)
    assert first["people"].tables == (str(tmp_path / "lake" / "below" / "people"),)
    kept = list((tmp_path / "lake" / "below" / "_lakeport" / "runs").iterdir())
    assert len(kept) == 2  # each try has a report of its own


def singer_file(folder: Path) -> str:
    schema = {"properties": {"id": {"type": "integer"}}}
    messages: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": "people", "schema": schema, "key_properties": []}
    ]
    messages += [{"type": "RECORD", "stream": "people", "record": {"id": n}} for n in range(3)]
    path = folder / "people.singer"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in messages))
    return str(path)


class Ended(BaseException):
    """What an orchestrator raises in a task's thread to end it."""


@pytest.fixture
def ended_by_signal() -> Iterator[None]:
    def raise_ended(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGUSR1, raise_ended)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("ended_by_signal")
def test_an_orchestrators_exception_ends_the_load_and_a_retry_adds_the_rest(
    tmp_path: Path,
) -> None:
    source, options = singer_file(tmp_path), {"maximum_batch_rows": 1}
    observed = {**options, "observer": Interrupted(signal.SIGUSR1)}
    with pytest.raises(Ended):
        Job("dag").land(source, tmp_path / "lake", {}, observed)
    assert rows(tmp_path) == 1
    assert Job("dag").land(source, tmp_path / "lake", {}, options).rows == 2


@pytest.mark.usefixtures("ended_by_signal")
@pytest.mark.parametrize("by_signal", [True, False])
def test_a_source_that_blocks_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_signal: bool
) -> None:
    monkeypatch.setattr(job_module, "_END_SECONDS", 0.1)
    freed = threading.Event()

    def block() -> Iterator[dict[str, int]]:
        yield {"id": 1}
        os.kill(os.getpid(), signal.SIGUSR1) if by_signal else job.end()
        freed.wait(60)
        yield {"id": 2}

    job = Job("dag")
    with pytest.raises(Ended if by_signal else EndRequested):
        job.land(block(), tmp_path / "lake", {}, {"table": "people"})
    freed.set()
    for thread in threading.enumerate():
        if thread.name.startswith("lakeport-job"):
            thread.join(60)
    assert not (tmp_path / "lake" / "people").exists()


def test_the_end_of_a_job_ends_its_load(tmp_path: Path) -> None:
    job, options = Job("dag"), {"maximum_batch_rows": 1}

    class Killed(Observer):
        def on_landed(self, landed: Landed) -> None:
            job.end()

    with pytest.raises(EndRequested):
        job.land(singer_file(tmp_path), tmp_path / "lake", {}, {**options, "observer": Killed()})
    assert rows(tmp_path) == 1


FAILED = Failure("ConfigError", "no such key")
UNREACHABLE = Failure("Unreachable", "no answer")


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (errors.Unreachable("no answer"), True),
        (errors.OutcomeUnknown("no answer"), True),
        (errors.SparkFailure("lost"), True),
        (errors.SourceError("no such file"), True),
        (errors.MissingDependency("no such package"), False),
        (errors.ExpectationFailed("rows"), False),
        (errors.PermissionRefused("403"), False),
        (errors.RunMismatch("other content"), False),
        (errors.LoadsFailed(lake_report(FAILED)), False),
        (errors.LoadsFailed(lake_report(FAILED, UNREACHABLE)), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_that_no_retry_mends(error: errors.LakeportError, retry: bool) -> None:
    assert may_retry(error) is retry


def test_a_long_name_stays_unique() -> None:
    one, other = (join_run_id("dag" * 80, name) for name in ("a", "b"))
    assert len(one) == len(other) == 120
    assert one != other
