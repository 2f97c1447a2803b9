"""Which versions a run has made, and whether it can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.delta_log.reader import Commit
from lakeport.delta_log.transactions import CommitMark
from lakeport.errors import CommitConflict, SourceError
from lakeport.lake.undo import find_run_versions


def commit(number: int, run: str = "", operation: str = "WRITE", **parameters: Any) -> Commit:
    info: dict[str, Any] = {"operation": operation, "operationParameters": parameters}
    info["engineInfo"] = "delta-rs:1"
    if run:
        info["userMetadata"] = CommitMark(run, "s", 0, "", run, "c").format()
    return Commit(number, info, 1, 0, 1, 1, {})


def newest_first(*commits: Commit) -> list[Commit]:
    return sorted(commits, key=lambda commit: -commit.version)


def test_a_run_is_found_when_nothing_else_changed_the_table() -> None:
    kept = [commit(2, "", "OPTIMIZE"), commit(4, "", "VACUUM END")]
    log = newest_first(commit(0, "a"), commit(1, "b"), *kept, commit(3, "b"))
    assert find_run_versions(log, "b", "t") == (1, 3)
    with pytest.raises(CommitConflict, match=r"version 3 \(WRITE by run b\), version 1"):
        find_run_versions(log, "a", "t")
    foreign = newest_first(*log, commit(5, "", "DELETE"))
    with pytest.raises(CommitConflict, match=r"version 5 \(DELETE by delta-rs:1\)"):
        find_run_versions(foreign, "b", "t")
    with pytest.raises(SourceError, match="no commit of a run 'x'") as caught:
        find_run_versions(log, "x", "t")
    assert "b, a" in caught.value.hint


def test_a_version_that_was_brought_back_stands_for_itself() -> None:
    log = [commit(0, "a"), commit(1, "b"), commit(2, "c"), commit(3, "", "RESTORE", version=1)]
    assert find_run_versions(newest_first(*log), "b", "t") == (1,)  # c is void
    with pytest.raises(SourceError, match="undone already, by version 3"):
        find_run_versions(newest_first(*log), "c", "t")
    again = [*log, commit(4, "c")]
    assert find_run_versions(newest_first(*again), "c", "t") == (4,)
    untold = [commit(0, "a"), commit(1, "b"), commit(2, "", "RESTORE", timestamp="2024-01-01")]
    with pytest.raises(CommitConflict, match="RESTORE"):
        find_run_versions(newest_first(*untold), "b", "t")
