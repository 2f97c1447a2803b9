"""Formats numbers and sizes for people, and parses sizes."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = ("", "k", "m", "g", "t")


def format_count(value: float | None) -> str:
    """Format a number with commas between thousands; `?` for None or a negative number.

    Example:
        >>> format_count(336776), format_count(2.5e6), format_count(None)
        ('336,776', '2,500,000', '?')
    """
    if value is None or value < 0:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def pluralize(value: float | None, thing: str) -> str:
    """Format a number with a noun, in the plural unless the number is 1.

    Example:
        >>> pluralize(1, "row"), pluralize(2000, "row"), pluralize(2, "batch")
        ('1 row', '2,000 rows', '2 batches')
    """
    plural = "es" if thing.endswith("ch") else "s"
    return f"{format_count(value)} {thing}{'' if value == 1 else plural}"


def format_size(value: float | None) -> str:
    """Format a size in bytes with its unit, B to TB; `?` for None or a negative size.

    Example:
        >>> format_size(999), format_size(8_123_456), format_size(999_999), format_size(-1)
        ('999 B', '8.1 MB', '1.0 MB', '?')
    """
    if value is None or value < 0:
        return "?"
    for unit in ("B", "KB", "MB", "GB"):
        if value < 999.95:  # more would be rounded to 1000.0
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def parse_size(text: str) -> int | None:
    """Parse a size in Spark's and Delta's format to bytes; return None for other text.

    Example:
        >>> parse_size("128mb"), parse_size("2 G"), parse_size("300"), parse_size("much")
        (134217728, 2147483648, 300, None)
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    return int(match[1]) << 10 * _UNITS.index(match[2].lower()) if match else None
