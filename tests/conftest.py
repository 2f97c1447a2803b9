"""What every test shares: the storage servers, one of each for a whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.emulators import Azurite, FakeGcs, Minio

os.environ["LAKEPORT_CDS"] = "use"  # no background work beside the tests
os.environ["LAKEPORT_WARM"] = "off"  # but where a test says otherwise
os.environ["LAKEPORT_PROGRESS"] = "off"  # what goes on is told by the clock

# How long an example takes tells of the machine: one that stalls for 0.2 s would fail the test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("share", _PATIENT, max_examples=20)
settings.register_profile("soak", _PATIENT, max_examples=500)


_WITHOUT_SPARK = ("browser", "unit", "property", "fuzz", "cluster", "pages", "screens", "warm")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of these tests."""
    parser.addoption(
        "--soak", action="store_true", help="try every case, and many examples of each property"
    )

    parser.addoption(
        "--warm", action="store_true", help="have the tests' own loads go through a warm session"
    )
    parser.addoption(
        "--early", action="store_true", help="have small jobs done as before Spark is there"
    )
    parser.addoption(
        "--by-spark", action="store_true", help="have every commit to a Delta table done by Spark"
    )


def pytest_configure(config: pytest.Config) -> None:
    """How many examples each property is tried with."""
    settings.load_profile("soak" if config.getoption("soak") else "share")


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether every case is to be tried."""
    return bool(request.config.getoption("soak"))


@pytest.fixture(scope="session", autouse=True)
def one_spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """One session with all jars, begun first: whatever a test needs, no test ends another's."""
    folders = {
        item.path.relative_to(Path(__file__).parent).parts[0] for item in request.session.items
    }
    if folders <= {*_WITHOUT_SPARK, "test_emulators.py"}:
        yield
        return
    if request.config.getoption("warm"):
        with warm_session(tmp_path_factory.mktemp("warm")), commits_by_spark():
            yield
        return
    from lakeport.engine.spark.session import Runtime

    runtime = Runtime.start({"delta", "s3a", "azure"}, {}, small=True)
    assert runtime.context  # there for every test: small loads would do without until it is
    early, by_spark = (request.config.getoption(name) for name in ("early", "by_spark"))
    with (
        small_jobs_here() if early else nullcontext(),
        commits_by_spark() if by_spark else nullcontext(),
    ):
        yield
    runtime.stop()


@contextmanager
def commits_by_spark() -> Iterator[None]:
    """No table is plain: delta-spark makes every commit."""
    from lakeport.writers.delta.commit.log_transaction import LogTransaction

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogTransaction, "begin", lambda *about: None)
        yield


@contextmanager
def small_jobs_here() -> Iterator[None]:
    """Small jobs are done by threads of this process, although Spark is there."""
    from lakeport.engine.spark import jobs, session

    done: list[int] = []
    until_spark = jobs._until_spark

    def early(runtime: session.Runtime, size: int) -> bool:
        return 0 <= size <= session._SMALL and runtime.is_local and not runtime._given

    def counted(runtime: Any, function: Any, items: Sequence[Any], *how: Any) -> Any:
        done.append(len(items))
        return until_spark(runtime, function, items, *how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.Runtime, "spares", early)
        patch.setattr(jobs, "_until_spark", counted)
        yield
    assert sum(done) > 50


@contextmanager
def warm_session(folder: Path) -> Iterator[None]:
    """A warm session that this process's loads require."""
    from lakeport.engine.spark.session import Runtime
    from tests.warm.kit import Warm, cache

    with Warm(cache(folder)) as warm, pytest.MonkeyPatch.context() as patch:
        warm.start()
        for name, value in warm.environment({"LAKEPORT_WARM": "require"}).items():
            patch.setenv(name, value)
        yield
        assert warm.served() > 0
        if Runtime._current is not None:
            Runtime._current.stop()


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A MinIO server."""
    with Minio(tmp_path_factory.mktemp("minio")) as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    """A fake-gcs-server."""
    with FakeGcs(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """An Azurite server."""
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="module", params=["native", "python"])
def fast_path(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever reads Singer, JSON and CSV: the native kernel, or Python without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEPORT_NATIVE", "on" if request.param == "native" else "off")
        yield
