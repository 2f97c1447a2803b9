"""Build the SQL for each kind of database: PostgreSQL, DuckDB, SQLite, and standard SQL for others.

The server casts values that PostgreSQL's driver would change: `oid` would wrap, `time` has no
24:00, and arrays of several dimensions would be flattened.

SQLite's driver takes a column's type from the first rows, so a row of constants is put before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.schema.casting import normalise_schema, note_zoneless
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.nested import find_untyped_columns, replace_untyped_columns
from lakeport.schema.types import MAX_PRECISION, check_column_names, get_logical_type
from lakeport.sources.database.access import TOO_LONG, DatabaseSession
from lakeport.sources.splits import align_batch

_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_NEAREST = 5

_SET_UTC: Final = "SET TimeZone = 'UTC'"
_DUCKDB_CASTS: Final = {
    "HUGEINT": "DECIMAL(38,0)",  # Arrow has no more digits
    "UHUGEINT": "DECIMAL(38,0)",
    **dict.fromkeys(
        ("TIME", "TIME WITH TIME ZONE", "TIME_NS", "INTERVAL", "UUID", "BIT", "BIGNUM"), "VARCHAR"
    ),
}
_LIST_TYPE: Final = re.compile(r"([^\[\]]*)((?:\[\d*\])*)")
_UNSUPPORTED_IN_NESTED: Final = re.compile(
    r"\b(TIME|TIME_NS|INTERVAL|BIT|BIGNUM|U?HUGEINT|TIME WITH TIME ZONE|UNION)\b(?! ZONE)"
)
"""Matches types that, nested in another one, Arrow has no equal for or changes values of."""
_DUCKDB_KEY: Final = """
SELECT unnest(constraint_column_names) FROM duckdb_constraints()
WHERE constraint_type = 'PRIMARY KEY' AND table_name = {} AND schema_name = {}
"""
_DUCKDB_EXPANSION: Final = 4
"""About how many bytes of rows a byte of a DuckDB file holds."""

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
_UNCHANGED_TYPES: Final = frozenset((*_NUMBERS, *_TIMES, *_TEXTS))

_OPEN_TYPE: Final = pa.null()
"""The type of numbers without a declared precision, until their values are read."""
_SCALES: Final = (9, 18, 28)
"""Scales of such numbers; only three, so that later loads need no other one."""
_TABLES: Final = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog',
  'information_schema', 'pg_toast') AND has_schema_privilege(n.oid, 'USAGE')
"""
_POSTGRES_KEY: Final = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(n, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
WHERE i.indisprimary AND i.indrelid = {}::regclass ORDER BY k.place
"""

_STORAGE_CLASSES: Final = ("integer", "real", "text", "blob")
_MAX_EXACT: Final = 1 << 53
"""A double holds every whole number up to this one."""
_INTEGER: Final = pa.int64()
_SAMPLE_VALUES: Final = {
    _INTEGER: "0",
    pa.bool_(): "0",
    pa.float64(): "0.5",
    pa.string(): "''",
    pa.binary(): "x''",
    pa.json_(): "''",
}


@dataclass(frozen=True, slots=True)
class DatabaseColumn:
    """A column to read: its SQL expression, its Arrow type, and an SQL check of its values.

    Attributes:
        type: the values' type in the table. The driver returns decimals as text; Arrow's type
            JSON stands for JSON text.
        check: an SQL expression that is true for a value that can't be read; empty for none.
        reason: the end of the error message about such a value, after `column 'a' holds`.
        hint: the hint of that error.
        untyped: the type with undetermined parts, if it has any (see `lakeport.schema.nested`).
    """

    name: str
    sql: str
    type: pa.DataType
    check: str = ""
    reason: str = ""
    hint: str = ""
    untyped: pa.DataType | None = None


Columns = tuple[DatabaseColumn, ...]
"""The columns of a relation, in order."""


def quote_identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier.

    >>> quote_identifier('a "b"')
    '"a ""b""\"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text as an SQL literal.

    >>> quote_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quote_table(table: str) -> str:
    """Return a table's name with each of its dotted parts quoted as an SQL identifier."""
    return ".".join(map(quote_identifier, split_table_name(table)))


def where_clause(condition: str) -> str:
    """Return a WHERE clause with a space before it; empty for an empty condition."""
    return f" WHERE {condition}" if condition else ""


def apply_column_types(
    batch: pa.RecordBatch, columns: Sequence[DatabaseColumn], schema: pa.Schema
) -> pa.RecordBatch:
    """Check a driver's batch and convert it to `schema`; SourceError names a column that fails.

    Args:
        batch: the values of the columns, in order, followed by the results of their checks.
        schema: the schema to return; columns that were not read are null.
    """
    checked = [column for column in columns if column.check]
    for column, refused in zip(checked, batch.columns[len(columns) :], strict=True):
        if pc.any(refused.cast(pa.bool_()), min_count=0).as_py():
            raise SourceError(f"column {column.name!r} holds {column.reason}", column.hint)
    arrays = [_apply_type(batch.column(i), column) for i, column in enumerate(columns)]
    named = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    return align_batch(named, schema)


def _apply_type(array: Any, column: DatabaseColumn) -> Any:
    """Convert a driver's array: decimals from text, booleans from 0 and 1; others are unchanged."""
    if isinstance(array.type, pa.BaseExtensionType) and array.type != pa.uuid():
        array = array.storage
    type_ = column.type
    if pa.types.is_list(type_) and pa.types.is_decimal(type_.value_type):
        numbers = _parse_decimals(array.flatten(), type_.value_type, column.name)
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets, numbers, mask=array.is_null())
    if pa.types.is_boolean(type_) and pa.types.is_integer(array.type):
        return pc.not_equal(array, 0)  # the check refused other values than 0 and 1
    if pa.types.is_decimal(type_) and pa.types.is_string(array.type):
        return _parse_decimals(array, type_, column.name)
    return array


def _parse_decimals(texts: Any, type_: pa.DataType, name: str) -> Any:
    """Cast text to decimals; raise SourceError naming the column if a value does not fit."""
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        pass
    raise SourceError(  # outside the handler: Arrow's own words hold the value
        f"column {name!r} holds a number that decimal({type_.precision},{type_.scale}) can't "
        "hold: NaN, an infinity, or one with more digits",
        "read it by `query`, as `NULLIF(column, 'NaN')` or cast to double precision or text.",
    )


class SqlDialect:
    """Standard SQL, for databases without their own dialect here; base class of the dialects.

    Attributes:
        shares_snapshots: whether several connections can read one snapshot.
    """

    shares_snapshots = False

    def __init__(self, session: DatabaseSession) -> None:
        self.session = session

    def begin_snapshot(self) -> tuple[str, ...]:
        """Begin the load's snapshot; return the statements by which other connections join it."""
        return ()

    def resolve_table(self, table: str) -> str:
        """Return a table's name as quoted SQL; raise SourceError if there is no such table."""
        return quote_table(table)

    def describe_columns(self, relation: str) -> tuple[Columns, tuple[str, ...]]:
        """Return the columns of a table or subquery, each with the SQL that selects it, and notes.

        Raises:
            SourceError: a column's type can't be read, or two columns have the same name.
        """
        found = self.session.fetch_schema(f"SELECT * FROM {relation}")
        check_column_names("the query", found.names)
        return tuple(self._make_column(field) for field in found), note_zoneless(found)

    def infer_open_types(
        self, relation: str, where: str, columns: Columns
    ) -> tuple[Columns, tuple[str, ...]]:
        """Infer undeclared column types from the rows' values; return all columns, and notes."""
        return columns, ()

    def estimate_bytes(self, relation: str, where: str) -> int:
        """Estimate the size of the rows in bytes; return -1 if the database can't tell."""
        return -1

    def split_by_blocks(self, relation: str, count: int) -> tuple[str, ...]:
        """Return conditions that divide a table's rows by place on disk; empty if unknown."""
        return ()

    def read_primary_key(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table's primary key; empty if there is none or it is unknown."""
        return ()

    def text_expression(self, expression: str) -> str:
        """Return an SQL expression for the exact value of another one as text."""
        return f"CAST({expression} AS VARCHAR)"

    def digest_expression(self, names: tuple[str, ...]) -> str:
        """Return an SQL expression that makes one text of columns `names`, unique to their values.

        Each value is preceded by its length, so that joined values can't be confused.
        """
        texts = (self.text_expression(quote_identifier(name)) for name in names)
        return " || ',' || ".join(
            f"coalesce({self.text_expression(f'length({text})')} || ':' || {text}, '-')"
            for text in texts
        )

    def sample_row(self, columns: Columns) -> str:
        """Return SQL constants that show the driver the columns' types; empty if it needs none."""
        return ""

    def get_file_bytes(self) -> int:
        """Return the size of the database's file in bytes; -1 if it has none."""
        file = Path(self.session.access.address)
        return file.stat().st_size if file.is_file() else -1

    def _make_column(self, field: pa.Field) -> DatabaseColumn:
        """Make the column for a field of a schema; SourceError if Arrow has no type for it."""
        is_opaque = isinstance(field.type, pa.OpaqueType)
        if is_opaque and not pa.types.is_string(field.type.storage_type):
            raise SourceError(
                f"column {field.name!r} has type {field.type.type_name}, which can't be read",
                "cast it to text, or leave it out, in a `query`.",
            )
        return DatabaseColumn(
            field.name,
            quote_identifier(field.name),
            get_logical_type(_normalise_field(field)),
        )


def _normalise_field(field: pa.Field) -> pa.Field:
    """Return a field with the type that tables store for it; see `normalise_schema`."""
    return normalise_schema(pa.schema([field])).field(0)


def wrap_query(query: str) -> str:
    """Return a query as a subquery for FROM, which may end in a comment."""
    return f"(\n{query.strip().rstrip(';')}\n) AS lakeport_query"


def split_table_name(table: str) -> list[str]:
    """Split a dotted table name into parts, such as schema and table; dots in quotes don't split.

    >>> split_table_name('public."odd.name"')
    ['public', 'odd.name']
    """
    return [inner.replace('""', '"') or plain for inner, plain in _PART.findall(table)]


def missing_table_error(table: str, known_tables: Sequence[str]) -> SourceError:
    """Build the error for a missing table, with at most five similar names of `known_tables`."""
    nearest = sort_by_similarity(table, known_tables)[:_NEAREST]
    return SourceError(
        f"there is no table {table!r}, or this user may not see it",
        f"the nearest names are {quote_names(nearest)}; names are as the database has them, case "
        "included."
        if nearest
        else "this user sees no table at all: grant it USAGE on the schema, or name another one.",
    )


class DuckDbDialect(SqlDialect):
    """SQL dialect of DuckDB, whose connections all read the same state of the file."""

    shares_snapshots = True

    def begin_snapshot(self) -> tuple[str, ...]:
        """Set the time zone to UTC; the open connection itself blocks other writers."""
        self.session.fetch_rows(_SET_UTC)
        return (_SET_UTC,)

    def resolve_table(self, table: str) -> str:
        """Return a table's name as quoted SQL; SourceError if there is no such table or view."""
        name = split_table_name(table)
        known = self.session.fetch_rows(
            "SELECT table_schema, table_name FROM information_schema.tables"
        )
        if tuple(name[-2:]) not in known and (len(name) > 1 or table not in [t for _, t in known]):
            raise missing_table_error(table, [t if s == "main" else f"{s}.{t}" for s, t in known])
        return ".".join(quote_identifier(part) for part in name)

    def describe_columns(self, relation: str) -> tuple[Columns, tuple[str, ...]]:
        """Return the columns, cast where Arrow can't hold DuckDB's type, and notes."""
        rows = self.session.fetch_rows(f"DESCRIBE SELECT * FROM {relation}")
        check_column_names("the query", [row[0] for row in rows])
        casts = {name: _select_expression(name, kind) for name, kind, *_ in rows}
        json = {n for n, kind, *_ in rows if kind == "JSON" or casts[n].startswith("CAST(to_json")}
        selected = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in casts.items())
        schema = self.session.fetch_schema(f"SELECT {selected} FROM {relation}")
        found = normalise_schema(schema, keep_untyped=True)
        untyped = find_untyped_columns(found)
        columns = tuple(
            DatabaseColumn(
                field.name,
                casts[field.name],
                pa.json_() if field.name in json else get_logical_type(field),
                untyped=untyped.get(field.name),
            )
            for field in replace_untyped_columns(found)
        )
        return columns, note_zoneless(schema)

    def estimate_bytes(self, relation: str, where: str) -> int:
        """See `SqlDialect.estimate_bytes`: the size of the whole file's rows."""
        return _DUCKDB_EXPANSION * self.get_file_bytes()

    def read_primary_key(self, table: str) -> tuple[str, ...]:
        """Return the primary key's columns from DuckDB's constraints; empty if there is none."""
        *schema, name = map(quote_literal, split_table_name(table))
        of = schema[-1] if schema else "current_schema()"
        return tuple(row[0] for row in self.session.fetch_rows(_DUCKDB_KEY.format(name, of)))

    def digest_expression(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest_expression`."""
        return f"md5({super().digest_expression(names)})"


def _select_expression(name: str, type_name: str) -> str:
    """Return the SQL that reads a DuckDB column, cast if Arrow can't hold its type exactly."""
    sql = quote_identifier(name)
    found = _LIST_TYPE.fullmatch(type_name)
    if found and found[1] in _DUCKDB_CASTS:
        cast = f"CAST({sql} AS {_DUCKDB_CASTS[found[1]]}{found[2]})"
        if not found[1].endswith("HUGEINT"):
            return cast
        message = quote_literal(f"column {name!r} {TOO_LONG}")
        fits = f"CAST(TRY_{cast} AS {type_name}) IS NOT DISTINCT FROM {sql}"
        return f"CASE WHEN {fits} THEN {cast} ELSE error({message}) END"
    if type_name.startswith("ENUM"):
        return f"CAST({sql} AS VARCHAR)"
    if _UNSUPPORTED_IN_NESTED.search(type_name):
        return f"CAST(to_json({sql}) AS VARCHAR)"
    return sql


_TEXT, _JSON, _OID = pa.string(), pa.json_(), pa.int64()


class PostgresDialect(SqlDialect):
    """SQL dialect of PostgreSQL, whose connections share an exported snapshot."""

    shares_snapshots = True

    def begin_snapshot(self) -> tuple[str, ...]:
        """Begin and export a snapshot; return the statements by which other connections join it."""
        self.session.fetch_rows(_BEGIN)
        snapshot = self.session.fetch_value("SELECT pg_export_snapshot()")
        self.session.fetch_rows(_SET)
        return (_BEGIN, f"SET TRANSACTION SNAPSHOT '{snapshot}'", _SET)

    def resolve_table(self, table: str) -> str:
        """Return a table's name as quoted SQL; SourceError if this user sees no such table."""
        name = quote_table(table)
        if self.session.fetch_value(f"SELECT to_regclass({quote_literal(name)})::text") is None:
            raise missing_table_error(table, [row[0] for row in self.session.fetch_rows(_TABLES)])
        return name

    def describe_columns(self, relation: str) -> tuple[Columns, tuple[str, ...]]:
        """Return the columns, cast where the driver would change values, and notes."""
        found = self.session.fetch_schema(f"SELECT * FROM {relation}")
        check_column_names("the query", found.names)
        kinds = self._read_types(found)
        columns = tuple(
            self._postgres_column(field, kind) for field, kind in zip(found, kinds, strict=True)
        )
        return columns, note_zoneless(found)

    def infer_open_types(
        self, relation: str, where: str, columns: Columns
    ) -> tuple[Columns, tuple[str, ...]]:
        """Give `numeric` columns without precision a fitting decimal, else text; return notes."""
        open_ = [column for column in columns if column.type in (_OPEN_TYPE, pa.list_(_OPEN_TYPE))]
        if not open_:
            return columns, ()
        aggregates = ", ".join(_digit_aggregates(column) for column in open_)
        (row,) = self.session.fetch_rows(
            f"SELECT {aggregates} FROM {relation}{where_clause(where)}"
        )
        types: dict[str, DatabaseColumn] = {}
        notes = []
        for number, column in enumerate(open_):
            scale, whole, other = row[3 * number : 3 * number + 3]
            types[column.name], note = _choose_numeric_type(
                column, scale or 0, len(whole or ""), bool(other)
            )
            notes.append(note)
        return tuple(types.get(column.name, column) for column in columns), tuple(notes)

    def estimate_bytes(self, relation: str, where: str) -> int:
        """Return the query planner's estimate of the rows' size in bytes."""
        query = f"SELECT * FROM {relation}{where_clause(where)}"
        (row, *_) = self.session.fetch_rows(f"EXPLAIN (FORMAT JSON) {query}")
        plan = (json.loads(row[0]) if isinstance(row[0], str) else row[0])[0]["Plan"]
        return int(plan["Plan Rows"]) * int(plan["Plan Width"])

    def split_by_blocks(self, relation: str, count: int) -> tuple[str, ...]:
        """Return `ctid` ranges as SQL conditions; empty for queries, views, servers before 14."""
        if relation.startswith("("):
            return ()
        name = quote_literal(relation)
        ((version, kind, pages),) = self.session.fetch_rows(
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

    def read_primary_key(self, table: str) -> tuple[str, ...]:
        """See `SqlDialect.read_primary_key`."""
        name = quote_literal(quote_table(table))
        return tuple(row[0] for row in self.session.fetch_rows(_POSTGRES_KEY.format(name)))

    def text_expression(self, expression: str) -> str:
        """See `SqlDialect.text_expression`."""
        return f"({expression})::text"

    def digest_expression(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest_expression`."""
        return f"md5(ROW({', '.join(map(quote_identifier, names))})::text)"

    def _read_types(self, schema: pa.Schema) -> list[_PostgresType]:
        """Return the PostgreSQL type of each field; look up those that the driver gives as OID."""
        names = [_read_metadata(field, b"POSTGRESQL:type") for field in schema]
        unnamed = {name: name.partition("oid:")[2].rstrip(">") for name in names if "oid:" in name}
        by_oid = {}
        if unnamed:
            rows = self.session.fetch_rows(
                "SELECT t.oid::bigint::text, t.typname, t.typtype::text, coalesce(e.typtype::text, "
                "'') FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = "
                f"'A' WHERE t.oid IN ({', '.join(unnamed.values())})"
            )
            by_oid = {oid: _PostgresType(*row) for oid, *row in rows}
        return [by_oid.get(unnamed.get(name, ""), _PostgresType(name)) for name in names]

    def _postgres_column(self, field: pa.Field, kind: _PostgresType) -> DatabaseColumn:
        """Make the column for a field, cast in SQL where the driver has no exact type for it."""
        name, sql = field.name, quote_identifier(field.name)
        if kind.is_record or _has_records(field.type):
            return DatabaseColumn(name, f"to_json({sql})::text", _JSON)
        if pa.types.is_list(field.type) or kind.item:
            return _array_column(field, kind.name.removeprefix("_"), sql)
        if kind.name in _UNCHANGED_TYPES:
            return DatabaseColumn(name, sql, _normalise_field(field).type)
        if kind.name == "numeric":
            modifier = int(_read_metadata(field, b"POSTGRESQL:typmod") or -1)
            return DatabaseColumn(name, f"{sql}::text", _decimal_type(modifier))
        if kind.name == "money":
            scale = self.session.fetch_value("SELECT scale(0::money::numeric)")
            return DatabaseColumn(name, f"{sql}::numeric::text", pa.decimal128(19, scale))
        if kind.name in ("json", "jsonb"):
            return DatabaseColumn(name, f"{sql}::text", _JSON)
        if kind.name == "oid":
            return DatabaseColumn(name, f"{sql}::bigint", _OID)
        return DatabaseColumn(name, f"{sql}::text", _TEXT)


class _PostgresType(NamedTuple):
    """A PostgreSQL type: name, `typtype` (`c` for records), and `typtype` of an array's items."""

    name: str
    type: str = ""
    item: str = ""

    @property
    def is_record(self) -> bool:
        """Whether values are records, or arrays of records."""
        return self.type in ("c", "p") or self.item in ("c", "p") or self.name == "record"


def _has_records(type_: pa.DataType) -> bool:
    """Whether an Arrow type is a struct, or a list of structs at any depth."""
    return pa.types.is_struct(type_) or (pa.types.is_list(type_) and _has_records(type_.value_type))


def _array_column(field: pa.Field, item_type: str, sql: str) -> DatabaseColumn:
    """Make a column of arrays, with an SQL check that refuses arrays of several dimensions."""
    refused = f"coalesce(array_ndims({sql}), 1) > 1"
    if item_type in _UNCHANGED_TYPES:
        cast, type_ = sql, _normalise_field(field).type
    elif item_type == "oid":
        cast, type_ = f"{sql}::bigint[]", pa.list_(_OID)
    elif item_type in ("numeric", "money"):
        cast, type_ = f"{sql}::numeric[]::text[]", pa.list_(_OPEN_TYPE)
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


def _decimal_type(typmod: int) -> pa.DataType:
    """Return the decimal type of a `numeric` typmod; the null type if none, or over 38 digits.

    >>> _decimal_type(655366), _decimal_type(-1) == _OPEN_TYPE
    (Decimal128Type(decimal128(10, 2)), True)
    """
    if typmod < 4:
        return _OPEN_TYPE
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 1024) - 1024
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return pa.decimal128(digits, max(scale, 0)) if digits <= MAX_PRECISION else _OPEN_TYPE


def _digit_aggregates(column: DatabaseColumn) -> str:
    """Return three SQL aggregates of a `numeric` column: largest scale, integer part, any NaN."""
    sql = quote_identifier(column.name)
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


def _choose_numeric_type(
    column: DatabaseColumn, scale: int, integer_digits: int, has_nan: bool
) -> tuple[DatabaseColumn, str]:
    """Give a `numeric` column a decimal type that holds all values, else text; also return a note.

    Args:
        scale: the largest number of digits behind the point.
        integer_digits: the largest number of digits before the point.
        has_nan: whether a value is NaN or an infinity.
    """
    fitting = next(
        (s for s in (*_SCALES, scale) if scale <= s and integer_digits + s <= MAX_PRECISION), -1
    )
    subject = f"column {column.name!r} is numeric without a precision"
    if has_nan or fitting < 0:
        why = "NaN or an infinity" if has_nan else f"more than {MAX_PRECISION} digits"
        type_, note = pa.string(), f"{subject}, and a value has {why}: it is text."
    else:
        type_ = pa.decimal128(MAX_PRECISION, fitting)
        holds = f"decimal({MAX_PRECISION},{fitting}) holds its values"
        note = f"{subject}: {holds}; `columns` can say another."
    is_list = pa.types.is_list(column.type)
    return replace(column, type=pa.list_(type_) if is_list else type_), note


def _read_metadata(field: pa.Field, key: bytes) -> str:
    """Return a field's metadata value as text; empty if it has none of the key."""
    return str((field.metadata or {}).get(key, b"").decode())


class SqliteDialect(SqlDialect):
    """SQL dialect of SQLite, where each value may have a type of its own."""

    def resolve_table(self, table: str) -> str:
        """Return a table's name as quoted SQL; SourceError if there is no such table or view."""
        known = [
            row[0]
            for row in self.session.fetch_rows(
                "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE "
                "'sqlite_%'"
            )
        ]
        if table not in known:
            raise missing_table_error(table, known)
        return quote_identifier(table)

    def describe_columns(self, relation: str) -> tuple[Columns, tuple[str, ...]]:
        """Return columns with their declared types, null where there is none; no notes."""
        names = self.session.fetch_schema(f"SELECT * FROM {relation} LIMIT 0").names
        check_column_names("the query", names)
        declared: Mapping[str, str] = {}
        if not relation.startswith("("):
            table = quote_literal(relation[1:-1].replace('""', '"'))
            rows = self.session.fetch_rows(f"SELECT name, type FROM pragma_table_info({table})")
            declared = {name: str(kind).upper() for name, kind in rows}
        return tuple(_declared_column(name, declared.get(name, "")) for name in names), ()

    def infer_open_types(
        self, relation: str, where: str, columns: Columns
    ) -> tuple[Columns, tuple[str, ...]]:
        """Infer types of undeclared columns from their values; return all columns, and notes."""
        open_ = [column for column in columns if pa.types.is_null(column.type)]
        if not open_:
            return columns, ()
        aggregates = ", ".join(
            f"max(typeof({quote_identifier(column.name)}) = '{kind}')"
            for column in open_
            for kind in _STORAGE_CLASSES
        )
        (row,) = self.session.fetch_rows(
            f"SELECT {aggregates} FROM {relation}{where_clause(where)}"
        )
        found = iter(row)
        kinds = {c.name: {kind for kind in _STORAGE_CLASSES if next(found)} for c in open_}
        typed = tuple(
            _column_by_values(c, kinds[c.name]) if c.name in kinds else c for c in columns
        )
        return typed, tuple(_mixed_note(name, of) for name, of in kinds.items() if len(of) > 1)

    def estimate_bytes(self, relation: str, where: str) -> int:
        """See `SqlDialect.estimate_bytes`: the size of the whole file."""
        return self.get_file_bytes()

    def read_primary_key(self, table: str) -> tuple[str, ...]:
        """Return the primary key's columns, in the key's order; empty if there is none."""
        name = quote_literal(table)
        rows = self.session.fetch_rows(
            f"SELECT name FROM pragma_table_info({name}) WHERE pk > 0 ORDER BY pk"
        )
        return tuple(row[0] for row in rows)

    def text_expression(self, expression: str) -> str:
        """See `SqlDialect.text_expression`."""
        return f"CAST({expression} AS TEXT)"

    def digest_expression(self, names: tuple[str, ...]) -> str:
        """See `SqlDialect.digest_expression`: SQLite has no hash, so the values' SQL literals."""
        return " || ',' || ".join(f"quote({quote_identifier(name)})" for name in names)

    def sample_row(self, columns: Columns) -> str:
        """Return SQL constants, one per column and per check, that show the driver their types."""
        values = [
            f"{_SAMPLE_VALUES[column.type]} AS {quote_identifier(column.name)}"
            for column in columns
        ]
        return ", ".join([*values, *("0" for column in columns if column.check)])


def _declared_column(name: str, declared_type: str) -> DatabaseColumn:
    """Make a column by SQLite's rules for its declared type; the null type if no rule applies."""
    sql = quote_identifier(name)
    if "BOOL" in declared_type:
        return _checked_column(name, sql, pa.bool_(), f"{sql} NOT IN (0, 1)", declared_type)
    if "INT" in declared_type:
        return _checked_column(name, sql, _INTEGER, f"typeof({sql}) <> 'integer'", declared_type)
    if any(part in declared_type for part in ("CHAR", "CLOB", "TEXT")):
        return _checked_column(name, sql, pa.string(), f"typeof({sql}) = 'blob'", declared_type)
    if "JSON" in declared_type:
        refused = f"typeof({sql}) = 'blob' OR NOT json_valid({sql})"
        # A number's text has 15 digits, too few for some doubles.
        exact = f"iif(typeof({sql}) = 'real', printf('%!.17g', {sql}), CAST({sql} AS TEXT))"
        return _checked_column(name, exact, pa.json_(), refused, declared_type)
    if "BLOB" in declared_type:
        return _checked_column(name, sql, pa.binary(), f"typeof({sql}) <> 'blob'", declared_type)
    if any(part in declared_type for part in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return _number_column(name, sql, declared_type)
    return DatabaseColumn(name, sql, pa.null())


def _number_column(name: str, sql: str, declared_type: str) -> DatabaseColumn:
    """Make a column of doubles; its check refuses text, blobs and integers beyond 2^53."""
    large = f"typeof({sql}) = 'integer' AND abs({sql}) > {_MAX_EXACT}"
    refused = f"typeof({sql}) IN ('text', 'blob') OR ({large})"
    return _checked_column(name, f"CAST({sql} AS REAL)", pa.float64(), refused, declared_type)


def _checked_column(
    name: str, sql: str, type_: pa.DataType, refused_sql: str, declared_type: str
) -> DatabaseColumn:
    """Make a column whose check refuses non-null values for which `refused_sql` is true."""
    plain = quote_identifier(name)
    return DatabaseColumn(
        name,
        sql,
        type_,
        f"({plain} IS NOT NULL AND ({refused_sql}))",
        f"a value that is no {declared_type}, as which it is declared"
        if declared_type
        else "values of other kinds",
        f"correct the values, or read the column by `query`, as `CAST({name} AS TEXT)`.",
    )


def _column_by_values(column: DatabaseColumn, storage_classes: set[str]) -> DatabaseColumn:
    """Give a column a type by its values' storage classes; SourceError if none holds them all."""
    name, sql = column.name, quote_identifier(column.name)
    if storage_classes <= {"integer", "real"} and storage_classes:
        if "real" in storage_classes:
            return _number_column(name, sql, "")
        return _checked_column(name, sql, _INTEGER, f"typeof({sql}) <> 'integer'", "")
    if storage_classes == {"text"}:
        return _checked_column(name, sql, pa.string(), f"typeof({sql}) <> 'text'", "")
    if storage_classes == {"blob"}:
        return _checked_column(name, sql, pa.binary(), f"typeof({sql}) <> 'blob'", "")
    if storage_classes <= {"text", "integer"}:
        text = replace(column, sql=f"CAST({sql} AS TEXT)", type=pa.string())
        return replace(text, untyped=None if storage_classes else pa.null())
    raise SourceError(
        f"column {name!r} holds values of several kinds: {', '.join(sorted(storage_classes))}",
        f"read it by `query`, as `CAST({name} AS TEXT)`.",
    )


def _mixed_note(name: str, storage_classes: set[str]) -> str:
    """Build the note that a column without a declared type holds several storage classes."""
    words = {"integer": "whole numbers", "real": "fractions", "text": "texts", "blob": "bytes"}
    names = " and ".join(words[kind] for kind in _STORAGE_CLASSES if kind in storage_classes)
    as_ = "text" if "text" in storage_classes else "a number"
    return f"column {name!r} declares no type, and its values are {names}: it is {as_}."
