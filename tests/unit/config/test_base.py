from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import Field, SecretStr, ValidationError

from lakeport.config.base import DestinationConfig
from lakeport.config.destinations.local import LocalConfig
from lakeport.errors import ConfigError
from lakeport.model import Mode, UnknownPolicy

CANARY = "canary-5f3a"


class Vault(DestinationConfig):
    """A destination with secrets, one of them required."""

    destination: Literal["vault"] = "vault"
    password: SecretStr = Field(min_length=1)
    token: SecretStr | None = Field(default=None)

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...


def test_defaults_of_the_road() -> None:
    config = LocalConfig(path="/lake")
    assert config.destination == "local"
    assert config.file_type == "delta"
    assert config.mode is Mode.APPEND
    assert config.unknown_fields is UnknownPolicy.EVOLVE
    assert (config.on_bad_record, config.schema_evolution) == ("fail", "evolve")
    assert (config.maximum_batch_size_mb, config.target_file_size_mb) == (1024, 256)
    assert (config.min_file_size_mb, config.max_record_mb) == (32, 100)
    assert (config.compression, config.internal_columns_prefix) == ("snappy", "_mage_")
    assert config.internal_columns and config.manifest
    assert config.table is None
    assert config.run_id is None
    assert config.maximum_batch_rows is None


def test_null_means_absent_also_for_keys_with_another_default() -> None:
    config = LocalConfig(path="/lake", mode=None, compression=None, partition_keys=None)
    assert config == LocalConfig(path="/lake")


def test_empty_formats_are_none_as_in_mage() -> None:
    config = LocalConfig(path="/lake", date_partition_format="", column_header_format="")
    assert (config.date_partition_format, config.column_header_format) == (None, None)


def test_snake_case_has_two_names() -> None:
    config = LocalConfig(path="/lake", column_header_format="snake_case")
    assert config.column_header_format == "snake"


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"partition_keys": "a, b,,a"}, "partition_keys", ("a", "b")),
        ({"partition_by": ["a", "b"]}, "partition_keys", ("a", "b")),
        ({"format": "csv"}, "file_type", "csv"),
        ({"max_bad_records": 10}, "max_bad_records", 10),
        ({"max_bad_records": "10"}, "max_bad_records", 10),
        ({"max_bad_records": "0.01"}, "max_bad_records", 0.01),
        ({"max_bad_records": "1%"}, "max_bad_records", 0.01),
        ({"max_bad_records": "100%"}, "max_bad_records", 1.0),
        ({"internal_columns": "false"}, "internal_columns", False),
        ({"maximum_batch_size_mb": "1.5"}, "maximum_batch_size_mb", 1.5),
        ({"maximum_batch_size_mb": 0}, "maximum_batch_size_mb", 0.0),
        ({"target_file_size_mb": 4}, "min_file_size_mb", 4.0),
        ({"object_key_path": "/raw/eu/"}, "object_key_path", "raw/eu"),
        ({"run_id": 20240304}, "run_id", "20240304"),
        ({"give_up_after": "2 min"}, "give_up_after", 120.0),
        ({"give_up_after": "90"}, "give_up_after", 90.0),
        ({"give_up_after": 1.5}, "give_up_after", 1.5),
        ({"spark": {"a": True, "b": 2}}, "spark", {"a": "true", "b": "2"}),
        ({"spark": '{"a": 1}'}, "spark", {"a": "1"}),
        ({"path": "file:///data/my%20lake"}, "path", "/data/my lake"),
        ({"path": Path("/data/lake")}, "path", "/data/lake"),
    ],
)
def test_values_are_taken_as(given: dict[str, Any], key: str, value: object) -> None:
    found = getattr(LocalConfig(**{"path": "/lake", **given}), key)
    assert found == value
    assert type(found) is type(value)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert LocalConfig(path="lake").path == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "appnd"}, ["`mode`", "'appnd'", "did you mean `append`"]),
        ({"mdoe": "append"}, ["no key `mdoe`", "did you mean `mode`"]),
        ({"compression": "LZ4"}, ["`compression`", "'LZ4'", "snappy, zstd, gzip, none"]),
        ({"max_bad_records": "200%"}, ["`max_bad_records`", "'200%'"]),
        ({"max_bad_records": -1}, ["`max_bad_records`", "-1"]),
        ({"max_bad_records": True}, ["`max_bad_records`"]),
        ({"maximum_batch_rows": 0}, ["`maximum_batch_rows`", "0"]),
        ({"maximum_batch_size_mb": float("inf")}, ["`maximum_batch_size_mb`"]),
        ({"partition_keys": [1]}, ["`partition_keys`"]),
        ({"run_id": "a\nb"}, ["`run_id`", "control"]),
        ({"give_up_after": "soon"}, ["`give_up_after`", "90s, 2m or 1h"]),
        ({"give_up_after": 0}, ["`give_up_after`"]),
        ({"give_up_after": "1e999"}, ["`give_up_after`"]),
        ({"run_id": ""}, ["`run_id`"]),
        ({"table": ""}, ["`table`", "is empty"]),
        ({"path": ""}, ["`path`"]),
        ({"path": "file://host/lake"}, ["`path`", "file://"]),
        ({"path": "a\0b"}, ["`path`", "NUL"]),
        ({"min_file_size_mb": 64, "target_file_size_mb": 32}, ["`min_file_size_mb`"]),
        ({"mode": "merge", "file_type": "csv"}, ["`mode: merge`", "delta"]),
        ({"table_properties": {"fs.s3a.access.key": "x"}}, ["`table_properties`"]),
        ({"destination": "locl"}, ["`destination`", "'locl'"]),
    ],
)
def test_what_is_refused_is_named(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        LocalConfig(**{"path": "/lake", **given})
    for word in words:
        assert word in caught.value.message
    assert caught.value.hint


def test_a_wrong_key_is_explained() -> None:
    with pytest.raises(ConfigError) as caught:
        LocalConfig(path="/lake", mode="merge", merge_keys=5)
    assert caught.value.hint.startswith("`merge_keys`: Columns that identify a row")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        LocalConfig(path=tmp_path / "lake")


@pytest.mark.parametrize(("key", "value"), [("file_type", "Parquet"), ("compression", "lz4")])
def test_names_of_types_and_codecs_are_exact(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"`{key}`: '{value}' is not one of"):
        LocalConfig(path=str(tmp_path), **{key: value})


def test_all_errors_come_in_one_message() -> None:
    with pytest.raises(ConfigError) as caught:
        LocalConfig(mdoe="x", compression="lz4", target_file_size_mb=-1)
    message = caught.value.message
    assert "has 4 errors" in message
    for key in ("path", "mdoe", "compression", "target_file_size_mb"):
        assert f"`{key}`" in message
    assert "LAKEPORT_PATH" in caught.value.hint
    assert "object_key_path" in caught.value.hint


def test_a_key_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="`format` and `file_type` are the same key"):
        LocalConfig(path="/lake", format="csv", file_type="csv")


def test_mages_own_keys_do_not_disturb() -> None:
    config = LocalConfig(path="/lake", clean_up_input_file=True, _streams={})
    assert config.warnings == ()


def test_stream_overrides_become_keys_of_their_own() -> None:
    overrides = {"columns": {"source": "eu", "year": 2024}, "partition_keys": ["b", "a"]}
    config = LocalConfig(path="/lake", partition_keys="a", _streams=overrides)
    assert config.partition_keys == ("a", "b")
    assert config.constant_columns == {"source": "eu", "year": "2024"}
    assert overrides["partition_keys"] == ["b", "a"]
    with pytest.raises(ConfigError, match="did you mean `columns`"):
        LocalConfig(path="/lake", _streams={"colums": {}})
    with pytest.raises(ConfigError, match="`partition_keys` is 3, which is no list"):
        LocalConfig(path="/lake", _streams={"partition_keys": 3})


def test_a_config_can_not_be_changed() -> None:
    config = LocalConfig(path="/lake")
    with pytest.raises(ValidationError):
        config.mode = Mode.OVERWRITE


def test_a_config_travels_to_tasks() -> None:
    config = Vault(password=CANARY, spark={"spark.x.secret": "y"}).with_warnings("look")
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config
    assert copy.secrets() == (CANARY, "y")
    assert copy.warnings == ("look",)


def test_secrets_show_nowhere() -> None:
    config = Vault(
        password=CANARY,
        token=SecretStr(CANARY + "2"),
        spark={"spark.hadoop.fs.s3a.secret.key": CANARY + "3", "spark.cores.max": 2},
    )
    for text in (repr(config), str(config), config.model_dump_json(exclude={"spark"})):
        assert CANARY not in text
    assert "'spark.cores.max': '2'" in repr(config)
    assert config.secrets() == (CANARY, CANARY + "2", CANARY + "3")
    assert config.secret_keys() == {"password", "token"}


@pytest.mark.parametrize(
    "given",
    [
        {"password": [CANARY]},
        {"password": ""},
        {"password": CANARY, "pasword": CANARY},
        {"password": CANARY, "token": {"a": CANARY}},
        {"password": CANARY, "spark": {"spark.x.secret": [CANARY]}},
        {"password": CANARY, "spark": CANARY},
        {"password": CANARY, "mode": "merge"},
    ],
)
def test_errors_do_not_tell_secrets(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Vault(**given)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None
