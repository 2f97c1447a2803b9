"""Commits by a log's files alone: read back by delta-rs, raced, and with answers that are lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakeport.config.destinations.local import LocalConfig
from lakeport.delta_log.reader import DeltaLog
from lakeport.errors import (
    CommitConflict,
    LakeportError,
    ObjectExists,
    OutcomeUnknown,
    SourceError,
    Unreachable,
)
from lakeport.model import Landed
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.plain import is_plain
from lakeport.writers.delta.writer import DeltaWriter

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["Ada", None]})


def no_session() -> Any:
    raise AssertionError("asked for Spark")


@dataclass
class Plans:
    """Lands rows, with a look at what happens between planning and committing."""

    root: Path
    storage: LocalStorage | None = None

    @property
    def place(self) -> str:
        """The table, for delta-rs."""
        return str(self.root / "t")

    def writer(self) -> DeltaWriter:
        storage = self.storage or LocalStorage(str(self.root))
        config = LocalConfig(path=self.root)
        return DeltaWriter(no_session, storage, "t", "t", config, by_log=True)

    def land(
        self,
        rows: pa.Table = ROWS,
        *,
        between: Callable[[], object] = lambda: None,
        mark: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> Landed:
        into = self.writer()
        plan = into.plan(rows.schema, **how)
        shaped = [
            rows[name]
            if name in rows.column_names
            else pa.nulls(len(rows), plan.schema.field(name).type)
            for name in plan.schema.names
        ]
        staged = into.sink(plan).write(iter(pa.table(shaped, schema=plan.schema).to_batches()), 0)
        between()
        return into.commit(plan, staged, into.mark(**(mark or {})))

    def rows(self) -> list[dict[str, Any]]:
        """Every row, read by delta-rs."""
        found = DeltaTable(self.place).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: json.dumps(row, default=str))

    def actions(self, version: int) -> list[dict[str, Any]]:
        """A commit's actions."""
        text = (self.root / "t" / "_delta_log" / f"{version:020d}.json").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    return Plans(tmp_path)


def other(plans: Plans, **how: Any) -> Callable[[], None]:
    """Another writer, delta-rs, appends a row."""
    return lambda: write_deltalake(plans.place, ROWS.slice(0, 1), mode="append", **how)


def test_tables_are_made_and_grow(plans: Plans) -> None:
    assert plans.land(partition_keys=["id"]).version == 0
    wider = ROWS.append_column("at", pa.array([3.5, None]))
    assert plans.land(wider).version == 1
    table = DeltaTable(plans.place)
    assert table.metadata().partition_columns == ["id"]
    assert table.protocol().min_writer_version == 2
    assert [row["at"] for row in plans.rows() if row["at"]] == [3.5]
    assert [entry["operation"] for entry in table.history()] == ["WRITE", "WRITE"]
    assert len(plans.rows()) == 4


def test_overwrites_replace_all_rows_or_those_of_some_partitions(plans: Plans) -> None:
    plans.land(partition_keys=["id"])
    renamed = pa.table({"id": pa.array([2], pa.int64()), "name": ["Bea"]})
    done = plans.land(renamed, mode="overwrite", partition_keys=["id"])
    assert (done.version, done.removed_files) == (1, 1)
    assert plans.rows() == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bea"}]
    assert plans.land(renamed, mode="overwrite").removed_files == 2
    assert plans.rows() == [{"id": 2, "name": "Bea"}]
    before = DeltaTable(plans.place, version=0).to_pyarrow_table()
    assert before.num_rows == 2


def test_another_writers_rows_are_followed(plans: Plans) -> None:
    plans.land()
    assert plans.land(between=lambda: [other(plans)() for _ in range(3)]).version == 4
    assert len(plans.rows()) == 7


def test_the_first_to_make_a_table_is_followed(plans: Plans) -> None:
    assert plans.land(between=other(plans)).version == 1
    assert len(plans.rows()) == 3


def test_conflicts_are_counted_and_logged(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lakeport")
    plans.land()
    commit, fails = DeltaWriter.try_commit, iter([True, True, False])

    def conflict(*arguments: Any) -> Any:
        if next(fails):
            raise CommitConflict("another writer was faster")
        return commit(*arguments)

    monkeypatch.setattr(DeltaWriter, "try_commit", conflict)
    assert plans.land(mark={"run_id": "monday", "sequence": 0, "digest": "d"}).conflicts == 2
    found = [each for each in caplog.records if getattr(each, "event", "") == "commit.conflict"]
    assert [each.attempt for each in found] == [1, 2]  # type: ignore[attr-defined]
    assert found[0].stream == "t"  # type: ignore[attr-defined]


def test_an_overwrite_takes_along_what_came_meanwhile(plans: Plans) -> None:
    plans.land()
    done = plans.land(between=other(plans), mode="overwrite")
    assert (done.version, done.removed_files) == (2, 2)
    assert len(plans.rows()) == 2


def test_an_overwrite_of_partitions_follows_what_others_do_to_the_rest(plans: Plans) -> None:
    plans.land(partition_keys=["id"])
    renamed = pa.table({"id": pa.array([2], pa.int64()), "name": ["Bea"]})
    rest = pa.table({"id": pa.array([7], pa.int64()), "name": ["Gus"]})

    def replaced() -> None:
        """Add a partition, and replace it."""
        write_deltalake(plans.place, rest, mode="append", partition_by=["id"])
        write_deltalake(plans.place, rest, mode="overwrite", predicate="id = 7")

    done = plans.land(renamed, between=replaced, mode="overwrite", partition_keys=["id"])
    assert (done.version, done.removed_files) == (3, 1)
    own = lambda: write_deltalake(plans.place, renamed, mode="append", partition_by=["id"])  # noqa: E731
    done = plans.land(renamed, between=own, mode="overwrite", partition_keys=["id"])
    assert (done.version, done.removed_files) == (5, 2)  # planned again, with the row that came
    assert plans.rows() == [
        {"id": 1, "name": "Ada"},
        {"id": 2, "name": "Bea"},
        {"id": 7, "name": "Gus"},
    ]


def test_a_schema_that_has_changed_meanwhile_is_a_conflict_unless_the_rows_fit(
    plans: Plans,
) -> None:
    plans.land()
    wider = ROWS.append_column("at", pa.array([3.5, None]))
    grow = lambda: write_deltalake(plans.place, wider, mode="append", schema_mode="merge")  # noqa: E731
    assert plans.land(between=grow).version == 2
    fewer = pa.table({"id": [7]})
    replaced = lambda: write_deltalake(  # noqa: E731
        plans.place, fewer, mode="overwrite", schema_mode="overwrite"
    )
    with pytest.raises(CommitConflict, match="schema"):
        plans.land(between=replaced)
    assert plans.rows() == [{"id": 7}]
    files = {path.name for path in (plans.root / "t").glob("*.parquet")}
    named = {
        uri.rpartition("/")[2] for v in range(4) for uri in DeltaTable(plans.place, v).file_uris()
    }
    assert files == named  # nothing is left of what was not committed


def test_a_batch_of_a_run_lands_once(plans: Plans) -> None:
    mark = {"run_id": "r", "sequence": 0, "digest": "d"}
    twice = lambda: plans.land(mark=mark)  # noqa: E731
    assert not plans.land(mark=mark, between=lambda: None).skipped
    assert plans.land(mark=mark).skipped
    plans.land(
        mark={**mark, "sequence": 1}, between=lambda: plans.land(mark={**mark, "sequence": 1})
    )
    assert len(plans.rows()) == 4
    assert DeltaTable(plans.place).transaction_version("lakeport:r:t") == 1
    assert twice().skipped


class Unreliable(LocalStorage):
    """A disk whose answers to a commit are lost, before or after it was made."""

    made = True

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        if "_delta_log" not in key:
            return super().put(key, data, create_only=create_only)
        if self.made:
            super().put(key, data, create_only=create_only)
        raise self.answer(key)

    def answer(self, key: str) -> LakeportError:
        return Unreachable(f"no answer about {key}")


def test_a_commit_whose_answer_was_lost_has_landed(plans: Plans) -> None:
    plans.storage = Unreliable(str(plans.root))
    assert plans.land().version == 0
    assert len(plans.rows()) == 2


class Repeating(LocalStorage):
    """A disk that hears of a commit twice, says that it exists, and is silent when it is read."""

    silent = False

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        super().put(key, data, create_only=create_only)
        if "_delta_log" in key:
            self.silent = True
            raise ObjectExists(f"{key} exists")

    def get(self, key: str) -> bytes | None:
        if self.silent and "_delta_log" in key:
            self.silent = False
            raise Unreachable(f"no answer about {key}")
        return super().get(key)


def test_a_commit_that_exists_and_cannot_be_read_at_once_has_landed(plans: Plans) -> None:
    plans.storage = Repeating(str(plans.root))
    assert plans.land().version == 0
    assert len(plans.rows()) == 2


def test_one_of_which_nobody_can_tell_keeps_its_files(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans.land()
    plans.storage = Unreliable(str(plans.root))
    monkeypatch.setattr(Unreliable, "made", False)
    with pytest.raises(OutcomeUnknown, match="unknown"):
        plans.land()
    assert len(list((plans.root / "t").glob("*.parquet"))) == 2
    assert len(plans.rows()) == 2


class Denying(Unreliable):
    """A disk that says of a new commit that it exists, and denies it when it is read at first."""

    stale = 1

    def answer(self, key: str) -> LakeportError:
        return ObjectExists(f"{key} exists", "")

    def get(self, key: str) -> bytes | None:
        if key.endswith("1.json") and Denying.stale:
            Denying.stale -= 1
            return None
        return super().get(key)


@pytest.mark.parametrize("made", [True, False])
def test_a_commit_that_is_said_to_exist_and_is_not_there_is_looked_for(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    plans.land()
    plans.storage = Denying(str(plans.root))
    monkeypatch.setattr(Denying, "stale", 1 if made else 99)
    monkeypatch.setattr(Denying, "made", made)
    if made:
        landed = plans.land()
        assert (landed.version, landed.rows, landed.skipped) == (1, 2, False)
        assert len(plans.rows()) == 4
        return
    with pytest.raises(OutcomeUnknown, match="is said to exist, and is not there"):
        plans.land()
    assert len(list((plans.root / "t").glob("*.parquet"))) == 2


def test_one_that_was_refused_leaves_nothing(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    plans.land()

    def refuse(*_: Any, **__: Any) -> None:
        raise LakeportError("refused", "ask.")

    monkeypatch.setattr(LocalStorage, "put", refuse)
    with pytest.raises(LakeportError, match="refused"):
        plans.land()
    assert len(list((plans.root / "t").glob("*.parquet"))) == 1


def test_checkpoints_tell_all_that_the_commits_before_them_did(plans: Plans) -> None:
    for number in range(10):
        plans.land(mark={"run_id": "r", "sequence": number, "digest": "d"})
    plans.land(mode="overwrite", partition_keys=())
    log = plans.root / "t" / "_delta_log"
    hint = json.loads((log / "_last_checkpoint").read_text())
    assert (hint["version"], hint["numOfAddFiles"]) == (10, 1)
    for version in range(11):
        (log / f"{version:020d}.json").unlink()
    assert len(plans.rows()) == 2
    assert plans.land(mark={"run_id": "r", "sequence": 9, "digest": "d"}).skipped
    assert plans.land(ROWS.append_column("at", pa.array([1, 2]))).version == 11
    table = DeltaTable(plans.place)
    assert table.transaction_version("lakeport:r:t") == 9
    assert len(table.vacuum(retention_hours=0, enforce_retention_duration=False)) == 10


def test_a_checkpoint_and_commits_tell_of_one_state_each_in_its_way(plans: Plans) -> None:
    for _ in range(11):
        plans.land()
    storage = LocalStorage(str(plans.root))
    log = DeltaLog(storage, "t").list_files()
    by_commits, by_checkpoint = (log.replay(version) for version in (9, 10))
    assert by_commits is not None and by_checkpoint is not None
    assert by_commits.state.metadata != by_checkpoint.state.metadata  # absent, and null
    assert by_commits.state.allows_same_plan(by_checkpoint.state)
    wider = {**by_commits.state.metadata, "configuration": {"delta.appendOnly": "true"}}
    assert not replace(by_commits.state, metadata=wider).allows_same_plan(by_checkpoint.state)


@pytest.mark.parametrize("failure", [LakeportError("the disk is full", "make room."), TypeError()])
def test_a_commit_stays_made_when_its_checkpoint_fails(
    plans: Plans, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    for _ in range(10):
        plans.land()
    put = LocalStorage.put

    def full(self: LocalStorage, key: str, data: bytes, *, create_only: bool = False) -> None:
        if "checkpoint" in key:
            raise failure
        put(self, key, data, create_only=create_only)

    monkeypatch.setattr(LocalStorage, "put", full)
    assert plans.land().version == 10
    assert len(plans.rows()) == 22


def test_a_log_with_a_gap_is_told(plans: Plans) -> None:
    for _ in range(3):
        plans.land()
    (plans.root / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(SourceError, match="does not tell what the table holds at version 2"):
        plans.land()


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableChangeDataFeed": "true"},
        {"delta.logRetentionDuration": "interval 1 month"},
        {"delta.setTransactionRetentionDuration": "interval 30 days"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.checkpointPolicy": "v2"},
    ],
)
def test_other_tables_are_left_to_delta_spark(
    plans: Plans, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans.land()
    state = plans.writer().log.read_state()
    assert state is not None and is_plain(state)
    configured = {**state.metadata, "configuration": {**state.properties, **properties}}
    if properties == {"delta.checkpointPolicy": "v2"}:
        features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
        newer = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        assert not is_plain(replace(state, protocol=newer))
        return
    assert not is_plain(replace(state, metadata=configured))


def test_what_the_history_says_of_a_commit(plans: Plans) -> None:
    plans.land(mark={"run_id": "r", "sequence": 0, "digest": "d"}, partition_keys=["id"])
    info = plans.actions(0)[0]["commitInfo"]
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": '["id"]'}
    assert info["operationMetrics"] == {
        "numFiles": "2",
        "numOutputRows": "2",
        "numOutputBytes": str(sum(a["add"]["size"] for a in plans.actions(0) if "add" in a)),
    }
    commit = DeltaLog(LocalStorage(str(plans.root)), "t").read_commit(0)
    assert commit is not None and commit.mark is not None
    assert (commit.mark.run_id, commit.mark.digest) == ("r", "d")


def test_another_application_that_counts_is_followed(plans: Plans) -> None:
    plans.land()
    counts = CommitProperties(app_transactions=[Transaction("lakeport:r:t", 4)])
    mark = {"run_id": "r", "sequence": 4, "digest": "d"}
    done = plans.land(between=other(plans, commit_properties=counts), mark=mark)
    assert done.skipped
    assert len(plans.rows()) == 3
