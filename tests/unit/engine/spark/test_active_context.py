"""The context that runs in this process."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from lakeport.engine.spark.active_context import find_context


def test_one_that_another_thread_still_makes_does_not_run_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half_made = SparkContext.__new__(SparkContext)
    monkeypatch.setattr(SparkContext, "_active_spark_context", half_made)
    assert find_context() is None
