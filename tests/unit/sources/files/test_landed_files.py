from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeport.errors import DestinationError
from lakeport.model import SavedBookmark
from lakeport.sources.files import new_files
from lakeport.sources.files.discovery import ListedFile
from lakeport.sources.files.new_files import (
    LandedFiles,
    compare_listings,
    select_new_files,
    sort_listing,
)
from lakeport.storage.local import LocalStorage
from tests.unit.sources.kept_memory import KeptMemory

DAY = 24 * 3600.0


def listed(*numbers: int, tag: str = "") -> list[ListedFile]:
    return [ListedFile(f"/in/{number:06d}.json", number, tag) for number in sorted(numbers)]


def add(memory: KeptMemory, files: list[ListedFile], now: float = 0.0, **reached: str) -> None:
    bookmark, write = LandedFiles(memory, lambda: now).extend(files, reached)
    write()
    memory.commit(bookmark)


@pytest.fixture
def memory(tmp_path: Path) -> KeptMemory:
    return KeptMemory(LocalStorage(str(tmp_path)))


def sizes(memory: KeptMemory) -> list[int]:
    return [files for _, files, _ in memory.bookmark("files").value["segments"]]


def test_each_segment_is_larger_than_all_behind_it(memory: KeptMemory) -> None:
    written = 0
    for number in range(200):
        before = set(memory.files())
        add(memory, listed(number))
        written += sum(
            pa.ipc.open_stream(path.read_bytes()).read_all().num_rows
            for path in set(memory.files()) - before
        )
        counts = sizes(memory)
        assert all(count > sum(counts[n + 1 :]) for n, count in enumerate(counts))
    assert list(LandedFiles(memory).list_files()) == listed(*range(200))
    assert written <= 200 * 8
    assert len(sizes(memory)) <= 8


def test_a_commit_costs_its_new_files(memory: KeptMemory) -> None:
    add(memory, listed(*range(1000)))
    before = set(memory.files())
    add(memory, listed(1000, 1001))
    (new,) = set(memory.files()) - before
    assert pa.ipc.open_stream(new.read_bytes()).read_all()["bytes"].to_pylist() == [1000, 1001]


def test_the_last_segment_that_has_a_file_tells_of_it(memory: KeptMemory) -> None:
    add(memory, listed(1, 2, 3, tag="old"))
    add(memory, listed(2, tag="new"))
    now = [*listed(1, tag="old"), *listed(2, tag="new"), *listed(3, tag="old")]
    assert list(LandedFiles(memory).list_files()) == now
    add(memory, listed(*range(10, 20)))  # takes the others in
    assert list(LandedFiles(memory).list_files())[:3] == now


def test_segments_before_the_first_file_are_not_read(memory: KeptMemory) -> None:
    add(memory, listed(*range(10)))
    (old,) = memory.files()
    add(memory, listed(20, 21))
    old.write_bytes(b"")
    assert list(LandedFiles(memory).list_files("/in/000015.json")) == listed(20, 21)


@pytest.mark.parametrize("content", [b"", b"no segment"])
def test_a_damaged_segment_is_named(memory: KeptMemory, content: bytes) -> None:
    add(memory, listed(1))
    (path,) = memory.files()
    path.write_bytes(content)
    with pytest.raises(DestinationError, match=f"{path} is damaged"):
        list(LandedFiles(memory).list_files())


def test_a_record_of_another_version_is_refused(memory: KeptMemory) -> None:
    memory.kept["files"] = SavedBookmark({"format": 2}, 0)
    with pytest.raises(DestinationError, match="is of format 2"):
        LandedFiles(memory)


def test_segments_stay_for_a_month(memory: KeptMemory) -> None:
    add(memory, listed(1))
    (first,) = memory.files()
    os.utime(first, (0, 0))
    add(memory, listed(2, 3), now=10 * DAY)  # takes the first one in
    (second,) = set(memory.files()) - {first}
    os.utime(second, (10 * DAY, 10 * DAY))
    add(memory, listed(*range(10, 20)), now=31 * DAY)
    add(memory, listed(*range(20, 40)), now=62 * DAY)
    assert first not in memory.files()  # it was not named any more on day 31
    assert second not in memory.files()
    assert len(memory.files()) == 2
    assert len(list(LandedFiles(memory).list_files())) == 33


def test_a_large_segment_is_streamed(memory: KeptMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_files, "_SMALL", 10)
    add(memory, listed(*range(11)))
    add(memory, listed(*range(20, 50)))
    assert list(LandedFiles(memory).list_files()) == listed(*range(11), *range(20, 50))


Step = tuple[dict[int, int], bool]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 30), st.integers(0, 3), max_size=20), st.booleans()
        ),
        max_size=12,
    )
)
def test_any_sequence_of_changes_lands_each_content_once(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are added and changed, loads fail before their commit: each is landed once."""
    monkeypatch.setattr(new_files, "_SORTED", 4)
    monkeypatch.setattr(new_files, "_ROWS", 3)
    folder = tmp_path_factory.mktemp("lake")
    memory = KeptMemory(LocalStorage(str(folder)))
    there: dict[int, int] = {}
    landed: dict[int, int] = {}
    for load, (changes, fails) in enumerate(steps):
        there |= changes
        spool = folder / f"spool-{load}"
        spool.mkdir()
        names: list[Any] = [ListedFile(f"/in/{n}", 0, str(tag)) for n, tag in there.items()]
        seen = LandedFiles(memory).list_files()
        new = list(
            select_new_files(
                compare_listings(sort_listing([*names, *names[:2]], spool), seen), "land"
            )
        )
        found = {int(file.uri.rpartition("/")[2]): int(file.tag) for file in new}
        assert len(found) == len(new)
        assert found == {n: tag for n, tag in there.items() if landed.get(n) != tag}
        bookmark, write = LandedFiles(memory).extend(new, {})
        if new:
            write()
            if not fails:
                memory.commit(bookmark)
                landed |= found
