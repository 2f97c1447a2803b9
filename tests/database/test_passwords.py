"""A server that asks for a password: where it may come from, and what is told of a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.errors import SourceError
from tests.database.kit import Schema
from tests.postgres import Postgres

PASSWORD = "canary-5ecret"


@pytest.fixture
def secured(server: Postgres, schema: Schema) -> Iterator[Schema]:
    """A table of a user who needs a password."""
    user, rules = f"u{schema.name}", server._open / "cluster" / "pg_hba.conf"
    schema.sql(
        "CREATE TABLE t AS SELECT 1 AS id",
        f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT USAGE ON SCHEMA {schema.name} TO {user}",
        f"GRANT SELECT ON t TO {user}",
    )
    before = rules.read_text()
    rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{before}")
    server.sql("SELECT pg_reload_conf()")
    yield schema
    rules.write_text(before)
    server.sql("SELECT pg_reload_conf()")


def uri(schema: Schema, password: str = "") -> str:
    colon = ":" * bool(password)
    return schema.uri.replace("postgres@", f"u{schema.name}{colon}{password}@")


def test_the_password_of_the_uri(secured: Schema) -> None:
    assert secured.land(source=secured.source(database=uri(secured, PASSWORD))).rows == 1


def test_the_password_of_the_environment(secured: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    secured.land(source=secured.source(database=uri(secured)), mode="overwrite")
    assert secured.rows() == [{"id": 1}]


@pytest.mark.parametrize("password", ["", "wr0ng-canary"])
def test_a_password_that_is_wrong_or_lacks(
    secured: Schema, password: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(SourceError) as caught:
        secured.land(source=secured.source(database=uri(secured, password)))
    assert "password" in caught.value.message
    assert "PGPASSWORD" in caught.value.hint
    assert not password or password not in str(caught.value)
