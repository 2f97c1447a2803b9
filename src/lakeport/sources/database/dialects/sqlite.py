"""SQLite: a column's type is a wish, so that each value is asked for its own.

The driver takes a column's type from its first rows: a row of constants goes before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.schema.types import check_names
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted
from lakeport.sources.database.dialects.base import Dialect, absent, query_of

_KINDS: Final = ("integer", "real", "text", "blob")
_EXACT: Final = 1 << 53
"""Up to here a double holds every whole number."""
_WHOLE: Final = pa.int64()
_SAMPLE: Final = {
    _WHOLE: "0",
    pa.bool_(): "0",
    pa.float64(): "0.5",
    pa.string(): "''",
    pa.binary(): "x''",
    pa.json_(): "''",
}


class Sqlite(Dialect):
    """See the module."""

    def relation(self, session: Session, table: str, query: str) -> str:
        """See `Dialect.relation`."""
        if query:
            return query_of(query)
        known = [
            row[0]
            for row in session.rows(
                "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE "
                "'sqlite_%'"
            )
        ]
        if table not in known:
            raise absent(table, known)
        return quoted(table)

    def columns(self, session: Session, relation: str) -> tuple[Column, ...]:
        """See `Dialect.columns`; `settled` tells the types of those that are not declared."""
        names = session.schema(f"SELECT * FROM {relation} LIMIT 0").names
        check_names("the query", names)
        declared: Mapping[str, str] = {}
        if not relation.startswith("("):
            table = relation[1:-1].replace('""', '"').replace("'", "''")
            rows = session.rows(f"SELECT name, type FROM pragma_table_info('{table}')")
            declared = {name: str(kind).upper() for name, kind in rows}
        return tuple(_declared(name, declared.get(name, "")) for name in names)

    def settled(
        self, session: Session, relation: str, where: str, columns: tuple[Column, ...]
    ) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """See `Dialect.settled`: undeclared columns are of the kind that their values are."""
        open_ = [column for column in columns if pa.types.is_null(column.type)]
        if not open_:
            return columns, ()
        asked = ", ".join(
            f"max(typeof({quoted(column.name)}) = '{kind}')" for column in open_ for kind in _KINDS
        )
        (row,) = session.rows(f"SELECT {asked} FROM {relation}{f' WHERE {where}' if where else ''}")
        found = iter(row)
        kinds = {c.name: {kind for kind in _KINDS if next(found)} for c in open_}
        settled = tuple(_by_values(c, kinds[c.name]) if c.name in kinds else c for c in columns)
        return settled, tuple(_mixed(name, of) for name, of in kinds.items() if len(of) > 1)

    def size(self, session: Session, relation: str, where: str) -> int:
        """See `Dialect.size`: as if all of the file were read."""
        return self.file_size(session)

    def primary_key(self, session: Session, table: str) -> tuple[str, ...]:
        """See `Dialect.primary_key`."""
        name = table.replace("'", "''")
        rows = session.rows(
            f"SELECT name FROM pragma_table_info('{name}') WHERE pk > 0 ORDER BY pk"
        )
        return tuple(row[0] for row in rows)

    def text(self, expression: str) -> str:
        """See `Dialect.text`."""
        return f"CAST({expression} AS TEXT)"

    def digest(self, names: tuple[str, ...]) -> str:
        """See `Dialect.digest`: there is no hash, but a literal for each value."""
        return " || ',' || ".join(f"quote({quoted(name)})" for name in names)

    def sample(self, columns: tuple[Column, ...]) -> str:
        """See `Dialect.sample`."""
        values = [f"{_SAMPLE[column.type]} AS {quoted(column.name)}" for column in columns]
        return ", ".join([*values, *("0" for column in columns if column.check)])


def _declared(name: str, kind: str) -> Column:
    """A column by its declared type, as SQLite reads such declarations; null: its values tell."""
    sql = quoted(name)
    if "BOOL" in kind:
        return _of(name, sql, pa.bool_(), f"{sql} NOT IN (0, 1)", kind)
    if "INT" in kind:
        return _of(name, sql, _WHOLE, f"typeof({sql}) <> 'integer'", kind)
    if any(part in kind for part in ("CHAR", "CLOB", "TEXT")):
        return _of(name, sql, pa.string(), f"typeof({sql}) = 'blob'", kind)
    if "JSON" in kind:
        refused = f"typeof({sql}) = 'blob' OR NOT json_valid({sql})"
        # A number's text has 15 digits, too few for some doubles.
        exact = f"iif(typeof({sql}) = 'real', printf('%!.17g', {sql}), CAST({sql} AS TEXT))"
        return _of(name, exact, pa.json_(), refused, kind)
    if "BLOB" in kind:
        return _of(name, sql, pa.binary(), f"typeof({sql}) <> 'blob'", kind)
    if any(part in kind for part in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return _number(name, sql, kind)
    return Column(name, sql, pa.null())


def _number(name: str, sql: str, kind: str) -> Column:
    large = f"typeof({sql}) = 'integer' AND abs({sql}) > {_EXACT}"
    refused = f"typeof({sql}) IN ('text', 'blob') OR ({large})"
    return _of(name, f"CAST({sql} AS REAL)", pa.float64(), refused, kind)


def _of(name: str, sql: str, type_: pa.DataType, refused: str, kind: str) -> Column:
    plain = quoted(name)
    return Column(
        name,
        sql,
        type_,
        f"({plain} IS NOT NULL AND ({refused}))",
        f"a value that is no {kind}, as which it is declared" if kind else "values of other kinds",
        f"correct the values, or read the column by `query`, as `CAST({name} AS TEXT)`.",
    )


def _by_values(column: Column, kinds: set[str]) -> Column:
    name, sql = column.name, quoted(column.name)
    if kinds <= {"integer", "real"} and kinds:
        if "real" in kinds:
            return _number(name, sql, "")
        return _of(name, sql, _WHOLE, f"typeof({sql}) <> 'integer'", "")
    if kinds == {"text"}:
        return _of(name, sql, pa.string(), f"typeof({sql}) <> 'text'", "")
    if kinds == {"blob"}:
        return _of(name, sql, pa.binary(), f"typeof({sql}) <> 'blob'", "")
    if kinds <= {"text", "integer"}:
        text = replace(column, sql=f"CAST({sql} AS TEXT)", type=pa.string())
        return replace(text, untyped=None if kinds else pa.null())
    raise SourceError(
        f"column {name!r} holds values of several kinds: {', '.join(sorted(kinds))}",
        f"read it by `query`, as `CAST({name} AS TEXT)`.",
    )


def _mixed(name: str, kinds: set[str]) -> str:
    told = " and ".join(_told(kinds))
    as_ = "text" if "text" in kinds else "a number"
    return f"column {name!r} declares no type, and its values are {told}: it is {as_}."


def _told(kinds: set[str]) -> Iterator[str]:
    words = {"integer": "whole numbers", "real": "fractions", "text": "texts", "blob": "bytes"}
    return (words[kind] for kind in _KINDS if kind in kinds)
