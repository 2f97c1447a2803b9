"""Avro's object container files, down to their blocks, as Avro's specification lays them out.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files

`fastavro` reads them, too, but takes a wrong checksum and a block that swells without end without a
word; so blocks are found and unpacked here, and their records are read by it.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.sources.input.unpacking import ExpansionGuard

_MAGIC = b"Obj\x01"
_SYNC = 16
_LONGEST = 10  # bytes of a long
_MOST_META = 64 << 20
_MOST_BLOCK = 1 << 30
_STEP = 1 << 20
_CRC = 4


class Opening(NamedTuple):
    """What a file begins with.

    Attributes:
        schema: of its records, as JSON.
        codec: what its blocks are compressed with.
        sync: what stands behind every block.
        end: where the blocks begin.
        metadata: what programs say in it of the file.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int
    metadata: Mapping[str, bytes]


class Block(NamedTuple):
    """A block of records.

    Attributes:
        start: where its header begins.
        data: where its records begin.
        size: bytes that they take, compressed.
        records: how many there are.
    """

    start: int
    data: int
    size: int
    records: int


def open_container(source: BinaryIO) -> Opening:
    """Read what stands before the first block.

    Raises:
        ValueError: it is no Avro file.
    """
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as an object container file")
    meta: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:  # then the size of this part follows
            count = -count
            _long(source)
        for _ in range(count):
            name = _bytes(source).decode()
            meta[name] = _bytes(source)
    codec = meta.get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is none of {', '.join(_CODECS)}")
    schema = json.loads(meta.get("avro.schema", b""))
    return Opening(schema, codec, _exactly(source, _SYNC), source.tell(), meta)


def find_blocks(source: BinaryIO, opening: Opening, start: int, end: int) -> Iterator[Block]:
    """Find the blocks before which a marker begins in a range of the file, without reading them.

    So every block is found in one of several ranges that cover the file.

    Raises:
        ValueError: there is something else, or the file is cut off.
    """
    at = _next_sync(source, opening.sync, max(start, opening.end - _SYNC), end)
    size = source.seek(0, io.SEEK_END)
    while at >= 0 and at < end and at + _SYNC < size:
        source.seek(start := at + _SYNC)
        records, length = _long(source), _long(source)
        block = Block(start, source.tell(), length, records)
        at = block.data + length
        if records < 0 or not 0 <= length <= _MOST_BLOCK:
            raise ValueError(f"at byte {start} stands no block")
        if at + _SYNC > size:
            raise ValueError("it is cut off")
        source.seek(at)
        if _exactly(source, _SYNC) != opening.sync:
            raise ValueError(f"the block at byte {start} does not end as it should")
        yield block


def _next_sync(source: BinaryIO, sync: bytes, start: int, end: int) -> int:
    """Where the first marker begins in a range; -1 if none does."""
    source.seek(start)
    held = b""
    while start < end and (data := source.read(_STEP)):
        held += data
        if (found := held.find(sync)) >= 0:
            return start + found if start + found < end else -1
        start += max(0, len(held) - _SYNC + 1)
        held = held[-_SYNC + 1 :]
    return -1


def unpack(source: BinaryIO, block: Block, codec: str, guard: ExpansionGuard) -> bytes:
    """A block's records, decompressed.

    Raises:
        ValueError: they are damaged.
        SourceError: they are too many bytes; see `ExpansionGuard`.
    """
    source.seek(block.data)
    data = _exactly(source, block.size)
    parts = []
    try:
        for part in _CODECS[codec](data):
            guard.add(len(part))
            parts.append(part)
    except (ValueError, SourceError):
        raise
    except Exception as error:  # each library has its own class
        raise ValueError(f"the block at byte {block.start} is damaged: {error}") from None
    return b"".join(parts)


def container(schema: Any, records: int, data: bytes) -> bytes:
    """A container file with one block, not compressed."""
    sync = bytes(_SYNC)
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
    pairs = [part for pair in meta.items() for text in pair for part in (_of(len(text)), text)]
    head = [_MAGIC, _of(len(meta)), *pairs, _of(0), sync]
    return b"".join([*head, _of(records), _of(len(data)), data, sync])


def _inflated(decoder: Any, data: bytes, *step: int) -> Iterator[bytes]:
    """What a decoder makes of data, a bounded part at a time."""
    while not decoder.eof:
        part = decoder.decompress(data, *step)
        data = getattr(decoder, "unconsumed_tail", b"")
        if not part and not decoder.eof:
            raise ValueError("a block's compression is cut off")
        yield part


def _deflate(data: bytes) -> Iterator[bytes]:
    return _inflated(zlib.decompressobj(-15), data, _STEP)


def _bzip2(data: bytes) -> Iterator[bytes]:
    return _inflated(bz2.BZ2Decompressor(), data, _STEP)


def _xz(data: bytes) -> Iterator[bytes]:
    return _inflated(lzma.LZMADecompressor(), data, _STEP)


def _zstandard(data: bytes) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as plain:
        while part := plain.read(_STEP):
            yield part


def _snappy(data: bytes) -> Iterator[bytes]:
    """Raw snappy, which begins with its size; behind it stands the checksum of what is in it."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MOST_BLOCK:
        raise ValueError(f"a block claims to be {size:,} bytes")
    plain = pa.decompress(data[:-_CRC], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-_CRC:], "big"):
        raise ValueError("a block's checksum is wrong")
    yield plain


_CODECS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "null": lambda data: iter((data,)),
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


def _of(number: int) -> bytes:
    """A number as Avro writes a long, if it is not negative.

    >>> _of(64).hex()
    '8001'
    """
    number <<= 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _long(source: BinaryIO) -> int:
    number = 0
    for place in range(_LONGEST):
        byte = _exactly(source, 1)[0]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError(f"at byte {source.tell()} stands no number")


def _bytes(source: BinaryIO) -> bytes:
    size = _long(source)
    if not 0 <= size <= _MOST_META:
        raise ValueError(f"its header claims to hold {size:,} bytes")
    return _exactly(source, size)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    if len(data) < size:
        raise ValueError("it is cut off")
    return data
