"""Texts, whose positions and lengths are of code points."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark

__all__ = [
    "concatenated",
    "contains",
    "ends_with",
    "length",
    "like",
    "lower",
    "matches",
    "part",
    "replaced",
    "starts_with",
    "trimmed",
    "trimmed_left",
    "trimmed_right",
    "upper",
]

_SPACE = " "  # Spark trims nothing else


def upper(texts: Any) -> Any:
    """`upper`."""
    return pc.ascii_upper(_ascii(texts))


def lower(texts: Any) -> Any:
    """`lower`."""
    return pc.ascii_lower(_ascii(texts))


def trimmed(texts: Any) -> Any:
    """`trim`."""
    return pc.utf8_trim(texts, _SPACE)


def trimmed_left(texts: Any) -> Any:
    """`ltrim`."""
    return pc.utf8_ltrim(texts, _SPACE)


def trimmed_right(texts: Any) -> Any:
    """`rtrim`."""
    return pc.utf8_rtrim(texts, _SPACE)


def length(texts: Any) -> Any:
    """`length`."""
    return pc.utf8_length(texts).cast(pa.int32())


def part(texts: Any, start: pa.Scalar, size: pa.Scalar) -> Any:
    """`substring` from a place, the first being 1, of at most so many characters."""
    first = max(0, start.as_py() - 1)
    return pc.utf8_slice_codeunits(texts, first, first + size.as_py())


def concatenated(*texts: Any) -> Any:
    """`||`: null where one is."""
    return pc.binary_join_element_wise(*texts, "")


def replaced(texts: Any, old: pa.Scalar, new: pa.Scalar) -> Any:
    """`replace` of a text that is not empty."""
    return pc.replace_substring(texts, pattern=old.as_py(), replacement=new.as_py())


def contains(texts: Any, sought: pa.Scalar) -> Any:
    """`contains`."""
    return pc.match_substring(texts, sought.as_py())


def starts_with(texts: Any, sought: pa.Scalar) -> Any:
    """`startswith`."""
    return pc.starts_with(texts, sought.as_py())


def ends_with(texts: Any, sought: pa.Scalar) -> Any:
    """`endswith`."""
    return pc.ends_with(texts, sought.as_py())


def like(texts: Any, pattern: pa.Scalar) -> Any:
    """`LIKE` a pattern without escapes."""
    return pc.match_like(texts, pattern.as_py())


def matches(texts: Any, pattern: pa.Scalar) -> Any:
    """Whether a whole text matches a regular expression that means the same everywhere."""
    return pc.match_substring_regex(texts, rf"\A(?:{pattern.as_py()})\z")


def _ascii(texts: Any) -> Any:
    """The texts, whose upper and lower case depends on no version of Unicode's tables."""
    plain = pc.string_is_ascii(texts)
    if plain.as_py() is False if isinstance(plain, pa.Scalar) else pc.any(pc.invert(plain)).as_py():
        raise NeedsSpark("a text that is not in ASCII")
    return texts
