"""The stores that the histories of this folder are played on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.emulators import Azurite, Minio
from tests.histories.stores import CONTAINER, Store, on_azure, on_s3


@pytest.fixture(scope="session")
def tables(minio: Minio, azurite: Azurite) -> Callable[[str], Store]:
    """Names a table that is not there yet, on `s3` or `azure`."""
    minio.create_bucket(CONTAINER)
    azurite.create_container(CONTAINER)
    numbers = count()

    def named(dialect: str) -> Store:
        name = f"t{next(numbers)}"
        return on_s3(minio, name) if dialect == "s3" else on_azure(azurite, name)

    return named


@pytest.fixture(params=("s3", pytest.param("azure", marks=pytest.mark.soak)))
def store(request: pytest.FixtureRequest, tables: Callable[[str], Store]) -> Store:
    """A table that is not there yet, on each of the stores."""
    return tables(request.param)
