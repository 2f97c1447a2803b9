"""Compressed, encoded or remote input -> plain UTF-8 files that tasks can read by byte range."""

from __future__ import annotations

import codecs
import io
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from lakeport.errors import SourceError
from lakeport.host.activity import advance
from lakeport.host.scratch import scratch
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import compression_of, open_input
from lakeport.sources.input.unpacking import ExpansionGuard, UnpackLimits

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lakeport.sources.spool.location import SpoolLocation

__all__ = [
    "COMPRESSIONS",
    "is_packed",
    "is_utf8",
    "spool_plain",
]

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
"""Suffixes that may stand behind a format's."""

_CHUNK = 1 << 20
_UTF8 = {"utf-8", "utf-8-sig", "ascii"}


def is_packed(file: SourceFile) -> bool:
    """Whether a file is compressed, so that it can't be read by byte range.

    Raises:
        SourceError: it is absent or can't be read.
    """
    with file.open() as source:
        return bool(_packed(source.read(8)))


def _packed(head: bytes) -> str:
    return "zip" if head.startswith(b"PK\x03\x04") else compression_of(head)


class _Member(io.RawIOBase):
    """The content of an archive's member, as far as the limits let it go."""

    def __init__(self, plain: IO[bytes], guard: ExpansionGuard) -> None:
        self._plain = plain
        self._guard = guard

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        data = self._plain.read(len(memoryview(buffer)))
        self._guard.add(len(data))
        memoryview(buffer)[: len(data)] = data
        return len(data)


@contextmanager
def _only_member(path: Path, limits: UnpackLimits) -> Iterator[BinaryIO]:
    name = path.name
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if len(members) != 1 or members[0].flag_bits & 1:
                raise SourceError(
                    f"archive {name!r} is encrypted, or holds {len(members)} files instead of one",
                    "unpack it into a folder and give that folder as the source.",
                )
            if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python's zipfile unpacks the other methods without a bound: bzip2 makes gigabytes
                # of the 4 KiB that it takes at a time.
                raise SourceError(
                    f"archive {name!r} is compressed with method {members[0].compress_type}, not "
                    "with deflate",
                    "unpack it and give the file, or compress that with gzip, zstd, bzip2 or xz.",
                )
            with archive.open(members[0]) as plain:
                guard = ExpansionGuard(str(path), limits, packed=path.stat().st_size)
                yield cast("BinaryIO", io.BufferedReader(_Member(plain, guard), _CHUNK))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceError(
            f"archive {name!r} is damaged or cut off: {error}", "get the file again."
        ) from error


def is_utf8(encoding: str) -> bool:
    """Whether text in `encoding` can be read as UTF-8 without transcoding.

    >>> is_utf8("UTF8"), is_utf8("latin-1")
    (True, False)
    """
    return codecs.lookup(encoding).name in _UTF8


def spool_plain(
    file: SourceFile, spool: SpoolLocation, number: int, encoding: str, limits: UnpackLimits
) -> SourceFile:
    """Write a file's content, decompressed and as UTF-8, to the spool by streaming.

    Args:
        number: makes the name in the spool unique.
        encoding: the content's encoding, as Python names it.
        limits: what a compressed file may become.

    Raises:
        SourceError: the file can't be read, is not text in `encoding`, or goes beyond the limits.
        DestinationError: the spool's store refuses.
    """
    suffix = PurePosixPath(file.name).suffix.lower() in COMPRESSIONS
    at = spool.new(number, PurePosixPath(file.name).stem if suffix else file.name)
    size = 0
    with _stored(file, spool) as stored:
        with stored.open("rb") as head:
            packed = _packed(head.read(8))
        opener = _only_member if packed == "zip" else open_input
        with opener(stored, limits) as plain, spool.create(at) as target:
            for chunk in _recoded(plain, encoding, file.name):
                size += len(chunk)
                target.write(chunk)
    storage = spool.storage
    uri, key = (at, "") if storage is None else (storage.uri(at), at)
    return replace(file, uri=uri, bytes=size, storage=storage, key=key)


@contextmanager
def _stored(file: SourceFile, spool: SpoolLocation) -> Iterator[Path]:
    """A local path of a file as it is stored; a copy of it where it lies in a store."""
    if file.storage is None:
        yield Path(file.uri)
        return
    folder = spool.folder if spool.storage is None else None
    with scratch("stored", folder) as copies:
        path = copies / PurePosixPath(file.name).name
        with file.open() as source, path.open("xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
        yield path


def _recoded(source: BinaryIO, encoding: str, name: str) -> Iterator[bytes]:
    if is_utf8(encoding):
        while chunk := source.read(_CHUNK):
            advance(len(chunk))
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    offset = 0
    while True:
        chunk = source.read(_CHUNK)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            at = offset + getattr(error, "start", 0)
            raise SourceError(
                f"file {name!r} is not {encoding} text near byte {at}",
                "name the file's encoding, for example `encoding: latin-1`.",
            ) from error
        yield text.encode("utf-8")
        advance(len(chunk))
        offset += len(chunk)
        if not chunk:
            return
