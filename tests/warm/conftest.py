"""Warm sessions in a cache folder of the tests' own, which no other session of the user's is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kit import Lake
from tests.warm.kit import Warm, cache

VICTIMS = {
    "test_killed_at_every_point": ["client", "first"],
    "test_lost_in_the_middle": ["java", "first"],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which process is killed: with `--soak` each, in a test of its own, else the first named."""
    if "victim" in metafunc.fixturenames:
        victims = VICTIMS[metafunc.function.__name__]
        soak = metafunc.config.getoption("soak")
        metafunc.parametrize("victim", victims if soak else victims[:1])


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A session that no test ends."""
    with Warm(cache(tmp_path_factory.mktemp("shared"))) as warm:
        warm.start()
        yield warm


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Sessions that the test starts and ends itself."""
    with Warm(cache(tmp_path_factory.mktemp("own"))) as warm:
        yield warm


@pytest.fixture
def delta_lake(tmp_path: Path) -> Lake:
    """A lake of Delta tables that is not there yet."""
    return Lake(tmp_path / "lake", "delta")
