"""Record lines on disk: files, sidecars, buffers."""

from __future__ import annotations

import hashlib
import random
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.spool import LINES, SpoolWriter, read_sidecar
from tests.singer_kit import NotedReader


def lines(split: object) -> list[tuple[int, bytes]]:
    return list(NotedReader.numbered(None, split))  # type: ignore[arg-type]


@pytest.mark.parametrize("split_bytes", [1, 10, 64, 1000, 1 << 30])
@pytest.mark.parametrize("digest", [True, False])
def test_lines_keep_their_order_and_numbers(tmp_path: Path, split_bytes: int, digest: bool) -> None:
    chance = random.Random(split_bytes)
    spool = SpoolWriter(tmp_path, split_bytes, digest=digest)
    segment = spool.begin_segment()
    expected: list[tuple[int, bytes]] = []
    line = 1
    for _ in range(40):
        run = [b"%d" % chance.randint(0, 10**9) for _ in range(chance.randint(1, 9))]
        data = b"skip\n" + b"\n".join(run) + b"\nskip\n"
        segment.append(data, 5, len(data) - 5, len(run), line)
        expected += list(enumerate(run, line))
        line += len(run) + chance.randint(0, 1)
        if chance.random() < 0.1:
            segment.flush_buffers()
    splits = spool.finish(segment)
    assert [numbered for split in splits for numbered in lines(split)] == expected
    assert all(split.end >= split_bytes for split in splits[:-1])
    assert segment.records == len(expected)
    whole = b"".join(text + b"\n" for _, text in expected)
    assert segment.bytes == len(whole)
    assert segment.digest == (hashlib.sha256(whole).hexdigest() if digest else "")


def test_files_are_private_and_never_replace_others(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, 100)
    segment = spool.begin_segment()
    segment.append(b"a\n", 0, 2, 1, 1)
    (split,) = spool.finish(segment)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    target = tmp_path / "victim"
    target.write_bytes(b"kept")
    (tmp_path / "00000001-0000.jsonl").symlink_to(target)
    other = spool.begin_segment()
    other.append(b"b\n", 0, 2, 1, 1)
    with pytest.raises(SourceError, match="can't spool the input"):
        spool.finish(other)
    assert target.read_bytes() == b"kept"
    assert lines(split) == [(1, b"a")]


def test_one_run_is_one_pair(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path, 1 << 20)
    segment = spool.begin_segment()
    for number in range(5, 105):
        segment.append(b"a\n", 0, 2, 1, number)
    (split,) = spool.finish(segment)
    assert (Path(split.lines).stat().st_size, split.first_line) == (16, 5)


def test_many_streams_hold_little_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.sources.spool._ALL_BUFFERS", 1000)
    spool = SpoolWriter(tmp_path, 1 << 20)
    segments = [spool.begin_segment() for _ in range(50)]
    for number, segment in enumerate(segments, 1):
        segment.append(b"x" * 20 + b"\n", 0, 21, 1, number)
        spool.limit_buffers()
    assert sum(segment.buffered_bytes for segment in segments) <= 1000
    for number, segment in enumerate(segments, 51):
        segment.append(b"y\n", 0, 2, 1, number)
    assert [lines(*spool.finish(segment)) for segment in segments] == [
        [(i, b"x" * 20), (i + 50, b"y")] for i in range(1, 51)
    ]


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr("lakeport.sources.spool.create_private_file", lambda path: full.open("wb"))
    segment = SpoolWriter(tmp_path, 1 << 20).begin_segment()
    segment.append(b"secret\n", 0, 7, 1, 1)
    with pytest.raises(SourceError, match="No space left on device") as failure:
        segment.finish()
    assert "secret" not in str(failure.value)


def test_times_are_kept_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([5_000_001, 5_500_000, 9_000_000, 9_100_000])
    clock = SimpleNamespace(time_ns=lambda: next(now))
    monkeypatch.setattr("lakeport.sources.spool.time", clock)
    spool = SpoolWriter(tmp_path, 12, times=True)
    segment = spool.begin_segment()
    for number in range(1, 5):
        segment.append(b"abc\n", 0, 4, 1, number)
    splits = spool.finish(segment)
    pairs = [list(struct.iter_unpack("<QQ", Path(split.times).read_bytes())) for split in splits]
    assert pairs == [[(0, 6000), (2, 9000)], [(0, 10000)]]  # rounded up to milliseconds
    assert SpoolWriter(tmp_path, 12).begin_segment().buffered_bytes == 0


def test_what_was_packed_is_read(tmp_path: Path) -> None:
    path = tmp_path / f"a{LINES}"
    path.write_bytes(struct.pack("<4Q", 0, 7, 3, 2**63))
    assert read_sidecar(Split("a.jsonl", lines=str(path)), str(path)) == [(0, 7), (3, 2**63)]


@pytest.mark.parametrize("content", [None, b"", b"\0" * 15])
def test_a_sidecar_that_has_gone_or_is_cut_off(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / f"a{LINES}"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.lines' can't be read"):
        read_sidecar(Split("a.jsonl", lines=str(path)), str(path))
