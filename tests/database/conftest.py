"""A PostgreSQL server for the tests of databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.kit import Schema
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server for all tests; each has a schema of its own."""
    with Postgres(tmp_path_factory.mktemp("postgres")) as started:
        yield started


@pytest.fixture
def schema(server: Postgres, tmp_path: Path) -> Schema:
    """A schema of its own, and an empty lake."""
    return Schema(server, tmp_path / "lake")
