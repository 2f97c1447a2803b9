"""PostgreSQL: one snapshot for all connections, and each type as the values that it has.

What its driver would change is cast by the server: `oid` would wrap, `time` has no 24:00, and
arrays of several dimensions would be flattened.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import pyarrow as pa

from lakeport.schema.casting import normalise
from lakeport.schema.types import MAX_PRECISION, check_names
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted
from lakeport.sources.database.dialects.base import Dialect, absent, parts, query_of

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
_TEXT, _JSON, _OID = pa.string(), pa.json_(), pa.int64()
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
_KEY: Final = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(n, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
WHERE i.indisprimary AND i.indrelid = '{}'::regclass ORDER BY k.place
"""


class Postgres(Dialect):
    """See the module."""

    shares = True

    def begin(self, session: Session) -> tuple[str, ...]:
        """See `Dialect.begin`."""
        session.run(_BEGIN)
        snapshot = session.value("SELECT pg_export_snapshot()")
        session.run(_SET)
        return (_BEGIN, f"SET TRANSACTION SNAPSHOT '{snapshot}'", _SET)

    def relation(self, session: Session, table: str, query: str) -> str:
        """See `Dialect.relation`."""
        if query:
            return query_of(query)
        name = ".".join(quoted(part) for part in parts(table))
        if session.value(f"SELECT to_regclass({_literal(name)})::text") is None:
            raise absent(table, [row[0] for row in session.rows(_TABLES)])
        return name

    def columns(self, session: Session, relation: str) -> tuple[Column, ...]:
        """See `Dialect.columns`."""
        found = session.schema(f"SELECT * FROM {relation}")
        check_names("the query", found.names)
        kinds = self._kinds(session, found)
        return tuple(
            self._of(session, field, kind) for field, kind in zip(found, kinds, strict=True)
        )

    def settled(
        self, session: Session, relation: str, where: str, columns: tuple[Column, ...]
    ) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """See `Dialect.settled`: numbers without a precision get one that holds all of them."""
        open_ = [column for column in columns if column.type in (_OPEN, pa.list_(_OPEN))]
        if not open_:
            return columns, ()
        asked = ", ".join(_digits(column) for column in open_)
        (row,) = session.rows(f"SELECT {asked} FROM {relation}{f' WHERE {where}' if where else ''}")
        types: dict[str, Column] = {}
        notes = []
        for number, column in enumerate(open_):
            scale, whole, other = row[3 * number : 3 * number + 3]
            types[column.name], note = _closed(column, scale or 0, len(whole or ""), bool(other))
            notes.append(note)
        return tuple(types.get(column.name, column) for column in columns), tuple(notes)

    def size(self, session: Session, relation: str, where: str) -> int:
        """See `Dialect.size`: what the planner expects."""
        query = f"SELECT * FROM {relation}{f' WHERE {where}' if where else ''}"
        (row, *_) = session.rows(f"EXPLAIN (FORMAT JSON) {query}")
        plan = (json.loads(row[0]) if isinstance(row[0], str) else row[0])[0]["Plan"]
        return int(plan["Plan Rows"]) * int(plan["Plan Width"])

    def blocks(self, session: Session, relation: str, count: int) -> tuple[str, ...]:
        """See `Dialect.blocks`: ranges of `ctid`, which a server from 14 on reads by themselves."""
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

    def primary_key(self, session: Session, table: str) -> tuple[str, ...]:
        """See `Dialect.primary_key`."""
        name = ".".join(quoted(part) for part in parts(table))
        return tuple(row[0] for row in session.rows(_KEY.format(name.replace("'", "''"))))

    def text(self, expression: str) -> str:
        """See `Dialect.text`."""
        return f"({expression})::text"

    def digest(self, names: tuple[str, ...]) -> str:
        """See `Dialect.digest`."""
        return f"md5(ROW({', '.join(map(quoted, names))})::text)"

    def _kinds(self, session: Session, found: pa.Schema) -> list[_Kind]:
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
            told = {oid: _Kind(*row) for oid, *row in rows}
        return [told.get(unnamed.get(name, ""), _Kind(name)) for name in names]

    def _of(self, session: Session, field: pa.Field, kind: _Kind) -> Column:
        name, sql = field.name, quoted(field.name)
        if kind.is_record or _has_records(field.type):
            return Column(name, f"to_json({sql})::text", _JSON)
        if pa.types.is_list(field.type) or kind.item:
            return _array(field, kind.name.removeprefix("_"), sql)
        if kind.name in _AS_IT_IS:
            return Column(name, sql, normalise(pa.schema([field])).field(0).type)
        if kind.name == "numeric":
            modifier = int(_entry(field, b"POSTGRESQL:typmod") or -1)
            return Column(name, f"{sql}::text", _decimal(modifier))
        if kind.name == "money":
            scale = session.value("SELECT scale(0::money::numeric)")
            return Column(name, f"{sql}::numeric::text", pa.decimal128(19, scale))
        if kind.name in ("json", "jsonb"):
            return Column(name, f"{sql}::text", _JSON)
        if kind.name == "oid":
            return Column(name, f"{sql}::bigint", _OID)
        return Column(name, f"{sql}::text", _TEXT)


class _Kind(NamedTuple):
    """A type: its name, `c` for one of records, and the same of an array's items."""

    name: str
    type: str = ""
    item: str = ""

    @property
    def is_record(self) -> bool:
        return self.type in ("c", "p") or self.item in ("c", "p") or self.name == "record"


def _has_records(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) or (pa.types.is_list(type_) and _has_records(type_.value_type))


def _array(field: pa.Field, item: str, sql: str) -> Column:
    refused = f"coalesce(array_ndims({sql}), 1) > 1"
    if item in _AS_IT_IS:
        cast, type_ = sql, normalise(pa.schema([field])).field(0).type
    elif item == "oid":
        cast, type_ = f"{sql}::bigint[]", pa.list_(_OID)
    elif item in ("numeric", "money"):
        cast, type_ = f"{sql}::numeric[]::text[]", pa.list_(_OPEN)
    else:
        cast, type_ = f"{sql}::text[]", pa.list_(_TEXT)
    return Column(
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


def _digits(column: Column) -> str:
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


def _closed(column: Column, scale: int, whole: int, other: bool) -> tuple[Column, str]:
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
