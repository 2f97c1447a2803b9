"""Only the rows from where the table's last load ended: by a column that grows with each change.

```
remembered value ─▶ rows with at least it, without those that have landed ─▶ up to the newest now
```
The newest value is taken from the snapshot, so that rows that come meanwhile come next time. Rows
that share the last value are told apart by all of their columns where rows are merged, so that one
that changed since lands again, and else by their keys: a few by what the bookmark holds, many by a
file that it names, and beyond that by their number alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeport.config.inputs import DatabaseSource
from lakeport.errors import ConfigError, SourceError
from lakeport.model import Bookmark, Memory
from lakeport.schema.casting import TIMESTAMP
from lakeport.schema.named import type_name
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted
from lakeport.sources.database.dialects.base import Dialect
from lakeport.sources.database.landed import MOST_ROWS, LandedRows, count_changed, digests, told
from lakeport.sources.database.ranges import column_named, literal

_FEW_ROWS: Final = 500
_FEW_CHARACTERS: Final = 40_000
_MOST_CHARACTERS: Final = 16_000_000
_WHOLE: Final = "="  # stands before a text that tells a whole row, not its keys
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
        warnings, notes, before_commit: see `Batch`.
    """

    where: str = ""
    bookmark: Bookmark | None = None
    empty: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    before_commit: Callable[[], None] | None = None


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
    memory: Memory,
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
        memory: what the table remembers.
        merges: whether rows replace those with their keys, so that some may come again.

    Raises:
        ConfigError: there is no such column, or it is no cursor; or what is remembered belongs to
            another table, query, cursor or database.
        SourceError: the cursor has nulls, or rows that can't be told apart came late.
    """
    column = column_named(source.cursor, columns, "cursor")
    (column,), _ = dialect.settled(session, relation, "", (column,))
    _check_type(column)
    name = bookmark_name(source)
    landed = LandedRows(memory, name)
    names = tuple(c.name for c in columns)
    asked = _Asked(session, dialect, relation, column, keys, names, landed, merges)
    about = _about(session, source, keys)
    remembered = memory.bookmark(name)
    before = remembered.value
    _check_same(before, about, name)
    asked.check_nulls()
    newest, backwards = asked.newest(before.get("value"))
    if newest is None or backwards:
        gone = (_went_back(source, backwards),) if before else ()
        nothing = bool(before)
        return Window("", None, nothing, gone)
    lower = asked.after(before)
    notes: tuple[str, ...] = ()
    if changed := asked.changed(before):
        rows = "1 row" if changed == 1 else f"{changed:,} rows"
        notes = (
            f"{rows} changed since, and kept the last value of the cursor {column.name!r}: the "
            "changes are not landed; `--mode merge --merge-keys A,B` lands such, and so does "
            "`--full-refresh`.",
        )
    if repeated := asked.repeated(before):
        notes += (
            f"{repeated:,} more of the rows with the last value of the cursor {column.name!r} are "
            "the same in every column as rows that have landed: without keys they count as these, "
            "and are not landed; `--full-refresh` lands them.",
        )
    if lower and not asked.any(f"{lower} AND {asked.until(newest)}"):
        return Window(lower, None, empty=True, notes=notes)
    tail = asked.tail(newest)
    upper = asked.until(newest, tail.texts)
    value = {**about, "value": newest, "rows": tail.rows, "left": tail.texts}
    value["whole"] = any(text.startswith(_WHOLE) for text in tail.texts or ())
    write = None
    if tail.texts is None:
        then = "are read again" if merges else "have to be all that have it"
        notes += (f"{tail.rows:,} rows share the newest {column.name!r}: next time, they {then}.",)
    elif not tail.few:
        value["left"], write = landed.kept(tail.texts, before.get("left"))
    where = f"{lower} AND {upper}" if lower else upper
    bookmark = Bookmark(name, value, remembered.number)
    return Window(where, bookmark, notes=notes, before_commit=write)


@dataclass(frozen=True, slots=True)
class _Tail:
    """The rows with the newest value.

    Attributes:
        rows: how many there are.
        texts: what tells them apart in SQL, by their keys and by all columns, each once; None where
            they are too many.
        few: whether the bookmark has room for these.
    """

    rows: int
    texts: Sequence[str] | None = None
    few: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """Questions about the cursor of a source."""

    session: Session
    dialect: Dialect
    relation: str
    column: Column
    keys: tuple[str, ...]
    names: tuple[str, ...]
    landed: LandedRows
    merges: bool

    @property
    def name(self) -> str:
        return quoted(self.column.name)

    @property
    def _by_key(self) -> str:
        """The expression that tells rows apart by their keys, or by all columns for want of any."""
        return self.dialect.digest(self.keys or self.names)

    @property
    def _by_row(self) -> str:
        """The expression that tells rows with keys apart by all columns."""
        return f"'{_WHOLE}' || {self.dialect.digest(self.names)}"

    @property
    def _whole(self) -> bool:
        """Whether a row that changed counts as one that has not landed."""
        return self.merges and bool(self.keys)

    @property
    def _apart(self) -> str:
        """The expression that tells rows that have landed from others."""
        return self._by_row if self._whole else self._by_key

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

    def after(self, before: Mapping[str, Any]) -> str:
        """The condition of rows that have not landed yet; empty if none have."""
        if not before:
            return ""
        last, left = literal(before["value"], self.column.type), before["left"]
        if isinstance(left, list):
            return self._behind(last, self._of(left), among=False)
        known = None if left is None else self.landed.read(left)
        if known is not None:
            new, old = told(self.session.batches(self._tail(last, self._apart)), known)
            few = new if new is not None else old
            return self._behind(last, few, among=new is not None)
        if self.merges:
            return f"{self.name} >= {last}"
        if self._count(last) != before["rows"]:
            raise SourceError(
                f"rows came late with the last value of the cursor {self.column.name!r}, which "
                f"{before['rows']:,} rows had: too many to tell which have landed",
                "land with `mode: merge`, which takes rows again, or load anew with "
                "`full_refresh`.",
            )
        return f"{self.name} > {last}"

    def changed(self, before: Mapping[str, Any]) -> int:
        """How many rows with the last value are not what they were, where rows are not merged.

        0 where the bookmark does not tell: without keys, and of too many rows or too long ones.
        """
        if self.merges or not before.get("whole"):
            return 0
        left = before["left"]
        few = isinstance(left, list)
        known = digests(left) if few else self.landed.read(left)
        if known is None:
            return 0
        query = self._tail(literal(before["value"], self.column.type), self._by_key, self._by_row)
        if few:
            query += f" AND {self._among(self._of(left))}"
        return sum(count_changed(batch, known) for batch in self.session.batches(query))

    def repeated(self, before: Mapping[str, Any]) -> int:
        """Return the number of new rows at the last value that equal landed ones; 0 with keys.

        Of too many rows for the bookmark it is not told.
        """
        left = before.get("left")
        if self.keys or not left or not isinstance(left, list):
            return 0
        last = literal(before["value"], self.column.type)
        among = f" AND {self._among(self._of(left))}"
        return max(0, self._count(last, among) - int(before["rows"]))

    def until(self, newest: str, texts: Sequence[str] | None = None) -> str:
        """The condition of rows up to the newest value.

        Where tasks don't share a snapshot, one that gets that value meanwhile has to wait, as it
        is not among those that are remembered.
        """
        last = literal(newest, self.column.type)
        texts = self._of(texts or ())
        if self.dialect.shares or not texts:
            return f"{self.name} <= {last}"
        return (
            f"{self.name} <= {last} AND CASE WHEN {self.name} < {last} THEN 1 "
            f"WHEN {self._among(texts)} THEN 1 ELSE 0 END = 1"
        )

    def tail(self, newest: str) -> _Tail:
        """What to remember of the rows with the newest value."""
        last = literal(newest, self.column.type)
        rows = self._count(last)
        if rows > MOST_ROWS:
            return _Tail(rows)
        texts, _ = told(self.session.batches(self._tail(last, self._by_key)))
        characters = sum(map(len, texts or ()))
        if texts is None or characters > _MOST_CHARACTERS:
            return _Tail(rows)
        texts = sorted(texts)
        if self.keys and (more := self._characters(last)) <= _MOST_CHARACTERS:
            whole, _ = told(self.session.batches(self._tail(last, self._by_row)))
            texts, characters = [*texts, *sorted(whole or ())], characters + more
        return _Tail(rows, texts, few=rows <= _FEW_ROWS and characters <= _FEW_CHARACTERS)

    def _characters(self, last: str) -> int:
        """How long the texts are that tell whole rows with a value apart: without a hash, any."""
        query = self._tail(last, f"coalesce(sum(length({self._by_row})), 0)")
        return int(self.session.value(query))

    def _behind(self, last: str, texts: Sequence[str], *, among: bool) -> str:
        """The condition of rows with more than a value, or with it and (not) among some."""
        if not texts:
            return f"{self.name} {'>' if among else '>='} {last}"
        return (
            f"{self.name} >= {last} AND CASE WHEN {self.name} > {last} THEN 1 "
            f"WHEN {self._among(texts)} THEN {among:d} ELSE {not among:d} END = 1"
        )

    def _among(self, texts: Sequence[str]) -> str:
        known = ", ".join(literal(one, pa.string()) for one in texts)
        return f"{self._apart} IN ({known})"

    def _of(self, texts: Sequence[str]) -> list[str]:
        """Return the remembered texts that `_apart` makes: of whole rows, or of keys."""
        return [text for text in texts if text.startswith(_WHOLE) == self._whole]

    def _tail(self, last: str, *expressions: str) -> str:
        """The query of what expressions give for the rows with a value."""
        asked = ", ".join(f"{one} AS apart_{n}" for n, one in enumerate(expressions))
        return f"SELECT {asked} FROM {self.relation} WHERE {self.name} = {last}"

    def _count(self, last: str, among: str = "") -> int:
        query = f"SELECT count(*) FROM {self.relation} WHERE {self.name} = {last}{among}"
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
