"""Keys that exclude each other."""

from __future__ import annotations

import pytest

from lakeport.config.load import load_target
from lakeport.errors import ConfigError


def test_keys_that_exclude_each_other() -> None:
    for keys, what in (
        ({"cluster_by": "a", "partition_keys": "b"}, "exclude each other"),
        ({"cluster_by": "a", "file_type": "parquet"}, "`cluster_by` needs"),
        ({"auto_optimize": True, "file_type": "csv"}, "`auto_optimize` needs"),
        ({"cluster_by": ["a", "b", "c", "d", "e"]}, "cluster_by"),
    ):
        with pytest.raises(ConfigError, match=what):
            load_target("/lake", keys)
    assert load_target("/lake", {"cluster_by": "a,b"}).cluster_by == ("a", "b")
