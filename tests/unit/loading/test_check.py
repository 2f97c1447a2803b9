"""The connection test: what it has of Spark, and what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeport.config.load import load_target
from lakeport.engine.threads import ThreadEngine
from lakeport.loading import check as module
from lakeport.storage.local import LocalStorage


class Engine(ThreadEngine):
    """Takes down what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def begin(self) -> None:
        self.heard.append("begin")

    def close(self) -> None:
        self.heard.append("close")
        super().close()


def test_spark_starts_at_once_and_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a load with other settings in this process would be refused: the session is in use."""
    engine = Engine()

    def items(_: Any, **__: Any) -> Any:
        engine.heard.append("store")
        return iter(())

    monkeypatch.setattr(module, "choose_engine", lambda *_: engine)
    monkeypatch.setattr(LocalStorage, "checks", items)
    monkeypatch.setattr(module, "_check_spark", lambda *_: iter(()))
    config = load_target(tmp_path, {"engine": "spark"})
    monkeypatch.setattr(type(config), "connector_jars", lambda self: frozenset({"local"}))
    assert module.check(config).ok
    assert engine.heard == ["begin", "store", "close"]
