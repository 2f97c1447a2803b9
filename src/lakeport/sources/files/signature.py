"""What a file is by its first bytes, where its name says otherwise."""

from __future__ import annotations

import re
import tarfile
import zipfile

from lakeport.errors import SourceError
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import compression_of, is_archive

_BYTES = 512
_ARCHIVE = "archive"
_OLD = "xlsx"  # what reads it says what to do
_MAGIC = (
    (b"PAR1", "Parquet", "parquet"),
    (b"ORC", "ORC", "orc"),
    (b"ARROW1\0\0", "Arrow IPC", "arrow"),
    (b"Obj\x01", "Avro", "avro"),
    (b"SQLite format 3\0", "an SQLite database", ""),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", _ARCHIVE),
    (b"%PDF-", "a PDF document", ""),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Office 97 to 2003", _OLD),
)
_TEXTS = (
    (re.compile(rb"(?i)<(?:!doctype html|html|head|table)\b"), "an HTML page", ""),
    (re.compile(rb"<\?xml\s"), "XML", ""),
    (re.compile(rb'\{\s*"type"\s*:\s*"(?:SCHEMA|RECORD|STATE)"'), "Singer messages", "singer"),
    (re.compile(rb'(?:\[\s*)?\{\s*(?:"(?:[^"\\]|\\.)*"\s*:|\}\s*[\],]?\s*\Z)'), "JSON", "json"),
)
_JSON = ("json", "jsonl")
_TOLD = ("json", "singer")  # may be read as any JSON
_WORKBOOK = "xl/workbook.xml"


def check_signature(file: SourceFile, *, texts: bool = True) -> None:
    """See that a file does not begin as one of another format.

    Args:
        file: as it is stored, or unpacked; one that is compressed or in an archive tells nothing.
        texts: whether to look for other formats of text, too.

    Raises:
        SourceError: it does, or it can't be read.
    """
    if file.member:
        return
    with file.open() as source:
        head = source.read(_BYTES)
    name, format_ = _told(head, file, texts=texts)
    if not name and file.format == "xlsx" and not (is_archive(head) or compression_of(head)):
        raise SourceError(
            f"file {file.name!r} is no Excel workbook" if head else f"file {file.name!r} is empty",
            "get it again; or name its format with `--source-format` (`source_format=`), such as "
            "csv for text.",
        )
    if not name or format_ == file.format or (format_ in _TOLD and file.format in _JSON):
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


def _told(head: bytes, file: SourceFile, *, texts: bool) -> tuple[str, str]:
    """What a file is, and the format that reads it; empty where its first bytes don't tell."""
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
    """Whether the first block is the header of a tar archive, by its checksum."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _is_workbook(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return _WORKBOOK in archive.namelist()
    except Exception:  # what zipfile meets in damaged archives it does not foresee
        return False
