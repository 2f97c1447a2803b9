"""Checkpoints made of the one before, a log's clean-up, and entries that checkpoints leave out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeport.delta_log import checkpoint, transactions
from lakeport.delta_log.actions import add_action, format_action, metadata_action
from lakeport.delta_log.checkpoint import is_checkpoint_due, write_checkpoint
from lakeport.delta_log.reader import STATE, DeltaLog
from lakeport.errors import DestinationError
from lakeport.storage.local import LocalStorage

DAY = 24 * 3600
SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}


class Log:
    """The log of a table without its data files, whose checkpoints are written as we do."""

    def __init__(self, root: Path, properties: dict[str, str] | None = None) -> None:
        self.root = root
        self.folder = root / "t" / "_delta_log"
        self.folder.mkdir(parents=True)
        self.storage = LocalStorage(str(root))
        self.next = 0
        protocol = format_action("protocol", {"minReaderVersion": 1, "minWriterVersion": 2})
        self.commit(protocol, metadata_action("m", SCHEMA, [], properties or {}, 0))

    def commit(self, *lines: str) -> None:
        """Write the next version."""
        path = self.folder / f"{self.next:020d}.json"
        path.write_text("".join(f"{line}\n" for line in lines))
        self.next += 1

    def checkpoint(self) -> int:
        """Write the newest version's checkpoint; return how many row groups it has."""
        write_checkpoint(DeltaLog(self.storage, "t"), self.next - 1)
        return pq.ParquetFile(self.path()).num_row_groups

    def path(self, version: int = -1) -> Path:
        """A checkpoint's file, the newest version's by default."""
        return self.folder / f"{version if version >= 0 else self.next - 1:020d}.checkpoint.parquet"

    def versions(self) -> list[int]:
        """The commits that are there."""
        return sorted(int(path.stem) for path in self.folder.glob("*.json"))


def add(name: str) -> str:
    return add_action(f"{name}.parquet", {}, 10, 0, json.dumps({"numRecords": 3}))


def remove(name: str, days_ago: float = 0) -> str:
    at = int(1000 * (time.time() - days_ago * DAY))
    body = {"path": f"{name}.parquet", "deletionTimestamp": at, "dataChange": True}
    return format_action("remove", body)


def txn(app: str, number: int, updated: int) -> str:
    return format_action("txn", {"appId": app, "version": number, "lastUpdated": updated})


def told(log: Log, version: int) -> tuple[list[str], list[str], dict[str, int]]:
    """Paths of files, those of removed ones, and counters at a version."""
    found = DeltaLog(log.storage, "t").list_files().replay(version)
    counted = DeltaLog(log.storage, "t").list_files().replay(version, STATE)
    assert found is not None and counted is not None
    removed = {file.path for file in found.removed}
    if log.path(version).exists():
        held = pq.read_table(log.path(version), columns=["remove"])["remove"].to_pylist()
        removed |= {body["path"] for body in held if body}
    files = sorted(file.path[:-8] for file in found.files)
    counters = {app: one["version"] for app, one in counted.transactions.items()}
    return files, sorted(path[:-8] for path in removed), counters


def test_a_checkpoint_is_made_of_the_one_before_and_the_commits_since(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.commit(add("a"), add("b"), txn("lakeport:r:s", 0, 1))
    log.commit(add("c"), remove("gone"))
    log.checkpoint()
    log.commit(remove("a"), add("d"), txn("lakeport:r:s", 1, 2))
    log.commit(add("gone"), txn("other", 7, 3))
    before = told(log, 4)
    assert before == (["b", "c", "d", "gone"], ["a"], {"lakeport:r:s": 1, "other": 7})
    log.checkpoint()
    for version in range(5):
        (log.folder / f"{version:020d}.json").unlink()
    log.path(2).unlink()
    assert told(log, 4) == before
    table = DeltaTable(tmp_path / "t")
    assert sorted(Path(uri).stem for uri in table.file_uris()) == before[0]
    assert table.transaction_version("other") == 7
    query = f"SELECT add.path FROM '{log.path(4)}' WHERE add.path IS NOT NULL ORDER BY 1"
    assert [path[:-8] for (path,) in duckdb.sql(query).fetchall()] == before[0]


def test_removals_past_their_time_are_not_kept(tmp_path: Path) -> None:
    log = Log(tmp_path, {"delta.deletedFileRetentionDuration": "interval 2 days"})
    log.commit(remove("old", 2.1), remove("new", 1.9))
    log.checkpoint()
    (log.folder / f"{0:020d}.json").unlink()
    assert told(log, 1)[1] == ["new"]


def test_row_groups_are_filled_up_and_an_append_reads_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_GROUP", 4)
    log = Log(tmp_path)
    groups = []
    for number in range(6):
        log.commit(*(add(f"{number}{letter}") for letter in "ab"), txn("other", number, 0))
        groups.append(log.checkpoint())
    assert groups == [3, 3, 4, 4, 5, 5]  # state, counters, and files by four or more
    source = pq.ParquetFile(log.path())
    held = [source.read_row_group(n).to_pylist() for n in range(5)]
    kinds = [{kind for row in rows for kind, body in row.items() if body} for rows in held]
    assert kinds == [{"protocol", "metaData"}, {"txn"}, {"add"}, {"add"}, {"add"}]
    assert len(DeltaTable(tmp_path / "t").file_uris()) == 12


def test_checkpoints_of_delta_rs_are_gone_on_with(tmp_path: Path) -> None:
    place = tmp_path / "t"
    for number in range(3):
        rows = pa.table({"id": [number], "p": [f"p{number}"]})
        write_deltalake(place, rows, mode="append", partition_by=["p"])
    DeltaTable(place).create_checkpoint()
    storage = LocalStorage(str(tmp_path))
    write_deltalake(place, pa.table({"id": [3], "p": ["p3"]}), mode="append")
    write_checkpoint(DeltaLog(storage, "t"), 3)
    for commit in (place / "_delta_log").glob("*.json"):
        if "last" not in commit.name:
            commit.unlink()
    (place / "_delta_log" / f"{2:020d}.checkpoint.parquet").unlink()
    table = DeltaTable(place)
    assert sorted(table.to_pyarrow_table().to_pylist(), key=str) == [
        {"id": n, "p": f"p{n}"} for n in range(4)
    ]
    found = DeltaLog(storage, "t").list_files().replay(3)
    assert found is not None and all(json.loads(f.stats)["numRecords"] == 1 for f in found.files)


def test_a_slow_writer_leaves_the_newer_checkpoint_alone(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.commit(add("a"))
    log.commit(add("b"))
    log.checkpoint()
    hint = (log.folder / "_last_checkpoint").read_bytes()
    write_checkpoint(DeltaLog(log.storage, "t"), 1)
    assert not log.path(1).exists()
    assert (log.folder / "_last_checkpoint").read_bytes() == hint


@pytest.mark.parametrize("hint", [b'{"version": 99}', b'{"version": "x", "tags": 7}', b"[]"])
def test_a_hint_that_is_none_is_written_anew(tmp_path: Path, hint: bytes) -> None:
    log = Log(tmp_path)
    log.commit(add("a"))
    (log.folder / "_last_checkpoint").write_bytes(hint)
    log.checkpoint()
    assert json.loads((log.folder / "_last_checkpoint").read_bytes())["version"] == 1


def test_a_checkpoint_of_a_log_with_a_gap_is_not_written(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.commit(add("a"))
    log.commit(add("b"))
    (log.folder / f"{1:020d}.json").unlink()
    write_checkpoint(DeltaLog(log.storage, "t"), 2)
    assert not log.path(2).exists()


@pytest.mark.parametrize("interval", ["0", "-1", "x", ""])
def test_an_interval_that_is_none_is_ten(interval: str) -> None:
    due = [v for v in range(31) if is_checkpoint_due(v, {"delta.checkpointInterval": interval})]
    assert due == [10, 20, 30]


def tomorrow(log: Log) -> None:
    """Have the log cleaned with the next checkpoint, as on another day."""
    hint = log.folder / "_last_checkpoint"
    if hint.exists():
        hint.write_text(hint.read_text().replace(time.strftime("%Y-%m-%d", time.gmtime()), "2020"))


def cleaned(log: Log, ages: Sequence[float], checkpoints: Sequence[int]) -> list[int]:
    """Add versions of these ages in days, of which some have checkpoints, and a new one with one.

    Returns:
        The commits that stay.
    """
    for _ in ages:
        log.commit(add(f"f{log.next}"))
        if log.next - 1 in checkpoints:
            log.checkpoint()
    os.utime(log.folder / f"{0:020d}.json", (0, 0))
    for version, age in enumerate(ages, 1):
        then = time.time() - age * DAY
        os.utime(log.folder / f"{version:020d}.json", (then, then))
    tomorrow(log)
    log.commit(add("new"))
    log.checkpoint()
    return log.versions()


def test_versions_past_their_time_go_before_a_checkpoint_that_tells_the_rest(
    tmp_path: Path,
) -> None:
    log = Log(tmp_path, {"delta.logRetentionDuration": "interval 30 days"})
    (log.folder / f"{1:020d}.crc").write_text("{}")
    (log.folder / f".{1:020d}.json.crc").write_text("")
    kept = cleaned(log, [50, 49, 48, 47, 46, 20, 10], checkpoints=[2, 4, 7])
    assert kept == [4, 5, 6, 7, 8]  # version 5 has expired, too: 6 to 8 are told from 4
    assert not log.path(2).exists() and log.path(4).exists()
    assert not [*log.folder.glob("*.crc"), *log.folder.glob(".*.crc")]
    for version in (5, 8):
        assert len(DeltaTable(tmp_path / "t", version=version).file_uris()) == version
    assert DeltaLog(log.storage, "t").list_files().oldest == 4


@pytest.mark.parametrize(
    ("properties", "ages", "kept"),
    [
        ({}, [40, 40, 40, 40], 2),
        ({}, [40, 40, 29, 0], 6),  # the only checkpoint is newer than what is to be kept
        ({}, [0, 40, 40, 40], 6),  # a version counts as later than those before it
        ({"delta.enableExpiredLogCleanup": "false"}, [40, 40, 40, 40], 6),
        ({"delta.logRetentionDuration": "interval 60 days"}, [40, 40, 40, 40], 6),
        ({"delta.logRetentionDuration": "interval 1 day"}, [0.9, 0.9, 0.9, 0.9], 6),
    ],
)
def test_what_stays_of_a_log(
    tmp_path: Path, properties: dict[str, str], ages: list[float], kept: int
) -> None:
    assert len(cleaned(Log(tmp_path, properties), ages, checkpoints=[4])) == kept


def test_a_log_is_cleaned_by_parts_and_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_CLEANED_AT_ONCE", 2)
    log = Log(tmp_path)
    assert cleaned(log, [40, 40, 40], checkpoints=[3]) == [2, 3, 4]
    log.commit(add("more"))
    log.checkpoint()
    assert log.versions() == [3, 4, 5]
    for version in (3, 4, 5):
        os.utime(log.folder / f"{version:020d}.json", (0, 0))
    log.commit(add("today"))
    log.checkpoint()
    assert log.versions() == [3, 4, 5, 6]
    tomorrow(log)
    log.commit(add("then"))
    log.checkpoint()
    assert log.versions() == [4, 5, 6, 7]


def test_entries_that_a_checkpoint_leaves_out_are_found_beside_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_KEPT", 2)
    log = Log(tmp_path)
    commits = DeltaLog(log.storage, "t")
    runs = [f"lakeport:r{number}:s" for number in range(4)]
    others = ["lakeport::bookmark:files", "lakeport::overwritten", "spark"]
    log.commit(*(txn(app, 3, 0) for app in others), txn("lakeport::content:ab", 1, 1))
    for number, app in enumerate(runs):
        log.commit(txn(app, number, 10 + number))
    every = [*runs, *others, "lakeport::content:ab", "lakeport:new:s"]
    wanted = dict(zip(every, [0, 1, 2, 3, 3, 3, 3, 1, -1], strict=True))
    assert commits.last_transactions(5, every) == wanted
    log.checkpoint()
    assert {*told(log, 5)[2]} == {*runs[2:], *others, "lakeport::archived"}
    assert commits.last_transactions(5, every) == wanted
    assert len([*(tmp_path / "t/_lakeport/transactions").rglob("*.json")]) == 3
    log.commit(txn(runs[0], 9, 20))  # comes back, and is the newest
    wanted[runs[0]] = 9
    log.checkpoint()
    assert commits.last_transactions(6, every) == wanted
    for number in (4, 5):
        log.commit(txn(f"lakeport:r{number}:s", 0, 30))
        log.checkpoint()
    assert commits.last_transactions(8, every) == wanted
    assert commits.last_transactions(5, every) == {**wanted, runs[0]: 0}


def test_a_damaged_entry_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_KEPT", 0)
    log = Log(tmp_path)
    log.commit(txn("lakeport:r:s", 1, 1))
    log.checkpoint()
    (path,) = (tmp_path / "t/_lakeport/transactions").rglob("*.json")
    path.write_text('{"app": "another"}')
    with pytest.raises(DestinationError, match=r"does not tell how far 'lakeport:r:s' has come"):
        DeltaLog(log.storage, "t").last_transactions(1, ["lakeport:r:s"])


def test_no_checkpoint_leaves_out_what_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_KEPT", 0)
    log = Log(tmp_path)
    log.commit(txn("lakeport:r:s", 1, 1))

    def refuse(*_: Any, **__: Any) -> None:
        raise DestinationError("refused", "ask.")

    monkeypatch.setattr(LocalStorage, "put", refuse)
    with pytest.raises(DestinationError, match="refused"):
        log.checkpoint()
    assert not log.path().exists()
