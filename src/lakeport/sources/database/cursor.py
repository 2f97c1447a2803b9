"""Only the rows from where the table's last load ended: by a column that grows with each change.

```
remembered value ─▶ rows with at least it, without those that have landed ─▶ up to the newest now
```
The newest value is taken from the snapshot, so that rows that come meanwhile come next time. Rows
that share the last value are told apart by their keys, or by all of their columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeport.config.inputs.database import DatabaseSource
from lakeport.errors import ConfigError, SourceError
from lakeport.model import Bookmark, Remembered
from lakeport.schema.named import type_name
from lakeport.schema.types import TIMESTAMP
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.ranges import column_named, literal

__all__ = ["Window", "bookmark_name", "window"]

_MOST_ROWS: Final = 500
_MOST_CHARACTERS: Final = 32_000
_HINT: Final = (
    "load anew with `full_refresh`, or give the source another `name`, to be remembered by itself."
)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that a load reads.

    Attributes:
        where: the condition that they meet; empty for all.
        bookmark: what the table is to remember with them; None where there is no row at all.
        empty: whether there is none.
        warnings, notes: see `Batch`.
    """

    where: str = ""
    bookmark: Bookmark | None = None
    empty: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def bookmark_name(source: DatabaseSource) -> str:
    """What a table remembers a source by."""
    return f"database {source.name or source.table or 'query'}"


def window(
    session: Session,
    dialect: Dialect,
    source: DatabaseSource,
    relation: str,
    columns: tuple[Column, ...],
    keys: tuple[str, ...],
    remembered: Remembered,
    *,
    merges: bool,
) -> Window:
    """What is new in a source with a cursor.

    Args:
        session: a connection, in the load's snapshot.
        dialect: how the database is asked.
        source: with a cursor.
        relation: what stands behind FROM.
        columns: the source's.
        keys: those of them that identify a row; empty where nothing tells.
        remembered: what the table remembers of the source.
        merges: whether rows replace those with their keys, so that some may come again.

    Raises:
        ConfigError: there is no such column, or it is no cursor; or what is remembered belongs to
            another table, query, cursor or database.
        SourceError: the cursor has nulls, or rows that can't be told apart came late.
    """
    column = column_named(source.cursor, columns, "cursor")
    (column,), _ = dialect.settled(session, relation, "", (column,))
    _check_type(column)
    asked = _Asked(session, dialect, relation, column, keys or tuple(c.name for c in columns))
    about = _about(session, source, keys)
    before = remembered.value
    _check_same(before, about, bookmark_name(source))
    asked.check_nulls()
    newest, backwards = asked.newest(before.get("value"))
    if newest is None or backwards:
        gone = (_went_back(source, backwards),) if before else ()
        nothing = bool(before)
        return Window("", None, nothing, gone)
    value, notes = asked.tail(newest, merges)
    lower, upper = asked.after(before, merges), asked.until(newest, value["left"])
    where = f"{lower} AND {upper}" if lower else upper
    if lower and not asked.any(where):
        return Window(where, None, empty=True)
    bookmark = Bookmark(bookmark_name(source), {**about, **value}, remembered.number)
    return Window(where, bookmark, notes=notes)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Questions about the cursor of a source."""

    session: Session
    dialect: Dialect
    relation: str
    column: Column
    telling: tuple[str, ...]

    @property
    def name(self) -> str:
        return quoted(self.column.name)

    def check_nulls(self) -> None:
        if self.any(f"{self.name} IS NULL"):
            raise SourceError(
                f"the cursor {self.column.name!r} is null in some rows, which would never be read",
                "name a column that every row has, or leave those rows out by a `query`.",
            )

    def newest(self, before: str | None) -> tuple[str | None, bool]:
        """The newest value as text, and whether it is older than the one before."""
        text = self.dialect.text(f"max({self.name})")
        older = "0"
        if before is not None:
            of = literal(before, self.column.type)
            older = f"CASE WHEN max({self.name}) < {of} THEN 1 ELSE 0 END"
        ((newest, is_older),) = self.session.rows(f"SELECT {text}, {older} FROM {self.relation}")
        return newest, bool(int(is_older))

    def any(self, where: str) -> bool:
        """Whether some row meets a condition."""
        found = f"SELECT 1 AS x FROM {self.relation} WHERE {where} LIMIT 1"
        return bool(self.session.value(f"SELECT count(*) FROM ({found}) AS found"))

    def after(self, before: Mapping[str, Any], merges: bool) -> str:
        """The condition of rows that have not landed yet; empty if none have."""
        if not before:
            return ""
        last = literal(before["value"], self.column.type)
        if (left := before["left"]) is not None:
            if not left:
                return f"{self.name} > {last}"
            known = ", ".join(literal(one, pa.string()) for one in left)
            digest = self.dialect.digest(self.telling)
            return (
                f"{self.name} >= {last} AND CASE WHEN {self.name} > {last} THEN 1 "
                f"WHEN {digest} IN ({known}) THEN 0 ELSE 1 END = 1"
            )
        if merges:
            return f"{self.name} >= {last}"
        if self._count(last) != before["rows"]:
            raise SourceError(
                f"rows came late with the last value of the cursor {self.column.name!r}, which "
                f"{before['rows']:,} rows had: too many to tell which have landed",
                "land with `mode: merge`, which takes rows again, or load anew with "
                "`full_refresh`.",
            )
        return f"{self.name} > {last}"

    def until(self, newest: str, left: Sequence[str] | None) -> str:
        """The condition of rows up to the newest value.

        Where tasks don't share a snapshot, one that gets that value meanwhile has to wait, as it
        is not among those that are remembered.
        """
        last = literal(newest, self.column.type)
        if self.dialect.shares or left is None:
            return f"{self.name} <= {last}"
        digest = self.dialect.digest(self.telling)
        known = ", ".join(literal(one, pa.string()) for one in left)
        return (
            f"{self.name} <= {last} AND CASE WHEN {self.name} < {last} THEN 1 "
            f"WHEN {digest} IN ({known}) THEN 1 ELSE 0 END = 1"
        )

    def tail(self, newest: str, merges: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What to remember of the rows with the newest value."""
        last = literal(newest, self.column.type)
        rows = self._count(last)
        value: dict[str, Any] = {"value": newest, "rows": rows, "left": None}
        if rows <= _MOST_ROWS:
            digest = self.dialect.digest(self.telling)
            query = f"SELECT {digest} FROM {self.relation} WHERE {self.name} = {last}"
            left = sorted({str(row[0]) for row in self.session.rows(query)})
            if sum(map(len, left)) <= _MOST_CHARACTERS:
                return {**value, "left": left}, ()
        then = "are read again" if merges else "have to be all that have it"
        note = f"{rows:,} rows share the newest {self.column.name!r}: next time, they {then}."
        return value, (note,)

    def _count(self, last: str) -> int:
        query = f"SELECT count(*) FROM {self.relation} WHERE {self.name} = {last}"
        return int(self.session.value(query))


def _check_type(column: Column) -> None:
    type_, plain = column.type, column.sql == quoted(column.name)
    grows = pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)
    if pa.types.is_decimal(type_) or (plain and (grows or type_ == TIMESTAMP)):
        return
    raise ConfigError(
        f"the cursor {column.name!r} is of type {type_name(type_)}"
        + ("" if plain else ", made of another one"),
        "name a column of whole numbers, decimals, dates, timestamps or text that grows.",
    )


def _about(session: Session, source: DatabaseSource, keys: tuple[str, ...]) -> dict[str, Any]:
    """What a remembered value belongs to."""
    query = f"query {hashlib.sha256(source.query.encode()).hexdigest()[:16]}"
    return {
        "database": session.access.place,
        "of": source.table or query,
        "cursor": source.cursor,
        "keys": list(keys),
    }


def _check_same(before: Mapping[str, Any], about: Mapping[str, Any], name: str) -> None:
    if not before:
        return
    for key, now in about.items():
        if before.get(key) != now:
            raise ConfigError(
                f"what the table remembers as {name!r} belongs to {_words(key, before.get(key))}, "
                f"and this source has {_words(key, now)}",
                _HINT,
            )


def _words(key: str, value: Any) -> str:
    if key == "keys":
        return f"the keys {', '.join(value)}" if value else "no keys"
    return f"{'' if key == 'of' else f'the {key} '}{value!r}"


def _went_back(source: DatabaseSource, backwards: bool) -> str:
    what = "is older than the one that has landed" if backwards else "is gone, with all rows"
    return (
        f"the newest value of the cursor {source.cursor!r} {what}: rows were removed, or it went "
        "back; rows that get older values than it are not seen until a `full_refresh`."
    )
