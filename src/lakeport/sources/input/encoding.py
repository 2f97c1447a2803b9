"""The encoding of a text file, as its beginning tells it; UTF-8 where nothing else is evident."""

from __future__ import annotations

import codecs
import re

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
