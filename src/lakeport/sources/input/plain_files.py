"""Compressed, encoded or remote input -> plain UTF-8 files that tasks can read by byte range."""

from __future__ import annotations

import codecs
import re
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

if TYPE_CHECKING:
    from lakeport.sources.spool import SpoolLocation

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
"""Suffixes that may stand behind a format's."""

_CHUNK = 1 << 20
_UTF8 = {"utf-8", "utf-8-sig", "ascii"}

SAMPLE_BYTES = 1 << 20
"""How much of a file is looked at."""

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
    at = spool.new_name(
        number, (name.stem if name.suffix.lower() in COMPRESSIONS else name.name)[-80:]
    )
    size = 0
    with _plain(file, limits) as plain, spool.create_file(at) as target:
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


def encoding_of(sample: bytes) -> str:
    r"""The encoding of the text that begins with `sample`, as Python names it.

    What is neither marked nor UTF-8 nor UTF-16 with evident halves is Windows-1252 if all of it is
    what that is mostly used for: Western letters and signs, single ones among ASCII, and no word
    that mixes the letters of several languages. Otherwise it is left at UTF-8, which the reader
    will refuse.

    >>> [encoding_of(text) for text in ("né".encode(), b"n\xe9", "né".encode("utf-16-le"))]
    ['utf-8', 'cp1252', 'utf-16-le']
    """
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if b"\0" in sample:
        return _utf16(sample) or "utf-8"
    if not _is_utf8(sample) and likely_encoding(sample):
        return "cp1252"
    return "utf-8"


def _is_utf8(sample: bytes) -> bool:
    try:
        whole = len(sample) < SAMPLE_BYTES  # else the last character may be cut
        codecs.getincrementaldecoder("utf-8")("strict").decode(sample, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _utf16(sample: bytes) -> str:
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


def belied(encoding: str, sample: bytes) -> bool:
    r"""Whether a text can't be in `encoding`, although its bytes could be decoded so.

    UTF-16 and UTF-32 have a NUL in every line break. Where each character above ASCII is UTF-8, a
    text is no other one of single bytes.

    Args:
        encoding: any that Python knows.
        sample: the text's beginning.

    >>> belied("utf-16-le", b"a,b\n"), belied("cp1252", "é".encode()), belied("cp1252", b"\xe9")
    (True, True, False)
    """
    name = codecs.lookup(encoding).name
    if name.startswith(("utf-16", "utf-32")):
        return bool(sample) and b"\0" not in sample
    try:
        single = len(bytes(range(0x80, 0x100)).decode(name, "replace")) == 0x80
    except UnicodeError:
        return False
    return single and not sample.isascii() and _is_utf8(sample)


def likely_encoding(text: bytes) -> str:
    """`cp1252` if bytes that are not UTF-8 are plausible as that; else empty."""
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
    """Whether one language of Western Europe has all letters of a word."""
    letters = {letter for letter in word.lower() if letter > "\x7f"}
    return any(letters <= alphabet for alphabet in _ALPHABETS)
