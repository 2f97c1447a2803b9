"""What the fault tests share: a lake in each format, and one Spark session for in-process loads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession
from tests.emulators import Azurite, FakeGcs, Minio
from tests.faults.kit import Lake, Outcome
from tests.faults.requests.scenario import Scenario, scenarios
from tests.faults.requests.sites import sites
from tests.postgres import Postgres

IN_DELTA = pytest.mark.parametrize(
    "lake", ["delta", pytest.param("parquet", marks=pytest.mark.soak)], indirect=True
)
"""A test that shows the same in either format, and costs much: in Parquet with `--soak`."""


@pytest.fixture(
    params=[
        pytest.param("threads", marks=pytest.mark.by_threads),
        pytest.param("spark", marks=pytest.mark.soak),
    ]
)
def engine_of_kills(request: pytest.FixtureRequest) -> str:
    """The engine of loads whose driver is killed: threads, and with `--soak` Spark as well.

    `test_kill.py` and `test_killed_databases.py` kill a driver with Spark in each run of the tests.
    """
    return str(request.param)


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
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server; each test has a schema of its own."""
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def spark(one_spark: None) -> Iterator[DriverSession | None]:
    """The session that loads in this process use; None where threads are the engine."""
    if os.environ["LAKEPORT_ENGINE"] == "threads":
        yield None
        return
    driver = DriverSession.acquire(SessionRequest({"delta"}))
    driver.context  # noqa: B018  # waits for it
    yield driver


@pytest.fixture(scope="session")
def found(
    minio: Minio,
    azurite: Azurite,
    fake_gcs: FakeGcs,
    spark: DriverSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Scenario]]:
    """The scenarios in which requests fail, by name; their tables are made once."""
    folder = tmp_path_factory.mktemp("lake")
    with sites(minio, azurite, fake_gcs, folder) as behind_proxies:
        yield {str(scenario): scenario for scenario in scenarios(behind_proxies.values())}


Command = Callable[..., Outcome]


@pytest.fixture
def command(
    spark: DriverSession,
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
