"""Compressed, encoded or remote input -> plain UTF-8 files that tasks can read by byte range."""

from __future__ import annotations

import codecs
import hashlib
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, cast

from lakeport.errors import SourceError
from lakeport.sources.inputs import compression_of, open_input

if TYPE_CHECKING:
    from lakeport.model import Storage

__all__ = [
    "COMPRESSIONS",
    "SourceFile",
    "digest_of",
    "is_plain",
    "is_utf8",
    "open_new",
    "spool_path",
    "spool_plain",
]

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
"""Suffixes that may stand behind a format's."""

_CHUNK = 1 << 20
_UTF8 = {"utf-8", "utf-8-sig", "ascii"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source. Picklable.

    Attributes:
        uri: a local path, or an object's URI.
        name: file name for messages and for the stream's name, without folders.
        format: `csv`, `tsv`, `json`, `jsonl`, `parquet` or `singer`; empty if the name tells none.
        bytes: size as stored.
        storage: where the object is; None for local files.
        key: its key in `storage`.
    """

    uri: str
    name: str
    format: str
    bytes: int
    storage: Storage | None = None
    key: str = ""

    def open(self) -> BinaryIO:
        """Open the file as stored.

        Raises:
            SourceError: it is absent or can't be read.
        """
        if self.storage is not None:
            return self.storage.open(self.key)
        try:
            return Path(self.uri).open("rb")
        except OSError as error:
            raise SourceError(
                f"file {self.uri!r} can't be read: {error.strerror}",
                "check that the file is there and that this user may read it.",
            ) from error


def is_plain(file: SourceFile) -> bool:
    """Whether a file can be read as it is, by byte range, from this machine's disk."""
    if file.storage is not None:
        return False
    with file.open() as source:
        return not _packed(source.read(8))


def _packed(head: bytes) -> str:
    return "zip" if head.startswith(b"PK\x03\x04") else compression_of(head)


@contextmanager
def _only_member(path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if len(members) != 1 or members[0].flag_bits & 1:
                raise SourceError(
                    f"archive {name!r} is encrypted, or holds {len(members)} files instead of one",
                    "unpack it into a folder and give that folder as the source.",
                )
            with archive.open(members[0]) as plain:
                yield cast("BinaryIO", plain)
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


def spool_plain(file: SourceFile, spool_dir: Path, number: int, encoding: str = "utf-8") -> Path:
    """Write a file's content, decompressed and as UTF-8, into `spool_dir` by streaming.

    Args:
        number: makes the name in `spool_dir` unique.

    Raises:
        SourceError: the file can't be read, or is not text in `encoding`.
    """
    stored = Path(file.uri)
    if file.storage is not None:
        stored = spool_path(spool_dir, number, f"stored-{file.name}")
        with file.open() as source, open_new(stored) as target:
            shutil.copyfileobj(source, target, _CHUNK)
    with file.open() as head:
        packed = _packed(head.read(8))
    suffix = PurePosixPath(file.name).suffix.lower() in COMPRESSIONS
    path = spool_path(spool_dir, number, PurePosixPath(file.name).stem if suffix else file.name)
    opened = _only_member(stored, file.name) if packed == "zip" else open_input(stored)
    with opened as plain, open_new(path) as target:
        for chunk in _recoded(plain, encoding, file.name):
            target.write(chunk)
    if file.storage is not None:
        stored.unlink()
    return path


def spool_path(spool_dir: Path, number: int, name: str) -> Path:
    """A new name in the spool folder; a task that runs again gets another one."""
    return spool_dir / f"{number:06d}-{secrets.token_hex(4)}-{name}"


def open_new(path: Path) -> BinaryIO:
    """Create a file that only this user can read; never follows a link, never overwrites."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=_CHUNK)


def _recoded(source: BinaryIO, encoding: str, name: str) -> Iterator[bytes]:
    if is_utf8(encoding):
        while chunk := source.read(_CHUNK):
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
        offset += len(chunk)
        if not chunk:
            return


def digest_of(files: Sequence[SourceFile]) -> str:
    """SHA-256, in hex, over the stored content of all files, in order.

    Raises:
        SourceError: a file can't be read.
    """
    total = hashlib.sha256()
    for file in files:
        size = 0
        with file.open() as source:
            while chunk := source.read(_CHUNK):
                total.update(chunk)
                size += len(chunk)
        total.update(f"\0{size}\0".encode())
    return total.hexdigest()
