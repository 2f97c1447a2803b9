"""Bombs end in an error before they fill a disk, and what real data do is let pass."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.config.destinations.local import LocalConfig
from lakeport.errors import SourceError
from lakeport.sources.files.discovery import discover
from lakeport.sources.input import decompression
from lakeport.sources.input.decompression import (
    UnpackLimits,
    open_input,
    open_stream,
    unpack_limits,
)
from lakeport.sources.spool import SpoolLocation
from tests.singer_kit import schema, source
from tests.unit.sources.file_batch import PACKERS, flushes_of

FLOOR = 4 << 20
ROW = b"7,no change from row to row,0.00\n"


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_FLOOR", FLOOR)


def spooled(tmp_path: Path, name: str, data: bytes, limits: UnpackLimits) -> int:
    """Bytes that a file takes in the spool."""
    folder = tmp_path / "spool"
    folder.mkdir()
    (tmp_path / name).write_bytes(data)
    found = flushes_of(
        discover([str(tmp_path / name)], limits=limits),
        "t",
        SpoolLocation(folder),
        max_unpack_ratio=limits.ratio,
        max_unpacked_mb=limits.size / (1 << 20),
    )
    try:
        list(found)
    finally:
        size = sum(path.stat().st_size for path in folder.iterdir())
    return size


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_bomb_is_refused_before_it_takes_the_disk(tmp_path: Path, suffix: str) -> None:
    bomb = PACKERS[suffix](b"a,b\n" + b"0,0\n" * (3 << 20))
    with pytest.raises(SourceError) as caught:
        spooled(tmp_path, f"bomb.csv.{suffix}", bomb, UnpackLimits(ratio=100))
    assert f"bomb.csv.{suffix} unpacks to more than 100 times its size" in caught.value.message
    assert "max_unpack_ratio" in caught.value.hint
    assert sum(path.stat().st_size for path in (tmp_path / "spool").iterdir()) <= FLOOR


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_of_other_methods_are_refused(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w", method) as archive:
        archive.writestr("t.csv", b"a\n" * (1 << 20))
    with pytest.raises(SourceError, match=f"compressed with method {method}, not with deflate"):
        list(flushes_of(discover([str(tmp_path)]), "t", SpoolLocation(tmp_path)))


@pytest.mark.parametrize("suffix", PACKERS)
def test_below_the_floor_any_ratio_passes(tmp_path: Path, suffix: str) -> None:
    data = b"a,b,c\n" + ROW * 50_000
    assert len(data) < FLOOR < len(data) * 3
    packed = PACKERS[suffix](data)
    assert len(data) > 100 * len(packed)
    assert spooled(tmp_path, f"t.csv.{suffix}", packed, UnpackLimits(ratio=10)) == len(data)


def test_rows_that_hardly_change_pass_by_default(tmp_path: Path) -> None:
    data = b"a,b,c\n" + ROW * 400_000
    packed = gzip.compress(data)
    assert len(data) > 2 * FLOOR and len(data) > 200 * len(packed)
    assert spooled(tmp_path, "t.csv.gz", packed, UnpackLimits()) == len(data)


@pytest.mark.parametrize("suffix", PACKERS)
def test_the_size_is_limited(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](b"a,b,c\n" + ROW * 100_000)
    with pytest.raises(SourceError, match=r"unpacks to more than 1 MB") as caught:
        spooled(tmp_path, f"t.csv.{suffix}", packed, UnpackLimits(ratio=0, size=1 << 20))
    assert "max_unpacked_mb" in caught.value.hint


def test_zero_is_no_limit(tmp_path: Path) -> None:
    data = b"a\n" + b"0\n" * (4 << 20)
    assert spooled(tmp_path, "t.csv.xz", lzma.compress(data), UnpackLimits(0, 0)) == len(data)


def test_streams_and_members_one_after_another_are_counted_together(tmp_path: Path) -> None:
    member = gzip.compress(b" " * (1 << 20))
    (tmp_path / "x.gz").write_bytes(member * 9)
    limits = UnpackLimits(ratio=100)
    for stream in (
        open_input(tmp_path / "x.gz", limits),
        open_stream(io.BytesIO(member * 9), limits=limits),
    ):
        with pytest.raises(SourceError, match="times its size"), stream:
            while stream.read(1 << 16):
                pass


def test_batch_files_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1}\n' * (1 << 20)))
    message = {
        "type": "BATCH",
        "stream": "users",
        "encoding": {"format": "jsonl", "compression": "gzip"},
        "manifest": [path.as_uri()],
    }
    lines = schema() + json.dumps(message).encode() + b"\n"
    with pytest.raises(SourceError, match=r"b\.jsonl\.gz unpacks to more than 100 times"):
        list(source(lines, under=tmp_path, batch_roots=[str(tmp_path)], max_unpack_ratio=100))


def test_parquet_pages_are_limited(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([0.0] * (2 << 20))})
    pq.write_table(table, tmp_path / "t.parquet", use_dictionary=False, compression="zstd")
    files, spool = discover([str(tmp_path / "t.parquet")]), SpoolLocation(tmp_path)
    with pytest.raises(SourceError, match=r"t\.parquet unpacks to more than 100 times its size"):
        list(flushes_of(files, "t", spool, max_unpack_ratio=100))
    assert list(flushes_of(files, "t", spool, max_unpack_ratio=0))


def test_the_keys(tmp_path: Path) -> None:
    assert unpack_limits(LocalConfig(path=tmp_path)) == UnpackLimits()
    config = LocalConfig(path=tmp_path, max_unpack_ratio=0, max_unpacked_mb="0.5")
    assert unpack_limits(config) == UnpackLimits(0, 1 << 19)
