"""When Spark of a warm session is had."""

from __future__ import annotations

import pytest

from lakeport.engine.spark import lease
from lakeport.engine.spark.lease import Lease, lease_for
from lakeport.errors import ConfigError

NOTHING: frozenset[str] = frozenset()


def test_a_process_that_no_session_has_forked_has_none() -> None:
    assert lease_for("auto", {}, NOTHING) is None
    with pytest.raises(ConfigError, match="none suits this process"):
        lease_for("require", {}, NOTHING)


def test_a_run_of_a_session_has_its_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_door", None)
    lease.lend(1, "secret", ["delta"])
    found = lease_for("auto", {}, frozenset({"delta"}))
    assert isinstance(found, Lease)
    assert found.alive
    found.close(None, fast=True, timeout=1)
    assert not found.alive
    assert lease_for("off", {}, NOTHING) is None
    for settings, needs, reason in (
        ({"spark.master": "local[1]"}, NOTHING, "`spark` settings of its own"),
        ({}, frozenset({"s3a", "azure"}), "lacks the jars for azure, s3a"),
    ):
        assert lease_for("auto", settings, needs) is None
        with pytest.raises(ConfigError, match=reason):
            lease_for("require", settings, needs)
