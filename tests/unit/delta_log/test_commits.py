"""How far a run has come, as the files of the log tell."""

from __future__ import annotations

import json
from pathlib import Path

from lakeport.delta_log.reader import DeltaLog
from lakeport.storage.local import LocalStorage

TABLE = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "m", "schemaString": "{}", "partitionColumns": []}},
]


def test_how_far_a_run_had_come_at_a_version_is_not_what_a_later_checkpoint_says(
    tmp_path: Path,
) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, count in enumerate((0, 4, 5)):
        action = {"txn": {"appId": "lakeport:r:s", "version": count}}
        lines = map(json.dumps, [action] if version else TABLE)
        (log / f"{version:020d}.json").write_text("\n".join(lines))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    commits = DeltaLog(LocalStorage(str(tmp_path)), "")
    for version, count in enumerate((-1, 4, 5)):
        assert commits.last_transactions(version, ["lakeport:r:s"]) == {"lakeport:r:s": count}
