"""What the fault tests share: a lake in each format, and one Spark session for in-process loads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeport.spark.session import Runtime
from tests.faults.kit import Lake, Outcome


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


Command = Callable[..., Outcome]


@pytest.fixture
def command(
    spark: Runtime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:
    """Run the program in this process, with bytes as its standard input."""
    from lakeport.cli.app import main

    def call(*arguments: str | Path, given: bytes = b"") -> Outcome:
        source = tmp_path / "stdin"
        source.write_bytes(given)
        capfd.readouterr()
        with source.open("rb") as stdin, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", stdin)
            code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out.encode().splitlines(keepends=True), err)

    return call
