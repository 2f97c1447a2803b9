from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pytest

from lakeport.errors import ConfigError, SourceError
from lakeport.model import StoredObject
from lakeport.sources.files.discovery import discover, stream_name
from lakeport.sources.spool import SpoolLocation
from tests.unit.sources.file_batch import flushes_of, read_table


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """in/{b,a}.csv, in/year=2024/c.csv.gz, in/notes.txt and names that are left out."""
    for name in (
        "b.csv",
        "a.csv",
        "year=2024/c.csv.gz",
        "notes.txt",
        "_tmp/d.csv",
        ".hidden.csv",
        "year=2024/_SUCCESS",
        "year=2024/.d.csv.crc",
    ):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x\n1\n")
    (tmp_path / "outside.csv").write_bytes(b"x\n2\n")
    return tmp_path / "in"


def names(folder: Path, *patterns: str, **settings: Any) -> list[str]:
    found = discover([f"{folder}/{p}" if p else str(folder) for p in patterns], **settings)
    return [os.path.relpath(file.uri, folder) for file in found]


def test_a_folder_is_read_recursively_and_sorted(tree: Path) -> None:
    assert names(tree, "") == ["a.csv", "b.csv", "year=2024/c.csv.gz"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.csv", ["a.csv"]),
        ("*.csv", ["a.csv", "b.csv"]),
        ("[b]?csv", ["b.csv"]),
        ("**/*.csv*", ["a.csv", "b.csv", "year=2024/c.csv.gz"]),
        ("**", ["a.csv", "b.csv", "year=2024/c.csv.gz"]),
        ("year=*", ["year=2024/c.csv.gz"]),
        ("_tmp/*.csv", ["_tmp/d.csv"]),
        ("_tmp", ["_tmp/d.csv"]),
    ],
)
def test_globs(tree: Path, pattern: str, found: list[str]) -> None:
    assert names(tree, pattern) == found


def test_a_file_is_taken_once(tree: Path) -> None:
    assert names(tree, "*.csv", "a.csv") == ["a.csv", "b.csv"]


@pytest.mark.parametrize("pattern", ["", "lake", "l*", "lake/t", "lake/t/"])
def test_a_delta_table_is_no_folder_of_files(tree: Path, pattern: str) -> None:
    (tree / "lake" / "t" / "_delta_log").mkdir(parents=True)
    (tree / "lake" / "t" / "part.csv").write_bytes(b"x\n1\n")
    with pytest.raises(SourceError, match=f"'{tree}/lake/t' is a Delta table"):
        names(tree, pattern)
    assert names(tree, "lake/t/*.csv") == ["lake/t/part.csv"]


def test_links_out_of_the_folder_are_left_out(tree: Path) -> None:
    (tree / "link.csv").symlink_to(tree.parent / "outside.csv")
    (tree / "inner.csv").symlink_to(tree / "a.csv")
    (tree / "folder").symlink_to(tree.parent)
    assert names(tree, "") == ["a.csv", "b.csv", "inner.csv", "year=2024/c.csv.gz"]
    assert names(tree, "*.csv") == ["a.csv", "b.csv", "inner.csv"]
    assert names(tree, "folder/*.csv") == ["folder/outside.csv"]
    assert names(tree, "link.csv") == ["link.csv"]


def test_nothing_found_tells_what_is_nearby(tree: Path) -> None:
    with pytest.raises(SourceError) as caught:
        discover([f"{tree}/missing/*.csv"])
    assert "missing/*.csv' matches no file" in str(caught.value)
    assert "a.csv" in caught.value.hint
    assert "year=2024/" in caught.value.hint
    with pytest.raises(SourceError, match=r"matches no file; did you mean '.*/a\.csv'\?"):
        discover([f"{tree}/aa.csv"])


def test_no_known_format(tree: Path) -> None:
    with pytest.raises(SourceError, match=r"the format of file .*notes.txt' can't be told"):
        discover([f"{tree}/notes.txt"])
    with pytest.raises(SourceError, match=r"no file of a known format"):
        discover([f"{tree}/*.txt"])
    assert names(tree, "notes.txt", format="csv") == ["notes.txt"]
    with pytest.raises(ConfigError, match="'xml' is unknown"):
        discover([str(tree)], format="xml")


def test_mixed_formats_are_refused(tree: Path) -> None:
    (tree / "x.parquet").write_bytes(b"")
    with pytest.raises(SourceError, match=r"mixes formats: csv \('a.csv'\), parquet"):
        discover([str(tree)])


def test_stream_names(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(*sources: str) -> str:
        return stream_name(sources, discover(sources))

    assert name(f"{tree}/year=2024/c.csv.gz") == "c"
    assert name(str(tree)) == "in"
    assert name(f"{tree}/") == "in"
    assert name(f"{tree}/*.csv") == "in"
    for part in "xy":
        (tree / part).mkdir()
        (tree / part / "a.csv").write_text("x\n1\n")
    assert name(f"{tree}/[xy]/a.csv") == "in"
    monkeypatch.chdir(tree)
    assert name("*.csv") == "in"
    assert name("a.csv") == "a"


class Store:
    """Objects in memory, as far as sources need a store."""

    objects: ClassVar = {"a.csv": b"x\n1\n", "sub/b.csv": b"x\n2\n", "_x/c.csv": b""}

    def uri(self, key: str = "") -> str:
        return f"s3://bucket/in/{key}"

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        for key, data in sorted(self.objects.items()):
            if key == prefix or key.startswith(f"{prefix}/" if prefix else ""):
                yield StoredObject(key, len(data))

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.objects[key])


def test_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots: list[str] = []

    def storage_for(uri: str) -> Any:
        roots.append(uri)
        return Store()

    def found(source: str) -> list[str]:
        return [file.uri for file in discover([source], storage_for=storage_for)]

    assert found("s3://bucket/in/") == ["s3://bucket/in/a.csv", "s3://bucket/in/sub/b.csv"]
    assert found("s3://bucket/in/*.csv") == ["s3://bucket/in/a.csv"]
    assert found("s3://bucket/in/**/*.csv") == found("s3://bucket/in/")
    assert found("s3://bucket/in/a.csv") == ["s3://bucket/in/a.csv"]
    assert set(roots) == {"s3://bucket/in/"}
    assert len(found("s3://bucket")) == 2
    assert roots[-1] == "s3://bucket/"
    monkeypatch.setitem(Store.objects, "d[1].csv", b"")
    assert found("s3://bucket/in/d[1].csv") == ["s3://bucket/in/d[1].csv"]
    monkeypatch.setitem(Store.objects, "t/_delta_log/0.json", b"")
    with pytest.raises(SourceError, match="'s3://bucket/in/t' is a Delta table"):
        found("s3://bucket/in/")
    monkeypatch.undo()
    with pytest.raises(SourceError, match="brackets"):
        found("s3://bucket/in/[z-a].csv")
    with pytest.raises(SourceError, match="matches no object"):
        found("s3://bucket/in/z.csv")
    files = discover(["s3://bucket/in/"], storage_for=storage_for)
    (flush,) = flushes_of(files, "t", SpoolLocation(tmp_path))
    assert read_table(flush.batches[0]).to_pylist() == [{"x": 1}, {"x": 2}]
    assert stream_name(["s3://bucket/in/"], files) == "in"


def test_singer_files_are_no_table(tree: Path) -> None:
    (tree / "x.singer").write_bytes(b"")
    source = flushes_of(discover([f"{tree}/x.singer"]), "t", SpoolLocation(tree))
    with pytest.raises(ConfigError, match="'singer'"):
        list(source)


def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "gone.csv"
    path.write_bytes(b"a\n")
    files = discover([str(path)])
    path.unlink()
    with pytest.raises(SourceError, match=r"gone.csv' can't be read"):
        list(flushes_of(files, "t", SpoolLocation(tmp_path)))
