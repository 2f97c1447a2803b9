"""Names in SQL text."""

from __future__ import annotations

__all__ = ["quoted"]


def quoted(name: str) -> str:
    """One name, of a column, view or path, as Spark SQL takes it whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
