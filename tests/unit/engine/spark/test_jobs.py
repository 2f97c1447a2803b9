"""How a job is followed that runs in another thread."""

from __future__ import annotations

import threading
from typing import Any

from py4j.protocol import Py4JNetworkError

from lakeport.engine.spark.jobs import _follow


class Gone:
    """A context whose JVM has died."""

    def statusTracker(self) -> Any:
        raise Py4JNetworkError("Error while sending or receiving")


def test_who_looks_at_a_job_says_nothing_of_a_spark_that_is_gone() -> None:
    context: Any = Gone()
    _follow(context, "group", threading.Event())
