"""How a job is followed that runs in another thread, and an interrupt ends a shared one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from lakeport.engine.spark.jobs import (
    JobQueue,
    TaskRequest,
    _report_progress,
    run_job,
)
from lakeport.engine.tasks import JobLabel
from lakeport.errors import SparkFailure


class Gone:
    """A session whose JVM has died."""

    def ended_share(self, tag: str) -> float | None:
        raise Py4JNetworkError("Error while sending or receiving")


def test_who_looks_at_a_job_says_nothing_of_a_spark_that_is_gone() -> None:
    session: Any = Gone()
    _report_progress(session, "group", threading.Event())


def test_the_first_job_starts_spark_and_counts_no_task_before() -> None:
    class NotBegun:
        cores = 2

        def wait_for_start(self) -> None:
            raise SparkFailure("Spark did not start")

        def job_folder(self) -> Any:
            raise AssertionError("nobody would end this wait")

    session: Any = NotBegun()
    counted: list[int] = []
    with pytest.raises(SparkFailure, match="did not start"):
        run_job(session, JobLabel("s"), [TaskRequest("s", list, [1, 2])], counted.append)
    assert counted == []


def test_an_interrupt_ends_the_wait_of_all_who_share_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the job has failed, and each request is being run by itself."""

    def run(_: Any, label: JobLabel, requests: Sequence[TaskRequest], count: Any) -> Any:
        if len(requests) > 1:
            raise SparkFailure("the job failed whole")
        raise KeyboardInterrupt

    monkeypatch.setattr("lakeport.engine.spark.jobs.run_job", run)
    session: Any = None
    queue = JobQueue(session, lambda tasks: None)
    one, *others = (TaskRequest(name, list, [1], [1]) for name in ("one", "two", "three"))
    queue._waiting += others
    with pytest.raises(KeyboardInterrupt):
        queue.run_request(one, "r")
    for each in others:
        with pytest.raises(KeyboardInterrupt):
            each.outcomes.result(timeout=0)
