"""Texts that look like numbers, as Spark's own CSV reader infers them: it differs on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.sources.csv.numbers import (
    CODES,
    GROUPED,
    PADDED,
    SIGNED,
    TOO_LONG,
    differing,
    one_row,
)

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession


def test_where_spark_differs(driver: DriverSession, tmp_path: Path) -> None:
    texts = one_row(tmp_path / "t.csv")
    frame = driver.spark.read.csv(str(tmp_path / "t.csv"), header=True, inferSchema=True)
    outside = {"0000-01-01", "10000-01-01"}  # dates to Spark, of years that Python does not have
    names = [f"c{n}" for n, text in enumerate(texts) if text not in outside]
    [row] = frame.select(names).collect()
    found = differing([text for text in texts if text not in outside], row)
    java = {"1d", "1D", "1f", "1F", "١٢", "１２", "٣"}
    times = {"23:59", "10:30", "2024-1-2", "2024-01"}
    numbers = CODES | GROUPED | TOO_LONG | PADDED | SIGNED | {"NaN", "Infinity", "-Infinity"}
    assert found == numbers | java | times
