"""Runs that are cut off at any call to the store, and repeated: every row once, in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import (
    CommitConflict,
    DestinationError,
    ObjectExists,
    PermissionRefused,
    RunMismatch,
)
from lakeport.model import Batch, Landed, Staged
from lakeport.storage.local import STAGING, LocalStorage
from lakeport.writers.files.encode import Encoder
from lakeport.writers.files.journal import DoneEntry, Intent, Journal, PlannedObject
from lakeport.writers.files.writer import FilesWriter

from .test_writer import CLOCK, NAME, SCHEMA, Bound, ids, keys, land, rows

TASKS = [range(10), range(10, 20), range(20, 25)]
BATCH = Batch("users", 0, digest="d1")


class Killed(BaseException):
    """The process is gone: nothing that it does from here on reaches the store."""


class KillAt:
    """A store that dies at its n-th call: before it has an effect, or just after."""

    def __init__(self, store: LocalStorage, call: int, after: bool) -> None:
        self.store, self.left, self.after, self.dead = store, call, after, False
        self.files: list[Any] = []

    def __reduce__(self) -> Any:
        raise TypeError("tests stage in this process")

    @property
    def can_rename_staged(self) -> bool:
        return self.store.can_rename_staged

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name in ("uri", "hadoop_uri"):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.guard(name, lambda: real(*args, **kwargs))

        return call

    def guard(self, name: str, act: Any) -> Any:
        if self.dead:
            if name in ("discard", "abort"):
                return None
            raise Killed
        self.left -= 1
        if self.left == 0 and not self.after:
            self.dead = True
            raise Killed
        try:
            result = act()
            if name in ("stage", "open"):
                self.files.append(result._file if name == "stage" else result)
        finally:
            if self.left == 0:
                self.dead = True
                raise Killed
        return Writer(self, result) if name == "stage" else result


class Writer:
    """A stage writer of a store that may die."""

    def __init__(self, store: KillAt, real: Any) -> None:
        self.store, self.real = store, real

    def write(self, data: bytes | memoryview, /) -> int:
        return int(self.real.write(data))

    def finish(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.store.guard("finish", self.real.finish)
        return found

    def abort(self) -> None:
        self.store.guard("abort", self.real.abort)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests kill a process, not the machine: nothing has to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


def writer_for(store: Any, run: str = "run 1", **options: Any) -> FilesWriter:
    journal = Journal(store, run, "users")
    return FilesWriter(store, Encoder(), "users", journal=journal, **options)


def run(store: Any, batch: Batch = BATCH, tasks: list[range] | None = None) -> Landed:
    """One run of one batch, as a load does it."""
    writer = writer_for(store)
    before = writer.find_landed(batch)
    if before is not None:
        return before
    while True:
        plan = writer.plan(SCHEMA, batch, (), CLOCK, 3)
        staged: list[Staged] = []
        try:
            for i, part in enumerate(tasks or TASKS):
                staged += plan.sink.write(rows(part), i)
            return writer.commit(plan, staged, batch, None)
        except ObjectExists:
            writer.discard(staged)
        except BaseException:
            writer.discard(staged)
            raise


def killed(store: LocalStorage, call: int, after: bool) -> bool:
    """Run until the store dies at that call; False if the run ended before."""
    mortal = KillAt(store, call, after)
    try:
        run(mortal)
    except Killed:
        for file in mortal.files:
            file.close()
        return True
    return False


@pytest.mark.parametrize("kind", [LocalStorage, Bound])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("taken", [(), ("",), ("", "-1", "-4")])
def test_killed_at_every_call_and_repeated(
    tmp_path: Path, kind: type[LocalStorage], after: bool, taken: tuple[str, ...]
) -> None:
    call = 1
    while True:
        store = kind(str(tmp_path / str(call)))
        foreign = {f"{NAME}{suffix}.parquet" for suffix in taken}
        for key in foreign:
            store.put(key, b"foreign")
        cut_off = killed(store, call, after)
        run(store)
        for key in foreign:
            assert store.get(key) == b"foreign"
            store.delete(key)
        assert ids(store) == list(range(25)), call
        again = run(store)
        assert (again.skipped, again.rows) == (True, 0)
        assert ids(store) == list(range(25)), call
        assert not any(key.endswith(".reserved") for key in keys(store, STAGING))
        if not cut_off:
            break
        call += 1
    assert call > 12


@pytest.mark.parametrize("after", [False, True])
def test_killed_twice(tmp_path: Path, after: bool) -> None:
    for first in (12, 14, 17):
        for second in range(1, 17):
            store = LocalStorage(str(tmp_path / f"{first}-{second}"))
            store.put(f"{NAME}-1.parquet", b"foreign")
            killed(store, first, after)
            killed(store, second, not after)
            run(store)
            store.delete(f"{NAME}-1.parquet")
            assert ids(store) == list(range(25)), (first, second)


@pytest.mark.parametrize("call", range(12, 20))
def test_killed_without_hard_links(
    tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(95, "no hard links here")

    monkeypatch.setattr("os.link", refuse)
    store = LocalStorage(str(tmp_path))
    killed(store, call, after=True)
    run(store)
    assert ids(store) == list(range(25))


@pytest.mark.parametrize("call", range(12, 18))
def test_staged_objects_that_are_gone_are_staged_again(store: LocalStorage, call: int) -> None:
    killed(store, call, after=True)
    store.sweep(older_than_seconds=-1)
    run(store, tasks=[range(25)])
    assert ids(store) == list(range(25))
    assert run(store).skipped


def test_a_part_of_a_batch_that_may_not_be_deleted(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionRefused("no")

    killed(store, 13, after=True)
    assert len(keys(store)) == 1
    store.sweep(older_than_seconds=-1)
    monkeypatch.setattr(LocalStorage, "delete", refuse)
    with pytest.raises(PermissionRefused, match="left part of a batch") as caught:
        run(store)
    assert f"{store.uri(NAME)}.parquet" in str(caught.value)


def test_the_same_run_with_another_content(store: LocalStorage) -> None:
    run(store)
    with pytest.raises(RunMismatch, match="batch 0 of 'users'"):
        run(store, Batch("users", 0, digest="d2"))
    assert ids(store) == list(range(25))


def test_another_content_after_a_crash(store: LocalStorage) -> None:
    other = Batch("users", 0, digest="d2")
    killed(store, 12, after=True)
    assert keys(store) == []
    run(store, other, [range(3)])
    assert ids(store) == [0, 1, 2]
    with pytest.raises(RunMismatch):
        run(store)


def test_another_content_after_a_crash_with_rows_visible(store: LocalStorage) -> None:
    killed(store, 13, after=True)
    assert len(keys(store)) == 1
    with pytest.raises(RunMismatch):
        run(store, Batch("users", 0, digest="d2"))


def test_a_finished_batch_is_reported_with_its_rows(store: LocalStorage) -> None:
    killed(store, 13, after=True)
    landed = run(store)
    assert (landed.rows, len(landed.files), landed.skipped) == (25, 3, False)
    assert "interrupted" in landed.warnings[0]
    assert keys(store, STAGING) == []
    again = run(store)
    assert (again.files, again.bytes) == (landed.files, landed.bytes)


def test_runs_tables_and_batches_do_not_meet(store: LocalStorage) -> None:
    for name, table, sequence in (("a", "t", 0), ("a/t", "t", 0), ("a", "a/t", 0), ("a", "t", 1)):
        journal = Journal(store, name, table)
        assert journal.read_done(sequence, "x") is None
        journal.write_done(sequence, DoneEntry("x", (), 0, 0))
    assert len(keys(store, "_lakeport/journal")) == 4


def test_a_failed_run_keeps_what_the_next_one_publishes(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalStorage.publish

    def refuse(self: LocalStorage, staged: Staged, key: str) -> None:
        if "-1" in key:
            raise DestinationError("disk trouble", "look at it.")
        real(self, staged, key)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "publish", refuse)
        with pytest.raises(DestinationError, match="repeat the run with the same `run_id`"):
            run(store)
    assert len(keys(store, STAGING)) == 3
    assert run(store).rows == 25
    assert ids(store) == list(range(25))


def test_two_processes_of_one_run(store: LocalStorage) -> None:
    journal = Journal(store, "r", "t")
    staged = Staged("k", {"name": "n"}, 1, 2)
    intent = Intent("d", (PlannedObject(staged, "k"),), 1)
    journal.write_intent(0, intent)
    journal.write_intent(0, intent)
    with pytest.raises(CommitConflict, match="another process"):
        journal.write_intent(0, Intent("d", (PlannedObject(staged, "k2"),), 1))
    assert journal.read_intent(0) == intent


def test_capabilities_are_not_written_down(store: LocalStorage) -> None:
    staged = Staged("k", {"name": "n", "_session": "hidden", "_held": b"\xff"}, 1, 2)
    Journal(store, "r", "t").write_intent(0, Intent("d", (PlannedObject(staged, "k"),), 1))
    (entry,) = store.list("_lakeport/journal")
    assert b"hidden" not in (store.get(entry.key) or b"")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version": 99}'])
def test_an_entry_that_can_not_be_read(store: LocalStorage, data: bytes) -> None:
    store.put("_lakeport/journal/users/run 1/0.json", data)
    with pytest.raises(DestinationError, match="can't be read"):
        run(store)


def test_an_empty_batch_is_remembered(store: LocalStorage) -> None:
    landed = land(writer_for(store), [range(0)], BATCH)
    assert (landed.rows, landed.files) == (0, ())
    assert run(store).skipped
    (entry,) = (o for o in store.list("_lakeport/journal") if "intent" not in o.key)
    assert json.loads(store.get(entry.key) or b"")["keys"] == []


def test_pruned_entries_are_gone(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    journals = [Journal(storage, run, "users") for run in ("stream", "other")]
    for journal in journals:
        for number in (0, 1, 2, 10):
            journal.write_intent(number, Intent("d", (), 0))
            journal.write_done(number, DoneEntry("d", (), 1, 1))
    journals[0].prune(2)
    found = [[j.read_done(n, "d") is not None for n in (0, 1, 2, 10)] for j in journals]
    assert found == [[False, False, True, True], [True] * 4]
    assert journals[0].read_intent(1) is None
    assert journals[0].read_intent(2) is not None
