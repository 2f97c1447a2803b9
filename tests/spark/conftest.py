"""One Spark session for all tests of this folder; tests that need another one start a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import KNOWN_NEEDS

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

os.environ["LAKEPORT_CDS"] = "use"


@pytest.fixture(scope="session")
def driver() -> Iterator[DriverSession]:
    """A session of our own with Delta, for every destination."""
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession

    started = DriverSession.acquire(SessionRequest(KNOWN_NEEDS))
    yield started
