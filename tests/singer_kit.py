"""A Singer source whose source kernel is a note of how it was made, and readers of its spool."""

from __future__ import annotations

import io
import json
import random
import struct
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from lakeport.config.destinations.local import LocalConfig
from lakeport.model import Batch, Flush, Split, UnknownPolicy
from lakeport.sources.singer.singer_source import SingerSource
from lakeport.sources.spool import SpoolWriter

STREAMS = Path(__file__).parent / "streams"


@dataclass(frozen=True)
class NotedReader:
    """Stands for the source kernel; keeps what it was made with."""

    stream: str
    fields: tuple[Any, ...]
    envelope: bool
    unknown: UnknownPolicy
    key_properties: tuple[str, ...]
    max_record_mb: int
    metadata: Any

    def numbered(self, split: Split) -> Iterator[tuple[int, bytes]]:
        content = Path(split.uri).read_bytes()
        if not split.lines:  # a part of the input itself
            part = content[split.start : split.end]
            assert part.endswith(b"\n")
            yield from enumerate(part.split(b"\n")[:-1], split.first_line)
            return
        assert (split.start, split.end) == (0, len(content))
        assert content.endswith(b"\n")
        pairs = list(struct.iter_unpack("<QQ", Path(split.lines).read_bytes()))
        assert pairs[0][0] == 0
        assert pairs[0][1] == split.first_line
        for ordinal, line in enumerate(content.split(b"\n")[:-1]):
            start, number = max(pair for pair in pairs if pair[0] <= ordinal)
            yield number + ordinal - start, line


def note_kernels(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have sources make `NotedReader`s, and put temporary files into `folder`."""
    module = types.ModuleType("lakeport.sources.json.reader")
    module.JsonReader = NotedReader  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


class ShortReads(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, seed: int, most: int) -> None:
        self._data = io.BytesIO(data)
        self._random = random.Random(seed)
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._data.read(min(len(buffer), self._random.randint(1, self._most)))
        buffer[: len(got)] = got
        return len(got)


def source(stream: bytes | BinaryIO | io.RawIOBase, **options: Any) -> SingerSource:
    """A source over some lines, spooling into a folder of its own.

    Args:
        stream: the lines.
        options: of the source, of its spool, and of `singer_config`.
    """
    folder = Path(tempfile.mkdtemp(dir=options.pop("under", None)))
    opened: Any = io.BytesIO(stream) if isinstance(stream, bytes) else stream
    own = ("origin", "on_progress", "stray_lines", "at_states")
    watched = {key: options.pop(key) for key in own if key in options}
    written = {key: options.pop(key) for key in ("digest", "on_file") if key in options}
    written["times"] = options.get("add_record_metadata", False)
    writer = SpoolWriter(
        options.pop("spool_dir", folder), options.pop("split_bytes", 1 << 20), **written
    )
    return SingerSource(opened, writer, singer_config(**options), **watched)


def singer_config(*, flush_bytes: int = 1 << 20, flush_rows: int = 0, **keys: Any) -> LocalConfig:
    """The config of a load whose flushes are cut at these sizes; at none where one is 0."""
    size = (flush_bytes or 1 << 60) / 2**20
    rows = flush_rows or None
    return LocalConfig(path="lake", maximum_batch_size_mb=size, maximum_batch_rows=rows, **keys)


def lines_of(batch: Batch) -> list[tuple[int, bytes]]:
    """A batch's lines with their numbers, as a reader will find them."""
    reader: Any = batch.reader
    found = [numbered for split in batch.splits for numbered in reader.numbered(split)]
    assert len(found) == batch.records
    assert sum(split.end - split.start for split in batch.splits) == batch.bytes
    return found


def records_of(batch: Batch) -> list[Any]:
    """The record objects of a batch."""
    lines = [json.loads(line) for _, line in lines_of(batch)]
    return [line["record"] for line in lines] if batch.reader.envelope else lines  # type: ignore


def ids(batch: Batch) -> list[int]:
    """The `id` of each record."""
    return [record["id"] for record in records_of(batch)]


def described(flush: Flush) -> list[tuple[str, int, list[int]]]:
    """Stream, sequence and ids of each batch of a flush."""
    return [(batch.stream, batch.sequence, ids(batch)) for batch in flush.batches]


def schema(stream: str = "users", **more: Any) -> bytes:
    """A SCHEMA line."""
    properties = {"id": {"type": "integer"}, **more.pop("properties", {})}
    message = {"type": "SCHEMA", "stream": stream, "schema": {"properties": properties}, **more}
    return json.dumps(message).encode() + b"\n"


def record(number: Any, stream: str = "users") -> bytes:
    """A RECORD line, as singer-python writes it."""
    message = {"type": "RECORD", "stream": stream, "record": {"id": number}}
    return json.dumps(message).encode() + b"\n"


def state(value: Any) -> bytes:
    """A STATE line."""
    return json.dumps({"type": "STATE", "value": value}).encode() + b"\n"
