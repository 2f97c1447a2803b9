"""The list of what lakeport lacks: it stands once, and each line is true."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from lakeport.config.base import destination_names
from lakeport.config.keys import TargetKeys
from lakeport.config.lake.read import KINDS, LOAD_KEYS, TOP_KEYS
from lakeport.config.singer import load_settings
from lakeport.errors import ConfigError
from lakeport.sources.files.discovery import FORMATS
from tests.docs.generate import CONFIGS, command_paths, words_of
from tests.docs.pages import DOCS
from tests.docs.test_texts import literals

_LINK = "choosing.md#what-lakeport-lacks"


def fields(kind: str) -> set[str]:
    """The keys of a kind of source."""
    return {field.alias or name for name, field in KINDS[kind].model_fields.items()}


def written(destination: str) -> set[str]:
    """The formats that a destination's tables can have."""
    return set(get_args(CONFIGS[destination].model_fields["file_type"].annotation))


def is_refused(settings: Mapping[str, Any], folder: Path) -> bool:
    """Whether `target-lakeport` refuses these settings."""
    path = folder / "settings.yaml"
    lines = [f"{key}: {str(value).lower()}" for key, value in settings.items()]
    path.write_text("\n".join(["destination: local", f"path: {folder}", *lines]))
    try:
        load_settings([str(path)])
    except ConfigError:
        return True
    return False


KEYS = {key for config in CONFIGS.values() for key in config.model_fields}
COMMANDS = {word for path in command_paths() for word in path.split()}
MODES = [*words_of(CONFIGS["local"].model_fields["mode"].annotation)]
SINGER = ({"stream_maps": "{a: {}}"}, {"flattening_enabled": True}, {"validate_records": False})
ALL_WRITTEN = {format_ for name in CONFIGS for format_ in written(name)}

LACKING: Mapping[str, Callable[[Path], bool]] = {
    "a `lag` of a cursor": lambda _: "lag" not in fields("database"),
    "a limit of files for each load": lambda _: (
        fields("files")
        == {
            *("files", "new_only", "again", "ordered"),
            *(
                "source_format",
                "csv",
                "schema",
                "records_path",
                "sheet",
                "sheet_column",
                "infer_dates",
            ),
        }
    ),
    "a scheduler": lambda _: not COMMANDS & {"schedule", "scheduler", "cron", "daemon"},
    "a table for each list of a record": lambda _: not KEYS & {"child_tables", "max_table_nesting"},
    "an editor of pipelines": lambda _: not COMMANDS & {"edit", "editor"},
    "catalogs": lambda _: not KEYS & {"metastore", "catalog_name", "catalog_uri", "database"},
    "change data capture from a database's log": lambda _: (
        not fields("database") & {"cdc", "slot", "publication", "replication"}
    ),
    "cursors of frames and generators": lambda _: "cursor" not in TargetKeys.__annotations__,
    "databases and warehouses as targets": lambda _: {*destination_names()} == {*CONFIGS},
    "Delta tables in Google Cloud Storage": lambda _: (
        "delta" not in written("google_cloud_storage")
    ),
    "Excel, JSON, Avro, ORC, XML and HDF5 files as targets": lambda _: (
        {"delta", "parquet", "csv"} == ALL_WRITTEN
    ),
    "file notifications (queues, events)": lambda _: (
        not fields("files") & {"notifications", "queue", "events"}
    ),
    "flattening, stream maps and unchecked records of Singer": lambda folder: all(
        is_refused(each, folder) for each in SINGER
    ),
    "histories of rows (SCD2)": lambda _: MODES == ["`append`", "`overwrite`", "`merge`"],
    "hooks that run commands": lambda _: (
        not {*TOP_KEYS, *LOAD_KEYS} & {"hooks", "before", "after", "on_failure", "on_success"}
    ),
    "Iceberg, Hudi and DuckLake tables": lambda _: (
        not ALL_WRITTEN & {"iceberg", "hudi", "ducklake"}
    ),
    "merges by conditions of your own": lambda _: (
        {key for key in KEYS if "merge" in key} == {"merge_keys"}
    ),
    "overwriting by a condition (`replaceWhere`)": lambda _: (
        not KEYS & {"replace_where", "overwrite_where"}
    ),
    "SQL and tables as sources by Spark Connect": lambda _: (
        " takes a classic Spark session" in literals()
    ),
    "the protocol of Airbyte's messages": lambda _: "airbyte" not in FORMATS.values(),
    "web services as sources": lambda _: KINDS.keys() == {"files", "database", "tap", "tables"},
    "wildcards over a database's tables": lambda _: "tables" not in fields("database"),
    "XML, HDF5 and binary files as sources": lambda _: (
        not {*FORMATS.values()} & {"xml", "hdf5", "binary"}
    ),
}
"""A line of the list -> whether the code, its registries above all, still lacks it."""


def section(page: Path) -> str:
    """The part of a page under the heading of the list."""
    return page.read_text("utf-8").partition("## What lakeport lacks\n")[2].partition("\n## ")[0]


OTHERS = [page for page in DOCS.rglob("*.md") if page.name != "choosing.md" and section(page)]


def test_each_line_of_the_list_is_checked() -> None:
    lines = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", section(DOCS / "choosing.md"), re.M)
    assert lines[1:] == sorted(LACKING, key=str.lower)


@pytest.mark.parametrize("line", LACKING)
def test_lakeport_lacks_what_the_list_says(line: str, tmp_path: Path) -> None:
    assert LACKING[line](tmp_path)


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_other_pages_link_to_the_list(page: Path) -> None:
    """They have no list of their own, which would be wrong one day."""
    assert _LINK in section(page)
    assert "\n-" not in section(page) and "\n|" not in section(page)
    assert len(section(page).split()) < 40
