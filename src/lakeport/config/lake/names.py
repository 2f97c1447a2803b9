"""Which tables and columns a query names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tables_of(sql: str) -> tuple[str, ...]:
    """The tables that Spark SQL reads, each once: no CTEs, no functions, no parts of paths.

    Where the text can't be read, which Spark will tell better, every word of it counts: then a load
    may wait for one that it does not use.

    Example:
        >>> tables_of("WITH a AS (SELECT 'FROM x' FROM flights) SELECT * FROM a JOIN `b-c` -- d")
        ('flights', 'b-c')
    """
    import sqlglot  # takes a tenth of a second, and few files have queries

    try:
        return tuple(dict.fromkeys(_read(sqlglot.parse_one(sql, read="spark"))))
    except sqlglot.errors.SqlglotError:
        pass
    try:
        return tuple(dict.fromkeys(token.text for token in sqlglot.tokenize(sql, read="spark")))
    except sqlglot.errors.SqlglotError:
        return ()


def columns_of_query(sql: str) -> tuple[str, ...] | None:
    """Names in a query that may be columns of what it reads; None where the text can't be read.

    Example:
        >>> columns_of_query("SELECT s.id, upper(name) AS n FROM source s")
        ('s', 'id', 'name')
    """
    import sqlglot

    try:
        query = sqlglot.parse_one(sql, read="spark")
    except sqlglot.errors.SqlglotError:
        return None
    columns = query.find_all(sqlglot.exp.Column)
    names = (part.name for column in columns for part in column.parts if part.name != "*")
    return tuple({name.lower(): name for name in names}.values())


def _read(query: Any) -> Iterator[str]:
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(query):
        own = {name.casefold() for name in scope.cte_sources}
        for table in scope.tables:
            if table.name and (table.db or table.name.casefold() not in own):
                yield f"{table.db}.{table.name}" if table.db else table.name
