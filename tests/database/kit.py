"""Tables of a server that each test has for itself, and what of them came to be in a lake."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import lakeport
from lakeport import DatabaseSource
from tests.postgres import Postgres


@dataclass
class Schema:
    """A schema of a PostgreSQL server, and a lake beside it."""

    server: Postgres
    lake: Path
    name: str = field(default_factory=lambda: f"s{secrets.token_hex(6)}")

    def __post_init__(self) -> None:
        self.server.sql(f"CREATE SCHEMA {self.name}")

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/postgres"

    def sql(self, *statements: str) -> str:
        """Run statements in the schema; the last one's answer."""
        path = f"SET search_path = {self.name}"
        return self.server.sql("; ".join((path, *statements)))

    def source(self, table: str = "t", **keys: Any) -> DatabaseSource:
        if "query" not in keys:
            keys["table"] = f"{self.name}.{table}"
        return DatabaseSource(**({"database": self.uri} | keys))

    def land(self, table: str = "t", *, source: Any = None, **keys: Any) -> Any:
        """Land a table in one of the same name."""
        source = source or self.source(table)
        given = {"table": table, "file_type": "delta", "internal_columns": False} | keys
        return lakeport.land(source, str(self.lake), **given)

    def read(self, table: str = "t") -> pa.Table:
        """A table of the lake, as another reader sees it."""
        return pa.table(DeltaTable(str(self.lake / table)).to_pyarrow_table())

    def rows(self, table: str = "t", by: str = "id") -> list[dict[str, Any]]:
        return self.read(table).sort_by(by).to_pylist()
