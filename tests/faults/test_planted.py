"""The harness finds what it is for: defects that are planted from here show in one of its cases."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.loading.run import _LoadRun
from lakeport.storage.s3.client import S3Connection
from lakeport.writers.delta import commit
from lakeport.writers.delta.commit import StagedFiles
from lakeport.writers.delta.writer import DeltaWriter
from tests.faults.requests.case import Case
from tests.faults.requests.proxy import Point
from tests.faults.requests.scenario import Scenario


def wrong(scenario: Scenario, point: str, fault: str) -> str:
    """What the oracle says of one case."""
    name, _, ordinal = point.rpartition("#")
    site, operation, kind = str(scenario).split(":")
    case = Case(site, operation, kind == "run-id", Point(name, int(ordinal)), fault)
    result = scenario.run(case)
    assert result.met
    return "; ".join(result.wrong)


def test_files_deleted_before_the_log_is_looked_at(
    found: dict[str, Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover_commit(_log: Any, _ours: Any, _read: int, failure: Exception) -> None:
        raise failure

    scenario = found["local_delta:append:no-run-id"]
    case = ("link t/_delta_log/N.json#1", "EIO-after")
    assert wrong(scenario, *case) == ""
    monkeypatch.setattr(commit, "recover_commit", recover_commit)
    monkeypatch.setattr(StagedFiles, "_may_be_in_log", lambda self: False)
    assert "unreadable" in wrong(scenario, *case)


def test_states_that_go_out_early(
    found: dict[str, Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = _LoadRun._land_flush

    def early(self: _LoadRun, taken: Any, source: Any) -> None:
        for state in taken.states:
            self._emit_state(state)
        flush(self, taken, source)

    scenario = found["s3:create:no-run-id"]
    case = ("COMPLETE t/TIME.parquet#2", "expired")
    assert wrong(scenario, *case) == ""
    monkeypatch.setattr(_LoadRun, "_land_flush", early)
    assert "STATE claims 15 rows at content 1" in wrong(scenario, *case)


def test_files_that_overwrite_another_writers(
    found: dict[str, Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    send = S3Connection._send

    def plain(self: S3Connection, operation: str, parameters: dict[str, Any]) -> Any:
        if parameters.get("Key", "").endswith(".parquet"):  # the probe would find the defect out
            parameters = {k: v for k, v in parameters.items() if k != "IfNoneMatch"}
        return send(self, operation, parameters)

    scenario = found["s3:create:no-run-id"]
    case = ("COMPLETE t/TIME.parquet#1", "rival")
    assert wrong(scenario, *case) == ""
    monkeypatch.setattr(S3Connection, "_send", plain)
    assert "another writer's 1 rows" in wrong(scenario, *case)


def test_digests_that_are_not_compared(
    found: dict[str, Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = DeltaWriter._skip_landed

    def lenient(self: DeltaWriter, version: int, run_id: str, sequence: int, digest: str) -> Any:
        known = self.log.find_mark(version, run_id, self.stream, sequence)
        return skipped(self, version, run_id, sequence, known.digest if known else digest)

    scenario = found["delta_s3:append:run-id"]
    assert scenario.recording()
    monkeypatch.setattr(DeltaWriter, "_skip_landed", lenient)
    with pytest.raises(AssertionError, match="other content was not refused"):
        scenario.recording()
