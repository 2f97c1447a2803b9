"""When Spark of a warm session is had."""

from __future__ import annotations

import pytest

from lakeport.engine.spark import lease
from lakeport.engine.spark.lease import Lease, find_lease
from lakeport.errors import ConfigError

NOTHING: frozenset[str] = frozenset()


def test_a_process_that_no_session_has_forked_has_none() -> None:
    assert find_lease("auto", {}, NOTHING) is None
    with pytest.raises(ConfigError, match="none suits this process"):
        find_lease("require", {}, NOTHING)


def test_a_run_of_a_session_has_its_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_lease_arguments", None)
    lease.set_lease(1, "secret", ["delta"])
    found = find_lease("auto", {}, frozenset({"delta"}))
    assert isinstance(found, Lease)
    assert found.is_alive
    found.close(None, fast=True, timeout=1)
    assert not found.is_alive
    assert find_lease("off", {}, NOTHING) is None
    for settings, needs, reason in (
        ({"spark.master": "local[1]"}, NOTHING, "`spark` settings of its own"),
        ({}, frozenset({"s3a", "azure"}), "lacks the jars for azure, s3a"),
    ):
        assert find_lease("auto", settings, needs) is None
        with pytest.raises(ConfigError, match=reason):
            find_lease("require", settings, needs)
