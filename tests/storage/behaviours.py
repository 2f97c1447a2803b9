"""What every cloud storage has to do, as plain functions that take one."""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest import MonkeyPatch

from lakeport.errors import DestinationError, ObjectExists
from lakeport.loading.check import CheckReport, check
from lakeport.model import Staged, Storage
from lakeport.sources.files import new_files
from lakeport.sources.files.discovery import ListedFile, SourcePath
from lakeport.sources.files.new_files import LandedFiles
from tests.unit.sources.kept_memory import KeptMemory

WRITERS = 6


def checked(config: Any, seconds: float = 120.0, spark_seconds: float | None = None) -> CheckReport:
    """The connection test, with time enough for a machine that is busy."""
    return check(config, seconds, spark_seconds)


def stage(storage: Storage, key: str, *pieces: bytes | memoryview) -> Staged:
    """Stage an object of these pieces."""
    writer = storage.stage(key, "text/csv")
    for piece in pieces:
        writer.write(piece)
    done = writer.finish()
    return Staged(key, done["token"], 1, done["bytes"], done["checksum"])


def published(storage: Storage, key: str, *pieces: bytes) -> Staged:
    """Stage and publish an object."""
    staged = stage(storage, key, *pieces)
    storage.publish(staged, key)
    return staged


def keys(storage: Storage, prefix: str = "") -> list[str]:
    """The keys that a listing gives, without the probe's."""
    return [o.key for o in storage.list(prefix) if not o.key.startswith("_lakeport/")]


def appears_whole_when_published(storage: Storage) -> None:
    staged = stage(storage, "t/a.csv", b"1,2\n", memoryview(b"3,4\n"))
    assert keys(storage) == []
    assert staged.bytes == 8
    assert staged.checksum.startswith("crc32c:")
    storage.publish(pickle.loads(pickle.dumps(staged)), "t/a.csv")
    assert storage.get("t/a.csv") == b"1,2\n3,4\n"
    assert storage.is_published(staged, "t/a.csv")
    assert not storage.is_published(stage(storage, "t/a.csv", b"1"), "t/a.csv")


def takes_an_empty_object(storage: Storage) -> None:
    published(storage, "t/empty.csv")
    assert storage.get("t/empty.csv") == b""


def takes_a_large_object_of_odd_pieces(storage: Storage) -> None:
    chance = random.Random(1)
    data = chance.randbytes(1 << 20) * 36 + b"tail"
    pieces, at = [], 0
    while at < len(data):
        size = chance.choice([1, 1000, 300_000, 9_000_000, 17_000_000])
        pieces.append(data[at : at + size])
        at += size
    staged = published(storage, "t/large.bin", *pieces)
    assert staged.bytes == len(data)
    with storage.open("t/large.bin") as file:
        assert file.read() == data
        for _ in range(20):
            start, size = chance.randrange(len(data)), chance.randrange(3 << 20)
            file.seek(start)
            assert file.read(size) == data[start : start + size]
        assert file.seek(-4, io.SEEK_END) == len(data) - 4
        assert file.read(10) == b"tail"


def never_overwrites(storage: Storage) -> None:
    first = published(storage, "t/a.csv", b"first")
    second = stage(storage, "t/a.csv", b"second")
    with pytest.raises(ObjectExists):
        storage.publish(second, "t/a.csv")
    storage.discard(second)
    with pytest.raises(ObjectExists):
        storage.put("t/a.csv", b"third", create_only=True)
    assert storage.get("t/a.csv") == b"first"
    storage.publish(first, "t/a.csv")
    assert storage.get("t/a.csv") == b"first"


def rewrites_what_nobody_else_has_replaced(storage: Storage) -> None:
    published(storage, "t/a.csv", b"first")
    storage.rewrite("t/a.csv", lambda data: data + b", second")
    assert storage.get("t/a.csv") == b"first, second"

    def change(data: bytes) -> bytes:
        storage.put("t/a.csv", b"somebody else's")
        return data + b", third"

    with pytest.raises(DestinationError, match="replaced"):
        storage.rewrite("t/a.csv", change)
    assert storage.get("t/a.csv") == b"somebody else's"
    with pytest.raises(DestinationError):
        storage.rewrite("t/b.csv", lambda data: data)
    assert storage.get("t/b.csv") is None


def lets_one_of_many_threads_win(storage: Storage) -> None:
    def attempt(number: int) -> bool:
        staged = stage(storage, "t/race.csv", b"%d" % number)
        try:
            storage.publish(staged, "t/race.csv")
        except ObjectExists:
            storage.discard(staged)
            return False
        return storage.is_published(staged, "t/race.csv")

    with ThreadPoolExecutor(WRITERS) as pool:
        assert sum(pool.map(attempt, range(WRITERS))) == 1


def aborts_without_a_trace(storage: Storage) -> None:
    writer = storage.stage("t/a.csv", "text/csv")
    writer.write(b"x" * (20 << 20))
    writer.abort()
    storage.discard(stage(storage, "t/b.csv", b"1"))
    assert keys(storage) == []


def puts_gets_and_deletes(storage: Storage) -> None:
    assert storage.get("a/b.json") is None
    storage.put("a/b.json", b"1", create_only=True)
    storage.put("a/b.json", b"2")
    assert storage.get("a/b.json") == b"2"
    storage.delete("a/b.json")
    storage.delete("a/b.json")
    assert storage.get("a/b.json") is None
    with pytest.raises(DestinationError):
        storage.open("a/b.json")


def lists_a_folder_and_not_its_namesakes(storage: Storage) -> None:
    names = ["user/1", "user/b/2", "user_events/3", "user/é ü+%2F.csv"]
    for name in names:
        storage.put(name, name.encode())
    assert keys(storage, "user") == ["user/1", "user/b/2", "user/é ü+%2F.csv"]
    assert keys(storage, "user/b") == ["user/b/2"]
    assert keys(storage, "user/b/2") == ["user/b/2"]
    assert keys(storage, "use") == []
    assert sorted(keys(storage)) == sorted(names)
    found = next(iter(storage.list("user/1")))
    assert (found.bytes, bool(found.etag), found.modified > 1e9) == (6, True, True)
    assert storage.get("user/é ü+%2F.csv") == "user/é ü+%2F.csv".encode()


def tells_what_lies_right_in_a_folder(storage: Storage) -> None:
    for name in ("lake/a.csv", "lake/user/1", "lake/user/b/2", "lake/é ü+%2F/3", "lakes/4"):
        storage.put(name, name.encode())
    level = storage.list_folder("lake")
    assert level.folders == ("user", "é ü+%2F")
    assert [(item.key, item.bytes) for item in level.objects] == [("lake/a.csv", 10)]
    assert storage.list_folder("lak").folders == storage.list_folder("lake/a.csv").folders == ()
    top = {name for name in storage.list_folder("").folders if not name.startswith("_")}
    assert top == {"lake", "lakes"}


def refuses_keys_that_climb(storage: Storage) -> None:
    for key in ("../a", "a/../b", "/a", "a//b", "a/", "a\nb", "a\\b", "x" * 1025):
        for attempt in (storage.get, storage.uri, lambda k: storage.put(k, b"")):
            with pytest.raises(DestinationError):
                attempt(key)


def serves_pyarrow(storage: Storage) -> None:
    table = pa.table({"n": range(100_000), "t": [f"row {n}" for n in range(100_000)]})
    writer = storage.stage("t/a.parquet", "application/vnd.apache.parquet")
    with pa.PythonFile(_Sink(writer), "w") as sink:
        pq.write_table(table, sink, row_group_size=10_000)
    done = writer.finish()
    storage.publish(Staged("t/a.parquet", done["token"], 100_000, done["bytes"]), "t/a.parquet")
    with storage.open("t/a.parquet") as file:
        assert pq.read_table(pa.PythonFile(file, "r")) == table


def hides_its_secrets(storage: Any, *secrets: str) -> None:
    staged = stage(storage, "t/a.csv", b"1")
    shown = repr(storage) + str(storage.settings) + storage.uri("a") + storage.hadoop_uri("a")
    assert not any(secret in shown + repr(staged.token) for secret in secrets)


class _Sink(io.RawIOBase):
    def __init__(self, writer: Any) -> None:
        super().__init__()
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return int(self._writer.write(data))


def lists_what_comes_behind_a_key(storage: Storage) -> None:
    names = ["d/2026/11/23.csv", "d/2026/11/24.csv", "d/2026/12/01.csv", "d/a.csv", "e/1.csv"]
    for name in names:
        storage.put(name, b"1")
    for number in range(len(names)):
        assert [o.key for o in storage.list("", after=names[number])] == names[number + 1 :]
    assert [o.key for o in storage.list("d", after="d/2026/11/3")] == names[2:4]
    assert [o.key for o in storage.list("d/a.csv", after="d/2026")] == ["d/a.csv"]
    assert list(storage.list("d/a.csv", after="d/a.csv")) == []
    assert list(storage.list("d", after="e")) == []


def tells_new_and_changed_files(storage: Storage) -> None:
    place = SourcePath(f"{storage.uri()}/", storage)
    storage.put("1.json", b"{}")
    storage.put("sub/2.json", b"{}")
    before = list(place.list_files())
    assert [file.uri for file in before] == [storage.uri("1.json"), storage.uri("sub/2.json")]
    assert list(place.list_files()) == before
    assert [place.refresh(file) for file in before] == before
    storage.put("1.json", b"[]")  # of the same size
    storage.put("1.json.gz", b"")
    storage.delete("sub/2.json")
    changed, gone = map(place.refresh, before)
    assert changed is not None
    assert changed.bytes == before[0].bytes
    assert changed.tag != before[0].tag
    assert gone is None
    assert [file.uri for file in place.list_files(before[0].uri)] == [storage.uri("1.json.gz")]


def keeps_a_record_of_files(storage: Storage) -> None:
    memory = KeptMemory(storage)
    files = [ListedFile(f"s3://inbox/{number:03d}.json", number, "tag") for number in range(100)]
    with MonkeyPatch.context() as patch:
        patch.setattr(new_files, "_SMALL", 50)  # a larger one is streamed
        for part in (files[:10], files[10:90], files[90:]):
            bookmark, write = LandedFiles(memory).extend(part, {})
            write()
            memory.commit(bookmark)
    assert list(LandedFiles(memory).list_files()) == files
    assert len(keys(storage, "memory")) == 3


BEHAVIOURS: list[Callable[[Storage], None]] = [
    appears_whole_when_published,
    takes_an_empty_object,
    takes_a_large_object_of_odd_pieces,
    never_overwrites,
    rewrites_what_nobody_else_has_replaced,
    lets_one_of_many_threads_win,
    aborts_without_a_trace,
    puts_gets_and_deletes,
    lists_a_folder_and_not_its_namesakes,
    lists_what_comes_behind_a_key,
    tells_new_and_changed_files,
    keeps_a_record_of_files,
    tells_what_lies_right_in_a_folder,
    refuses_keys_that_climb,
    serves_pyarrow,
]
