"""What a log's files tell, by checkpoints, commits and hints."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeport.delta_log.reader import STATE, TABLE, DeltaLog
from lakeport.errors import DestinationError, SourceError
from lakeport.storage.local import LocalStorage


def test_the_state_is_told_by_a_checkpoint_and_the_commits_after_it(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    write_deltalake(place, pa.table({"k": [1, 2, 3], "v": [1, 1, 1]}), partition_by=["k"])
    DeltaTable(place).create_checkpoint()
    more = pa.table({"k": [1], "v": [2], "w": ["new"]})
    write_deltalake(place, more, mode="append", schema_mode="merge")
    storage = LocalStorage(str(tmp_path))
    log = DeltaLog(storage, "t").list_files()
    assert (log.newest, list(log.checkpoints)) == (1, [0])
    for version, names in ((0, ["k", "v"]), (1, ["k", "v", "w"])):
        whole = log.replay(version)
        part = log.replay(version, STATE)
        assert whole is not None and part is not None
        assert part.state == whole.state
        assert sorted(part.state.schema.names) == names  # delta-rs moves partition columns
        assert len(whole.files) == 3 + version


def test_files_are_those_of_a_checkpoint_and_of_the_sidecars_it_names(tmp_path: Path) -> None:
    place = tmp_path / "t"
    write_deltalake(place, pa.table({"k": [1]}))
    DeltaTable(place).create_checkpoint()
    (path,) = (place / "_delta_log").glob("*.checkpoint.parquet")
    (place / "_delta_log" / "_sidecars").mkdir()
    whole = pq.read_table(path)
    whole = whole.drop_columns([name for name in ["sidecar"] if name in whole.column_names])
    is_add = whole["add"].is_valid()
    adds, rest = whole.filter(is_add).select(["add"]), whole.filter(pc.invert(is_add))
    type_ = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])
    storage = LocalStorage(str(tmp_path))
    for sidecar, kept in (({"path": "s.parquet", "sizeInBytes": 1}, rest), (None, whole)):
        column = pa.array([sidecar, *[None] * (len(kept) - 1)], type_)
        pq.write_table(kept.append_column("sidecar", column), path)
        if sidecar:
            with pytest.raises(DestinationError, match=r"s\.parquet"):
                DeltaLog(storage, "t").list_files().replay(0)
            pq.write_table(adds, place / "_delta_log" / "_sidecars" / "s.parquet")
        found = DeltaLog(storage, "t").list_files().replay(0)
        assert found is not None and len(found.files) == 1


@pytest.mark.parametrize("commits", [True, False])
def test_an_older_checkpoint_serves_where_the_newest_is_damaged(
    tmp_path: Path, commits: bool
) -> None:
    storage = long_log(tmp_path)
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    storage.put(f"t/_delta_log/{39:020d}.checkpoint.parquet", b"PAR1")
    if not commits:
        storage.delete(f"t/_delta_log/{37:020d}.json")
        files = DeltaLog(storage, "t").list_files()
        with pytest.raises(SourceError, match="tell what the table holds at version 39") as caught:
            files.read_contents(39)
        assert f"damaged, such as {39:020d}.checkpoint.parquet" in caught.value.message
        return
    assert len(DeltaLog(storage, "t").list_files().read_contents(39).files) == 40


def long_log(folder: Path) -> LocalStorage:
    """A table of forty versions, with a checkpoint of the thirty-sixth."""
    place = str(folder / "t")
    for number in range(40):
        write_deltalake(place, pa.table({"k": [number]}), mode="append")
        if number == 35:
            DeltaTable(place).create_checkpoint()
    return LocalStorage(str(folder))


def test_of_a_long_log_what_is_since_its_checkpoint_tells_the_newest_version(
    tmp_path: Path,
) -> None:
    storage = long_log(tmp_path)
    log, recent = DeltaLog(storage, "t").list_files(), DeltaLog(storage, "t").list_recent_files()
    assert [*log.commits] == list(range(40))
    assert ([*recent.commits], [*recent.checkpoints]) == ([35, 36, 37, 38, 39], [35])
    for columns in (STATE, TABLE):
        assert recent.replay(39, columns) == log.replay(39, columns)


def test_a_hint_that_does_not_lead_to_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    storage = long_log(tmp_path)
    hints = (b"", b"[]", b"7", b'{"version": 34}', b'{"version": 41}', b'{"version": "35"}', b"{")
    for hint in hints:
        storage.put("t/_delta_log/_last_checkpoint", hint)
        assert DeltaLog(storage, "t").list_recent_files() == DeltaLog(storage, "t").list_files(), (
            hint
        )
    storage.delete("t/_delta_log/_last_checkpoint")
    assert DeltaLog(storage, "t").list_recent_files() == DeltaLog(storage, "t").list_files()


def test_a_hint_that_is_older_than_the_newest_checkpoint(tmp_path: Path) -> None:
    storage = long_log(tmp_path)
    hint = storage.get("t/_delta_log/_last_checkpoint") or b""
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    storage.put("t/_delta_log/_last_checkpoint", hint)
    recent = DeltaLog(storage, "t").list_recent_files()
    assert (recent.newest, [*recent.checkpoints]) == (39, [35])  # looked up by their names


def test_a_gap_behind_the_checkpoint_is_found(tmp_path: Path) -> None:
    storage = long_log(tmp_path)
    storage.delete(f"t/_delta_log/{38:020d}.json")
    recent = DeltaLog(storage, "t").list_recent_files()
    assert recent == DeltaLog(storage, "t").list_files()
    assert recent.replay(recent.newest) is None


NEW_TABLE = [
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
        lines = map(json.dumps, [action] if version else NEW_TABLE)
        (log / f"{version:020d}.json").write_text("\n".join(lines))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2}))
    commits = DeltaLog(LocalStorage(str(tmp_path)), "")
    for version, count in enumerate((-1, 4, 5)):
        assert commits.last_transactions(version, ["lakeport:r:s"]) == {"lakeport:r:s": count}
