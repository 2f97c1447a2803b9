"""How far a run has come, as the files of the log tell."""

from __future__ import annotations

import json
from pathlib import Path

from lakeport.storage.local.store import LocalStorage
from lakeport.writers.delta.log.commits import CommitLog


def test_how_far_a_run_had_come_at_a_version_is_not_what_a_later_checkpoint_says(
    tmp_path: Path,
) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, count in enumerate((0, 4, 5)):
        action = {"txn": {"appId": "lakeport:r:s", "version": count}}
        (log / f"{version:020d}.json").write_text(json.dumps(action if version else {"x": {}}))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    commits = CommitLog(LocalStorage(str(tmp_path)), "")
    assert commits.last_transaction(1, "lakeport:r:s") == 4
    assert commits.last_transaction(0, "lakeport:r:s") == -1
