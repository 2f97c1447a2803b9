"""`lakeport land --from-database`: a table or a query of a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.inputs.database import DatabaseSource

_PANEL = "Databases"
_OPTION = "--from-database"

FromDatabase = Annotated[
    str | None,
    typer.Option(
        "--from-database",
        metavar="URI",
        help="Read a database: postgresql://me@host/shop, sqlite:///shop.db, duckdb:///shop.db or "
        "what begins with jdbc: or a driver takes; passwords come from the environment.",
        rich_help_panel=_PANEL,
    ),
]
TableOf = Annotated[
    str | None,
    typer.Option(
        "--table-of",
        metavar="NAME",
        help="The database's table, such as public.orders.",
        rich_help_panel=_PANEL,
    ),
]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL", help="In place of a table.", rich_help_panel=_PANEL),
]
Cursor = Annotated[
    str | None,
    typer.Option(
        "--cursor",
        metavar="COLUMN",
        help="Read only rows from its last value on, which the table remembers.",
        rich_help_panel=_PANEL,
    ),
]
SplitBy = Annotated[
    str | None,
    typer.Option(
        "--split-by",
        metavar="COLUMN",
        help="Share the rows out by ranges of this column.",
        rich_help_panel=_PANEL,
    ),
]
Deletes = Annotated[
    str | None,
    typer.Option(
        "--deletes",
        metavar="none|compare",
        help="compare: mark or remove rows whose keys are gone; default: none.",
        rich_help_panel=_PANEL,
    ),
]
SourceName = Annotated[
    str | None,
    typer.Option(
        "--source-name",
        metavar="NAME",
        help="What the table remembers the source by; default: the table's name there.",
        rich_help_panel=_PANEL,
    ),
]
Driver = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="NAME",
        help="Another ADBC driver, by its name.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Given:
    """The options about databases, None where one was not given."""

    database: str | None
    table: str | None
    query: str | None
    cursor: str | None
    split_by: str | None
    deletes: str | None
    name: str | None
    driver: str | None

    def options(self) -> Iterator[tuple[str, str | None]]:
        """Each option beside the URI, and its value."""
        return ((option, getattr(self, name)) for option, name in _OPTIONS.items())


_OPTIONS = {
    "--table-of": "table",
    "--query": "query",
    "--cursor": "cursor",
    "--split-by": "split_by",
    "--deletes": "deletes",
    "--source-name": "name",
    "--driver": "driver",
}


def database_of(given: Given, uri: str, environment: Mapping[str, str]) -> DatabaseSource:
    """The database that a command line names.

    Args:
        given: the options about databases.
        uri: the database's.
        environment: what `${NAME}` in the URI is taken from.

    Raises:
        ConfigError: an option is wrong, or the URI holds a password.
    """
    from pydantic import SecretStr

    from lakeport.config.files import expand
    from lakeport.config.inputs.database import DatabaseSource

    values = {value: getattr(given, value) for value in _OPTIONS.values()}
    keys: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    typed = DatabaseSource(database=SecretStr(uri), **keys)
    if any("${" not in secret for secret in typed.secrets()):
        raise ConfigError(
            "the URI holds a password, and other users can read a command line",
            "write ${NAME} in its place, in single quotes, and set that variable; or use "
            "PGPASSWORD or ~/.pgpass for PostgreSQL.",
        )
    return DatabaseSource(database=SecretStr(expand(uri, environment, _OPTION)), **keys)
