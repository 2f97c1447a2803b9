"""How a load starts: what is checked before Spark is, which jars it gets, what the user hears."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lakeport.config.load import load_target
from lakeport.engine.base import SessionRequest
from lakeport.engine.threads import ThreadEngine
from lakeport.errors import ConfigError
from lakeport.loading import prepare as module
from lakeport.loading.prepare import prepare


class FakeEngine(ThreadEngine):
    """An engine that begins nothing: remembers what it was asked for."""

    name = "spark"
    asked: ClassVar[list[tuple[frozenset[str], frozenset[str]]]]

    @classmethod
    def choose(cls, name: str, request: SessionRequest) -> FakeEngine:
        cls.asked.append((frozenset(request.needs), frozenset(request.optional_needs)))
        return cls()


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    FakeEngine.asked = []
    monkeypatch.setattr(module, "choose_engine", FakeEngine.choose)
    return FakeEngine


def test_tables_of_delta_get_its_jars_and_files_none(tmp_path: Path) -> None:
    prepare(load_target(tmp_path))
    prepare(load_target(tmp_path, {"table_properties": {"delta.appendOnly": "true"}}))
    prepare(load_target(tmp_path, {"file_type": "csv"}), optional_needs=frozenset({"s3a"}))
    plain, other, files = FakeEngine.asked
    assert plain == (frozenset(), frozenset({"delta"}))  # its log's files do without, if need be
    assert other == (frozenset({"delta"}), frozenset({"delta"}))
    assert files == (frozenset(), frozenset({"s3a"}))


def test_a_layout_that_cannot_be_had_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        prepare(load_target(tmp_path, {"table": "../up"}))
    assert FakeEngine.asked == []
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_heard_where_spark_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    observer: Any = SimpleNamespace(on_warning=heard.append)

    def fail(*_: Any, **__: Any) -> FakeEngine:
        raise ConfigError("no Spark")

    monkeypatch.setattr(module, "choose_engine", fail)
    with pytest.raises(ConfigError, match="no Spark"):
        prepare(load_target(tmp_path).with_warnings("of the config"), observer=observer)
    assert heard == ["of the config"]


def test_what_the_workers_bring_comes_behind_what_the_config_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_target(tmp_path, {"date_partition_format": "%Y", "file_type": "delta"})
    monkeypatch.setattr(FakeEngine, "has_own_workers", False)
    monkeypatch.setattr(FakeEngine, "is_local", False)
    prepared = prepare(config.with_warnings("of the config"))
    ready = prepared.check_workers()
    assert ready.warnings == (*prepared.warnings, *ready.worker_warnings)
    assert "on other machines" in ready.worker_warnings[0]
    assert prepared.warnings[0] == "of the config" and len(prepared.warnings) == 2
