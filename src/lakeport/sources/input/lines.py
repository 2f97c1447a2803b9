"""Whole lines out of a stream, many at a time, in one buffer of bounded size."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

_CHUNK = 8 << 20
_HEAD_BYTES = 4096

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


class LineBlock(NamedTuple):
    """Some whole lines of the input, valid until the next block is asked for.

    Attributes:
        data: a buffer that starts with these lines.
        end: where they end, right behind a newline.
        cut_off: the input ended without a newline behind the last of them; one was added.
        too_long: the first bytes of a line longer than the limit, which stands here alone and was
            skipped; None for an ordinary block.
    """

    data: bytearray
    end: int
    cut_off: bool = False
    too_long: bytes | None = None


def read_blocks(stream: BinaryIO, max_line: int, chunk: int = _CHUNK) -> Iterator[LineBlock]:
    """Read a stream as blocks of whole lines; what is in them depends on how the reads fall.

    The buffer holds one line of the limit at most, so a complete line in it is never longer.

    Args:
        stream: binary, with `readinto1`, `readinto` or `read`.
        max_line: the longest line, in bytes, its newline not counted.
        chunk: usual size of the buffer in bytes.
    """
    usual = min(chunk, max_line + 1)
    fill = filler(stream)
    data = bytearray(usual)
    held = 0
    skipping = False
    while got := _fill_from(fill, data, held):
        total = held + got
        end = (data.find if skipping else data.rfind)(b"\n", held, total) + 1
        if skipping:
            if not end:
                continue
            skipping = False
            data[: total - end] = data[end:total]
            total -= end
            end = data.rfind(b"\n", 0, total) + 1
        if end:
            yield LineBlock(data, end)
        held = total - end
        data = _keep(data, end, total, usual)
        if held > max_line:
            yield LineBlock(data, 0, too_long=bytes(data[:_HEAD_BYTES]))
            skipping, held = True, 0
        elif held == len(data):
            data.extend(bytes(min(len(data), max_line + 1 - len(data))))
    if held:
        data[held] = 0x0A
        yield LineBlock(data, held + 1, cut_off=True)


def _keep(data: bytearray, start: int, stop: int, usual: int) -> bytearray:
    """Move the begun line to the front, into a buffer of the usual size when it fits again."""
    if len(data) > usual and stop - start < usual:
        smaller = bytearray(usual)
        smaller[: stop - start] = data[start:stop]
        return smaller
    if start:
        data[: stop - start] = data[start:stop]
    return data


def filler(stream: BinaryIO) -> Callable[[memoryview], int | None]:
    """The way to fill a buffer from a stream with what is there; it gives 0 at the end."""
    for name in ("readinto1", "readinto"):
        if method := getattr(stream, name, None):
            return method  # type: ignore[no-any-return]

    def fill(view: memoryview) -> int:
        got = stream.read(len(view))
        view[: len(got)] = got
        return len(got)

    return fill


def _fill_from(fill: Callable[[memoryview], int | None], data: bytearray, start: int) -> int:
    with memoryview(data) as whole, whole[start:] as view:
        return fill(view) or 0


def count_lines(data: bytes | bytearray, start: int, stop: int) -> int:
    """Count the newlines in a part of a buffer."""
    return data.count(b"\n", start, stop)


def line_end(data: bytes | bytearray, start: int, stop: int, lines: int) -> int:
    r"""Find where the `lines`-th line from `start` ends.

    >>> line_end(b"a\nbb\nccc\n", 0, 9, 2)
    5

    Raises:
        ValueError: the part has fewer lines.
    """
    for _ in range(lines):
        start = data.index(b"\n", start, stop) + 1
    return start


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
