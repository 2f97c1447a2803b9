"""Detect encodings, and copy files as uncompressed UTF-8 that tasks can read by byte range."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from lakeport.errors import SourceError
from lakeport.host.activity import add_progress
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import (
    UnpackLimits,
    detect_compression,
    is_archive,
    list_members,
    open_member,
    open_stream,
)

if TYPE_CHECKING:
    from lakeport.sources.spool import SpoolLocation

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
"""Suffixes of compressed files, which may follow the suffix of a format."""

_CHUNK = 1 << 20
_UTF8 = {"utf-8", "utf-8-sig", "ascii"}

SAMPLE_BYTES = 1 << 20
"""Bytes at the start of a text by which its encoding is detected."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as UTF-16's does
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EVIDENT = 0.4  # of the bytes of one half are NUL in UTF-16 of mostly Latin letters
_WESTERN = (
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüŒœŠšŽž"
    "€£¥§°º\u00aa²³µ±½¼¾·¡¿©®™«»‹›\u2018\u2019\u201a\u201c\u201d\u201e\u2013\u2014•…´¨\u00a0"
)
_BETWEEN_LETTERS = re.compile(r"[A-Za-z][²³¹µ±½¼¾¡¿©®£¥][a-z]|[¿¡][a-z]?[³¹¿]")
_MISPLACED = re.compile(  # as letters of MS-DOS or of a Mac look, such as ö and é: K”ln, Ren‚, pŠre
    r"[A-Za-z][\u201a\u201e]|[A-Za-z][\u2039\u203a\u201c\u201d\u2022™][A-Za-z]|[a-z][ŠŒŽ]"
    r"|[A-Z][ŠŒŽ][a-z]|™[A-Za-z]"
)
_HUNGARIAN = re.compile(r"õ(?!e)")  # beside û, these are the ő and ű of another encoding
_WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿŒœŠšŽž]+")
_ALPHABETS = (
    tuple(  # letters that stand in one word: no Dvoøák, which is Dvořák in another encoding
        frozenset(letters)
        for letters in (
            "äöüßéèàáóç",
            "àâäçèéêëîïôöœùûü",
            "áéíïóúüñàèòç",
            "áâãàçéêíóôõúü",
            "àèéìíîòóùú",
            "åäöéàü",
            "æøåéóòôäöü",
            "áéíóúæöý",
            "äöõüšž",
        )
    )
)
_HIGH_RUN = re.compile(r"[^\x00-\x7f\u00a0\u2013\u2014\u2018-\u201e…]{3,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f\x7f]")
_FEW = 0.1


def is_packed(file: SourceFile) -> bool:
    """Whether a file is compressed or in an archive; raise SourceError if it can't be read.

    Such a file can't be read by byte range.
    """
    if file.member:
        return True
    with file.open() as source:
        head = source.read(8)
    return is_archive(head) or bool(detect_compression(head))


def _open_only_member(archive: BinaryIO, file: SourceFile, limits: UnpackLimits) -> BinaryIO:
    """Open the only file of a zip archive; raise SourceError if there are several, or none.

    The archive's name does not end in `.zip`.
    """
    name = PurePosixPath(file.name).name
    found = list_members(archive, name, limits)
    if len(found) != 1:
        raise SourceError(
            f"archive {name!r} holds {len(found)} files instead of one",
            "rename it to end in `.zip`, and all of them are landed.",
        )
    return open_member(archive, file.uri, found[0].filename, limits)


def detect_stored_encoding(file: SourceFile) -> str:
    """Detect an uncompressed file's encoding by its first MiB; SourceError if it can't be read."""
    with file.open() as source:
        return detect_encoding(source.read(SAMPLE_BYTES))


def is_utf8(encoding: str) -> bool:
    """Whether text in `encoding` can be read as UTF-8 without transcoding.

    >>> is_utf8("UTF8"), is_utf8("latin-1")
    (True, False)
    """
    return codecs.lookup(encoding).name in _UTF8


def spool_plain(
    file: SourceFile,
    spool: SpoolLocation,
    file_number: int,
    encoding: str | None,
    limits: UnpackLimits,
) -> SourceFile:
    """Copy a file to the spool, decompressed and as UTF-8; return the copy as a SourceFile.

    Args:
        file_number: the file's number in the load, for the copy's name.
        encoding: the content's encoding, as Python names it; None to detect it.

    Raises:
        SourceError: the file can't be read, is not text in `encoding`, or exceeds the limits.
        DestinationError: the spool's store refuses.
    """
    name = PurePosixPath(file.name)
    at = spool.new_name(
        file_number, (name.stem if name.suffix.lower() in COMPRESSIONS else name.name)[-80:]
    )
    size = 0
    with _open_unpacked(file, limits) as plain, spool.create_file(at) as target:
        begin = b"" if encoding is not None and is_utf8(encoding) else plain.read(SAMPLE_BYTES)
        if encoding is not None and contradicts_encoding(encoding, begin):
            raise SourceError(
                f"file {file.name!r} is {detect_encoding(begin)} text, and not {encoding}",
                "name the right encoding with `--encoding`, or leave it out to have it found out.",
            )
        encoding = encoding or detect_encoding(begin)
        for chunk in _transcode(begin, plain, encoding, file.name):
            size += len(chunk)
            target.write(chunk)
    storage = spool.storage
    uri, key = (at, "") if storage is None else (storage.uri(at), at)
    return replace(
        file, uri=uri, bytes=size, storage=storage, key=key, member="", encoding=encoding
    )


@contextmanager
def _open_unpacked(file: SourceFile, limits: UnpackLimits) -> Iterator[BinaryIO]:
    """Context manager: open a file decompressed, or a zip archive's only file, else SourceError."""
    with file.open(limits) as stored:
        packed = False
        if not file.member:
            packed = is_archive(stored.read(8))
            stored.seek(0)
        name = file.name if file.member else file.uri
        opened = (
            _open_only_member(stored, file, limits) if packed else open_stream(stored, name, limits)
        )
        with opened as plain:
            yield plain


def _transcode(head: bytes, source: BinaryIO, encoding: str, name: str) -> Iterator[bytes]:
    """Yield `head` and the rest of `source` as UTF-8; raise SourceError for undecodable bytes.

    UTF-8 is not decoded. `name` is the file's in the error.
    """
    if is_utf8(encoding):
        if head:
            yield head
        while chunk := source.read(_CHUNK):
            add_progress(len(chunk))
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    offset = 0
    while True:
        chunk, head = head or source.read(_CHUNK), b""
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            at = offset + getattr(error, "start", 0)
            raise SourceError(
                f"file {name!r} is not {encoding} text near byte {at}",
                "name the file's encoding with `--encoding`, such as "
                f"{guess_western_encoding(chunk) or 'utf-8'}.",
            ) from error
        yield text.encode("utf-8")
        add_progress(len(chunk))
        offset += len(chunk)
        if not chunk:
            return


def detect_encoding(sample: bytes) -> str:
    r"""Return the encoding of the text that begins with `sample`; `utf-8` if none is certain.

    A byte order mark, valid UTF-8, or NULs in every other byte (UTF-16) decide. Other text is
    Windows-1252 if it looks like a Western language in it: single Western letters and signs among
    ASCII, and no word that mixes letters of several languages. Otherwise UTF-8 is returned, and
    the reader refuses the text.

    >>> [detect_encoding(text) for text in ("né".encode(), b"n\xe9", "né".encode("utf-16-le"))]
    ['utf-8', 'cp1252', 'utf-16-le']
    """
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if b"\0" in sample:
        return _detect_utf16(sample) or "utf-8"
    if not _is_utf8(sample) and guess_western_encoding(sample):
        return "cp1252"
    return "utf-8"


def _is_utf8(sample: bytes) -> bool:
    """Whether a sample is valid UTF-8; a full sample may end in the middle of a character."""
    try:
        whole = len(sample) < SAMPLE_BYTES
        codecs.getincrementaldecoder("utf-8")("strict").decode(sample, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _detect_utf16(sample: bytes) -> str:
    """Return `utf-16-le` or `utf-16-be` for UTF-16 without a byte order mark; else empty."""
    halves = sample[0::2], sample[1::2]
    even, odd = (half.count(0) / max(1, len(half)) for half in halves)
    for encoding, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if high > _EVIDENT and low == 0:
            try:
                codecs.getincrementaldecoder(encoding)("strict").decode(sample)
            except UnicodeDecodeError:
                continue
            return encoding
    return ""


def contradicts_encoding(encoding: str, sample: bytes) -> bool:
    r"""Whether `sample` rules `encoding` out: UTF-16/32 without NULs, 8-bit for valid UTF-8.

    UTF-16 and UTF-32 have a NUL in every line break. Text whose bytes beyond ASCII are all valid
    UTF-8 is in no encoding of single bytes.

    >>> contradicts_encoding("utf-16-le", b"a,b\n"), contradicts_encoding("cp1252", "é".encode())
    (True, True)
    >>> contradicts_encoding("cp1252", b"\xe9")
    False
    """
    name = codecs.lookup(encoding).name
    if name.startswith(("utf-16", "utf-32")):
        return bool(sample) and b"\0" not in sample
    try:
        single = len(bytes(range(0x80, 0x100)).decode(name, "replace")) == 0x80
    except UnicodeError:
        return False
    return single and not sample.isascii() and _is_utf8(sample)


def guess_western_encoding(text: bytes) -> str:
    """Return `cp1252` if bytes look like Western European text; empty for UTF-8 or others."""
    known = text.decode("utf-8", "surrogateescape")
    strange = sum(1 for c in known if "\udc80" <= c <= "\udcff")
    proper = sum(1 for c in known if c > "\x7f") - strange
    if strange == 0 or proper > _FEW * strange:
        return ""  # UTF-8 with broken records
    try:
        western = text.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    if not set(filter(lambda c: c > "\x7f", western)) <= set(_WESTERN):
        return ""
    odd = [_CONTROLS, _BETWEEN_LETTERS, _MISPLACED, _HIGH_RUN]
    odd += [_HUNGARIAN] * ("û" in western)
    if any(pattern.search(western) for pattern in odd):
        return ""
    return "cp1252" if all(map(_is_western, set(_WORD.findall(western)))) else ""


def _is_western(word: str) -> bool:
    """Whether one language of Western Europe has all letters of a word; True for ASCII alone."""
    letters = {letter for letter in word.lower() if letter > "\x7f"}
    return any(letters <= alphabet for alphabet in _ALPHABETS)
