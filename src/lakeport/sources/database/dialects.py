"""SQL of each kind of database: PostgreSQL, SQLite, DuckDB, and the standard for others.

What its driver would change is cast by the server: `oid` would wrap, `time` has no 24:00, and
arrays of several dimensions would be flattened.

The driver takes a column's type from its first rows: a row of constants goes before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.schema.casting import normalise_schema
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.nested import find_untyped_columns, replace_untyped_columns
from lakeport.schema.types import MAX_PRECISION, check_column_names, get_logical_type
from lakeport.sources.database.access import TOO_LONG, DatabaseSession
from lakeport.sources.splits import align_batch

_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_NEAREST = 5

_UTC: Final = "SET TimeZone = 'UTC'"
_CASTS: Final = {
    "HUGEINT": "DECIMAL(38,0)",  # Arrow has no more digits
    "UHUGEINT": "DECIMAL(38,0)",
    **dict.fromkeys(
        ("TIME", "TIME WITH TIME ZONE", "TIME_NS", "INTERVAL", "UUID", "BIT", "BIGNUM"), "VARCHAR"
    ),
}
_LISTED: Final = re.compile(r"([^\[\]]*)((?:\[\d*\])*)")
_LOST: Final = re.compile(
    r"\b(TIME|TIME_NS|INTERVAL|BIT|BIGNUM|U?HUGEINT|TIME WITH TIME ZONE|UNION)\b(?! ZONE)"
)
"""Matches types whose values Arrow changes, or has no type for, within another value."""
_DUCKDB_KEY: Final = """
SELECT unnest(constraint_column_names) FROM duckdb_constraints()
WHERE constraint_type = 'PRIMARY KEY' AND table_name = '{}' AND schema_name = {}
"""
_PACKED: Final = 4
"""About how much larger rows are than their file."""

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SETTINGS: Final = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "0",  # the snapshot's holder waits for the tasks
}
_SET: Final = "SELECT " + ", ".join(f"set_config('{k}', '{v}', true)" for k, v in _SETTINGS.items())
_NUMBERS: Final = ("bool", "int2", "int4", "int8", "float4", "float8")
_TIMES: Final = ("date", "timestamp", "timestamptz")
_TEXTS: Final = ("text", "varchar", "bpchar", "name", "char", "bytea")
_AS_IT_IS: Final = frozenset((*_NUMBERS, *_TIMES, *_TEXTS))

_OPEN: Final = pa.null()
"""Stands for the type of numbers whose digits only the values tell."""
_SCALES: Final = (9, 18, 28)
"""Digits behind the point of numbers whose type has no scale: few, so that they stay the same."""
_TABLES: Final = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog',
  'information_schema', 'pg_toast') AND has_schema_privilege(n.oid, 'USAGE')
"""
_POSTGRES_KEY: Final = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(n, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
WHERE i.indisprimary AND i.indrelid = '{}'::regclass ORDER BY k.place
"""

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


@dataclass(frozen=True, slots=True)
class DatabaseColumn:
    """A column to read.

    Attributes:
        name: its name, in the database and in the table.
        sql: the expression that gives its values.
        type: what they are in the table; those that come as text are numbers written out where
            this is a decimal, or a list of decimals. Arrow's type JSON stands for JSON text.
        check: an expression that is true of a row whose value can't be read; empty for none.
        reason: what such a value is, after `column 'a' holds`.
        hint: what to do about it.
        untyped: what it is known by where it has places without a value (see
            `lakeport.schema.nested`).
    """

    name: str
    sql: str
    type: pa.DataType
    check: str = ""
    reason: str = ""
    hint: str = ""
    untyped: pa.DataType | None = None

    def as_text(self) -> DatabaseColumn:
        """The same, without a type for its texts."""
        is_list = pa.types.is_list(self.type)
        return replace(self, type=pa.list_(pa.string()) if is_list else pa.string())


def quoted(name: str) -> str:
    """An identifier as SQL has it.

    >>> quoted('a "b"')
    '"a ""b""\"'
    """
    return '"' + name.replace('"', '""') + '"'


def typed(
    batch: pa.RecordBatch, columns: Sequence[DatabaseColumn], schema: pa.Schema
) -> pa.RecordBatch:
    """What a database answered, as columns of their types.

    Args:
        batch: the columns, in order, and behind them the checks of those that have one.
        columns: what was asked for.
        schema: the columns to give; those that were not asked for are null.

    Raises:
        SourceError: a value can't be read, or does not fit; the message names the column.
    """
    checked = [column for column in columns if column.check]
    for column, refused in zip(checked, batch.columns[len(columns) :], strict=True):
        if pc.any(refused.cast(pa.bool_()), min_count=0).as_py():
            raise SourceError(f"column {column.name!r} holds {column.reason}", column.hint)
    arrays = [_typed(batch.column(i), column) for i, column in enumerate(columns)]
    named = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    return align_batch(named, schema)


def _typed(array: Any, column: DatabaseColumn) -> Any:
    """An array of the column's type, where the driver gives numbers as text or has types apart."""
    if isinstance(array.type, pa.BaseExtensionType) and array.type != pa.uuid():
        array = array.storage
    wanted = column.type
    if pa.types.is_list(wanted) and pa.types.is_decimal(wanted.value_type):
        numbers = _decimals(array.flatten(), wanted.value_type, column.name)
        return pa.ListArray.from_arrays(_offsets(array), numbers, mask=array.is_null())
    if pa.types.is_boolean(wanted) and pa.types.is_integer(array.type):
        return pc.not_equal(array, 0)  # what is neither 0 nor 1 was refused
    if pa.types.is_decimal(wanted) and pa.types.is_string(array.type):
        return _decimals(array, wanted, column.name)
    return array


def _offsets(array: Any) -> Any:
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _decimals(texts: Any, wanted: pa.DataType, name: str) -> Any:
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        pass
    raise SourceError(  # outside the handler: Arrow's own words hold the value
        f"column {name!r} holds a number that decimal({wanted.precision},{wanted.scale}) can't "
        "hold: NaN, an infinity, or one with more digits",
        "read it by `query`, as `NULLIF(column, 'NaN')` or cast to double precision or text.",
    )


class SqlDialect:
    """What a database is asked, and how. Any that an ADBC driver reaches, where no other is known.

    Attributes:
        shares: whether several connections can read one snapshot.
    """

    shares = False

    def begin(self, session: DatabaseSession) -> tuple[str, ...]:
        """Begin the snapshot that a load reads; return what has another connection join it."""
        return ()

    def relation(self, session: DatabaseSession, table: str) -> str:
        """Return a table's name as it stands behind FROM.

        Raises:
            SourceError: there is no such table.
        """
        return ".".join(quoted(part) for part in parts(table))

    def columns(self, session: DatabaseSession, relation: str) -> tuple[DatabaseColumn, ...]:
        """The columns, as they are asked for.

        Raises:
            SourceError: one has a type that no table has, or two have one name.
        """
        found = session.schema(f"SELECT * FROM {relation}")
        check_column_names("the query", found.names)
        return tuple(self._column(field) for field in found)

    def settled(
        self,
        session: DatabaseSession,
        relation: str,
        where: str,
        columns: tuple[DatabaseColumn, ...],
    ) -> tuple[tuple[DatabaseColumn, ...], tuple[str, ...]]:
        """The columns with the types that only their values tell, and notes about those.

        Args:
            session: a connection, in the load's snapshot.
            relation: what stands behind FROM.
            where: a condition that the rows meet; empty for all of them.
            columns: as `columns` gives them.
        """
        return columns, ()

    def size(self, session: DatabaseSession, relation: str, where: str) -> int:
        """About how many bytes the rows have; -1 if nothing tells."""
        return -1

    def blocks(self, session: DatabaseSession, relation: str, count: int) -> tuple[str, ...]:
        """Conditions that share a table's rows out by where they lie; none where that can't be."""
        return ()

    def primary_key(self, session: DatabaseSession, table: str) -> tuple[str, ...]:
        """A table's primary key; empty if it has none, or nothing tells."""
        return ()

    def text(self, expression: str) -> str:
        """An expression that is another one's value as text, exactly."""
        return f"CAST({expression} AS VARCHAR)"

    def digest(self, names: tuple[str, ...]) -> str:
        """An expression that tells rows apart by these columns; the lengths keep them apart."""
        texts = (self.text(quoted(name)) for name in names)
        return " || ',' || ".join(
            f"coalesce({self.text(f'length({text})')} || ':' || {text}, '-')" for text in texts
        )

    def sample(self, columns: tuple[DatabaseColumn, ...]) -> str:
        """Constants for a row that goes first and tells the driver the types; empty for none."""
        return ""

    def file_size(self, session: DatabaseSession) -> int:
        """The bytes of the database's file; -1 if it has none."""
        file = Path(session.access.place)
        return file.stat().st_size if file.is_file() else -1

    def _column(self, field: pa.Field) -> DatabaseColumn:
        is_opaque = isinstance(field.type, pa.OpaqueType)
        if is_opaque and not pa.types.is_string(field.type.storage_type):
            raise SourceError(
                f"column {field.name!r} has type {field.type.type_name}, which can't be read",
                "cast it to text, or leave it out, in a `query`.",
            )
        return DatabaseColumn(
            field.name,
            quoted(field.name),
            get_logical_type(normalise_schema(pa.schema([field])).field(0)),
        )


def query_of(query: str) -> str:
    """A query as what stands behind FROM. A comment at its end ends there."""
    return f"(\n{query.strip().rstrip(';')}\n) AS lakeport_query"


def parts(table: str) -> list[str]:
    """The parts of a table's name, such as its schema; quotes hold dots together.

    >>> parts('public."odd.name"')
    ['public', 'odd.name']
    """
    return [inner.replace('""', '"') or plain for inner, plain in _PART.findall(table)]


def absent(table: str, known: Sequence[str]) -> SourceError:
    """The error for a table that is not there."""
    nearest = sort_by_similarity(table, known)[:_NEAREST]
    return SourceError(
        f"there is no table {table!r}, or this user may not see it",
        f"the nearest names are {quote_names(nearest)}; names are as the database has them, case "
        "included."
        if nearest
        else "this user sees no table at all: grant it USAGE on the schema, or name another one.",
    )


class DuckDb(SqlDialect):
    """See the module."""

    shares = True

    def begin(self, session: DatabaseSession) -> tuple[str, ...]:
        """See `SqlDialect.begin`: while this connection is there, no other process may write."""
        session.rows(_UTC)
        return (_UTC,)

    def relation(self, session: DatabaseSession, table: str) -> str:
        """See `SqlDialect.relation`."""
        name = parts(table)
        known = session.rows("SELECT table_schema, table_name FROM information_schema.tables")
        if tuple(name[-2:]) not in known and (len(name) > 1 or table not in [t for _, t in known]):
            raise absent(table, [t if s == "main" else f"{s}.{t}" for s, t in known])
        return ".".join(quoted(part) for part in name)

    def columns(self, session: DatabaseSession, relation: str) -> tuple[DatabaseColumn, ...]:
        """See `SqlDialect.columns`."""
        told = session.rows(f"DESCRIBE SELECT * FROM {relation}")
        check_column_names("the query", [row[0] for row in told])
        asked = {name: _asked(name, kind) for name, kind, *_ in told}
        json = {n for n, kind, *_ in told if kind == "JSON" or asked[n].startswith("CAST(to_json")}
        wanted = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in asked.items())
        schema = session.schema(f"SELECT {wanted} FROM {relation}")
        found = normalise_schema(schema, keep_untyped=True)
        untyped = find_untyped_columns(found)
        return tuple(
            DatabaseColumn(
                field.name,
                asked[field.name],
                pa.json_() if field.name in json else get_logical_type(field),
                untyped=untyped.get(field.name),
            )
            for field in replace_untyped_columns(found)
        )

    def size(self, session: DatabaseSession, relation: str, where: str) -> int:
        """See `SqlDialect.size`: as if all of the file were read."""
        return _PACKED * self.file_size(session)

    def primary_key(self, session: DatabaseSession, table: str) -> tuple[str, ...]:
        """See `SqlDialect.primary_key`."""
        *schema, name = (part.replace("'", "''") for part in parts(table))
        of = f"'{schema[-1]}'" if schema else "current_schema()"
        return tuple(row[0] for row in session.rows(_DUCKDB_KEY.format(name, of)))

    def digest(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest`."""
        return f"md5({super().digest(names)})"


def _asked(name: str, kind: str) -> str:
    """The expression that gives a column's values as Arrow has them."""
    sql = quoted(name)
    found = _LISTED.fullmatch(kind)
    if found and found[1] in _CASTS:
        cast = f"CAST({sql} AS {_CASTS[found[1]]}{found[2]})"
        if not found[1].endswith("HUGEINT"):
            return cast
        told = f"column {name!r} {TOO_LONG}".replace("'", "''")
        fits = f"CAST(TRY_{cast} AS {kind}) IS NOT DISTINCT FROM {sql}"
        return f"CASE WHEN {fits} THEN {cast} ELSE error('{told}') END"
    if kind.startswith("ENUM"):
        return f"CAST({sql} AS VARCHAR)"
    if _LOST.search(kind):
        return f"CAST(to_json({sql}) AS VARCHAR)"
    return sql


_TEXT, _JSON, _OID = pa.string(), pa.json_(), pa.int64()


class Postgres(SqlDialect):
    """See the module."""

    shares = True

    def begin(self, session: DatabaseSession) -> tuple[str, ...]:
        """See `SqlDialect.begin`."""
        session.rows(_BEGIN)
        snapshot = session.value("SELECT pg_export_snapshot()")
        session.rows(_SET)
        return (_BEGIN, f"SET TRANSACTION SNAPSHOT '{snapshot}'", _SET)

    def relation(self, session: DatabaseSession, table: str) -> str:
        """See `SqlDialect.relation`."""
        name = ".".join(quoted(part) for part in parts(table))
        if session.value(f"SELECT to_regclass({_literal(name)})::text") is None:
            raise absent(table, [row[0] for row in session.rows(_TABLES)])
        return name

    def columns(self, session: DatabaseSession, relation: str) -> tuple[DatabaseColumn, ...]:
        """See `SqlDialect.columns`."""
        found = session.schema(f"SELECT * FROM {relation}")
        check_column_names("the query", found.names)
        kinds = self._kinds(session, found)
        return tuple(
            self._of(session, field, kind) for field, kind in zip(found, kinds, strict=True)
        )

    def settled(
        self,
        session: DatabaseSession,
        relation: str,
        where: str,
        columns: tuple[DatabaseColumn, ...],
    ) -> tuple[tuple[DatabaseColumn, ...], tuple[str, ...]]:
        """See `SqlDialect.settled`: numbers without a precision get one that holds all of them."""
        open_ = [column for column in columns if column.type in (_OPEN, pa.list_(_OPEN))]
        if not open_:
            return columns, ()
        asked = ", ".join(_digits(column) for column in open_)
        (row,) = session.rows(f"SELECT {asked} FROM {relation}{f' WHERE {where}' if where else ''}")
        types: dict[str, DatabaseColumn] = {}
        notes = []
        for number, column in enumerate(open_):
            scale, whole, other = row[3 * number : 3 * number + 3]
            types[column.name], note = _closed(column, scale or 0, len(whole or ""), bool(other))
            notes.append(note)
        return tuple(types.get(column.name, column) for column in columns), tuple(notes)

    def size(self, session: DatabaseSession, relation: str, where: str) -> int:
        """See `SqlDialect.size`: what the planner expects."""
        query = f"SELECT * FROM {relation}{f' WHERE {where}' if where else ''}"
        (row, *_) = session.rows(f"EXPLAIN (FORMAT JSON) {query}")
        plan = (json.loads(row[0]) if isinstance(row[0], str) else row[0])[0]["Plan"]
        return int(plan["Plan Rows"]) * int(plan["Plan Width"])

    def blocks(self, session: DatabaseSession, relation: str, count: int) -> tuple[str, ...]:
        """See `SqlDialect.blocks`: ranges of `ctid`, which servers from 14 on can seek."""
        if relation.startswith("("):
            return ()
        name = _literal(relation)
        ((version, kind, pages),) = session.rows(
            "SELECT current_setting('server_version_num')::int, relkind::text, "
            f"pg_relation_size(oid) / current_setting('block_size')::int FROM pg_class "
            f"WHERE oid = {name}::regclass"
        )
        count = min(count, pages)
        if version < 140_000 or kind not in ("r", "m") or count < 2:
            return ()
        bounds = [f"'({pages * i // count},0)'::tid" for i in range(1, count)]
        middle = [f"ctid >= {low} AND ctid < {high}" for low, high in pairwise(bounds)]
        return (f"ctid < {bounds[0]}", *middle, f"ctid >= {bounds[-1]}")

    def primary_key(self, session: DatabaseSession, table: str) -> tuple[str, ...]:
        """See `SqlDialect.primary_key`."""
        name = ".".join(quoted(part) for part in parts(table))
        return tuple(row[0] for row in session.rows(_POSTGRES_KEY.format(name.replace("'", "''"))))

    def text(self, expression: str) -> str:
        """See `SqlDialect.text`."""
        return f"({expression})::text"

    def digest(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest`."""
        return f"md5(ROW({', '.join(map(quoted, names))})::text)"

    def _kinds(self, session: DatabaseSession, found: pa.Schema) -> list[_PostgresType]:
        """What the types are that the driver has no name for: by the catalogue."""
        names = [_entry(field, b"POSTGRESQL:type") for field in found]
        unnamed = {name: name.partition("oid:")[2].rstrip(">") for name in names if "oid:" in name}
        told = {}
        if unnamed:
            rows = session.rows(
                "SELECT t.oid::bigint::text, t.typname, t.typtype::text, coalesce(e.typtype::text, "
                "'') FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = "
                f"'A' WHERE t.oid IN ({', '.join(unnamed.values())})"
            )
            told = {oid: _PostgresType(*row) for oid, *row in rows}
        return [told.get(unnamed.get(name, ""), _PostgresType(name)) for name in names]

    def _of(self, session: DatabaseSession, field: pa.Field, kind: _PostgresType) -> DatabaseColumn:
        name, sql = field.name, quoted(field.name)
        if kind.is_record or _has_records(field.type):
            return DatabaseColumn(name, f"to_json({sql})::text", _JSON)
        if pa.types.is_list(field.type) or kind.item:
            return _array(field, kind.name.removeprefix("_"), sql)
        if kind.name in _AS_IT_IS:
            return DatabaseColumn(name, sql, normalise_schema(pa.schema([field])).field(0).type)
        if kind.name == "numeric":
            modifier = int(_entry(field, b"POSTGRESQL:typmod") or -1)
            return DatabaseColumn(name, f"{sql}::text", _decimal(modifier))
        if kind.name == "money":
            scale = session.value("SELECT scale(0::money::numeric)")
            return DatabaseColumn(name, f"{sql}::numeric::text", pa.decimal128(19, scale))
        if kind.name in ("json", "jsonb"):
            return DatabaseColumn(name, f"{sql}::text", _JSON)
        if kind.name == "oid":
            return DatabaseColumn(name, f"{sql}::bigint", _OID)
        return DatabaseColumn(name, f"{sql}::text", _TEXT)


class _PostgresType(NamedTuple):
    """A type: its name, `c` for one of records, and the same of an array's items."""

    name: str
    type: str = ""
    item: str = ""

    @property
    def is_record(self) -> bool:
        return self.type in ("c", "p") or self.item in ("c", "p") or self.name == "record"


def _has_records(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) or (pa.types.is_list(type_) and _has_records(type_.value_type))


def _array(field: pa.Field, item: str, sql: str) -> DatabaseColumn:
    refused = f"coalesce(array_ndims({sql}), 1) > 1"
    if item in _AS_IT_IS:
        cast, type_ = sql, normalise_schema(pa.schema([field])).field(0).type
    elif item == "oid":
        cast, type_ = f"{sql}::bigint[]", pa.list_(_OID)
    elif item in ("numeric", "money"):
        cast, type_ = f"{sql}::numeric[]::text[]", pa.list_(_OPEN)
    else:
        cast, type_ = f"{sql}::text[]", pa.list_(_TEXT)
    return DatabaseColumn(
        field.name,
        cast,
        type_,
        refused,
        "arrays of several dimensions, which no list of a table is",
        f"read it by `query`, as `to_json({field.name})::text`.",
    )


def _decimal(modifier: int) -> pa.DataType:
    """The type of `numeric(precision, scale)`, by its modifier in the catalogue.

    >>> _decimal(655366), _decimal(-1) == _OPEN
    (Decimal128Type(decimal128(10, 2)), True)
    """
    if modifier < 4:
        return _OPEN
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return pa.decimal128(digits, max(scale, 0)) if digits <= MAX_PRECISION else _OPEN


def _digits(column: DatabaseColumn) -> str:
    """Aggregates: most digits behind the point, the largest whole part, whether some is none."""
    sql = quoted(column.name)
    if pa.types.is_list(column.type):
        source = f"(SELECT {{}} FROM unnest({sql}::numeric[]) x)"
        return (
            f"max({source.format('max(scale(x))')}), "
            f"max({source.format('max(trunc(abs(x))) FILTER (WHERE scale(x) IS NOT NULL)')})::text,"
            f" bool_or({source.format('bool_or(x IS NOT NULL AND scale(x) IS NULL)')})"
        )
    return (
        f"max(scale({sql})), max(trunc(abs({sql}))) FILTER (WHERE scale({sql}) IS NOT NULL)::text, "
        f"bool_or({sql} IS NOT NULL AND scale({sql}) IS NULL)"
    )


def _closed(
    column: DatabaseColumn, scale: int, whole: int, other: bool
) -> tuple[DatabaseColumn, str]:
    """A column of numbers with the type that holds all of them, or as text, and a note on it."""
    fitting = next((s for s in (*_SCALES, scale) if scale <= s and whole + s <= MAX_PRECISION), -1)
    told = f"column {column.name!r} is numeric without a precision"
    if other or fitting < 0:
        why = "NaN or an infinity" if other else f"more than {MAX_PRECISION} digits"
        return column.as_text(), f"{told}, and a value has {why}: it is text."
    type_ = pa.decimal128(MAX_PRECISION, fitting)
    of = pa.list_(type_) if pa.types.is_list(column.type) else type_
    note = f"{told}: decimal({MAX_PRECISION},{fitting}) holds its values; `columns` can say another"
    return replace(column, type=of), f"{note}."


def _entry(field: pa.Field, key: bytes) -> str:
    return str((field.metadata or {}).get(key, b"").decode())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Sqlite(SqlDialect):
    """See the module."""

    def relation(self, session: DatabaseSession, table: str) -> str:
        """See `SqlDialect.relation`."""
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

    def columns(self, session: DatabaseSession, relation: str) -> tuple[DatabaseColumn, ...]:
        """See `SqlDialect.columns`; `settled` tells the types of those that are not declared."""
        names = session.schema(f"SELECT * FROM {relation} LIMIT 0").names
        check_column_names("the query", names)
        declared: Mapping[str, str] = {}
        if not relation.startswith("("):
            table = relation[1:-1].replace('""', '"').replace("'", "''")
            rows = session.rows(f"SELECT name, type FROM pragma_table_info('{table}')")
            declared = {name: str(kind).upper() for name, kind in rows}
        return tuple(_declared(name, declared.get(name, "")) for name in names)

    def settled(
        self,
        session: DatabaseSession,
        relation: str,
        where: str,
        columns: tuple[DatabaseColumn, ...],
    ) -> tuple[tuple[DatabaseColumn, ...], tuple[str, ...]]:
        """See `SqlDialect.settled`: undeclared columns are of the kind that their values are."""
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

    def size(self, session: DatabaseSession, relation: str, where: str) -> int:
        """See `SqlDialect.size`: as if all of the file were read."""
        return self.file_size(session)

    def primary_key(self, session: DatabaseSession, table: str) -> tuple[str, ...]:
        """See `SqlDialect.primary_key`."""
        name = table.replace("'", "''")
        rows = session.rows(
            f"SELECT name FROM pragma_table_info('{name}') WHERE pk > 0 ORDER BY pk"
        )
        return tuple(row[0] for row in rows)

    def text(self, expression: str) -> str:
        """See `SqlDialect.text`."""
        return f"CAST({expression} AS TEXT)"

    def digest(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest`: there is no hash, but a literal for each value."""
        return " || ',' || ".join(f"quote({quoted(name)})" for name in names)

    def sample(self, columns: tuple[DatabaseColumn, ...]) -> str:
        """See `SqlDialect.sample`."""
        values = [f"{_SAMPLE[column.type]} AS {quoted(column.name)}" for column in columns]
        return ", ".join([*values, *("0" for column in columns if column.check)])


def _declared(name: str, kind: str) -> DatabaseColumn:
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
    return DatabaseColumn(name, sql, pa.null())


def _number(name: str, sql: str, kind: str) -> DatabaseColumn:
    large = f"typeof({sql}) = 'integer' AND abs({sql}) > {_EXACT}"
    refused = f"typeof({sql}) IN ('text', 'blob') OR ({large})"
    return _of(name, f"CAST({sql} AS REAL)", pa.float64(), refused, kind)


def _of(name: str, sql: str, type_: pa.DataType, refused: str, kind: str) -> DatabaseColumn:
    plain = quoted(name)
    return DatabaseColumn(
        name,
        sql,
        type_,
        f"({plain} IS NOT NULL AND ({refused}))",
        f"a value that is no {kind}, as which it is declared" if kind else "values of other kinds",
        f"correct the values, or read the column by `query`, as `CAST({name} AS TEXT)`.",
    )


def _by_values(column: DatabaseColumn, kinds: set[str]) -> DatabaseColumn:
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
