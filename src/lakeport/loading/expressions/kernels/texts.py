"""Texts, whose positions and lengths are of code points."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.loading.expressions.bound import NeedsSpark
from lakeport.loading.expressions.kernels.datum import any_true

__all__ = [
    "concatenated",
    "contains",
    "ends_with",
    "finds",
    "joined",
    "length",
    "like",
    "lower",
    "matches",
    "part",
    "replaced",
    "replaced_matches",
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


def joined(separator: pa.Scalar, *texts: Any) -> Any:
    """`concat_ws`: nulls are left out."""
    # Arrow's own way to leave out nulls loses rows that have nothing else.
    behind = (pc.binary_join_element_wise(separator, text, "") for text in texts)
    found = pc.binary_join_element_wise(*(pc.fill_null(one, "") for one in behind), "")
    return pc.utf8_slice_codeunits(found, len(separator.as_py()))


def replaced_matches(texts: Any, pattern: pa.Scalar, new: pa.Scalar) -> Any:
    """`regexp_replace` by a pattern that means the same everywhere, and matches no empty text."""
    return pc.replace_substring_regex(texts, pattern=pattern.as_py(), replacement=new.as_py())


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


def finds(texts: Any, pattern: pa.Scalar) -> Any:
    """Whether a regular expression that means the same everywhere is found in a text."""
    return pc.match_substring_regex(texts, pattern.as_py())


def matches(texts: Any, pattern: pa.Scalar) -> Any:
    """Whether a whole text matches a regular expression that means the same everywhere."""
    return pc.match_substring_regex(texts, rf"\A(?:{pattern.as_py()})\z")


def _ascii(texts: Any) -> Any:
    """The texts, whose upper and lower case depends on no version of Unicode's tables."""
    if any_true(pc.invert(pc.string_is_ascii(texts))):
        raise NeedsSpark("a text that is not in ASCII")
    return texts
