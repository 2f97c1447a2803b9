"""Files and stdin as decompressed bytes, and whole lines out of them."""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
import tracemalloc
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from lakeport.errors import InputError, MissingDependency, SourceError
from lakeport.sources.input.decompression import (
    detect_compression,
    open_input,
    open_inputs,
    open_stream,
)
from lakeport.sources.input.lines import find_line_end, read_blocks
from tests.singer_kit import ShortReads
from tests.unit.sources.file_batch import PACKERS

TEXT = b"".join(b'{"line": %d}\n' % i for i in range(50_000))
CODECS = {suffix: pack for suffix, pack in PACKERS.items() if suffix != "zip"}


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_plain_files_and_files_of_any_size(tmp_path: Path) -> None:
    for content in (b"", b"a", b"abcdefg", TEXT):
        path = tmp_path / "in.jsonl"
        path.write_bytes(content)
        with open_input(path) as stream:
            assert stream.read() == content


@pytest.mark.parametrize("named", [True, False])
def test_compression_is_told_by_content(tmp_path: Path, codec: str, named: bool) -> None:
    path = tmp_path / (f"in.{codec}" if named else "in.jsonl")
    path.write_bytes(CODECS[codec](TEXT))
    with open_input(str(path)) as stream:
        assert stream.read() == TEXT


def test_members_one_after_another_are_one_input(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(CODECS[codec](TEXT) + CODECS[codec](b"") + CODECS[codec](b"end"))
    with open_input(path) as stream:
        assert stream.read() == TEXT + b"end"


def test_padding_behind_a_member_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b"a") + bytes(200_000) + gzip.compress(b"b") + bytes(200_000))
    with open_input(path) as stream:
        assert stream.read() == b"ab"


@pytest.mark.parametrize("damage", ["cut off", "flipped", "garbage behind"])
def test_damaged_compression_names_the_file(tmp_path: Path, codec: str, damage: str) -> None:
    content = bytearray(CODECS[codec](TEXT))
    if codec == "zst":
        content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    if damage == "cut off":
        del content[-3:]
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    else:
        content += b"garbage"
    path = tmp_path / f"in.{codec}"
    path.write_bytes(content)
    with open_input(path) as stream, pytest.raises(SourceError, match=f"in.{codec}: the"):
        stream.read()


def test_a_name_that_promises_another_compression_is_refused(tmp_path: Path, codec: str) -> None:
    path = tmp_path / f"in.{codec}"
    for content in (b"", TEXT, zlib.compress(TEXT)):
        path.write_bytes(content)
        with open_input(path) as stream, pytest.raises(SourceError, match="something else"):
            stream.read()


def test_zstd_without_its_package_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.zst"
    path.write_bytes(CODECS["zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with open_input(path) as stream, pytest.raises(MissingDependency) as failure:
        stream.read()
    assert failure.value.hint == "pip install zstandard"


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(CODECS[codec](bytes(96 << 20)))
    tracemalloc.start()
    try:
        with open_input(path) as stream:
            assert len(stream.read(1 << 20)) == 1 << 20
            assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


def test_several_files_are_read_one_after_another(tmp_path: Path) -> None:
    contents = [b"a\n", b"", gzip.compress(b"b"), b"c\n\n", b"d"]
    paths = [tmp_path / str(i) for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    with open_inputs([(path.name, partial(path.open, "rb")) for path in paths]) as stream:
        assert stream.read() == b"a\nb\nc\n\nd"


def test_a_stream_of_the_caller_is_decompressed_and_stays_open(codec: str) -> None:
    for content in (b"plain\n", CODECS[codec](b"pl") + CODECS[codec](b"ain\n")):
        with io.BytesIO(content) as lent:
            stream = open_stream(lent)
            assert stream.read() == b"plain\n"
            stream.close()
            assert not lent.closed
    with pytest.raises(SourceError, match=r"the stream: .* is corrupt or cut off"):
        open_stream(io.BytesIO(CODECS[codec](b"plain")[:-4])).read()


def test_a_stream_of_text_is_refused() -> None:
    with pytest.raises(SourceError, match="a stream of text") as failure:
        open_stream(io.StringIO("{}"))
    assert "sys.stdin.buffer" in failure.value.hint


def test_a_missing_file_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"can't open .*gone: No such file"):
        open_input(tmp_path / "gone")
    with pytest.raises(SourceError, match="directory"):
        open_input(tmp_path)


def test_stdin_is_a_pipe_that_may_be_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"plain\n", gzip.compress(b"plain\n")):
        read_end, write_end = os.pipe()
        os.write(write_end, content)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            monkeypatch.setattr("sys.stdin", pipe)
            with open_input("-") as stream:
                assert stream.read() == b"plain\n"
            assert not pipe.closed


def test_what_no_magic_number_tells_is_plain() -> None:
    assert detect_compression(b"BZ") == ""
    assert detect_compression(b"") == ""


class OnlyRead:
    def __init__(self, data: bytes) -> None:
        self.read = io.BytesIO(data).read


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 1 << 20])
def test_blocks_are_whole_lines_whatever_the_reads(chunk: int) -> None:
    data = b"\n\nabc\n" + b"x" * 60 + b"\n" + b"yy\n" * 9 + b"end"
    streams: list[Any] = [io.BytesIO(data), ShortReads(data, chunk, 5), OnlyRead(data)]
    for stream in streams:
        blocks = [
            (bytes(block.data[: block.end]), block.is_cut_off)
            for block in read_blocks(stream, 60, chunk)
        ]
        assert b"".join(lines for lines, _ in blocks) == data + b"\n"
        assert all(lines.endswith(b"\n") for lines, _ in blocks)
        assert [cut_off for _, cut_off in blocks] == [False] * (len(blocks) - 1) + [True]


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_long_lines_stand_alone_and_are_skipped(most: int) -> None:
    data = b"a\n" + b"x" * 61 + b"\n" + b"y" * 60 + b"\n" + b"z" * 500
    found = [
        block.too_long[:1] if block.too_long else bytes(block.data[: block.end])
        for block in read_blocks(ShortReads(data, 1, most), 60, 16)  # type: ignore[arg-type]
    ]
    assert found == [b"a\n", b"x", b"y" * 60 + b"\n", b"z"]


def test_the_nth_line_is_found() -> None:
    chance = random.Random(1)
    for _ in range(200):
        lines = [b"x" * chance.choice([0, 1, 5, 100]) + b"\n" for _ in range(chance.randint(1, 60))]
        data = b"???" + b"".join(lines) + b"more\n"
        n = chance.randint(1, len(lines))
        end = find_line_end(data, 3, len(data), n)
        assert data[3:end] == b"".join(lines[:n])
        assert data.count(b"\n", 3, end) == n


def test_errors_are_input_errors() -> None:
    assert issubclass(SourceError, InputError)
