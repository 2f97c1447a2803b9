"""What a lake's file says, checked."""

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
from lakeport.config.inputs import DatabaseSource, FilesSource, Input, TablesSource, TapSource
from lakeport.errors import ConfigError

Source = FilesSource | DatabaseSource | TapSource | TablesSource


class Lineage(Input):
    """Where OpenLineage events go."""

    file: str = Field(default="", description="A file to which each event is added as a line.")
    url: SecretStr | None = Field(
        default=None, description="The HTTP endpoint, such as https://marquez:5000."
    )
    api_key: SecretStr | None = Field(default=None, description="The endpoint's key.")
    namespace: str = Field(default="lakeport", description="The namespace of the jobs.")


class Notices(Input):
    """Which webhooks are told of what; their URLs are secrets: who knows one may post there."""

    failure: tuple[SecretStr, ...] = Field(
        default=(), description="URLs that are told when loads fail, one or a list."
    )
    freshness: tuple[SecretStr, ...] = Field(
        default=(), description="URLs that are told when data are older than expected."
    )

    @field_validator("failure", "freshness", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


@dataclass(frozen=True)
class Load:
    """One load of a lake's file.

    Attributes:
        name: what the file calls it.
        source: where it comes from.
        target: where it goes: the file's `target` and `defaults`, and the load's own keys.
        line: where it stands in the file.
        sql: Spark SQL that makes what is landed; empty for none.
        python: `module:function` that does; empty for none.
        expect: what is expected of its rows.
        tags: by which a run chooses loads.
        description: what it is, in words.
        depends: other loads of the file whose tables it uses.
        tables: names that `sql` and `expect` use for other tables of the file -> their places.
        folder: the file's, in which modules for `python` are looked for.
        file: how errors call the file.
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
        """See that what it starts and imports is on this machine.

        Raises:
            ConfigError: a tap's command or a module is absent.
        """
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
    """A lake's file.

    Attributes:
        path: the file.
        loads: by name, each behind those that it uses.
        lineage: where OpenLineage events go; None for nowhere.
        notices: which webhooks are told of what; None for none.
        warnings: what the user has to know of the file.
    """

    path: Path
    loads: Mapping[str, Load]
    lineage: Lineage | None = None
    notices: Notices | None = None
    warnings: tuple[str, ...] = ()


def find_query_tables(sql: str) -> tuple[str, ...]:
    """The tables that Spark SQL reads, each once: no CTEs, no functions, no parts of paths.

    Where the text can't be read, which Spark will tell better, every word of it counts: then a load
    may wait for one that it does not use.

    Example:
        >>> find_query_tables("WITH a AS (SELECT 'FROM x' FROM f) SELECT * FROM a JOIN `b-c` -- d")
        ('f', 'b-c')
    """
    import sqlglot  # takes a tenth of a second, and few files have queries

    try:
        return tuple(dict.fromkeys(_read(sqlglot.parse_one(sql, read="spark"))))
    except sqlglot.errors.SqlglotError:
        pass
    try:
        return tuple(dict.fromkeys(token.text for token in sqlglot.tokenize(sql, read="spark")))
    except sqlglot.errors.SqlglotError:
        return ()


def find_query_columns(sql: str) -> tuple[str, ...] | None:
    """Names in a query that may be columns of what it reads; None where the text can't be read.

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


def _read(query: Any) -> Iterator[str]:
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(query):
        own = {name.casefold() for name in scope.cte_sources}
        for table in scope.tables:
            if table.name and (table.db or table.name.casefold() not in own):
                yield f"{table.db}.{table.name}" if table.db else table.name
