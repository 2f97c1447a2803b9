"""Options that describe a source: databases, new files, taps, tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource


_DATABASE_PANEL = "Databases"
_OPTION = "--from-database"

FromDatabase = Annotated[
    str | None,
    typer.Option(
        "--from-database",
        metavar="URI",
        help="Read a database: postgresql://me@host/shop, sqlite:///shop.db, duckdb:///shop.db or "
        "what begins with jdbc: or a driver takes; passwords come from the environment.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
TableOf = Annotated[
    str | None,
    typer.Option(
        "--table-of",
        metavar="NAME",
        help="The database's table, such as public.orders.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="SQL", help="In place of a table.", rich_help_panel=_DATABASE_PANEL
    ),
]
Cursor = Annotated[
    str | None,
    typer.Option(
        "--cursor",
        metavar="COLUMN",
        help="Read only rows from its last value on, which the table remembers.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
SplitBy = Annotated[
    str | None,
    typer.Option(
        "--split-by",
        metavar="COLUMN",
        help="Share the rows out by ranges of this column.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
Deletes = Annotated[
    str | None,
    typer.Option(
        "--deletes",
        metavar="none|compare",
        help="compare: mark or remove rows whose keys are gone; default: none.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
SourceName = Annotated[
    str | None,
    typer.Option(
        "--source-name",
        metavar="NAME",
        help="What the table remembers the source by; default: the table's name there.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]
Driver = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="NAME",
        help="Another ADBC driver, by its name.",
        rich_help_panel=_DATABASE_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
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


def database_of(given: DatabaseOptions, uri: str, environment: Mapping[str, str]) -> DatabaseSource:
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
    from lakeport.config.inputs import DatabaseSource

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


_NEW_FILES_PANEL = "Only new files"

NewOnly = Annotated[
    bool,
    typer.Option(
        "--new-only",
        help="Land files that the table has not had yet.",
        rich_help_panel=_NEW_FILES_PANEL,
    ),
]
Again = Annotated[
    str | None,
    typer.Option(
        "--again",
        metavar="fail|land|ignore",
        help="What to do with files that changed since they were landed; default: fail.",
        rich_help_panel=_NEW_FILES_PANEL,
    ),
]
Ordered = Annotated[
    bool,
    typer.Option(
        "--ordered",
        help="Names grow with time: list what comes behind the last one that was seen.",
        rich_help_panel=_NEW_FILES_PANEL,
    ),
]


def files_of(
    names: Sequence[str], new_only: bool, again: str | None, ordered: bool
) -> str | list[str] | FilesSource:
    """The source that a command line names.

    Raises:
        ConfigError: an option makes no sense without another, or its value is none.
    """
    if new_only:
        from lakeport.config.inputs import FilesSource

        given: dict[str, Any] = {} if again is None else {"again": again}
        return FilesSource(files=tuple(names), new_only=True, ordered=ordered, **given)
    for option, value in (("--again", again), ("--ordered", ordered)):
        if value:
            raise ConfigError(
                f"`{option}` is about files that were landed before",
                "give it with `--new-only`, or leave it out.",
            )
    return names[0] if len(names) == 1 else list(names)


FromTap = Annotated[
    str | None,
    typer.Option(
        "--from-tap",
        metavar="COMMAND",
        help="Start a Singer tap with the STATE that the tables hold, as one text: "
        "'tap-github --config tap.json'.",
        rich_help_panel="Taps and tables",
    ),
]
FromTable = Annotated[
    list[str] | None,
    typer.Option(
        "--from-table",
        metavar="PLACE",
        help="A Delta table, by its folder or URI; repeat it for several, with --sql.",
        rich_help_panel="Taps and tables",
    ),
]
Incremental = Annotated[
    bool,
    typer.Option(
        "--incremental",
        help="Only rows that came to that table since the last load.",
        rich_help_panel="Taps and tables",
    ),
]
FullRefresh = Annotated[
    bool,
    typer.Option(
        "--full-refresh",
        help="Replace the table by what the source has, whatever was landed of it before.",
    ),
]


def tap_of(command: str) -> TapSource:
    """The tap that a command line names.

    Raises:
        ConfigError: quotes in it are not closed, or it is empty.
    """
    from lakeport.config.inputs import TapSource

    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(
            "`--from-tap` has a text which is no command: it is empty, or a quote is not closed",
            "write it as in a shell, within quotes: 'tap-github --config tap.json'.",
        )
    return TapSource(tap=tuple(words))


def tables_of(places: list[str], incremental: bool) -> TablesSource:
    """The tables that a command line names."""
    from lakeport.config.inputs import TablesSource

    return TablesSource.model_validate({"tables": places, "incremental": incremental})


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All that a command line says of its source.

    Attributes:
        names: files.
        new_only, again, ordered: which of them.
        database: the options about databases.
        tap: a tap's command.
        tables: places of tables.
        incremental: only new rows of these.
    """

    names: Sequence[str]
    new_only: bool
    again: str | None
    ordered: bool
    database: DatabaseOptions
    tap: str | None
    tables: list[str] | None
    incremental: bool

    def source(self, environment: Mapping[str, str]) -> Any:
        """The one source, as `lakeport.land` takes it.

        Args:
            environment: what `${NAME}` in a database's URI is taken from.

        Raises:
            ConfigError: it names none or several, or an option is about a kind that it does not.
        """
        kind = self._kind()
        self._check_options(kind)
        if self.database.database is not None:
            return database_of(self.database, self.database.database, environment)
        if self.tap is not None:
            return tap_of(self.tap)
        if self.tables:
            return tables_of(self.tables, self.incremental)
        return files_of(self.names, self.new_only, self.again, self.ordered)

    def _kind(self) -> str:
        kinds = {
            "files": bool(self.names),
            "--from-database": self.database.database is not None,
            "--from-tap": self.tap is not None,
            "--from-table": bool(self.tables),
        }
        named = [kind for kind, given in kinds.items() if given]
        if not named:
            raise ConfigError(
                "no source is named",
                "name files, folders or globs, `-` for Singer from stdin, `--from-database`, "
                "`--from-tap` or `--from-table`.",
            )
        if len(named) > 1:
            seen = f": {self.names[0]!r}" if self.names else ""
            first, second = (name if name == "files" else f"`{name}`" for name in named[:2])
            raise ConfigError(
                f"both {first} and {second} are named{seen}", "land one after the other."
            )
        return named[0]

    def _check_options(self, kind: str) -> None:
        options = [
            ("files", "--new-only", self.new_only),
            ("files", "--again", self.again),
            ("files", "--ordered", self.ordered),
            *(("--from-database", option, value) for option, value in self.database.options()),
            ("--from-table", "--incremental", self.incremental),
        ]
        for of, option, value in options:
            if value and of != kind:
                raise ConfigError(
                    f"`{option}` is about {_ABOUT[of]}, and the command line names none",
                    f"name {_HOW[of]}, or leave the option out.",
                )


_ABOUT = {"files": "files", "--from-database": "a database", "--from-table": "a table"}
_HOW = {
    "files": "files",
    "--from-database": "one with `--from-database`",
    "--from-table": "one with `--from-table`",
}
