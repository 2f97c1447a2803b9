"""What became of a commit, and which files may go: by logs written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.delta_log.reader import Commit, DeltaLog
from lakeport.errors import (
    CommitConflict,
    DestinationError,
    LakeportError,
    OutcomeUnknown,
    PermissionRefused,
    Unreachable,
)
from lakeport.model import Staged
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.commit import StagedFiles, recover_commit

FAILURES = [CommitConflict, DestinationError, OutcomeUnknown, PermissionRefused, Unreachable]


class Deaf(LocalStorage):
    """A store that can be written to, and then not be read any more."""

    def get(self, key: str) -> bytes | None:
        raise Unreachable(f"{key}: no answer")


def commit(root: Path, version: int, txn: str, *paths: str) -> None:
    log = root / "t" / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    actions: list[dict[str, Any]] = [{"commitInfo": {"txnId": txn}}]
    actions += [{"add": {"path": path, "size": 1}} for path in paths]
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020d}.json").write_text(lines)


def ours(found: Commit) -> bool:
    return found.info.get("txnId") == "ours"


@pytest.mark.parametrize("failure", FAILURES)
def test_a_commit_in_the_log_has_landed_whatever_was_told(
    tmp_path: Path, failure: type[LakeportError]
) -> None:
    for version, txn in enumerate(("before", "theirs", "ours", "later")):
        commit(tmp_path, version, txn)
    log = DeltaLog(LocalStorage(str(tmp_path)), "t")
    assert recover_commit(log, ours, 0, failure("told")).version == 2


@pytest.mark.parametrize("failure", FAILURES)
def test_one_that_is_not_there_was_not_made_if_somebody_has_said_so(
    tmp_path: Path, failure: type[LakeportError]
) -> None:
    commit(tmp_path, 0, "ours")  # an earlier version is no answer
    commit(tmp_path, 1, "theirs")
    told = failure("told", "hint")
    silent = failure in (OutcomeUnknown, Unreachable)
    with pytest.raises(OutcomeUnknown if silent else failure, match="told") as raised:
        recover_commit(DeltaLog(LocalStorage(str(tmp_path)), "t"), ours, 0, told)
    assert (raised.value is told) is not silent
    assert ("same `run_id`" in raised.value.hint) is silent


@pytest.mark.parametrize("failure", FAILURES)
def test_a_log_that_can_not_be_read_leaves_it_unknown(
    tmp_path: Path, failure: type[LakeportError]
) -> None:
    with pytest.raises(OutcomeUnknown, match=r"told; .*no answer") as raised:
        recover_commit(DeltaLog(Deaf(str(tmp_path)), "t"), ours, -1, failure("told"))
    assert str(tmp_path / "t") in raised.value.message
    assert "nothing was deleted" in raised.value.hint


def staged(storage: LocalStorage, key: str) -> Staged:
    writer = storage.stage(key, "")
    writer.write(b"rows")
    done = writer.finish()
    return Staged(key, done["token"], rows=1, bytes=4, checksum=done["checksum"])


def fails(error: BaseException) -> Callable[[StagedFiles], None]:
    def body(files: StagedFiles) -> None:
        with files.keep_while_committing(0):
            files.publish()
            raise error

    return body


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (CommitConflict("another"), False),
        (PermissionRefused("no"), False),
        (OutcomeUnknown("who knows"), True),
        (KeyboardInterrupt(), True),
        (RuntimeError("a defect of ours"), True),
    ],
)
def test_files_go_only_when_their_commit_is_known_not_to_be_made(
    tmp_path: Path, error: BaseException, stays: bool
) -> None:
    storage = LocalStorage(str(tmp_path))
    commit(tmp_path, 0, "before")
    files = [staged(storage, "t/p=a b/1.parquet")]
    with pytest.raises(type(error)), StagedFiles(storage, files, DeltaLog(storage, "t")) as one:
        fails(error)(one)
    assert (tmp_path / "t" / "p=a b" / "1.parquet").exists() is stays
    assert not list((tmp_path / "_lakeport" / "staging").iterdir())


def test_files_that_the_log_names_stay_whatever_was_told(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    commit(tmp_path, 0, "before")
    commit(tmp_path, 1, "theirs", "p=x/9.parquet")
    commit(tmp_path, 2, "ours", "p=a%20b/1.parquet")
    files = [staged(storage, "t/p=a b/1.parquet"), staged(storage, "t/2.parquet")]
    with pytest.raises(CommitConflict), StagedFiles(storage, files, DeltaLog(storage, "t")) as one:
        fails(CommitConflict("another"))(one)
    assert (tmp_path / "t" / "p=a b" / "1.parquet").read_bytes() == b"rows"
    assert (tmp_path / "t" / "2.parquet").exists()


def test_files_stay_where_the_log_can_not_be_read(tmp_path: Path) -> None:
    storage = Deaf(str(tmp_path))
    files = [staged(storage, "t/1.parquet")]
    with pytest.raises(CommitConflict), StagedFiles(storage, files, DeltaLog(storage, "t")) as one:
        fails(CommitConflict("another"))(one)
    assert (tmp_path / "t" / "1.parquet").exists()


def test_files_that_no_table_is_to_name_always_go(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    files = [staged(storage, "_lakeport/batch/1.parquet")]
    with StagedFiles(storage, files) as one:
        one.publish()
        assert (tmp_path / "_lakeport" / "batch" / "1.parquet").exists()
    assert not (tmp_path / "_lakeport" / "batch" / "1.parquet").exists()


def test_an_upload_that_was_published_is_not_aborted(tmp_path: Path) -> None:
    aborted: list[str] = []

    class Uploads(LocalStorage):
        can_rename_staged = False

        def discard(self, staged: Staged) -> None:
            aborted.append(staged.key)

        def publish(self, staged: Staged, key: str) -> None:
            if key == "t/2.parquet":
                raise PermissionRefused("no")
            super().publish(staged, key)

    storage = Uploads(str(tmp_path))
    files = [staged(storage, f"t/{number}.parquet") for number in range(3)]
    with StagedFiles(storage, files[:1]) as one:
        one.publish()
        one.keep()
    assert aborted == []
    with pytest.raises(PermissionRefused), StagedFiles(storage, files[1:]) as one:
        one.publish()
    assert aborted == ["t/2.parquet"]


def test_the_log_is_not_waited_for_long_once_the_store_was(tmp_path: Path) -> None:
    shortened: list[str] = []

    class Slow(LocalStorage):
        def shorten_deadline(self) -> None:
            shortened.append("shorten_deadline")

    log = DeltaLog(Slow(str(tmp_path)), "t")
    with pytest.raises(OutcomeUnknown) as raised:
        recover_commit(log, ours, 0, Unreachable("the store stayed silent", "look at the proxy."))
    assert shortened == ["shorten_deadline"]
    assert raised.value.hint.endswith("Before that: look at the proxy.")
    with pytest.raises(CommitConflict):
        recover_commit(log, ours, 0, CommitConflict("another writer was faster"))
    assert shortened == ["shorten_deadline"]
