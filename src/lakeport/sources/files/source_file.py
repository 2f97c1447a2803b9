"""One file of a source, on a disk or in a store, and the format that its first bytes show."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.input.decompression import (
    UnpackLimits,
    detect_compression,
    is_archive,
    open_member,
)

if TYPE_CHECKING:
    from lakeport.model import Storage

_HEAD_BYTES = 512
_ARCHIVE = "archive"
_OLD_OFFICE = "xlsx"  # what reads it says what to do
_MAGIC = (
    (b"PAR1", "Parquet", "parquet"),
    (b"ORC", "ORC", "orc"),
    (b"ARROW1\0\0", "Arrow IPC", "arrow"),
    (b"Obj\x01", "Avro", "avro"),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", _ARCHIVE),
    (b"%PDF-", "a PDF document", ""),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Office 97 to 2003", _OLD_OFFICE),
)
_TEXTS = (
    (re.compile(rb"(?i)<(?:!doctype html|html|head|table)\b"), "an HTML page", ""),
    (re.compile(rb"<\?xml\s"), "XML", ""),
    (re.compile(rb'\{\s*"type"\s*:\s*"(?:SCHEMA|RECORD|STATE)"'), "Singer messages", "singer"),
    (re.compile(rb'(?:\[\s*)?\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}\s*[\],]?\s*\Z)'), "JSON", "json"),
)
_JSON = ("json", "jsonl")
_READ_AS_JSON = ("json", "singer")
_WORKBOOK = "xl/workbook.xml"

_CHUNK = 1 << 20
_CHECKED = UnpackLimits(0, 0)


def check_signature(file: SourceFile, *, texts: bool = True) -> None:
    """Raise SourceError if a file's first bytes show another format; `texts`: also text formats."""
    if file.member:
        return
    with file.open() as source:
        head = source.read(_HEAD_BYTES)
    name, format_ = _detect_format(head, file, texts=texts)
    if not name and file.format == "xlsx" and not (is_archive(head) or detect_compression(head)):
        raise SourceError(
            f"file {file.name!r} is no Excel workbook" if head else f"file {file.name!r} is empty",
            "get it again; or name its format with `--source-format` (`source_format=`), such as "
            "csv for text.",
        )
    if not name or format_ == file.format or (format_ in _READ_AS_JSON and file.format in _JSON):
        return
    if format_ == _ARCHIVE:
        raise SourceError(
            f"file {file.name!r} is {name}, and is to be read as {file.format}",
            "unpack it, and give the folder; a zip archive is read as it is.",
        )
    raise SourceError(
        f"file {file.name!r} holds {name}, and is to be read as {file.format}",
        f"`--source-format {format_}` (in Python, `source_format={format_!r}`) reads it as such."
        if format_
        else "get the data in one of the formats that can be read, such as CSV.",
    )


def _detect_format(head: bytes, file: SourceFile, *, texts: bool) -> tuple[str, str]:
    """Detect a format by first bytes; return its name in words and ours, both empty if unknown.

    The format is empty if no format of lakeport reads such a file.
    """
    if _is_tar(head):
        return "a tar archive", _ARCHIVE
    for magic, name, format_ in _MAGIC:
        if head.startswith(magic):
            return name, format_
    if is_archive(head) and file.storage is None and _is_workbook(file.uri):
        return "an Excel workbook", "xlsx"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, name, format_ in _TEXTS if texts else ():
        if pattern.match(text):
            return name, format_
    return "", ""


def _is_tar(head: bytes) -> bool:
    """Whether a file's first bytes are a tar header with a valid checksum."""
    import tarfile

    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _is_workbook(path: str) -> bool:
    """Whether a local zip archive is an Excel workbook; False if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _WORKBOOK in archive.namelist()
    except Exception:  # zipfile raises errors of many classes for damaged archives
        return False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source: its location, name, format and size. Picklable.

    Attributes:
        uri: a local path, or an object's URI.
        name: the file's name without folders, for messages and the stream's name; of a file in an
            archive `archive.zip!/path`.
        storage: the object's store; None for local files.
        folders: columns that its folders give, with their values (see `sources.files.folders`).
        encoding: the encoding of its text before it was spooled, if that was given or detected.
        member: the file's path in the zip archive `uri`; empty for files in no archive.
    """

    uri: str
    name: str
    format: str
    bytes: int
    storage: Storage | None = None
    key: str = ""
    folders: tuple[tuple[str, str | None], ...] = ()
    encoding: str = "utf-8"
    member: str = ""

    @property
    def path(self) -> str:
        """The file's path; of a file in an archive, its path in the folder of the archive."""
        return f"{self.uri.rpartition('/')[0]}/{self.member}" if self.member else self.uri

    def open(self, limits: UnpackLimits = _CHECKED) -> BinaryIO:
        """Open the stored bytes; an archive's file is unpacked, unseekable. SourceError on failure.

        Args:
            limits: the maximum size and expansion ratio of a file of an archive. Without them its
                size as the archive names it holds, which was checked when it was found.
        """
        if self.member:
            archive = replace(self, member="")
            return open_member(archive.open(), self.uri, self.member, limits)
        if self.storage is not None:
            return self.storage.open(self.key)
        try:
            return Path(self.uri).open("rb")
        except OSError as error:
            raise SourceError(
                f"file {self.uri!r} can't be read: {error.strerror}",
                "check that the file is there and that this user may read it.",
            ) from error

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Context manager: replace a spooled copy's URI by the file's name in SourceErrors."""
        try:
            yield
        except SourceError as error:
            if PurePosixPath(self.uri).name == PurePosixPath(self.name).name:
                raise
            raise SourceError(error.message.replace(self.uri, self.name), error.hint) from error

    def split(self, start: int, end: int, first_line: int) -> Split:
        """Make a split of bytes, or parts, `start` to `end`, exclusive; -1 is the file's end."""
        return Split(
            self.uri,
            start,
            end,
            first_line,
            storage=self.storage,
            key=self.key,
            folders=self.folders,
        )


def digest_files(files: Sequence[SourceFile]) -> str:
    """Read all files; return the SHA-256, in hex, of their stored bytes and folders, in order."""
    total = hashlib.sha256()
    for file in files:
        size = 0
        with file.open() as source:
            while chunk := source.read(_CHUNK):
                total.update(chunk)
                size += len(chunk)
        total.update(f"\0{size}\0".encode())
        total.update("".join(f"{name}={value}\0" for name, value in file.folders).encode())
    return total.hexdigest()
