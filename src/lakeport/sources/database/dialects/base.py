"""SQL as most databases have it, and types as their drivers give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.schema.casting import normalise
from lakeport.schema.named import like, listed
from lakeport.schema.types import check_names, declared_type
from lakeport.sources.database.access import Session
from lakeport.sources.database.columns import Column, quoted

_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_NEAREST = 5


class Dialect:
    """What a database is asked, and how. Any that an ADBC driver reaches, where no other is known.

    Attributes:
        shares: whether several connections can read one snapshot.
    """

    shares = False

    def begin(self, session: Session) -> tuple[str, ...]:
        """Begin the snapshot that a load reads; return what has another connection join it."""
        return ()

    def relation(self, session: Session, table: str, query: str) -> str:
        """What stands behind FROM.

        Raises:
            SourceError: there is no such table.
        """
        return query_of(query) if query else ".".join(quoted(part) for part in parts(table))

    def columns(self, session: Session, relation: str) -> tuple[Column, ...]:
        """The columns, as they are asked for.

        Raises:
            SourceError: one has a type that no table has, or two have one name.
        """
        found = session.schema(f"SELECT * FROM {relation}")
        check_names("the query", found.names)
        return tuple(self._column(field) for field in found)

    def settled(
        self, session: Session, relation: str, where: str, columns: tuple[Column, ...]
    ) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns with the types that only their values tell, and notes about those.

        Args:
            session: a connection, in the load's snapshot.
            relation: what stands behind FROM.
            where: a condition that the rows meet; empty for all of them.
            columns: as `columns` gives them.
        """
        return columns, ()

    def size(self, session: Session, relation: str, where: str) -> int:
        """About how many bytes the rows have; -1 if nothing tells."""
        return -1

    def blocks(self, session: Session, relation: str, count: int) -> tuple[str, ...]:
        """Conditions that share a table's rows out by where they lie; none where that can't be."""
        return ()

    def primary_key(self, session: Session, table: str) -> tuple[str, ...]:
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

    def sample(self, columns: tuple[Column, ...]) -> str:
        """Constants for a row that goes first and tells the driver the types; empty for none."""
        return ""

    def file_size(self, session: Session) -> int:
        """The bytes of the database's file; -1 if it has none."""
        file = Path(session.access.place)
        return file.stat().st_size if file.is_file() else -1

    def _column(self, field: pa.Field) -> Column:
        is_opaque = isinstance(field.type, pa.OpaqueType)
        if is_opaque and not pa.types.is_string(field.type.storage_type):
            raise SourceError(
                f"column {field.name!r} has type {field.type.type_name}, which can't be read",
                "cast it to text, or leave it out, in a `query`.",
            )
        return Column(
            field.name, quoted(field.name), declared_type(normalise(pa.schema([field])).field(0))
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
    nearest = like(table, known)[:_NEAREST]
    return SourceError(
        f"there is no table {table!r}, or this user may not see it",
        f"the nearest names are {listed(nearest)}; names are as the database has them, case "
        "included."
        if nearest
        else "this user sees no table at all: grant it USAGE on the schema, or name another one.",
    )
