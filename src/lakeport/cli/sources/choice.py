"""Which source a command line names: files, a database, a tap or tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeport.cli.sources.database import Given, database_of
from lakeport.cli.sources.new_files import files_of
from lakeport.cli.sources.others import tables_of, tap_of
from lakeport.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Named:
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
    database: Given
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
