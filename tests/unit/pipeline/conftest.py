"""Runs without Spark: nothing is started, and `land` is the test's own."""

from __future__ import annotations

import pytest

from lakeport.pipeline import load, session
from tests.unit.pipeline.kit import Lander


class NoSpark:
    """Takes Spark's place."""

    streams = 0

    def stop(self) -> None:
        """Nothing runs."""


@pytest.fixture
def lander(monkeypatch: pytest.MonkeyPatch) -> Lander:
    made = Lander()
    monkeypatch.setattr(load, "land", made)
    monkeypatch.setattr(session, "start", lambda loads: NoSpark())
    return made
