"""A table or a query of a database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field, SecretStr, model_validator

from lakeport.config.inputs.base import Input
from lakeport.scrub import is_secret_name

_EXTRAS = {"duckdb": "duckdb", "postgresql": "postgres", "sqlite": "sqlite"}

_PASSWORD = re.compile(r"(?i)\bpassword=([^;&\s]+)")


def scheme_of(uri: str) -> str:
    """What a URI begins with, `postgres` in one spelling.

    >>> scheme_of("postgres://host/db"), scheme_of("jdbc:mysql://host/db")
    ('postgresql', 'jdbc')
    """
    scheme = re.split(r"[:+]", uri, maxsplit=1)[0].lower()
    return "postgresql" if scheme == "postgres" else scheme


class DatabaseSource(Input):
    """A table or a query of a database, whole or from where the table's last load ended."""

    database: SecretStr = Field(
        description="URI, such as postgresql://user@host/name, sqlite:///shop.db, duckdb:///a.db, "
        "jdbc:mysql://host/name."
    )
    table: str = Field(default="", description="The table to read, such as public.orders.")
    query: str = Field(default="", description="SQL to read in place of a table.")
    cursor: str = Field(
        default="",
        description="Column that grows with each change: only rows from its last value on are "
        "read.",
    )
    split_by: str = Field(
        default="", description="Column of numbers or times, by whose ranges tasks share the rows."
    )
    splits: int | None = Field(
        default=None, ge=1, description="How many ranges; default: by the cores."
    )
    deletes: Literal["none", "compare"] = Field(
        default="none",
        description="`compare`: rows whose keys the source does not have any more are marked as "
        "deleted, or removed with `hard_delete: true`.",
    )
    name: str = Field(
        default="",
        description="What the table remembers the source by; default: the table, or `query`.",
    )
    driver: str = Field(
        default="", description="An ADBC driver by name, where the URI does not tell."
    )
    options: Mapping[str, str] = Field(
        default_factory=dict, description="Options of the driver, as it calls them."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> DatabaseSource:
        if bool(self.table) == bool(self.query):
            raise ValueError("needs a `table` or a `query`, and not both")
        return self

    @property
    def stream(self) -> str:
        """What the source's rows are called, where the target does not say."""
        return self.name or self.table.rpartition(".")[2].strip('"') or "query"

    @property
    def extra(self) -> str:
        """The extra that brings its driver; empty where none does."""
        return "" if self.driver else _EXTRAS.get(scheme_of(self.database.get_secret_value()), "")

    @property
    def is_jdbc(self) -> bool:
        """Whether Spark reads it, by a JDBC driver."""
        return scheme_of(self.database.get_secret_value()) == "jdbc"

    def secrets(self) -> tuple[str, ...]:
        """Passwords in the URI and, with one, all of it; and what options hold that is secret."""
        uri = self.database.get_secret_value()
        found = [value for key, value in self.options.items() if is_secret_name(key)]
        with suppress(ValueError):
            split = urlsplit(uri)
            found += [split.password, unquote(split.password)] if split.password else []
            found += [value for key, value in parse_qsl(split.query) if is_secret_name(key)]
        found += _PASSWORD.findall(uri)
        return (*dict.fromkeys(found), uri) if found else ()
