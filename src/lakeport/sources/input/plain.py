"""Compressed, encoded or remote input -> plain UTF-8 files that tasks can read by byte range."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import SourceError
from lakeport.host.activity import advance
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import (
    UnpackLimits,
    compression_of,
    is_archive,
    members,
    open_member,
    open_stream,
)
from lakeport.sources.input.lines import SAMPLE_BYTES, belied, encoding_of, likely_encoding

if TYPE_CHECKING:
    from lakeport.sources.spool import SpoolLocation

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
"""Suffixes that may stand behind a format's."""

_CHUNK = 1 << 20
_UTF8 = {"utf-8", "utf-8-sig", "ascii"}


def is_packed(file: SourceFile) -> bool:
    """Whether a file is compressed or in an archive, so that it can't be read by byte range.

    Raises:
        SourceError: it is absent or can't be read.
    """
    if file.member:
        return True
    with file.open() as source:
        head = source.read(8)
    return is_archive(head) or bool(compression_of(head))


def _only_member(archive: BinaryIO, file: SourceFile, limits: UnpackLimits) -> BinaryIO:
    """The content of an archive that is not named as one, and so has to be one file."""
    name = PurePosixPath(file.name).name
    found = members(archive, name, limits)
    if len(found) != 1:
        raise SourceError(
            f"archive {name!r} holds {len(found)} files instead of one",
            "call it `.zip`, and all of them are landed.",
        )
    return open_member(archive, file.uri, found[0].path, limits)


def stored_encoding(file: SourceFile) -> str:
    """The encoding of a file that is not compressed, as its beginning tells.

    Raises:
        SourceError: it is absent or can't be read.
    """
    with file.open() as source:
        return encoding_of(source.read(SAMPLE_BYTES))


def is_utf8(encoding: str) -> bool:
    """Whether text in `encoding` can be read as UTF-8 without transcoding.

    >>> is_utf8("UTF8"), is_utf8("latin-1")
    (True, False)
    """
    return codecs.lookup(encoding).name in _UTF8


def spool_plain(
    file: SourceFile,
    spool: SpoolLocation,
    number: int,
    encoding: str | None,
    limits: UnpackLimits,
) -> SourceFile:
    """Write a file's content, decompressed and as UTF-8, to the spool by streaming.

    Args:
        number: makes the name in the spool unique.
        encoding: the content's encoding, as Python names it; None to find it out.
        limits: what a compressed file may become.

    Raises:
        SourceError: the file can't be read, is not text in `encoding`, or goes beyond the limits.
        DestinationError: the spool's store refuses.
    """
    name = PurePosixPath(file.name)
    at = spool.new(number, (name.stem if name.suffix.lower() in COMPRESSIONS else name.name)[-80:])
    size = 0
    with _plain(file, limits) as plain, spool.create(at) as target:
        begin = b"" if encoding is not None and is_utf8(encoding) else _beginning(plain)
        if encoding is not None and belied(encoding, begin):
            raise SourceError(
                f"file {file.name!r} is {encoding_of(begin)} text, and not {encoding}",
                "name the right encoding with `--encoding`, or leave it out to have it found out.",
            )
        encoding = encoding or encoding_of(begin)
        for chunk in _recoded(begin, plain, encoding, file.name):
            size += len(chunk)
            target.write(chunk)
    storage = spool.storage
    uri, key = (at, "") if storage is None else (storage.uri(at), at)
    return replace(
        file, uri=uri, bytes=size, storage=storage, key=key, member="", encoding=encoding
    )


@contextmanager
def _plain(file: SourceFile, limits: UnpackLimits) -> Iterator[BinaryIO]:
    """A file's content, unpacked."""
    with file.open(limits) as stored:
        packed = False
        if not file.member:
            packed = is_archive(stored.read(8))
            stored.seek(0)
        name = file.name if file.member else file.uri
        opened = _only_member(stored, file, limits) if packed else open_stream(stored, name, limits)
        with opened as plain:
            yield plain


def _beginning(source: BinaryIO) -> bytes:
    """As many bytes as an encoding is told by, or all there are."""
    begin = b""
    while len(begin) < SAMPLE_BYTES and (chunk := source.read(SAMPLE_BYTES - len(begin))):
        begin += chunk
    return begin


def _recoded(begin: bytes, source: BinaryIO, encoding: str, name: str) -> Iterator[bytes]:
    """What was read already and what follows, as UTF-8."""
    if is_utf8(encoding):
        if begin:
            yield begin
        while chunk := source.read(_CHUNK):
            advance(len(chunk))
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    offset = 0
    while True:
        chunk, begin = begin or source.read(_CHUNK), b""
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            at = offset + getattr(error, "start", 0)
            raise SourceError(
                f"file {name!r} is not {encoding} text near byte {at}",
                "name the file's encoding with `--encoding`, such as "
                f"{likely_encoding(chunk) or 'utf-8'}.",
            ) from error
        yield text.encode("utf-8")
        advance(len(chunk))
        offset += len(chunk)
        if not chunk:
            return
