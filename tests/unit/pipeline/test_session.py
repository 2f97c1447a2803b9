"""The one Spark that all loads of a run share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.sources import TablesSource
from lakeport.engine.base import SessionRequest
from lakeport.errors import ConfigError
from lakeport.pipeline import run
from tests.unit.pipeline.kit import load_of


def started(monkeypatch: pytest.MonkeyPatch, *loads: Any) -> tuple[Any, ...]:
    found: list[tuple[Any, ...]] = []

    def choose(name: str, request: SessionRequest) -> None:
        found.append((name, request.needs, request.settings))

    monkeypatch.setattr(run, "choose_engine", choose)
    run.choose_run_engine(loads)
    return found[0]


def test_it_has_what_all_loads_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.driver.memory": "2g"}
    files = load_of("a", tmp_path, file_type="parquet", spark=settings, engine="threads")
    away = TablesSource(tables={"x": "s3://lake/x"})
    tables = load_of(
        "b", tmp_path, source=away, file_type="parquet", spark=settings, engine="spark"
    )
    assert started(monkeypatch, files) == ("threads", frozenset(), settings)
    assert started(monkeypatch, files, tables) == ("spark", frozenset({"delta", "s3a"}), settings)
    used = replace(files, tables={"y": str(tmp_path)})
    assert started(monkeypatch, used) == ("threads", frozenset({"delta"}), settings)


def test_loads_that_ask_for_different_sparks_are_refused(tmp_path: Path) -> None:
    one = load_of("one", tmp_path)
    other = load_of("other", tmp_path, spark={"spark.driver.memory": "2g"})
    with pytest.raises(ConfigError, match="loads 'one' and 'other' have different `spark`"):
        run.choose_run_engine([one, other])


def test_a_warm_session_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="load 'one' asks for a warm session's Spark"):
        run.choose_run_engine([load_of("one", tmp_path, warm="require")])
