"""Read a table or a query of a database: one flush with new rows and the keys of deleted rows.

```
connect ─▶ begin the snapshot ─▶ columns ─▶ ranges ─▶ tasks: join the snapshot, read a range
```
The driver's connection holds the snapshot until the load has ended.

With a cursor, only new rows are read:

```
bookmark's value ─▶ rows with that value or more, without landed ones ─▶ up to the newest value
```
The newest value is read in the snapshot; rows that are added later are read by the next load. Many
rows may share the last value. Then landed rows are recognised by a digest: of all columns if rows
are merged, so that a changed row is landed again, else of their keys. The bookmark holds a few
digests itself, or names a file of many. Of more rows it holds the number only.

A file of digests is written before the commit and never changed. Once no bookmark names it, it
stays for at least thirty days, unless it was older than that already.

With `deletes: compare`, the keys of the source and of the table are held in memory.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.base import DestinationConfig
from lakeport.config.sources import DatabaseSource, parse_scheme
from lakeport.errors import ConfigError, DestinationError, SourceError
from lakeport.model import Batch, Bookmark, BookmarkStore, Flush, Mode, Split
from lakeport.schema.casting import cast_batch, normalise_schema
from lakeport.schema.types import TIMESTAMP, format_type, to_table_field
from lakeport.shape import DELETED_AT
from lakeport.sources.database.access import DatabaseSession, make_access
from lakeport.sources.database.dialects import (
    Columns,
    DatabaseColumn,
    DuckDbDialect,
    PostgresDialect,
    SqlDialect,
    SqliteDialect,
    quote_identifier,
    wrap_query,
)
from lakeport.sources.database.reader import (
    DatabaseReader,
    count_ranges,
    find_column,
    split_ranges,
    sql_literal,
)
from lakeport.sources.splits import InMemoryReader
from lakeport.sources.target import TargetTables, delete_old_objects
from lakeport.units import pluralize

MOST_ROWS: Final = 100_000
"""Maximum number of rows with the newest value whose digests a bookmark keeps."""
_MOST_COMPARED: Final = MOST_ROWS
"""Maximum number of rows with the newest value that are read for their digests."""

_DIGEST_BYTES: Final = 16
_DIGEST_TYPE: Final = pa.binary(_DIGEST_BYTES)
_RETENTION_SECONDS: Final = 30 * 24 * 3600.0  # seconds, as long as Delta keeps its log
_NO_DIGESTS: Final = pa.array([], _DIGEST_TYPE)

_FEW_ROWS: Final = 500
_MAX_BOOKMARK_CHARACTERS: Final = 40_000
_MAX_CHARACTERS: Final = 16_000_000
_NO_ROW_CONDITION: Final = "1 = 0"
_ROW_MARK: Final = "="  # the first character of a digest of all columns, not of the keys
_HINT: Final = (
    "load anew with `full_refresh`, or give the source another `name`, to be remembered by itself."
)

_OUTPUT_RATIO: Final = 0.4
_DIALECTS: Final[dict[str, type[SqlDialect]]] = {
    "postgresql": PostgresDialect,
    "sqlite": SqliteDialect,
    "duckdb": DuckDbDialect,
}


def digest_texts(texts: Iterable[str]) -> pa.Array:
    """Return the 16-byte BLAKE2b digest of each text, as an Arrow array."""
    data = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    return pa.array(
        [hashlib.blake2b(one, digest_size=_DIGEST_BYTES).digest() for one in data], _DIGEST_TYPE
    )


def split_by_known(
    batches: Iterable[pa.RecordBatch], known_digests: pa.Array
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Split distinct texts: new ones (None if over 100,000), and ones whose digest is known."""
    old, new = dict[str, None](), dict[str, None]()
    for batch in batches:
        texts = batch.column(0)
        is_old = pc.is_in(digest_texts(texts.to_pylist()), known_digests)
        old.update(dict.fromkeys(texts.filter(is_old).to_pylist()))
        if len(new) <= MOST_ROWS:
            new.update(dict.fromkeys(texts.filter(pc.invert(is_old)).to_pylist()))
    return None if len(new) > MOST_ROWS else tuple(new), tuple(old)


def count_changed(batch: pa.RecordBatch, known_digests: pa.Array) -> int:
    """Count changed rows: the digest of their keys is known, that of all their columns is not.

    Args:
        batch: a record batch with two columns of texts: of the keys, and of the whole rows.
    """
    keys, rows = (
        pc.is_in(digest_texts(texts.to_pylist()), known_digests) for texts in batch.columns
    )
    return int(pc.sum(pc.and_not(keys, rows)).as_py() or 0)


@dataclass(frozen=True)
class LandedRows:
    """Files with digests of rows that are already loaded; a cursor's bookmark names the latest."""

    memory: BookmarkStore
    bookmark: str

    def read(self, entry: Mapping[str, Any]) -> pa.Array | None:
        """Read the digests that a bookmark names; None if missing, DestinationError if damaged."""
        key = self._object_key(entry["file"])
        data = self.memory.storage.get(key)
        if data is not None and len(data) != entry["rows"] * _DIGEST_BYTES:
            raise DestinationError(
                f"{self.memory.storage.uri(key)} is damaged, and lists which rows have landed",
                "bring it back from a copy, or land all anew with a full refresh.",
            )
        return data and pa.Array.from_buffers(
            _DIGEST_TYPE, entry["rows"], [None, pa.py_buffer(data)]
        )

    def plan_digests(
        self, texts: Sequence[str], old_entry: Mapping[str, Any] | Sequence[str] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Return the bookmark's entry for a new digest file, and a function that writes the file.

        The function has to be called before the commit. It deletes old files, too.

        Args:
            old_entry: the bookmark's entry so far; its file stays.
        """
        name = f"{secrets.token_hex(16)}.digests"
        kept_names = {name, *([old_entry["file"]] if isinstance(old_entry, Mapping) else ())}

        def write() -> None:
            data = b"".join(digest_texts(texts).to_pylist())
            self.memory.storage.put(self._object_key(name), data)
            folder, old = self._object_key("").rstrip("/"), time.time() - _RETENTION_SECONDS
            delete_old_objects(self.memory.storage, folder, old, kept_names)

        return {"file": name, "rows": len(texts)}, write

    def _object_key(self, name: str) -> str:
        """Return the key of a file of digests; for an empty name the folder's key, with a slash."""
        return f"{self.memory.folder}/cursors/{quote(self.bookmark, safe='')}/{name}"


def deletion_mark(config: DestinationConfig) -> str:
    """Return the name of the column that marks a row as deleted: `delete_column` or the default."""
    return (config.hard_delete and config.delete_column) or DELETED_AT


def check_comparable(config: DestinationConfig, keys: Sequence[str]) -> None:
    """Raise ConfigError if the target's settings or the keys rule out `deletes: compare`."""
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
class CursorWindow:
    """The rows that an incremental load reads, as an SQL condition, and its new bookmark.

    Attributes:
        where: the SQL condition of the rows; empty for all rows. Rows that are added later don't
            meet it, even if there is no row yet: they would be landed without a bookmark.
        bookmark: the bookmark; None if no row is read.
        empty: whether the table has landed rows, and there are no new ones.
        warnings, notes, before_commit: see `Batch`.
    """

    where: str = ""
    bookmark: Bookmark | None = None
    empty: bool = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    before_commit: Callable[[], None] | None = None


def bookmark_name(source: DatabaseSource) -> str:
    """Return the name of the bookmark for a source."""
    return f"database {source.name or source.table or 'query'}"


def find_window(
    dialect: SqlDialect,
    source: DatabaseSource,
    relation: str,
    columns: Columns,
    keys: tuple[str, ...],
    memory: BookmarkStore,
    *,
    merges: bool,
) -> CursorWindow:
    """Plan an incremental load by a cursor: find the rows that the table has not loaded yet.

    Args:
        dialect: the database's SQL, with a connection in the load's snapshot.
        keys: the columns that identify a row; empty if unknown.
        merges: whether rows replace rows with the same keys, so that some may be landed again.

    Raises:
        ConfigError: the cursor's column is missing or of a wrong type; or the bookmark belongs to
            another table, query, cursor or database.
        SourceError: the cursor has nulls; or rows were added with the last value, and too many
            rows had it to recognise those that have landed.
    """
    column = find_column(source.cursor, columns, "cursor")
    (column,), _ = dialect.infer_open_types(relation, "", (column,))
    _check_cursor_type(column)
    name = bookmark_name(source)
    landed = LandedRows(memory, name)
    names = tuple(c.name for c in columns)
    queries = _CursorQueries(dialect, relation, column, keys, names, landed, merges)
    entry = _describe_cursor_source(dialect.session.access.address, source, keys)
    saved = memory.bookmark(name)
    before = saved.value
    _check_bookmark(before, entry, name)
    queries.check_nulls()
    newest, backwards = queries.read_newest(before.get("value"))
    if newest is None or backwards:
        warnings = (_backwards_warning(source, backwards),) if before else ()
        return CursorWindow(_NO_ROW_CONDITION, empty=bool(before), warnings=warnings)
    lower = queries.unlanded_condition(before)
    notes: tuple[str, ...] = ()
    if changed := queries.count_changed(before):
        notes = (
            f"{pluralize(changed, 'row')} changed since, and kept the last value of the cursor "
            f"{column.name!r}: the changes are not landed; `--mode merge --merge-keys A,B` lands "
            "such, and so does `--full-refresh`.",
        )
    if repeated := queries.count_repeated(before):
        notes += (
            f"{repeated:,} more of the rows with the last value of the cursor {column.name!r} are "
            "the same in every column as rows that have landed: without keys they count as these, "
            "and are not landed; `--full-refresh` lands them.",
        )
    if lower and not queries.has_row(f"{lower} AND {queries.upper_condition(newest)}"):
        return CursorWindow(_NO_ROW_CONDITION, empty=True, notes=notes)
    newest_rows = queries.read_newest_rows(newest)
    upper = queries.upper_condition(newest, newest_rows.texts)
    value = {**entry, "value": newest, "rows": newest_rows.rows, "left": newest_rows.texts}
    value["whole"] = any(text.startswith(_ROW_MARK) for text in newest_rows.texts or ())
    write = None
    if newest_rows.texts is None:
        then = "are read again" if merges else "have to be all that have it"
        notes += (
            f"{newest_rows.rows:,} rows share the newest {column.name!r}: next time, they {then}.",
        )
    elif not newest_rows.few:
        value["left"], write = landed.plan_digests(newest_rows.texts, before.get("left"))
    where = f"{lower} AND {upper}" if lower else upper
    bookmark = Bookmark(name, value, saved.number)
    return CursorWindow(where, bookmark, notes=notes, before_commit=write)


@dataclass(frozen=True, slots=True)
class _NewestRows:
    """Number and digests of the rows that share the newest value of a cursor.

    Attributes:
        texts: the SQL digests of their keys and of all their columns, without repetitions; None if
            they are too many.
        few: whether the texts fit into the bookmark.
    """

    rows: int
    texts: Sequence[str] | None = None
    few: bool = False


@dataclass(frozen=True, slots=True)
class _CursorQueries:
    """Runs queries about a source's cursor column, and builds SQL conditions on that column."""

    dialect: SqlDialect
    relation: str
    column: DatabaseColumn
    keys: tuple[str, ...]
    names: tuple[str, ...]
    landed: LandedRows
    merges: bool

    @property
    def _session(self) -> DatabaseSession:
        return self.dialect.session

    @property
    def name(self) -> str:
        """The cursor's column as an SQL identifier."""
        return quote_identifier(self.column.name)

    @property
    def _key_digest(self) -> str:
        """The SQL digest of a row's keys; without keys, of all columns."""
        return self.dialect.digest_expression(self.keys or self.names)

    @property
    def _row_digest(self) -> str:
        """The SQL digest of all columns, marked as such."""
        return f"'{_ROW_MARK}' || {self.dialect.digest_expression(self.names)}"

    @property
    def _compares_rows(self) -> bool:
        """Whether a row that has changed counts as new: rows are merged by keys."""
        return self.merges and bool(self.keys)

    @property
    def _identity(self) -> str:
        """The SQL digest by which rows that have landed are recognised."""
        return self._row_digest if self._compares_rows else self._key_digest

    def check_nulls(self) -> None:
        """Raise SourceError if the cursor column holds a null."""
        if self.has_row(f"{self.name} IS NULL"):
            raise SourceError(
                f"the cursor {self.column.name!r} is null in some rows, which would never be read",
                "name a column that every row has, or leave those rows out by a `query`.",
            )

    def read_newest(self, last_value: str | None) -> tuple[str | None, bool]:
        """Return the cursor's maximum as text (None: no rows), and if it is below `last_value`."""
        text = self.dialect.text_expression(f"max({self.name})")
        older = "0"
        if last_value is not None:
            previous = sql_literal(last_value, self.column.type)
            older = f"CASE WHEN max({self.name}) < {previous} THEN 1 ELSE 0 END"
        ((newest, is_older),) = self._session.fetch_rows(
            f"SELECT {text}, {older} FROM {self.relation}"
        )
        return newest, bool(int(is_older))

    def has_row(self, where: str) -> bool:
        """Whether a row meets a condition."""
        found = f"SELECT 1 AS x FROM {self.relation} WHERE {where} LIMIT 1"
        return bool(self._session.fetch_value(f"SELECT count(*) FROM ({found}) AS found"))

    def unlanded_condition(self, saved: Mapping[str, Any]) -> str:
        """Return the SQL condition of rows not loaded yet; empty without an earlier bookmark.

        Raises:
            SourceError: rows were added with the last value, and landed ones can't be recognised.
        """
        if not saved:
            return ""
        last, left = sql_literal(saved["value"], self.column.type), saved["left"]
        if isinstance(left, list):
            return self._after_condition(last, self._select_texts(left), matching=False)
        known = None if left is None else self.landed.read(left)
        if known is not None:
            new, old = self._split_newest(last, self._identity, known)
            few = new if new is not None else old
            return self._after_condition(last, few, matching=new is not None)
        if self.merges:
            return f"{self.name} >= {last}"
        if self._count_newest(last) != saved["rows"]:
            raise SourceError(
                f"rows came late with the last value of the cursor {self.column.name!r}, which "
                f"{saved['rows']:,} rows had: too many to tell which have landed",
                "land with `mode: merge`, which takes rows again, or load anew with "
                "`full_refresh`.",
            )
        return f"{self.name} > {last}"

    def count_changed(self, saved: Mapping[str, Any]) -> int:
        """Count loaded rows at the last cursor value that changed since; 0 if rows are merged.

        Returns 0 if the bookmark has no digests of whole rows: without keys, and of too many rows.
        """
        if self.merges or not saved.get("whole"):
            return 0
        left = saved["left"]
        few = isinstance(left, list)
        known = digest_texts(left) if few else self.landed.read(left)
        if known is None:
            return 0
        query = self._newest_query(
            sql_literal(saved["value"], self.column.type), self._key_digest, self._row_digest
        )
        if few:
            query += f" AND {self._in_condition(self._select_texts(left))}"
        return sum(count_changed(batch, known) for batch in self._session.fetch_batches(query))

    def count_repeated(self, saved: Mapping[str, Any]) -> int:
        """Count new rows that equal a loaded row in every column; 0 if the source has keys.

        Returns 0 with keys, and if the bookmark itself has no digests.
        """
        left = saved.get("left")
        if self.keys or not left or not isinstance(left, list):
            return 0
        last = sql_literal(saved["value"], self.column.type)
        among = f" AND {self._in_condition(self._select_texts(left))}"
        return max(0, self._count_newest(last, among) - int(saved["rows"]))

    def upper_condition(self, newest: str, digests: Sequence[str] | None = None) -> str:
        """Return the SQL condition of rows up to `newest`; rows equal to it may need a digest.

        If tasks don't share a snapshot, the rows with that value are limited to those of `digests`:
        a row that gets the value later is not in the bookmark, and is left to the next load.
        """
        last = sql_literal(newest, self.column.type)
        digests = self._select_texts(digests or ())
        if self.dialect.shares_snapshots or not digests:
            return f"{self.name} <= {last}"
        return (
            f"{self.name} <= {last} AND CASE WHEN {self.name} < {last} THEN 1 "
            f"WHEN {self._in_condition(digests)} THEN 1 ELSE 0 END = 1"
        )

    def read_newest_rows(self, newest: str) -> _NewestRows:
        """Count the rows with the newest value; also return their digests if at most 100,000."""
        last = sql_literal(newest, self.column.type)
        rows = self._count_newest(last)
        if rows > _MOST_COMPARED:
            return _NewestRows(rows)
        texts, _ = self._split_newest(last, self._key_digest)
        characters = sum(map(len, texts or ()))
        if texts is None or characters > _MAX_CHARACTERS:
            return _NewestRows(rows)
        texts = sorted(texts)
        if self.keys and (more := self._sum_text_lengths(last)) <= _MAX_CHARACTERS:
            whole, _ = self._split_newest(last, self._row_digest)
            texts, characters = [*texts, *sorted(whole or ())], characters + more
        few = rows <= _FEW_ROWS and characters <= _MAX_BOOKMARK_CHARACTERS
        return _NewestRows(rows, texts, few)

    def _split_newest(
        self, value_sql: str, digest_sql: str, known_digests: pa.Array = _NO_DIGESTS
    ) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Split digests of rows with a cursor value into new, None if too many, and known ones."""
        return split_by_known(
            self._session.fetch_batches(self._newest_query(value_sql, digest_sql)), known_digests
        )

    def _sum_text_lengths(self, value_sql: str) -> int:
        """Return the total length of the whole-row digests of the rows with a value."""
        query = self._newest_query(value_sql, f"coalesce(sum(length({self._row_digest})), 0)")
        return int(self._session.fetch_value(query))

    def _after_condition(self, value_sql: str, digests: Sequence[str], *, matching: bool) -> str:
        """Return SQL for rows above a value, and rows equal to it with or without digests.

        Args:
            matching: whether rows with the value must have one of these digests, or none of them.
        """
        if not digests:
            return f"{self.name} {'>' if matching else '>='} {value_sql}"
        return (
            f"{self.name} >= {value_sql} AND CASE WHEN {self.name} > {value_sql} THEN 1 "
            f"WHEN {self._in_condition(digests)} THEN {matching:d} ELSE {not matching:d} END = 1"
        )

    def _in_condition(self, digests: Sequence[str]) -> str:
        """Return the condition of rows that have one of some digests."""
        known = ", ".join(sql_literal(one, pa.string()) for one in digests)
        return f"{self._identity} IN ({known})"

    def _select_texts(self, digests: Sequence[str]) -> list[str]:
        """Return the digests that `_identity` computes: of whole rows, or of keys."""
        return [text for text in digests if text.startswith(_ROW_MARK) == self._compares_rows]

    def _newest_query(self, value_sql: str, *expressions: str) -> str:
        """Return the query for expressions over the rows with a value."""
        selected = ", ".join(f"{one} AS apart_{n}" for n, one in enumerate(expressions))
        return f"SELECT {selected} FROM {self.relation} WHERE {self.name} = {value_sql}"

    def _count_newest(self, value_sql: str, among: str = "") -> int:
        """Count the rows with a value that meet `among`, a condition that begins with AND."""
        query = f"SELECT count(*) FROM {self.relation} WHERE {self.name} = {value_sql}{among}"
        return int(self._session.fetch_value(query))


def _check_cursor_type(column: DatabaseColumn) -> None:
    """Raise ConfigError unless a cursor is an integer, decimal, date, timestamp or text column."""
    type_, plain = column.type, column.sql == quote_identifier(column.name)
    grows = pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)
    if pa.types.is_decimal(type_) or (plain and (grows or type_ == TIMESTAMP)):
        return
    raise ConfigError(
        f"the cursor {column.name!r} is of type {format_type(type_)}"
        + ("" if plain else ", made of another one"),
        "name a column of whole numbers, decimals, dates, timestamps or text that grows.",
    )


def _describe_cursor_source(
    address: str, source: DatabaseSource, keys: tuple[str, ...]
) -> dict[str, Any]:
    """Return bookmark entries that identify a source: database, table or query, cursor, keys."""
    query = f"query {hashlib.sha256(source.query.encode()).hexdigest()[:16]}"
    return {
        "database": address,
        "of": source.table or query,
        "cursor": source.cursor,
        "keys": list(keys),
    }


def _check_bookmark(saved: Mapping[str, Any], expected: Mapping[str, Any], name: str) -> None:
    """Raise ConfigError if a bookmark was saved for another source; an empty bookmark passes."""
    if not saved:
        return
    for key, now in expected.items():
        if saved.get(key) != now:
            raise ConfigError(
                f"what the table remembers as {name!r} belongs to "
                f"{_describe_part(key, saved.get(key))}, and this source has "
                f"{_describe_part(key, now)}",
                _HINT,
            )


def _describe_part(key: str, value: Any) -> str:
    """Return one entry of `_describe_cursor_source` as words for an error message."""
    if key == "keys":
        return f"the keys {', '.join(value)}" if value else "no keys"
    return f"{'' if key == 'of' else f'the {key} '}{value!r}"


def _backwards_warning(source: DatabaseSource, backwards: bool) -> str:
    """Build the warning that a cursor's maximum has decreased, or that all rows were removed."""
    what = "is older than the one that has landed" if backwards else "is gone, with all rows"
    return (
        f"the newest value of the cursor {source.cursor!r} {what}: rows were removed, or it went "
        "back; rows that get older values than it are not seen until a `full_refresh`."
    )


@dataclass
class DatabaseFlushes:
    """Iterates one flush of a database source: its new rows, and the keys of deleted rows.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses a query.
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
        self._access = make_access(source)
        self._open_connections = ExitStack()
        self._notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Flush]:
        """Connect, begin the snapshot, and yield one flush that reads it; see `close`."""
        session = self._open_connections.enter_context(self._access.connect())
        batches = tuple(self._make_batches(session))
        if any(batch.sequence == 0 for batch in batches):
            yield Flush(batches, last=True)
            return
        note = f"nothing new: no row has another {self.source.cursor!r} than those that have landed"
        text = "; ".join((note, *self._notes))
        yield Flush(batches, last=True, notes={self.stream: text}, quiet=(self.stream,))

    def close(self) -> None:
        """Close the connection that holds the snapshot, after the load."""
        self._open_connections.close()

    def _make_batches(self, session: DatabaseSession) -> Iterator[Batch]:
        """Begin a snapshot; yield a batch of new rows and one of deleted keys, unless empty."""
        source = self.source
        dialect = self._dialect = _choose_dialect(source, session)
        joining = dialect.begin_snapshot()
        relation = _resolve_relation(dialect, source)
        columns, notes = dialect.describe_columns(relation)
        keys = self._find_keys(columns)
        if source.deletes == "compare":
            check_comparable(self.config, keys)
        window = CursorWindow()
        if source.cursor:
            memory, merges = self.tables.open_memory(self.stream), self.config.mode is Mode.MERGE
            window = find_window(dialect, source, relation, columns, keys, memory, merges=merges)
        self._notes = window.notes
        where = window.where
        columns, inferred = dialect.infer_open_types(relation, where, columns)
        size = dialect.estimate_bytes(relation, where)
        parts = self._plan_ranges(relation, where, columns, size)
        reader = DatabaseReader(
            self._make_schema(columns),
            self._access,
            joining,
            relation,
            columns,
            where,
            parts,
            dialect.sample_row(columns),
        )
        digest = self._digest_request(relation)
        if not window.empty or window.warnings:
            yield Batch(
                self.stream,
                0,
                reader=reader,
                splits=tuple(Split(self.stream, i, i + 1, first_line=0) for i in range(len(parts))),
                bytes=size,
                digest=digest,
                key_properties=keys,
                output_ratio=_OUTPUT_RATIO,
                warnings=window.warnings,
                notes=(*notes, *inferred, *window.notes),
                untyped={c.name: c.untyped for c in columns if c.untyped is not None},
                bookmark=window.bookmark,
                before_commit=window.before_commit,
            )
        if (absent := self._read_absent_keys(reader, keys)) is not None:
            yield Batch(
                self.stream,
                1,
                reader=absent,
                splits=(Split(self.stream, first_line=0),),
                records=absent.rows.num_rows,
                bytes=absent.rows.nbytes,
                digest=digest,
                key_properties=keys,
                has_deleted_keys=True,
            )

    def _find_keys(self, columns: Columns) -> tuple[str, ...]:
        """Return the primary key's columns, else `merge_keys` if all are in the source; or none."""
        table, merge_keys = self.source.table, self.config.merge_keys
        if table and (key := self._dialect.read_primary_key(table)):
            return key
        return merge_keys if {column.name for column in columns}.issuperset(merge_keys) else ()

    def _plan_ranges(
        self, relation: str, where: str, columns: Columns, size_bytes: int
    ) -> tuple[str, ...]:
        """Return SQL conditions that divide the rows among tasks; `("",)` for a single range."""
        source, dialect = self.source, self._dialect
        column = find_column(source.split_by, columns, "split_by") if source.split_by else None
        if not dialect.shares_snapshots:
            return ("",)
        count = source.splits or count_ranges(size_bytes, self.cores)
        if column is not None:
            return split_ranges(dialect, relation, where, column, count)
        return dialect.split_by_blocks(relation, count) or ("",)

    def _make_schema(self, columns: Columns) -> pa.Schema:
        """Return the rows' Arrow schema; `deletes: compare` adds a deletion column, all null."""
        fields = [to_table_field(column.name, column.type) for column in columns]
        marks = self.source.deletes == "compare" and not self.config.hard_delete
        if marks and deletion_mark(self.config) not in {field.name for field in fields}:
            fields.append(pa.field(deletion_mark(self.config), TIMESTAMP))
        return pa.schema(fields)

    def _read_absent_keys(
        self, reader: DatabaseReader, keys: tuple[str, ...]
    ) -> InMemoryReader | None:
        """Find keys that the table has and the source lacks; return a reader of them, or None.

        Returns None if there are none, and without `deletes: compare`.
        """
        mark = deletion_mark(self.config)
        compares = self.source.deletes == "compare"
        table = self.tables.read_keys(self.stream, keys, mark) if compares else None
        if table is None:
            return None
        key_schema = normalise_schema(table.schema)
        columns = tuple(column for key in keys for column in reader.columns if column.name == key)
        schema = pa.schema([to_table_field(column.name, column.type) for column in columns])
        sample = self._dialect.sample_row(columns)
        alone = replace(
            reader, columns=columns, where="", ranges=("",), schema=schema, sample=sample
        )
        fetched = alone.read_range(self._dialect.session, 0)
        source_keys = [cast_batch(batch, key_schema) for batch in fetched]
        table_keys = [cast_batch(batch, key_schema) for batch in table.to_batches()]
        deleted = pa.Table.from_batches(table_keys, key_schema).join(
            pa.Table.from_batches(source_keys, key_schema), list(keys), join_type="left anti"
        )
        if not deleted.num_rows:
            return None
        now = pa.array([datetime.now(UTC)] * deleted.num_rows, TIMESTAMP)
        rows = deleted.append_column(pa.field(mark, TIMESTAMP), now)
        return InMemoryReader(rows.schema, rows)

    def _digest_request(self, relation: str) -> str:
        """Return a SHA-256 of the database and the query; empty if the run has no ID."""
        if self.config.run_id is None:
            return ""
        return hashlib.sha256(f"{self._access.address}\n{relation}".encode()).hexdigest()


def describe_columns(source: DatabaseSource) -> pa.Schema:
    """Return the Arrow schema of a source's table or query, without reading rows.

    A type that depends on values is text here, such as that of an SQLite column without one.

    Raises:
        MissingDependency: the driver is not installed.
        ConfigError: the URI or a key of the source is wrong.
        SourceError: the database can't be reached, or refuses.
    """
    with make_access(source).connect() as session:
        dialect = _choose_dialect(source, session)
        relation = _resolve_relation(dialect, source)
        columns, _ = dialect.describe_columns(relation)
    types = (pa.string() if pa.types.is_null(column.type) else column.type for column in columns)
    return pa.schema(
        [to_table_field(c.name, type_) for c, type_ in zip(columns, types, strict=True)]
    )


def _resolve_relation(dialect: SqlDialect, source: DatabaseSource) -> str:
    """Return the source's table or query in SQL, for FROM."""
    return wrap_query(source.query) if source.query else dialect.resolve_table(source.table)


def _choose_dialect(source: DatabaseSource, session: DatabaseSession) -> SqlDialect:
    """Return the dialect of a source's database."""
    scheme = "" if source.driver else parse_scheme(source.database.get_secret_value())
    return _DIALECTS.get(scheme, SqlDialect)(session)
