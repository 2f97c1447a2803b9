"""Runs without Spark: nothing is started, and `land` is the test's own."""

from __future__ import annotations

import pytest

from lakeport.engine.threads import ThreadEngine
from lakeport.pipeline import run
from tests.unit.pipeline.kit import Lander


@pytest.fixture
def lander(monkeypatch: pytest.MonkeyPatch) -> Lander:
    made = Lander()
    monkeypatch.setattr(run, "land", made)
    monkeypatch.setattr(run, "choose_run_engine", lambda loads: ThreadEngine())
    return made
