"""The start of a streaming query, by a Spark that fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException

from lakeport.engine.sql.streaming import start_query
from lakeport.errors import LakeportError, MissingDependency, SparkFailure

ABSENT = """[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] Initialization failed, \
returned -2. Cause: Traceback (most recent call last):
  File "foreach_batch_worker.py", line 76, in main
ModuleNotFoundError: No module named 'lakeport'
 SQLSTATE: XXKST"""
SLOW = "Python worker failed to connect back."


class Writer:
    """A writer whose query does not start, with Spark's words for each attempt."""

    def __init__(self, *words: str) -> None:
        self.words = iter(words)

    def foreachBatch(self, land: Any) -> Writer:
        return self

    def option(self, *_: str) -> Writer:
        return self

    def outputMode(self, mode: str) -> Writer:
        return self

    def start(self) -> Any:
        if word := next(self.words):
            raise SparkConnectException(word)
        return "a query"


def started(*words: str) -> Any:
    frame: Any = SimpleNamespace(writeStream=Writer(*words))
    return start_query(frame, "/checkpoint", "append", {}, lambda *_: None, ())


def test_a_server_whose_python_lacks_lakeport_is_told() -> None:
    with pytest.raises(MissingDependency, match="lacks the package lakeport") as caught:
        started(ABSENT)
    assert "PYSPARK_PYTHON" in caught.value.hint


def test_a_process_that_starts_slowly_gets_more_time() -> None:
    assert started(SLOW, SLOW, "") == "a query"
    with pytest.raises(SparkFailure, match="did not start within ten seconds"):
        started(*[SLOW] * 5)


def test_another_failure_is_not_repeated() -> None:
    with pytest.raises(LakeportError, match="no such thing"):
        started("no such thing", "")
