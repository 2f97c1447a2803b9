"""A PostgreSQL server for the tests of databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server for all tests; each has a schema of its own."""
    with Postgres(tmp_path_factory.mktemp("postgres")) as started:
        yield started
