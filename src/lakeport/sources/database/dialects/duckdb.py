"""DuckDB: a file that nobody can change while it is read, and types that Arrow lacks."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from lakeport.schema.casting import normalise
from lakeport.schema.nested import open_columns, with_text
from lakeport.schema.types import check_names, declared_type
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted
from lakeport.sources.database.dialects.base import Dialect, absent, parts, query_of
from lakeport.sources.database.faults import TOO_LONG

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
"""What Arrow would change, or lacks, within another value."""
_KEY: Final = """
SELECT unnest(constraint_column_names) FROM duckdb_constraints()
WHERE constraint_type = 'PRIMARY KEY' AND table_name = '{}' AND schema_name = {}
"""
_PACKED: Final = 4
"""About how much larger rows are than their file."""


class DuckDb(Dialect):
    """See the module."""

    shares = True

    def begin(self, session: Session) -> tuple[str, ...]:
        """See `Dialect.begin`: while this connection is there, no other process may write."""
        session.run(_UTC)
        return (_UTC,)

    def relation(self, session: Session, table: str, query: str) -> str:
        """See `Dialect.relation`."""
        if query:
            return query_of(query)
        name = parts(table)
        known = session.rows("SELECT table_schema, table_name FROM information_schema.tables")
        if tuple(name[-2:]) not in known and (len(name) > 1 or table not in [t for _, t in known]):
            raise absent(table, [t if s == "main" else f"{s}.{t}" for s, t in known])
        return ".".join(quoted(part) for part in name)

    def columns(self, session: Session, relation: str) -> tuple[Column, ...]:
        """See `Dialect.columns`."""
        told = session.rows(f"DESCRIBE SELECT * FROM {relation}")
        check_names("the query", [row[0] for row in told])
        asked = {name: _asked(name, kind) for name, kind, *_ in told}
        json = {n for n, kind, *_ in told if kind == "JSON" or asked[n].startswith("CAST(to_json")}
        wanted = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in asked.items())
        schema = session.schema(f"SELECT {wanted} FROM {relation}")
        found = normalise(schema, open_places=True)
        untyped = open_columns(found)
        return tuple(
            Column(
                field.name,
                asked[field.name],
                pa.json_() if field.name in json else declared_type(field),
                untyped=untyped.get(field.name),
            )
            for field in with_text(found)
        )

    def size(self, session: Session, relation: str, where: str) -> int:
        """See `Dialect.size`: as if all of the file were read."""
        return _PACKED * self.file_size(session)

    def primary_key(self, session: Session, table: str) -> tuple[str, ...]:
        """See `Dialect.primary_key`."""
        *schema, name = (part.replace("'", "''") for part in parts(table))
        of = f"'{schema[-1]}'" if schema else "current_schema()"
        return tuple(row[0] for row in session.rows(_KEY.format(name, of)))

    def digest(self, names: tuple[str, ...]) -> str:
        """See `Dialect.digest`."""
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
