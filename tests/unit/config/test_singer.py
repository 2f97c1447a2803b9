"""The settings of `target-lakeport`: files, the environment, and the names of Meltano's SDK."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.base import config_class, destination_names
from lakeport.config.singer import settings_schema
from lakeport.errors import ConfigError
from lakeport.model import Mode
from tests.unit.config.kit import load_settings


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def write(name: str = "config.json", **keys: Any) -> str:
        path = tmp_path / name
        path.write_text(json.dumps(keys))
        return str(path)

    return write


def test_later_files_win_key_by_key(config: Any) -> None:
    one = config("one.json", destination="local", path="/a", table="t")
    two = config("two.yaml", path="/b")
    found = load_settings([one, two], environ={})
    assert (found.destination, found.path, found.table) == ("local", "/b", "t")  # type: ignore[attr-defined]


def test_the_environment_counts_when_it_is_named_and_wins(config: Any) -> None:
    environ = {
        "TARGET_LAKEPORT_PATH": "/env",
        "TARGET_LAKEPORT_PARTITION_KEYS": '["a", "b,c"]',
        "TARGET_LAKEPORT_ADD_RECORD_METADATA": "true",
        "TARGET_LAKEPORT_TABLE": "",
        "TARGET_LAKEPORT__LOAD_SCHEMA": "an extra of Meltano's own",
    }
    name = config(destination="local", path="/file", table="t")
    assert load_settings([name], environ=environ).path == "/file"  # type: ignore[attr-defined]
    found = load_settings(["ENV", name], environ=environ)
    assert (found.path, found.table) == ("/env", "t")  # type: ignore[attr-defined]
    assert found.partition_keys == ("a", "b,c")
    assert found.add_record_metadata
    assert found.warnings == ()


def test_without_files_the_environment_is_all_there_is() -> None:
    environ = {"TARGET_LAKEPORT_DESTINATION": "local", "TARGET_LAKEPORT_PATH": "/env"}
    assert load_settings([], environ=environ).path == "/env"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="`destination` is missing"):
        load_settings([], environ={})


@pytest.mark.parametrize(
    ("sdk", "mode"),
    [("append-only", Mode.APPEND), ("upsert", Mode.MERGE), ("overwrite", Mode.OVERWRITE)],
)
def test_settings_by_the_names_of_the_sdk(config: Any, sdk: str, mode: Mode) -> None:
    more = {"validate_records": True, "flattening_enabled": False, "flattening_max_depth": 3}
    name = config(destination="local", path="/a", load_method=sdk, batch_size_rows=7, **more)
    found = load_settings([name], environ={})
    assert (found.mode, found.maximum_batch_rows) == (mode, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [("stream_maps", {"a": {}}), ("flattening_enabled", "true"), ("validate_records", "false")],
)
def test_what_lakeport_does_not_do_is_an_error(config: Any, key: str, value: Any) -> None:
    name = config(destination="local", path="/a", **{key: value})
    with pytest.raises(ConfigError, match=rf"{re.escape(name)}.*{key}") as caught:
        load_settings([name], environ={})
    assert caught.value.hint


def test_a_misspelt_variable_is_named(config: Any) -> None:
    name = config(destination="local", path="/a")
    environ = {"TARGET_LAKEPORT_FILE_TIPE": "csv"}
    (warning,) = load_settings([name, "ENV"], environ=environ).warnings
    assert "TARGET_LAKEPORT_FILE_TIPE" in warning
    assert "TARGET_LAKEPORT_FILE_TYPE?" in warning
    environ = {"TARGET_LAKEPORT_DESTINATION": "local", "TARGET_LAKEPORT_PTH": "/a"}
    with pytest.raises(ConfigError) as caught:
        load_settings([], environ=environ)
    assert "TARGET_LAKEPORT_PATH?" in caught.value.hint


def test_secrets_that_others_can_reach_are_told(config: Any) -> None:
    one = config("one.json", destination="amazon_s3", bucket="lake")
    two = config("two.json", aws_access_key_id="AK", aws_secret_access_key="hush")
    for mode, problem in ((0o644, "read"), (0o664, "write")):  # as Meltano's umask has it
        Path(two).chmod(mode)
        (warning,) = load_settings([one, two], environ={}).warnings
        assert "two.json" in warning
        assert f"others may {problem}" in warning
    Path(two).chmod(0o600)
    assert load_settings([one, two], environ={}).warnings == ()


def test_the_schema_has_every_key_of_every_destination() -> None:
    schema = settings_schema()
    text = json.dumps(schema)
    assert "$ref" not in text
    assert "anyOf" not in text
    assert schema["properties"]["destination"]["enum"] == list(destination_names())
    for name in destination_names():
        model = config_class(name)
        assert model.model_fields.keys() <= schema["properties"].keys()
        for secret in model.secret_keys():
            assert schema["properties"][secret]["secret"]
    assert all(field["type"] and field["description"] for field in schema["properties"].values())
    assert schema["properties"]["file_type"]["enum"] == ["delta", "parquet", "csv"]
    required = {
        rule["if"]["properties"]["destination"]["const"]: rule["then"]["required"]
        for rule in schema["allOf"]
    }
    assert required["local"] == ["path"]
    assert required["delta_lake_azure"] == ["table_uri"]


def test_the_environments_target_counts_without_settings() -> None:
    config = load_settings([], environ={"LAKEPORT_TO": "/lake"})
    assert (config.destination, config.path) == ("local", "/lake")  # type: ignore[attr-defined]
