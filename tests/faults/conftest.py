"""What the fault tests share: a lake in each format, and one Spark session for in-process loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.spark.session import Runtime
from tests.faults.kit import Lake


@pytest.fixture(params=("delta", "parquet"))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake that is not there yet."""
    return Lake(tmp_path / "lake", request.param)


@pytest.fixture
def delta_lake(tmp_path: Path) -> Lake:
    """A lake of Delta tables that is not there yet."""
    return Lake(tmp_path / "lake", "delta")


@pytest.fixture
def parquet_lake(tmp_path: Path) -> Lake:
    """A lake of Parquet files that is not there yet."""
    return Lake(tmp_path / "lake", "parquet")


@pytest.fixture(scope="session")
def spark() -> Iterator[Runtime]:
    """The session that loads in this process use."""
    runtime = Runtime.start({"delta"}, {}, small=True)
    runtime.context  # noqa: B018  # waits for it
    yield runtime
    runtime.stop()
