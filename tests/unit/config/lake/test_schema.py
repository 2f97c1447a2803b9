from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lakeport.config.base import OTHER_NAMES, all_keys
from lakeport.config.files import parse_text
from lakeport.config.lake.schema import lake_schema
from lakeport.errors import ConfigError
from tests.unit.config.kit import read_lake
from tests.unit.config.lake.test_read import EXAMPLE, loads, written

SCHEMA = lake_schema()
VALID = [
    EXAMPLE,
    loads("a: {from: {files: [x, y]}, mode: upsert, partition_by: 'a, b', max_bad_records: 1%}"),
    loads("a: {from: {tables: b/c, incremental: true}, give_up_after: 2m, table: '${X}'}"),
    loads("a: {from: {tables: {t: b/c}}, hard_delete: '${YES}', columns: {x: int}, mode: null}"),
    loads("a: {from: {files: x, csv: {delimiter: ';'}, schema: {a: int}}, config: {table: b}}"),
    loads(
        "a: {from: {files: x}, expect: [{not_null: a}, {in: {b: [1]}}, {fresh: "
        "{column: a, within: 2 days}}, {between: {a: [1, null]}}], partition_columns: off}"
    ),
    "notices: {failure: 'https://x', freshness: ['https://y']}\nlineage: {file: x}\n"
    + loads("a: {from: {tap: [t]}}"),
    "target: {destination: local, config: {path: x, clean_up_input_file: true}}\n"
    "loads: {a: {from: {files: x}, tags: [t], description: d, python: 'a:b', sql: SELECT 1}}",
]
BROKEN = [
    "target: x",
    loads("a: {from: {fils: x}}"),
    loads("a: {from: {files: x, tap: [y]}}"),
    loads("a: {sql: SELECT 1}"),
    loads("a: {from: {files: x}, mode: apend}"),
    loads("a: {from: {files: x}, expect: [{not_nul: x}]}"),
    loads("a: {from: {files: x}, expect: [{not_null: x, unique: y}]}"),
    loads("source: {from: {files: x}}"),
    loads("a: {from: {files: x, again: perhaps}}"),
    loads("a: {from: {files: x}, colums: {}}"),
    loads("a: {from: {tap: []}}"),
]


def faults(text: str) -> list[Any]:
    return list(Draft202012Validator(SCHEMA).iter_errors(parse_text(text, "f")))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", VALID)
def test_what_lakeport_takes_is_valid(text: str, tmp_path: Path) -> None:
    read_lake(written(tmp_path, text), environ={"PGUSER": "a", "X": "x", "YES": "true"})
    assert faults(text) == []


@pytest.mark.parametrize("text", BROKEN)
def test_what_lakeport_refuses_is_not(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_lake(written(tmp_path, text), environ={})
    assert faults(text) != []


@pytest.mark.parametrize("part", ["target", "defaults", "load"])
def test_every_key_of_every_destination_is_described(part: str) -> None:
    properties = SCHEMA["$defs"][part]["properties"]
    assert properties.keys() >= all_keys() | OTHER_NAMES.keys()
    assert [key for key, field in properties.items() if not field.get("description")] == []
