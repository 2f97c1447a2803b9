"""A checked lake file: its loads, lineage and webhooks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, field_validator

from lakeport.config.base import DestinationConfig
from lakeport.config.expectations import Expectation
from lakeport.config.sources import ConfigPart, DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError

Source = FilesSource | DatabaseSource | TapSource | TablesSource


class Lineage(ConfigPart):
    """The file or HTTP endpoint to send OpenLineage events to."""

    file: str = Field(default="", description="File to append each event to, one a line.")
    url: SecretStr | None = Field(
        default=None, description="HTTP endpoint for events, such as https://marquez:5000."
    )
    api_key: SecretStr | None = Field(default=None, description="Key of the endpoint.")
    namespace: str = Field(default="lakeport", description="Namespace of the jobs.")


class Notices(ConfigPart):
    """Webhooks to call on failures and on old data. The URLs are secrets: they let anyone post."""

    failure: tuple[SecretStr, ...] = Field(
        default=(), description="URL, or a list, to call when loads fail."
    )
    freshness: tuple[SecretStr, ...] = Field(
        default=(), description="URL, or a list, to call when data are older than expected."
    )

    @field_validator("failure", "freshness", mode="before")
    @classmethod
    def _parse_urls(cls, value: object) -> object:
        """Return one URL as a tuple; other values unchanged."""
        return (value,) if isinstance(value, str) else value


@dataclass(frozen=True)
class Load:
    """One load in a lake file (`lake.yaml`): source, target, transforms, checks, dependencies.

    Attributes:
        target: the config of its table: the file's `target` and `defaults`, and its own keys.
        line: its line in the file, from 1.
        python: `module:function` that transforms the rows; empty for none.
        depends: names of other loads of the file whose tables it uses.
        tables: name of another table of the file in `sql` or `expect` -> its path or URI.
        folder: the file's folder, where modules for `python` are looked for first.
        file: the file's name in errors.
    """

    name: str
    source: Source
    target: DestinationConfig
    line: int
    sql: str = ""
    python: str = ""
    expect: tuple[Expectation, ...] = ()
    tags: tuple[str, ...] = ()
    description: str = ""
    depends: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    file: str = ""

    def check(self) -> None:
        """Raise ConfigError if the load's tap or Python module is not found on this machine."""
        where = f"{self.file}, line {self.line}: load {self.name!r}"
        if isinstance(self.source, TapSource):
            command = self.source.tap[0]
            here = "/" in command and Path(self.folder, command).is_file()
            if not here and shutil.which(command) is None:
                raise ConfigError(
                    f"{where}: there is no command {command!r}",
                    "install the tap, or give its path.",
                )
        module = self.python.partition(":")[0].partition(".")[0]
        beside = any(Path(self.folder, module + end).exists() for end in ("", ".py"))
        if module and not beside and find_spec(module) is None:
            raise ConfigError(
                f"{where}: `python`: there is no module {module!r}",
                f"it is looked for in {self.folder}, and among the packages that are installed.",
            )


@dataclass(frozen=True)
class LakeFile:
    """A validated lake file (`lake.yaml`); its loads by name, dependencies first."""

    path: Path
    loads: Mapping[str, Load]
    lineage: Lineage | None = None
    notices: Notices | None = None
    warnings: tuple[str, ...] = ()


def find_query_tables(sql: str) -> tuple[str, ...]:
    """Return the tables in a Spark SQL query, without CTEs; all its words if it is invalid.

    After the words of SQL that can't be parsed, a load waits for too many others, and Spark reports
    the error.

    Example:
        >>> find_query_tables("WITH a AS (SELECT 'FROM x' FROM f) SELECT * FROM a JOIN `b-c` -- d")
        ('f', 'b-c')
    """
    import sqlglot  # takes a tenth of a second, and few files have queries

    try:
        return tuple(dict.fromkeys(_scope_tables(sqlglot.parse_one(sql, read="spark"))))
    except sqlglot.errors.SqlglotError:
        pass
    try:
        return tuple(dict.fromkeys(token.text for token in sqlglot.tokenize(sql, read="spark")))
    except sqlglot.errors.SqlglotError:
        return ()


def find_query_columns(sql: str) -> tuple[str, ...] | None:
    """Return column names and qualifiers in a SQL query, each once; None if it is invalid.

    Example:
        >>> find_query_columns("SELECT s.id, upper(name) AS n FROM source s")
        ('s', 'id', 'name')
    """
    import sqlglot

    try:
        query = sqlglot.parse_one(sql, read="spark")
    except sqlglot.errors.SqlglotError:
        return None
    columns = query.find_all(sqlglot.exp.Column)
    names = (part.name for column in columns for part in column.parts if part.name != "*")
    return tuple({name.lower(): name for name in names}.values())


def _scope_tables(query: Any) -> Iterator[str]:
    """Yield the tables of a parsed query and its subqueries, without CTEs, as `schema.name`."""
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(query):
        own = {name.casefold() for name in scope.cte_sources}
        for table in scope.tables:
            if table.name and (table.db or table.name.casefold() not in own):
                yield f"{table.db}.{table.name}" if table.db else table.name
