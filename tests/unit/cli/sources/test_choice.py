"""One source for each command line."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport.cli.land import choose_source
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import ConfigError

OPTIONS = {
    **dict.fromkeys(
        [
            *("again", "from_tap", "from_database", "table_of", "query", "cursor", "split_by"),
            *("deletes", "source_name", "driver", "from_table"),
        ]
    ),
    **dict.fromkeys(("new_only", "ordered", "incremental"), False),
}


def named(names: list[str] | None = None, **given: Any) -> Any:
    return choose_source(names or [], {**OPTIONS, **given}, {"WORD": "s3cret"})


def test_files_are_what_is_named_or_described() -> None:
    assert named(names=["a.csv"]) == "a.csv"
    assert named(names=["a.csv", "b.csv"]) == ["a.csv", "b.csv"]
    new = named(names=["in/*.csv"], new_only=True, again="land")
    assert new == FilesSource(files=("in/*.csv",), new_only=True, again="land")


def test_a_database_takes_its_password_from_the_environment() -> None:
    uri = "postgresql://me:${WORD}@db/shop"
    source = named(from_database=uri, table_of="orders", cursor="id")
    assert isinstance(source, DatabaseSource)
    assert source.database.get_secret_value() == "postgresql://me:s3cret@db/shop"


def test_a_tap_is_a_command_as_a_shell_reads_it() -> None:
    source = named(from_tap="tap-x --config 'my tap.json'")
    assert source == TapSource(tap=("tap-x", "--config", "my tap.json"))


def test_tables_go_by_their_last_names() -> None:
    source = named(from_table=["lake/orders", "s3://b/users"], incremental=True)
    assert isinstance(source, TablesSource)
    assert source.tables == {"orders": "lake/orders", "users": "s3://b/users"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no source is named"),
        ({"names": ["a"], "from_tap": "x"}, "both files and `--from-tap` are named: 'a'"),
        ({"from_tap": "x", "from_table": ["t"]}, "both `--from-tap` and `--from-table` are named"),
        ({"from_tap": "x 'y"}, "which is no command"),
        ({"from_tap": " "}, "which is no command"),
        ({"names": ["a"], "incremental": True}, "`--incremental` is about a table"),
        ({"names": ["a"], "cursor": "id"}, "`--cursor` is about a database"),
        ({"from_tap": "x", "new_only": True}, "`--new-only` is about files"),
        ({"names": ["a"], "again": "land"}, "`--again` is about files that were landed before"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        named(**given)
