"""Spark SQL: frames, queries and names in them."""


def quoted(name: str) -> str:
    """Return a name, of a column, view or path, as Spark SQL takes it whatever is in it.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
