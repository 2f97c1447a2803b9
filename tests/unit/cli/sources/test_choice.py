"""One source for each command line."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.cli.sources import DatabaseOptions, SourceOptions
from lakeport.config.inputs import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError


def named(**given: Any) -> SourceOptions:
    database = {key: given.pop(key, None) for key in DatabaseOptions.__slots__}
    nothing = {
        "names": [],
        "new_only": False,
        "again": None,
        "ordered": False,
        "tap": None,
        "tables": None,
        "incremental": False,
    }
    return SourceOptions(**{**nothing, "database": DatabaseOptions(**database), **given})


def test_files_are_what_is_named_or_described() -> None:
    assert named(names=["a.csv"]).source({}) == "a.csv"
    assert named(names=["a.csv", "b.csv"]).source({}) == ["a.csv", "b.csv"]
    new = named(names=["in/*.csv"], new_only=True, again="land").source({})
    assert new == FilesSource(files=("in/*.csv",), new_only=True, again="land")


def test_a_database_takes_its_password_from_the_environment() -> None:
    given = named(database="postgresql://me:${WORD}@db/shop", table="orders", cursor="id")
    source = given.source({"WORD": "s3cret"})
    assert isinstance(source, DatabaseSource)
    assert source.database.get_secret_value() == "postgresql://me:s3cret@db/shop"


def test_a_tap_is_a_command_as_a_shell_reads_it() -> None:
    source = named(tap="tap-x --config 'my tap.json'").source({})
    assert source == TapSource(tap=("tap-x", "--config", "my tap.json"))


def test_tables_go_by_their_last_names() -> None:
    source = named(tables=["lake/orders", "s3://b/users"], incremental=True).source({})
    assert isinstance(source, TablesSource)
    assert source.tables == {"orders": "lake/orders", "users": "s3://b/users"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no source is named"),
        ({"names": ["a"], "tap": "x"}, "both files and `--from-tap` are named: 'a'"),
        ({"tap": "x", "tables": ["t"]}, "both `--from-tap` and `--from-table` are named"),
        ({"tap": "x 'y"}, "which is no command"),
        ({"tap": " "}, "which is no command"),
        ({"names": ["a"], "incremental": True}, "`--incremental` is about a table"),
        ({"names": ["a"], "cursor": "id"}, "`--cursor` is about a database"),
        ({"tap": "x", "new_only": True}, "`--new-only` is about files"),
        ({"names": ["a"], "again": "land"}, "`--again` is about files that were landed before"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        named(**given).source({})
