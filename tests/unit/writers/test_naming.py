from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakeport.errors import ConfigError
from lakeport.writers.naming import (
    check_date_format,
    object_folder,
    object_name,
    safe_segment,
    table_name,
)

CLOCK = datetime(2024, 3, 4, 15, 30, 45, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [
        (None, "raw/users"),
        ("", "raw/users"),
        ("%Y/%m/%d", "raw/users/2024/03/04"),
        ("%Y-%m-%d", "raw/users/2024-03-04"),
        ("year=%Y/month=%m", "raw/users/year=2024/month=03"),
        ("%Y%m%dT%H", "raw/users/20240304T15"),
        ("%Y%m%d", "raw/users/20240304"),
        ("/%Y/", "raw/users/2024"),
    ],
)
def test_date_folders(pattern: str | None, folder: str) -> None:
    assert object_folder("raw/users", pattern, CLOCK) == folder


@pytest.mark.parametrize("path", ["raw/x", "/raw/x", "raw/x/", "//raw//x//", "./raw/./x"])
def test_slashes_and_dots_in_a_table_are_harmless(path: str) -> None:
    assert object_folder(path, None, CLOCK) == "raw/x"


@pytest.mark.parametrize("path", ["", "/", "."])
def test_a_table_has_a_name(path: str) -> None:
    with pytest.raises(ConfigError, match="`table` is empty"):
        object_folder(path, None, CLOCK)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "a/../b",
        "a\\b",
        "a\0b",
        "a\nb",
        "%2e%2e/x",
        "a%2Fb",
        "_delta_log",
        "a/_lakeport/b",
        "a\u2028b",
    ],
)
def test_configured_paths_that_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="table"):
        table_name(path, "users")


@pytest.mark.parametrize(
    "folder", ["..", "a/../b", "a\\b", "a\0b", "a\nb", "_delta_log", "a/_lakeport/b"]
)
def test_a_folder_of_objects_is_refused_likewise(folder: str) -> None:
    with pytest.raises(ConfigError, match="table"):
        object_folder(folder, None, CLOCK)


@pytest.mark.parametrize("pattern", ["..", "%Y/../..", "%Q", "%%2e", "a\tb", "/", "\ud800"])
def test_date_formats_that_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="date_partition_format"):
        check_date_format(pattern)


def test_clock_is_read_in_utc() -> None:
    east = CLOCK.astimezone(timezone(timedelta(hours=14)))
    assert object_name(east, "parquet") == "20240304-153045.parquet"
    assert object_name(CLOCK.replace(tzinfo=None), "parquet") == "20240304-153045.parquet"
    assert object_folder("t", "%d", east) == "t/04"


def test_ordinals_extensions_and_unique_names() -> None:
    assert object_name(CLOCK, "parquet", 1) == "20240304-153045-1.parquet"
    assert object_name(CLOCK, "csv.zst", 12) == "20240304-153045-12.csv.zst"
    assert object_name(CLOCK, "csv", 2, "ab12") == "20240304-153045-ab12-2.csv"


def test_keys_longer_than_a_store_takes() -> None:
    with pytest.raises(ConfigError, match="1024"):
        object_folder("é/" * 400, None, CLOCK)


@pytest.mark.parametrize(
    ("pattern", "stream", "table"),
    [
        (None, "users", "users"),
        ("events", "users", "events"),
        ("raw/{stream}/v1", "users", "raw/users/v1"),
        ("/x_{stream}/", "a/b", "x_a%2Fb"),
        (None, "..", "%2E%2E"),
        (None, "year=2024", "year%3D2024"),
        (None, "_delta_log", "%5Fdelta_log"),
        (None, "größe 1", "größe 1"),
    ],
)
def test_table_names(pattern: str | None, stream: str, table: str) -> None:
    assert table_name(pattern, stream) == table


@pytest.mark.parametrize(
    ("pattern", "stream"),
    [("_{stream}", "delta_log"), ("%2{stream}", "e"), ("%{stream}", "2e"), ("", "x"), ("/", "x")],
)
def test_a_stream_can_not_complete_a_forbidden_name(pattern: str, stream: str) -> None:
    with pytest.raises(ConfigError):
        table_name(pattern, stream)


def test_long_names_are_cut_and_stay_distinct() -> None:
    one, two = safe_segment("é" * 600 + "1"), safe_segment("é" * 600 + "2")
    assert one != two
    assert max(len(one.encode()), len(two.encode())) <= 200
    assert safe_segment("x" * 200) == "x" * 200
