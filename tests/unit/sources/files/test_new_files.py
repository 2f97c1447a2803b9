from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.config.load import load_target
from lakeport.config.sources import FilesSource
from lakeport.errors import ConfigError, SourceError
from lakeport.model import StoredObject
from lakeport.sources.files import new_files
from lakeport.sources.files.new_files import NewFiles, open_new_files
from lakeport.sources.options import ReadOptions
from lakeport.sources.spool import SpoolLocation
from lakeport.storage.local import LocalStorage
from tests.unit.sources.file_batch import flushes_of
from tests.unit.sources.kept_memory import KeptMemory


class Load:
    """Loads of one inbox into one table, as far as its record goes."""

    def __init__(self, folder: Path) -> None:
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self.memory = KeptMemory(LocalStorage(str(folder / "lake")))
        self._spool = folder / "spool"
        self._loads = 0

    def write(self, name: str, text: str = '{"id": 1}\n', moment: int = 1) -> Path:
        path = self.inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(moment, moment))
        return path

    def open(self, *names: str, **keys: Any) -> NewFiles:
        options = ReadOptions(keys.pop("source_format", ""))
        source = FilesSource(files=names or (str(self.inbox),), new_only=True, **keys)
        self._loads += 1
        folder = self._spool / str(self._loads)
        folder.mkdir(parents=True)
        config = load_target(self.memory.storage.uri(), {"table": "t"})
        return open_new_files(source, options, config, folder, lambda stream: self.memory)[1]

    def __call__(self, *names: str, **keys: Any) -> list[str]:
        """Land what is new; return the files' names."""
        new = self.open(*names, **keys)
        if not new.files:
            return []
        spool = SpoolLocation(self._spool / str(self._loads))
        (flush,) = new.flushes(flushes_of(new.files, "t", spool))
        (batch,) = flush.batches
        assert batch.before_commit is not None
        assert batch.bookmark is not None
        batch.before_commit()
        self.memory.commit(batch.bookmark)
        return [file.uri.removeprefix(f"{self.inbox}/") for file in new.files]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(tmp_path)


def test_each_file_is_landed_once(load: Load) -> None:
    load.write("b.json")
    load.write("sub/a.json")
    assert load() == ["b.json", "sub/a.json"]
    assert load() == []
    load.write("a.json")
    load.write("sub/c.json")
    assert load() == ["a.json", "sub/c.json"]
    assert load(f"{load.inbox}/**/*.json") == []
    assert load(f"{load.inbox}/a.json", f"{load.inbox}/sub") == []


def test_nothing_is_seen_that_was_not_committed(load: Load) -> None:
    load.write("a.json")
    new = load.open()
    assert [file.name for file in new.files] == ["a.json"]
    assert load.memory.files() == []
    assert load() == ["a.json"]


def test_a_file_that_changed_fails_is_landed_or_ignored(load: Load) -> None:
    load.write("a.json")
    load()
    load.write("a.json", '{"id": 1}\n{"id": 2}\n', moment=2_000_000_000)
    with pytest.raises(SourceError) as caught:
        load()
    assert str(load.inbox / "a.json") in str(caught.value)
    assert "it had 10 bytes of 1970-01-01 00:00:00.000000, and has 20 bytes of" in str(caught.value)
    assert "again: land" in caught.value.hint
    assert load(again="ignore") == []
    assert load(again="land") == ["a.json"]
    assert load() == []


def test_a_file_of_the_same_size_has_changed_when_it_was_written_again(load: Load) -> None:
    load.write("a.json")
    load()
    load.write("a.json", '{"id": 2}\n', moment=2)
    with pytest.raises(SourceError, match="has changed since it was landed"):
        load()


def test_an_archive_is_one_file(load: Load) -> None:
    with zipfile.ZipFile(load.inbox / "a.zip", "w") as archive:
        archive.writestr("x.json", '{"id": 1}\n')
        archive.writestr("y.json", '{"id": 2}\n')
    assert load() == ["a.zip", "a.zip"]
    assert load() == []


def test_empty_files_are_seen(load: Load) -> None:
    load.write("a.json")
    load.write("empty.json", "")
    assert load() == ["a.json"]
    load.write("empty.json", '{"id": 1}\n', moment=2)
    with pytest.raises(SourceError, match=r"empty\.json' has changed"):
        load()


def test_files_of_unknown_formats_are_left_out_and_may_be_named_later(load: Load) -> None:
    load.write("a.json")
    load.write("notes.txt")
    assert load() == ["a.json"]
    assert load(source_format="json") == ["notes.txt"]


def test_an_inbox_without_a_known_format_is_an_error_at_first(load: Load) -> None:
    load.write("notes.txt")
    with pytest.raises(SourceError, match="holds no file of a known format") as caught:
        load()
    assert "it holds notes.txt" in caught.value.hint
    load.write("a.json")
    load()
    assert load() == []


def test_an_empty_inbox_is_an_error_at_first_and_nothing_new_later(load: Load) -> None:
    with pytest.raises(SourceError, match="matches no file"):
        load()
    load.write("a.json")
    load()
    (load.inbox / "a.json").unlink()
    assert load() == []


def test_a_file_that_changes_while_it_is_read_is_an_error(load: Load, tmp_path: Path) -> None:
    path = load.write("a.json")
    new = load.open()
    (flush,) = new.flushes(flushes_of(new.files, "t", SpoolLocation(tmp_path)))
    before_commit = flush.batches[0].before_commit
    assert before_commit is not None
    load.write("a.json", '{"id": 1}\n{"id": 2}\n')
    with pytest.raises(SourceError, match=r"while it was read, file .*a\.json' changed: it had 10"):
        before_commit()
    path.unlink()
    with pytest.raises(SourceError, match=r"while it was read, file .*a\.json' went; nothing was"):
        before_commit()
    assert load.memory.files() == []


class Listing(LocalStorage):
    """A disk as a store that counts how often it is listed."""

    listings = 0

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        type(self).listings += 1
        return super().list(prefix, after=after)


@pytest.mark.parametrize("others", [0, 30])
def test_a_store_is_asked_as_little_as_can_be(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(new_files, "_PAGE", 10)
    monkeypatch.setattr(
        new_files, "open_folder_storage", lambda config, uri: Listing(str(load.inbox))
    )
    for number in range(others):
        (load.inbox / f"old-{number}.json").write_text("")
    if others:
        load.write("old.json")
        load("s3://bucket/*")
    for name in ("a.json", "b.json"):
        load.write(name)
    new = load.open("s3://bucket/*")
    assert [file.name for file in new.files] == ["a.json", "b.json"]
    (flush,) = new.flushes(flushes_of(new.files, "t", SpoolLocation(tmp_path)))
    before_commit = flush.batches[0].before_commit
    assert before_commit is not None
    Listing.listings = 0
    before_commit()
    assert Listing.listings == (2 if others else 1)  # each file, or all that is there
    load.write("b.json", "", moment=2)
    with pytest.raises(SourceError, match=r"while it was read, file .*b\.json' changed"):
        before_commit()


def test_names_that_grow_with_time_are_listed_from_the_last_on(load: Load) -> None:
    load.write("2026/11/23/b.json")
    load.write("2026/11/24/b.json")
    glob = f"{load.inbox}/2026/*/*/*.json"
    assert len(load(glob, ordered=True)) == 2
    load.write("2026/11/24/a.json")  # late: not found
    load.write("2026/11/24/c.json")
    load.write("2026/12/01/a.json")
    assert [load(glob, ordered=True), load(glob, ordered=True)] == [
        ["2026/11/24/c.json", "2026/12/01/a.json"],
        [],
    ]
    assert load() == ["2026/11/24/a.json"]


def test_a_name_that_is_no_text(load: Load) -> None:
    with open(os.fsencode(load.inbox) + b"/\xff.json", "w") as file:  # noqa: PTH123
        file.write('{"id": 1}\n')
    assert load() == ["\udcff.json"]
    assert load() == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"files": "-"}, "standard input"),
        ({"files": "x.singer"}, "several streams"),
    ],
)
def test_what_it_does_not_go_with(load: Load, keys: dict[str, Any], words: str) -> None:
    source = FilesSource(new_only=True, **keys)
    config = load_target(load.memory.storage.uri(), {"table": "t"})
    options = ReadOptions("singer" if keys["files"] == "x.singer" else "")
    with pytest.raises(ConfigError, match=words):
        open_new_files(source, options, config, load.inbox, lambda stream: load.memory)


def test_an_overwrite_is_refused(load: Load) -> None:
    config = load_target(load.memory.storage.uri(), {"table": "t", "mode": "overwrite"})
    source = FilesSource(files=str(load.inbox), new_only=True)
    with pytest.raises(ConfigError, match="would replace the table"):
        open_new_files(source, ReadOptions(), config, load.inbox, lambda stream: load.memory)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".csv.gz", ".parquet", ".zip"])
def test_a_file_that_vanishes_before_it_is_read_is_named(
    load: Load, tmp_path: Path, suffix: str
) -> None:
    path = load.inbox / f"a{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table({"id": [1]}), path)
    elif suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.json", '{"id": 1}\n')
    else:
        text = b'{"id": 1}\n' if "json" in suffix else b"id\n1\n"
        path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    new = load.open()
    path.unlink()
    with pytest.raises(SourceError, match=f"{path}.*No such file"):
        list(new.flushes(flushes_of(new.files, "t", SpoolLocation(tmp_path))))
