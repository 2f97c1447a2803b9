"""How many files a batch becomes."""

from __future__ import annotations

import pytest

from lakeport.config.destinations.local import LocalConfig
from lakeport.loading.batches import Policies


@pytest.mark.parametrize(
    ("size", "cores", "files"),
    [
        (0, 8, 1),
        (31 << 20, 8, 1),
        (64 << 20, 8, 2),
        (115 << 20, 2, 2),
        (512 << 20, 4, 4),
        (2048 << 20, 2, 8),
        (2049 << 20, 2, 9),
        (10_000 << 20, 8, 40),
        (100, 0, 1),
        (-1, 4, 4),
    ],
)
def test_number_of_files(size: int, cores: int, files: int) -> None:
    assert Policies(LocalConfig(path="lake")).number_of_files(size, cores) == files
