"""A table or a query of a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from lakeport.config.inputs.base import Input

__all__ = ["DatabaseSource"]


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
        description="`compare`: keys that the source does not have any more are removed.",
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

    def secrets(self) -> tuple[str, ...]:
        """The URI, which may hold a password."""
        return (self.database.get_secret_value(),)
