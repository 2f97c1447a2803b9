from __future__ import annotations

import errno
import os
import pickle
import stat
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import ConfigError, DestinationError, ObjectExists, PermissionRefused
from lakeport.model import Staged, Storage
from lakeport.storage.local import STAGING, LocalStorage

KEY = "users/20240304-153045.parquet"


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path / "lake"))


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)


def staged(store: Storage, data: bytes = b"rows", key: str = KEY) -> Staged:
    out = store.stage(key, "x/y")
    out.write(data[:1])
    out.write(memoryview(data)[1:])
    result = out.finish()
    return Staged(key, result["token"], 1, result["bytes"], result["checksum"])


def visible(store: LocalStorage) -> dict[str, bytes | None]:
    return {o.key: store.get(o.key) for o in store.list("users")}


def leftovers(store: LocalStorage) -> list[str]:
    return [o.key for o in store.list(STAGING)]


def publishing_contract(store: LocalStorage) -> None:
    one, two = staged(store, b"one"), staged(store, b"two")
    assert visible(store) == {}
    store.publish(one, KEY)
    store.publish(one, KEY)
    with pytest.raises(ObjectExists):
        store.publish(two, KEY)
    store.publish(two, "users/other.parquet")
    assert (store.is_published(one, KEY), store.is_published(two, KEY)) == (True, False)
    assert not store.is_published(one, "users/none.parquet")
    store.discard(one)
    store.discard(one)
    store.discard(two)
    assert visible(store) == {KEY: b"one", "users/other.parquet": b"two"}
    assert (store.is_published(one, KEY), store.is_published(two, KEY)) == (True, False)
    assert leftovers(store) == []


def test_publishing(store: LocalStorage) -> None:
    publishing_contract(store)


@pytest.mark.usefixtures("no_links")
def test_publishing_without_hard_links(store: LocalStorage) -> None:
    publishing_contract(store)


@pytest.mark.usefixtures("no_links")
def test_a_stale_reservation_makes_a_name_taken_until_the_sweep(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = staged(store)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os.path, "lexists", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        store.publish(one, KEY)
    with pytest.raises(ObjectExists):
        store.publish(one, KEY)
    assert visible(store) == {}
    store.publish(one, "users/next.parquet")
    assert store.sweep(older_than_seconds=-1) == 1
    assert visible(store) == {"users/next.parquet": b"rows"}


@pytest.mark.parametrize("links", [True, False])
def test_one_of_many_writers_gets_the_name(
    store: LocalStorage, links: bool, request: pytest.FixtureRequest
) -> None:
    if not links:
        request.getfixturevalue("no_links")

    def attempt(number: int) -> bool:
        try:
            store.publish(staged(store, b"%d" % number), KEY)
        except ObjectExists:
            return False
        return True

    with ThreadPool(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 1


def test_a_staged_file_that_is_gone(store: LocalStorage) -> None:
    one = staged(store)
    store.discard(one)
    with pytest.raises(DestinationError, match="No such file"):
        store.publish(one, KEY)
    assert visible(store) == {}


def test_abort_leaves_nothing(store: LocalStorage) -> None:
    out = store.stage(KEY, "x/y")
    out.write(b"x")
    out.abort()
    out.abort()
    assert leftovers(store) == []


def test_checksum_and_size(store: LocalStorage) -> None:
    one = staged(store, b"hello")
    assert (one.bytes, one.checksum) == (5, "crc32:NhCmhg==")


def test_a_published_file_is_known_by_its_checksum(store: LocalStorage) -> None:
    one = staged(store, b"hello")
    store.publish(one, KEY)
    store.discard(one)
    assert store.is_published(one, KEY)
    assert not store.is_published(replace(one, checksum="crc32:AAAAAA=="), KEY)


def test_small_objects(store: LocalStorage) -> None:
    assert store.get("a/b.json") is None
    store.put("a/b.json", b"1", create_only=True)
    with pytest.raises(ObjectExists):
        store.put("a/b.json", b"2", create_only=True)
    store.put("a/b.json", b"3")
    assert store.get("a/b.json") == b"3"
    with store.open("a/b.json") as file:
        assert file.seekable()
        assert file.read() == b"3"
    with pytest.raises(DestinationError):
        store.open("a/none")
    store.delete("a/b.json")
    store.delete("a/b.json")
    assert store.get("a/b.json") is None
    assert leftovers(store) == []


def test_listing_is_sorted_by_key_and_ends_at_folders(store: LocalStorage) -> None:
    for key in ("user/b", "user/a/x", "user/a.x", "user-2/c", "user_events/d", "user/a"[:5] + "z"):
        store.put(key, b"12")
    keys = [o.key for o in store.list("user")]
    assert keys == sorted(keys) == ["user/a.x", "user/a/x", "user/b", "user/z"]
    assert [o.key for o in store.list("user/b")] == ["user/b"]
    assert [o.key for o in store.list("nothing")] == []
    every = list(store.list(""))
    assert [o.key for o in every] == sorted(o.key for o in every)
    first = next(store.list("user/b"))
    store.put("user/b", b"34")
    assert next(store.list("user/b")).etag != first.etag
    assert (first.bytes, first.modified > 0) == (2, True)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\0b", "\ud800"])
def test_keys_that_leave_the_root_or_name_no_file(store: LocalStorage, key: str) -> None:
    for action in (store.get, store.open, store.delete, lambda k: store.put(k, b"")):
        with pytest.raises(DestinationError, match="key"):
            action(key)
    with pytest.raises(DestinationError):
        store.stage(key, "")


def test_symbolic_links_do_not_lead_out(store: LocalStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    root = Path(store.root)
    root.mkdir()
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    one = staged(store)
    for action in (
        lambda: store.put("out/x", b""),
        lambda: store.publish(one, "out/x"),
        lambda: store.get("out/secret"),
        lambda: store.get("file"),
        lambda: store.delete("out/secret"),
        lambda: list(store.list("out/y")),
    ):
        with pytest.raises(DestinationError, match="symbolic link"):
            action()
    store.put("file", b"mine")
    assert (outside / "secret").read_bytes() == b"s"
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]
    assert [o.key for o in store.list("") if not o.key.startswith("_")] == ["file"]


def test_a_root_behind_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    store = LocalStorage(str(tmp_path / "lake"))
    store.publish(staged(store), KEY)
    assert (tmp_path / "real" / KEY).read_bytes() == b"rows"


@pytest.mark.parametrize(
    ("number", "kind", "word"),
    [
        (errno.ENOSPC, DestinationError, "free space"),
        (errno.EDQUOT, DestinationError, "free space"),
        (errno.EROFS, PermissionRefused, "write access"),
        (errno.EACCES, PermissionRefused, "write access"),
        (errno.ENAMETOOLONG, DestinationError, "shorten"),
        (errno.EIO, DestinationError, "Input/output"),
    ],
)
def test_what_the_disk_says(
    store: LocalStorage,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[DestinationError],
    word: str,
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    out = store.stage(KEY, "")
    out.write(b"x")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DestinationError, match=word) as caught:
        out.finish()
    assert type(caught.value) is kind
    out.abort()
    with pytest.raises(kind):
        store.put("a", b"")
    monkeypatch.undo()
    assert leftovers(store) == []


def test_a_file_where_a_folder_is_needed(store: LocalStorage) -> None:
    store.put("users", b"")
    with pytest.raises(DestinationError, match="stands where a folder"):
        store.put("users/x", b"")
    with pytest.raises(DestinationError, match="stands where a folder"):
        store.publish(staged(store, key="other"), "users/x/y")


def test_a_file_system_that_can_not_sync_folders(
    store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    store.publish(staged(store), KEY)
    assert visible(store) == {KEY: b"rows"}


def test_sweep_takes_only_what_is_old(store: LocalStorage) -> None:
    assert store.sweep() == 0
    old, new = staged(store), staged(store)
    store.publish(old, KEY)
    path = Path(store.root, STAGING, old.token["name"])
    os.utime(path, (1, 1))
    assert store.sweep() == 1
    assert leftovers(store) == [f"{STAGING}/{new.token['name']}"]
    assert visible(store) == {KEY: b"rows"}


def test_names_for_users_and_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStorage("my lake")
    assert store.uri() == str(tmp_path / "my lake")
    assert store.uri("a/b c") == str(tmp_path / "my lake/a/b c")
    assert store.hadoop_uri("a b") == f"file://{tmp_path}/my lake/a b"
    assert pickle.loads(pickle.dumps(store)) == store
    assert store.can_rename_staged
    for path in ("", "a\0"):
        with pytest.raises(ConfigError):
            LocalStorage(path)
