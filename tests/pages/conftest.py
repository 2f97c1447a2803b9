from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pages.kit import LAKE, Book, Served, served


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    """A lake with a page, which tests only read."""
    with served(Book({"/": lambda: LAKE, "/table/flights": lambda: LAKE})) as found:
        yield found
