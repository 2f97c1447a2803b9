"""ORC files: one stripe at a time.

Arrow leaves three things of ORC out. Programs in Java write dates in the hybrid calendar unless
the footer says otherwise. Timestamps are read as nanoseconds, which reach from 1677 to 2262. And
Java shifts local times before 1900 by other offsets than Arrow does.

https://orc.apache.org/specification/ORCv1/
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, Final, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import MissingDependency, SourceError
from lakeport.model import Split
from lakeport.schema.calendars import HybridCalendar
from lakeport.schema.nested import leaves
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import ExpansionGuard, UnpackLimits
from lakeport.sources.parquet import naming
from lakeport.sources.splits import open_split

Batches = Callable[[Split, UnpackLimits], Iterator[pa.RecordBatch]]
"""Reads a split's rows as the file has them."""


class Header(NamedTuple):
    """What a file tells. Picklable.

    Attributes:
        schema: its columns, with the types that it has them in.
        parts: about how many bytes each part has that can be read by itself.
        rows: how many rows it has; -1 if it does not tell.
    """

    schema: pa.Schema
    parts: tuple[int, ...]
    rows: int = -1


@contextmanager
def reading(uri: str, format_: str) -> Iterator[None]:
    """Say of which file and format an error is.

    Raises:
        SourceError: in place of what a library raises over a file that is not of its format.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SourceError(
            f"file {uri!r} can't be read as {format_}: {reason}",
            f"check that the file is there, whole, and {format_} indeed.",
        ) from error


_NAME = "ORC"
_PROLEPTIC: Final = 2
_MOST_TAIL: Final = 1 << 28
_UTC: Final = ("", "UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z")
_CHECKS: Final = 25  # the first version of pyarrow that refuses what nanoseconds do not reach
_RANGE: Final = "out of range for nanosecond"
_HINT: Final = "have Spark read the file, and land that frame; or make the column text."


def look(file: SourceFile) -> Header:
    """A file's columns, stripes and rows.

    Raises:
        SourceError: it is no whole ORC file.
    """
    with _opened(file.split(0, -1, 0)) as (_, opened):
        count = opened.nstripes
        return Header(opened.schema, (file.bytes // max(1, count),) * count, opened.nrows)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the stripes `split.start` to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, unpacks to too much, or holds timestamps that Arrow
            can't read as they are.
    """
    with _opened(split) as (source, opened):
        guard = ExpansionGuard(split.uri, limits, packed=opened.file_length)
        dated = _is_dated(opened.schema)
        _check_arrow(split.uri, dated)
        with reading(split.uri, _NAME):
            tail = _tail(source) if dated and opened.writer == "ORC_JAVA" else None
        hybrid = tail is not None and tail.calendar != _PROLEPTIC
        calendar = HybridCalendar.of_dates(opened.schema) if hybrid else None
        for stripe in range(split.start, split.end):
            with reading(split.uri, _NAME), naming(split.uri):
                batch = _stripe(opened, stripe)
                batch.validate(full=True)
                zone = tail.zone(source, stripe) if tail else ""
            guard.add(batch.nbytes)
            with naming(split.uri):
                _check_zone(batch, zone)
            yield calendar.rebase(batch) if calendar else batch


def _stripe(opened: Any, stripe: int) -> pa.RecordBatch:
    """Read a stripe; name the column where nanoseconds can't hold a timestamp."""
    try:
        return opened.read_stripe(stripe)
    except pa.ArrowInvalid as error:
        if _RANGE not in str(error):
            raise
    for name in opened.schema.names:
        try:
            opened.read_stripe(stripe, columns=[name])
        except pa.ArrowInvalid:
            break
    raise SourceError(
        f"column {name!r} holds timestamps before 1677 or after 2262, which Arrow's reader of ORC "
        "does not reach",
        _HINT,
    )


def _check_arrow(uri: str, dated: bool) -> None:
    if dated and int(pa.__version__.split(".")[0]) < _CHECKS:
        raise MissingDependency(
            f"file {uri!r} holds dates or timestamps, and pyarrow {pa.__version__} reads those of "
            "ORC before 1677 as later ones",
            f"pip install 'pyarrow>={_CHECKS}'",
        )


def _check_zone(batch: pa.RecordBatch, zone: str) -> None:
    """Refuse local times so old that Arrow and Java take the writer's time zone differently."""
    if zone in _UTC:
        return
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        for path, leaf in leaves(array, name):
            if not pa.types.is_timestamp(leaf.type) or leaf.type.tz is not None:
                continue
            least = pc.min(leaf.cast(pa.timestamp("us"), safe=False)).as_py()
            if least is not None and _is_ambiguous(least, zone):
                raise SourceError(
                    f"column {path!r} holds timestamps from before time zone {zone!r} had a "
                    "standard time, and programs differ about them",
                    _HINT,
                )


def _is_ambiguous(moment: datetime, zone: str) -> bool:
    try:
        return moment.year < 1900 or moment.replace(tzinfo=ZoneInfo(zone)).tzname() == "LMT"
    except (OSError, ValueError):
        return moment.year < 1950


def _is_dated(schema: pa.Schema) -> bool:
    empty = schema.empty_table().combine_chunks().to_batches() or [schema.empty_table()]
    return any(
        pa.types.is_temporal(leaf.type)
        for column in empty[0].columns
        for _, leaf in leaves(column, "")
    )


def _tail(source: BinaryIO) -> _Tail:
    try:
        return _Tail.read(source)
    except Exception as error:  # each library has its own class
        raise ValueError(f"its end is damaged: {error or type(error).__name__}") from None


class _Tail(NamedTuple):
    """What a file's end tells, and Arrow does not.

    Attributes:
        calendar: that of the dates: 0 unknown, 1 hybrid, 2 proleptic.
        codec: the compression of footers: 0 none, 1 zlib, 2 snappy, 3 lzo, 4 lz4, 5 zstd.
        stripes: offset and size of each stripe's footer.
    """

    calendar: int
    codec: int
    stripes: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, source: BinaryIO) -> _Tail:
        """Read the end of a file whose structure Arrow has checked."""
        size = source.seek(0, 2)
        length = _bytes(source, size - 1, 1)[0]
        postscript = dict(_fields(_bytes(source, size - 1 - length, length)))
        start = size - 1 - length - postscript[1]
        codec = postscript.get(2, 0)
        footer = [*_fields(_plain(_bytes(source, start, postscript[1]), codec))]
        stripes = [dict(_fields(value)) for key, value in footer if key == 3]
        places = [(sum(s.get(i, 0) for i in (1, 2, 3)), s.get(4, 0)) for s in stripes]
        return cls(dict(footer).get(11, 0), codec, tuple(places))

    def zone(self, source: BinaryIO, stripe: int) -> str:
        """The writer's time zone; empty where a stripe does not tell."""
        footer = _plain(_bytes(source, *self.stripes[stripe]), self.codec)
        return bytes(dict(_fields(footer)).get(3, b"")).decode()


def _bytes(source: BinaryIO, start: int, size: int) -> bytes:
    if not 0 <= size <= _MOST_TAIL:
        raise ValueError("its end is damaged")
    source.seek(start)
    return source.read(size)


def _plain(data: bytes, codec: int) -> bytes:
    """Decompress a footer: chunks, each with its size and whether it is compressed."""
    if codec == 0:
        return data
    found = []
    while data:
        header = int.from_bytes(data[:3], "little")
        chunk, data = data[3 : 3 + (header >> 1)], data[3 + (header >> 1) :]
        found.append(chunk if header & 1 else _decompressed(chunk, codec))
    return b"".join(found)


def _decompressed(chunk: bytes, codec: int) -> bytes:
    if codec == 1:
        return zlib.decompressobj(-15).decompress(chunk, _MOST_TAIL)
    if codec == 2:
        size, _ = _varint(chunk, 0)
        if size > _MOST_TAIL:
            raise ValueError("its end is damaged")
        return bytes(pa.decompress(chunk, size, "snappy", asbytes=True))
    if codec == 4:
        return _lz4(chunk)
    if codec == 5:
        import zstandard

        return zstandard.ZstdDecompressor().decompress(chunk, max_output_size=_MOST_TAIL)
    raise ValueError(f"its footer is compressed by method {codec}, so its calendar is unknown")


def _lz4(data: bytes) -> bytes:
    """Decompress an LZ4 block without a frame, whose size pyarrow would have to be told."""
    plain = bytearray()
    at = 0

    def length(nibble: int) -> int:
        nonlocal at
        found = part = nibble
        while part == (15 if found == 15 else 255):
            part, at = data[at], at + 1
            found += part
        return found

    while at < len(data):
        token, at = data[at], at + 1
        size = length(token >> 4)
        plain += data[at : at + size]
        at += size
        if at >= len(data):
            break
        start = len(plain) - int.from_bytes(data[at : at + 2], "little")
        at += 2
        for place in range(start, start + length(token & 15) + 4):
            plain.append(plain[place])
    return bytes(plain)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if (wire := key & 7) == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0:
            size, at = _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return number, at
    raise ValueError("its end is damaged")


@contextmanager
def _opened(split: Split) -> Iterator[tuple[BinaryIO, Any]]:
    from pyarrow import orc

    with reading(split.uri, _NAME), open_split(split) as source:
        yield source, orc.ORCFile(pa.PythonFile(source, "r"))
