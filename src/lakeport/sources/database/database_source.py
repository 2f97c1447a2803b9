"""A table or a query of a database as a source: one flush, with what is new and what is gone.

```
connect ─▶ begin the snapshot ─▶ columns ─▶ ranges ─▶ tasks: join the snapshot, read a range
```
The driver's connection holds the snapshot until the load has ended.

The bookmark names the file, which is written before the commit and never changed. One that is not
named any more stays for thirty days at least, unless it was older when another took its place.

The keys of both sides are held in memory while they are compared, and nothing else is.

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
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.base import DestinationConfig
from lakeport.config.sources import DatabaseSource, parse_scheme
from lakeport.errors import ConfigError, DestinationError, SourceError
from lakeport.model import Batch, Bookmark, Flush, Memory, Mode, Split
from lakeport.schema.casting import cast_batch, normalise_schema
from lakeport.schema.types import TIMESTAMP, format_type, to_table_field
from lakeport.shape import DELETED_AT
from lakeport.sources.database.access import DatabaseSession, access_of
from lakeport.sources.database.dialects import (
    DatabaseColumn,
    DuckDb,
    Postgres,
    SqlDialect,
    Sqlite,
    query_of,
    quoted,
)
from lakeport.sources.database.reader import (
    DatabaseReader,
    column_named,
    literal,
    number_of_ranges,
    ranges,
)
from lakeport.sources.splits import InMemoryReader
from lakeport.sources.target import TargetTables

MOST_ROWS: Final = 100_000
"""Most rows of the newest value that a table remembers to tell apart."""
_MOST_COMPARED: Final = MOST_ROWS
"""Most rows of the newest value that are read to remember them; a condition takes as many."""

_WIDTH: Final = 16
_TYPE: Final = pa.binary(_WIDTH)
_KEPT: Final = 30 * 24 * 3600.0  # seconds, as long as Delta keeps its log
_NONE: Final = pa.array([], _TYPE)

_FEW_ROWS: Final = 500
_FEW_CHARACTERS: Final = 40_000
_MOST_CHARACTERS: Final = 16_000_000
_NO_ROW: Final = "1 = 0"
_WHOLE: Final = "="  # stands before a text that tells a whole row, not its keys
_HINT: Final = (
    "load anew with `full_refresh`, or give the source another `name`, to be remembered by itself."
)

_OUTPUT_RATIO: Final = 0.4
_DIALECTS: Final[dict[str, type[SqlDialect]]] = {
    "postgresql": Postgres,
    "sqlite": Sqlite,
    "duckdb": DuckDb,
}


def digests(texts: Iterable[str]) -> pa.Array:
    """The digests of texts that tell rows apart."""
    data = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    return pa.array([hashlib.blake2b(one, digest_size=_WIDTH).digest() for one in data], _TYPE)


def split_known(
    batches: Iterable[pa.RecordBatch], known: pa.Array = _NONE
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Return the texts that tell rows apart, each once: first those that are new, then known ones.

    Args:
        batches: with one column, of such texts.
        known: digests, `MOST_ROWS` of them at most.

    Returns:
        In place of the first ones None, where there are more than `MOST_ROWS`.
    """
    old, new = dict[str, None](), dict[str, None]()
    for batch in batches:
        texts = batch.column(0)
        is_old = pc.is_in(digests(texts.to_pylist()), known)
        old.update(dict.fromkeys(texts.filter(is_old).to_pylist()))
        if len(new) <= MOST_ROWS:
            new.update(dict.fromkeys(texts.filter(pc.invert(is_old)).to_pylist()))
    return None if len(new) > MOST_ROWS else tuple(new), tuple(old)


def count_changed(batch: pa.RecordBatch, known: pa.Array) -> int:
    """How many rows have known keys, but are not known as they are.

    Args:
        batch: with two columns of texts: what tells the keys, and what tells the whole rows.
        known: digests of such texts.
    """
    keys, rows = (pc.is_in(digests(texts.to_pylist()), known) for texts in batch.columns)
    return int(pc.sum(pc.and_not(keys, rows)).as_py() or 0)


@dataclass(frozen=True)
class LandedRows:
    """The files of one bookmark.

    Attributes:
        memory: the table's.
        bookmark: the bookmark's name.
    """

    memory: Memory
    bookmark: str

    def read(self, kept: Mapping[str, Any]) -> pa.Array | None:
        """The digests that a bookmark names; None if their file is gone.

        Raises:
            DestinationError: the store refused, or the file is damaged.
        """
        key = self._key(kept["file"])
        data = self.memory.storage.get(key)
        if data is not None and len(data) != kept["rows"] * _WIDTH:
            raise DestinationError(
                f"{self.memory.storage.uri(key)} is damaged, and tells which rows have landed",
                "bring it back from a copy, or land all anew with a full refresh.",
            )
        return data and pa.Array.from_buffers(_TYPE, kept["rows"], [None, pa.py_buffer(data)])

    def kept(
        self, texts: Sequence[str], before: Mapping[str, Any] | Sequence[str] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """What a bookmark says of rows, and what writes their digests; call it before the commit.

        Args:
            texts: what tells the rows apart.
            before: what the bookmark says so far; a file that it names stays.
        """
        name = f"{secrets.token_hex(16)}.digests"
        named = {name, *([before["file"]] if isinstance(before, Mapping) else ())}

        def write() -> None:
            data = b"".join(digests(texts).to_pylist())
            self.memory.storage.put(self._key(name), data)
            self._sweep(named)

        return {"file": name, "rows": len(texts)}, write

    def _sweep(self, named: set[str]) -> None:
        """Remove old files, but for those that are named now or were so far."""
        storage, old = self.memory.storage, time.time() - _KEPT
        with suppress(DestinationError):  # it may not be allowed, and can wait
            for found in storage.list(self._key("").rstrip("/")):
                if found.modified < old and found.key.rpartition("/")[2] not in named:
                    storage.delete(found.key)

    def _key(self, name: str) -> str:
        return f"{self.memory.folder}/cursors/{quote(self.bookmark, safe='')}/{name}"


def mark_of(config: DestinationConfig) -> str:
    """The column that marks a row of the table as deleted."""
    return (config.hard_delete and config.delete_column) or DELETED_AT


def check_compared(config: DestinationConfig, keys: Sequence[str]) -> None:
    """See that rows can be told apart and taken away.

    Args:
        config: the target's.
        keys: columns that identify a row.

    Raises:
        ConfigError: they can't.
    """
    wrong = ""
    if config.mode is not Mode.MERGE or config.file_type != "delta":
        wrong = "needs `mode: merge` and a Delta table"
    elif not keys:
        wrong = "needs a primary key in the source, or `merge_keys` that are its columns"
    elif config.merge_keys and set(config.merge_keys) != set(keys):
        wrong = f"compares the primary key {', '.join(keys)}, and `merge_keys` are others"
    elif set(config.rename) & set(keys) or set(config.drop) & set(keys):
        wrong = "can't find keys that `rename` or `drop` change"
    elif config.column_header_format is not None:
        wrong = "can't find keys whose names `column_header_format` changes"
    if wrong:
        raise ConfigError(f"`deletes: compare` {wrong}", "or leave it out: deleted rows stay then.")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that a load reads.

    Attributes:
        where: the condition that they meet; empty for all. Rows that come meanwhile don't, also
            where there is none yet, or they would land without a bookmark.
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
    session: DatabaseSession,
    dialect: SqlDialect,
    source: DatabaseSource,
    relation: str,
    columns: tuple[DatabaseColumn, ...],
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
    asked = _CursorQueries(session, dialect, relation, column, keys, names, landed, merges)
    about = _about(session, source, keys)
    remembered = memory.bookmark(name)
    before = remembered.value
    _check_same(before, about, name)
    asked.check_nulls()
    newest, backwards = asked.newest(before.get("value"))
    if newest is None or backwards:
        gone = (_went_back(source, backwards),) if before else ()
        nothing = bool(before)
        return Window(_NO_ROW, None, nothing, gone)
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
        return Window(_NO_ROW, None, empty=True, notes=notes)
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
class _CursorQueries:
    """Questions about the cursor of a source."""

    session: DatabaseSession
    dialect: SqlDialect
    relation: str
    column: DatabaseColumn
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
            new, old = split_known(self.session.batches(self._tail(last, self._apart)), known)
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
        if rows > _MOST_COMPARED:
            return _Tail(rows)
        texts, _ = split_known(self.session.batches(self._tail(last, self._by_key)))
        characters = sum(map(len, texts or ()))
        if texts is None or characters > _MOST_CHARACTERS:
            return _Tail(rows)
        texts = sorted(texts)
        if self.keys and (more := self._characters(last)) <= _MOST_CHARACTERS:
            whole, _ = split_known(self.session.batches(self._tail(last, self._by_row)))
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


def _check_type(column: DatabaseColumn) -> None:
    type_, plain = column.type, column.sql == quoted(column.name)
    grows = pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)
    if pa.types.is_decimal(type_) or (plain and (grows or type_ == TIMESTAMP)):
        return
    raise ConfigError(
        f"the cursor {column.name!r} is of type {format_type(type_)}"
        + ("" if plain else ", made of another one"),
        "name a column of whole numbers, decimals, dates, timestamps or text that grows.",
    )


def _about(
    session: DatabaseSession, source: DatabaseSource, keys: tuple[str, ...]
) -> dict[str, Any]:
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


@dataclass
class DatabaseFlushes:
    """Iterates exactly one flush: with no batch where nothing is new, and nothing gone.

    Args:
        source: what to read.
        stream: the stream's name.
        cores: how many tasks run at once.
        config: what the load does with the rows that the table has.
        tables: what the stream's table remembers, and which keys it has.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """

    source: DatabaseSource
    stream: str
    cores: int
    config: DestinationConfig
    tables: TargetTables

    def __post_init__(self) -> None:
        source = self.source
        if source.cursor and self.config.mode is Mode.OVERWRITE:
            raise ConfigError(
                f"with the cursor {source.cursor!r} only new rows are read, and `mode: overwrite` "
                "would replace all of the table by them",
                "append or merge them; or leave `cursor` out, to read all rows.",
            )
        self._access, self._dialect = access_of(source), _dialect(source)
        self._open = ExitStack()
        self._notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Flush]:
        """Begin the snapshot, and hand out what reads it."""
        session = self._open.enter_context(self._access.connected())
        batches = tuple(self._batches(session))
        if any(batch.sequence == 0 for batch in batches):
            yield Flush(batches, last=True)
            return
        note = f"nothing new: no row has another {self.source.cursor!r} than those that have landed"
        told = "; ".join((note, *self._notes))
        yield Flush(batches, last=True, notes={self.stream: told}, quiet=(self.stream,))

    def close(self) -> None:
        """End the snapshot: the flush has landed, or never will."""
        self._open.close()

    def _batches(self, session: DatabaseSession) -> Iterator[Batch]:
        source, dialect = self.source, self._dialect
        joining = dialect.begin(session)
        relation = _relation(session, dialect, source)
        columns = dialect.columns(session, relation)
        keys = self._keys(session, columns)
        if source.deletes == "compare":
            check_compared(self.config, keys)
        wanted = Window()
        if source.cursor:
            memory, merges = self.tables.open_memory(self.stream), self.config.mode is Mode.MERGE
            wanted = window(
                session, dialect, source, relation, columns, keys, memory, merges=merges
            )
        self._notes = wanted.notes
        where = wanted.where
        columns, notes = dialect.settled(session, relation, where, columns)
        size = dialect.size(session, relation, where)
        parts = self._parts(session, relation, where, columns, size)
        reader = DatabaseReader(
            self._schema(columns),
            self._access,
            joining,
            relation,
            columns,
            where,
            parts,
            dialect.sample(columns),
        )
        digest = self._digest(relation)
        if not wanted.empty or wanted.warnings:
            yield Batch(
                self.stream,
                0,
                reader=reader,
                splits=tuple(Split(self.stream, i, i + 1, first_line=0) for i in range(len(parts))),
                bytes=size,
                digest=digest,
                key_properties=keys,
                output_ratio=_OUTPUT_RATIO,
                warnings=wanted.warnings,
                notes=(*notes, *wanted.notes),
                untyped={c.name: c.untyped for c in columns if c.untyped is not None},
                bookmark=wanted.bookmark,
                before_commit=wanted.before_commit,
            )
        if (absent := self._absent(session, reader, keys)) is not None:
            yield Batch(
                self.stream,
                1,
                reader=absent,
                splits=(Split(self.stream, first_line=0),),
                records=absent.rows.num_rows,
                bytes=absent.rows.nbytes,
                digest=digest,
                key_properties=keys,
                gone=True,
            )

    def _keys(
        self, session: DatabaseSession, columns: tuple[DatabaseColumn, ...]
    ) -> tuple[str, ...]:
        """Columns that identify a row: the table's primary key, else what the load says."""
        if self.source.table and (key := self._dialect.primary_key(session, self.source.table)):
            return key
        names = {column.name for column in columns}
        said = self.config.merge_keys
        return said if names.issuperset(said) else ()

    def _parts(
        self,
        session: DatabaseSession,
        relation: str,
        where: str,
        columns: tuple[DatabaseColumn, ...],
        size: int,
    ) -> tuple[str, ...]:
        """The conditions of the ranges that tasks read."""
        source, dialect = self.source, self._dialect
        by = column_named(source.split_by, columns, "split_by") if source.split_by else None
        if not dialect.shares:
            return ("",)
        count = source.splits or number_of_ranges(size, self.cores)
        if by is not None:
            return ranges(session, dialect, relation, where, by, count)
        return dialect.blocks(session, relation, count) or ("",)

    def _schema(self, columns: tuple[DatabaseColumn, ...]) -> pa.Schema:
        """The columns; a row that was marked as deleted and is back loses its mark."""
        fields = [to_table_field(column.name, column.type) for column in columns]
        marks = self.source.deletes == "compare" and not self.config.hard_delete
        if marks and mark_of(self.config) not in {field.name for field in fields}:
            fields.append(pa.field(mark_of(self.config), TIMESTAMP))
        return pa.schema(fields)

    def _absent(
        self, session: DatabaseSession, reader: DatabaseReader, keys: tuple[str, ...]
    ) -> InMemoryReader | None:
        """The keys of the table's rows that are gone in the source, where they are asked for."""
        mark = mark_of(self.config)
        table = None
        if self.source.deletes != "none":
            table = self.tables.read_keys(self.stream, keys, mark)
        if table is None:
            return None
        wanted = normalise_schema(table.schema)
        columns = tuple(column for key in keys for column in reader.columns if column.name == key)
        schema = pa.schema([to_table_field(column.name, column.type) for column in columns])
        sample = self._dialect.sample(columns)
        alone = replace(
            reader, columns=columns, where="", ranges=("",), schema=schema, sample=sample
        )
        there = [cast_batch(batch, wanted) for batch in alone.rows(session, 0)]
        known = [cast_batch(batch, wanted) for batch in table.to_batches()]
        absent = pa.Table.from_batches(known, wanted).join(
            pa.Table.from_batches(there, wanted), list(keys), join_type="left anti"
        )
        if not absent.num_rows:
            return None
        now = pa.array([datetime.now(UTC)] * absent.num_rows, TIMESTAMP)
        gone = absent.append_column(pa.field(mark, TIMESTAMP), now)
        return InMemoryReader(gone.schema, gone)

    def _digest(self, relation: str) -> str:
        """Tells what was asked for, where a run is to know it again."""
        if self.config.run_id is None:
            return ""
        return hashlib.sha256(f"{self._access.place}\n{relation}".encode()).hexdigest()


def described(source: DatabaseSource) -> pa.Schema:
    """The columns of a table or a query as its database describes them; no row is read.

    A type that values alone tell is text here, such as that of a column without one in SQLite.

    Args:
        source: not one that Spark reads, by JDBC.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """
    dialect = _dialect(source)
    with access_of(source).connected() as session:
        relation = _relation(session, dialect, source)
        columns = dialect.columns(session, relation)
    types = (pa.string() if pa.types.is_null(column.type) else column.type for column in columns)
    return pa.schema(
        [to_table_field(c.name, type_) for c, type_ in zip(columns, types, strict=True)]
    )


def _relation(session: DatabaseSession, dialect: SqlDialect, source: DatabaseSource) -> str:
    """Return what stands behind FROM."""
    return query_of(source.query) if source.query else dialect.relation(session, source.table)


def _dialect(source: DatabaseSource) -> SqlDialect:
    scheme = "" if source.driver else parse_scheme(source.database.get_secret_value())
    return _DIALECTS.get(scheme, SqlDialect)()
