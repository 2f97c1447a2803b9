"""Where a table is that a user names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeport.config.destinations.s3 import DeltaLakeS3Config
from lakeport.errors import ConfigError
from lakeport.lake.location import locate_table


def test_a_table_is_found_by_uri_or_by_name(tmp_path: Path) -> None:
    keys = {"bucket": "lake", "object_key_path": "raw", "aws_region": "eu-west-1"}
    for to in ({"destination": "amazon_s3", **keys}, DeltaLakeS3Config(**keys)):
        place = locate_table("users", to)
        assert place.uri == "s3://lake/raw/users"
        assert place.config.destination == "delta_lake_s3"
        assert getattr(place.config, "aws_region", "") == "eu-west-1"
    assert (
        locate_table("s3a://other/a/b/users", DeltaLakeS3Config(**keys)).uri
        == "s3://other/a/b/users"
    )
    account = "abfss://lake@acme.dfs.core.windows.net"
    azure = {"destination": "delta_lake_azure", "table_uri": f"{account}/silver/{{stream}}"}
    place = locate_table("users", {**azure, "access_key": "a2V5"})
    assert (place.uri, place.folder) == (f"{account}/silver/users", "users")
    assert locate_table("users", str(tmp_path)).uri == str(tmp_path / "users")
    assert locate_table(tmp_path / "x y").uri == str(tmp_path / "x y")
    for wrong in ("", "ftp://x/y"):
        with pytest.raises(ConfigError):
            locate_table(wrong)
    with pytest.raises(ConfigError, match="not in a store of the kind"):
        locate_table("gs://lake/t", DeltaLakeS3Config(**keys))
    with pytest.raises(ConfigError, match=r"has the part '\.\.'"):
        locate_table("../users", str(tmp_path))
