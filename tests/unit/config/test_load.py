from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import SecretStr

from lakeport.config import base, load
from lakeport.config.base import DestinationConfig, config_class
from lakeport.config.destinations.local import LocalConfig
from lakeport.config.files import parse_text
from lakeport.errors import ConfigError
from lakeport.model import Mode
from tests.unit.config.kit import load_file, load_target

CANARY = "canary-5f3a"


class Vault(DestinationConfig):
    """A destination with a secret."""

    destination: Literal["vault"] = "vault"
    password: SecretStr


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second destination in the registry."""
    monkeypatch.setitem(base._DESTINATIONS, "vault", f"{__name__}:Vault")


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_folder_is_a_local_target(tmp_path: Path) -> None:
    for to in (tmp_path / "lake", str(tmp_path / "lake"), f"file://{tmp_path}/lake"):
        config = load_target(to, environ={})
        assert config == LocalConfig(path=str(tmp_path / "lake"))


def test_a_folder_may_end_like_a_config_file(tmp_path: Path) -> None:
    folder = tmp_path / "lake.json"
    folder.mkdir()
    config = load_target(str(folder), environ={})
    assert isinstance(config, LocalConfig) and config.path == str(folder)


def test_a_config_file_that_is_not_there_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no config file"):
        load_target(str(tmp_path / "lake.yaml"), environ={})


@pytest.mark.parametrize("to", ["s3x://bucket/x", "S3X://b", "azz:/typo", "http://h/x"])
def test_an_unknown_scheme_lists_what_exists(to: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_target(to, environ={})
    assert to.split(":")[0].lower() in caught.value.message
    assert "file://" in caught.value.hint


def test_an_empty_target_is_told() -> None:
    with pytest.raises(ConfigError, match="empty"):
        load_target(" ", environ={})


@pytest.mark.parametrize(
    "values",
    [
        {"destination": "local", "path": "/lake", "mode": "overwrite"},
        {"destination": "local", "config": {"path": "/lake", "mode": "overwrite"}},
        {"config": {"destination": "local", "path": "/lake", "mode": "overwrite"}},
        {"destination": "local", "catalog": {}, "config": {"path": "/lake", "mode": "overwrite"}},
        {"destination": "local", "config": None, "path": "/lake", "mode": "overwrite"},
    ],
)
def test_forms_of_a_config(values: dict[str, object], tmp_path: Path) -> None:
    expected = LocalConfig(path="/lake", mode="overwrite")
    assert load_target(values, environ={}) == expected
    file = write(tmp_path / "c.json", json.dumps(values))
    assert load_target(file, environ={}) == load_target(str(file), environ={}) == expected


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"table": "t"}, "`destination` is missing"),
        ({"destination": "loca"}, "did you mean `local`"),
        ({"destination": "local", "config": {}, "mode": "append"}, "beside"),
        ({"destination": "local", "config": {"destination": "local"}}, "twice"),
        ({"destination": "local", "config": "x"}, "hold keys"),
        ({"destination": "local"}, "`path` is missing"),
        ({"destination": 1}, "`destination` is missing"),
    ],
)
def test_wrong_forms_are_told(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_target(values, environ={})


S3_KEYS = {"bucket": "lake", "aws_access_key_id": "a", "aws_secret_access_key": "s"}


@pytest.mark.parametrize(
    ("values", "destination"),
    [
        ({"path": "/lake"}, "local"),
        ({**S3_KEYS, "file_type": "parquet", "object_key_path": "raw"}, "amazon_s3"),
        ({**S3_KEYS, "file_type": "csv", "mode": "append"}, "amazon_s3"),
        ({**S3_KEYS, "table": "t", "mode": "append"}, "delta_lake_s3"),
        ({**S3_KEYS, "format": "delta"}, "delta_lake_s3"),
        ({"bucket": "lake", "google_application_credentials": None}, "google_cloud_storage"),
        (
            {"table_uri": "abfss://lake@acme.dfs.core.windows.net/t", "access_key": "YXc="},
            "delta_lake_azure",
        ),
        ({"config": {**S3_KEYS, "mode": "append"}, "catalog": {}}, "delta_lake_s3"),
    ],
)
def test_a_config_without_destination_is_known_by_its_keys(
    values: dict[str, Any], destination: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "c.json", json.dumps(values))
    file.chmod(0o600)
    for target in (values, str(file)):
        config = load_target(target, environ={})
        assert config.destination == destination
        assert f"taken as `{destination}`" in config.warnings[0]


@pytest.mark.parametrize(
    ("values", "choice"),
    [
        (S3_KEYS, ["amazon_s3", "delta_lake_s3"]),
        ({"bucket": "lake", "file_type": "csv"}, ["amazon_s3", "google_cloud_storage"]),
        ({**S3_KEYS, "table_uri": "s3://lake/t"}, ["amazon_s3", "delta_lake_azure", "local"]),
    ],
)
def test_keys_of_several_destinations_are_refused_with_the_choice(
    values: dict[str, Any], choice: list[str]
) -> None:
    with pytest.raises(ConfigError, match="`destination` is missing, and the keys `") as caught:
        load_target(values, environ={})
    assert all(f"`destination: {each}`" in caught.value.hint for each in choice)


def test_the_environment_is_a_target() -> None:
    keys = {"LAKEPORT_DESTINATION": "local", "LAKEPORT_PATH": "/e"}
    assert load_target(None, environ=keys) == LocalConfig(path="/e")
    assert load_target(None, environ={**keys, "LAKEPORT_TO": "/t"}) == LocalConfig(path="/t")
    assert load_target({"table": "t"}, environ=keys) == LocalConfig(path="/e", table="t")
    with pytest.raises(ConfigError, match="no target is named"):
        load_target(None, environ={})


def test_options_win_over_the_file_and_the_file_over_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "destination: local\npath: /f\nformat: csv\ntable: f\n")
    environ = {
        "LAKEPORT_PATH": "/e",
        "LAKEPORT_TABLE": "e",
        "LAKEPORT_RUN_ID": "e",
        "LAKEPORT_MODE": "",
        "LAKEPORT_DESTINATION": "elsewhere",
        "LAKEPORT_CACHE": "not a key",
    }
    overrides = {"file_type": "parquet", "table": "o", "mode": None}
    config = load_target(str(file), overrides, environ=environ)
    expected = LocalConfig(path="/f", file_type="parquet", table="o", run_id="e")
    assert config == expected


def test_a_wrong_value_of_the_environment_names_its_variable() -> None:
    environ = {"LAKEPORT_ENGINE": "sprak", "LAKEPORT_TABLE": "t"}
    with pytest.raises(ConfigError, match="`engine`: 'sprak' is not one of") as caught:
        load_target("/lake", environ=environ)
    assert caught.value.hint.endswith("The environment sets LAKEPORT_ENGINE.")
    with pytest.raises(ConfigError) as caught:
        load_target("/lake", {"engine": "sprak"}, environ=environ)
    assert "LAKEPORT_" not in caught.value.hint


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_RUN_ID", "from-env")
    assert load_target("/lake").run_id == "from-env"


def test_spark_settings_add_up(tmp_path: Path) -> None:
    values = {"destination": "local", "path": "/lake", "spark": {"a": 1, "b": 2}}
    config = load_target(values, {"spark": {"b": "3"}}, environ={})
    assert config.spark == {"a": "1", "b": "3"}


def test_a_config_is_taken_as_it_is() -> None:
    config = LocalConfig(path="/lake", table="t").with_warnings("look")
    assert load_target(config, {"mode": None}, environ={"LAKEPORT_MODE": "overwrite"}) is config
    changed = load_target(config, {"mode": "overwrite"}, environ={})
    assert changed.mode is Mode.OVERWRITE
    assert changed.table == "t"
    assert changed.warnings == ("look",)
    assert config.mode is Mode.APPEND


def test_a_file_expands_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "destination: local\npath: ${ROOT}/lake\ntable: $${x}\n")
    config = load_target(file, environ={"ROOT": "/data"})
    assert config == LocalConfig(path="/data/lake", table="${x}")
    with pytest.raises(ConfigError, match="'ROOT'"):
        load_target(file, environ={})


def test_a_mapping_and_an_option_expand_nothing() -> None:
    config = load_target({"destination": "local", "path": "/${A}"}, {"table": "${B}"}, environ={})
    assert config == LocalConfig(path="/${A}", table="${B}")


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "destination: local\npath: /lake\nmdoe: append\n")
    with pytest.raises(ConfigError) as caught:
        load_target(file, environ={})
    assert "c.yaml" in caught.value.message and "`mode`" in caught.value.message


def test_a_named_destination_fits_the_file(tmp_path: Path) -> None:
    bare = write(tmp_path / "bare", '{"path": "/lake"}')
    assert load_file(bare, environ={}, destination="local") == LocalConfig(path="/lake")
    other = write(tmp_path / "other", '{"destination": "vault", "path": "/lake"}')
    with pytest.raises(ConfigError, match="'vault', not for 'local'"):
        load_file(other, environ={}, destination="local")


@pytest.mark.usefixtures("vault")
def test_secrets_that_others_could_change_are_refused(tmp_path: Path) -> None:
    text = f"destination: vault\npassword: {CANARY}\n"
    assert load_target(write(tmp_path / "a.yaml", text, 0o600), environ={}).warnings == ()
    (warning,) = load_target(write(tmp_path / "b.yaml", text, 0o644), environ={}).warnings
    assert "0644" in warning and "chmod 600" in warning
    for mode in (0o620, 0o602, 0o666):
        with pytest.raises(ConfigError, match=f"{mode:04o}") as caught:
            load_target(write(tmp_path / "c.yaml", text, mode), environ={})
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "destination: delta_lake_azure\ntable_uri: abfss://lake@acct1.dfs.core.windows.net/t\n"
        f"sas_token: '?sv=2024&sig={CANARY}'\n",
        "destination: google_cloud_storage\nbucket: lake\ngoogle_application_credentials: |\n"
        '  {"type": "service_account", "client_email": "a@b", "token_uri": "https://t", '
        f'"private_key": "{CANARY}"}}\n',
    ],
)
def test_secrets_within_a_longer_text_are_guarded_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="others may write to it"):
        load_target(write(tmp_path / "c.yaml", text, 0o666), environ={})
    (warning,) = load_target(write(tmp_path / "d.yaml", text, 0o644), environ={}).warnings
    assert "0644" in warning


@pytest.mark.usefixtures("vault")
def test_the_mode_is_that_of_the_file_that_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "c.yaml", f"destination: vault\npassword: {CANARY}\n", 0o666)
    safe = write(tmp_path / "safe", "", 0o600)

    def parsed(text: str, name: str) -> Any:
        safe.replace(path)  # as somebody would who wants no complaint
        return parse_text(text, name)

    monkeypatch.setattr(load, "parse_text", parsed)
    with pytest.raises(ConfigError, match="others may write to it"):
        load_target(path, environ={})


@pytest.mark.usefixtures("vault")
def test_a_file_without_the_secret_itself_may_be_open(tmp_path: Path) -> None:
    text = "destination: vault\npassword: ${PASSWORD}\n"
    file = write(tmp_path / "c.yaml", text, 0o666)
    config = load_target(file, environ={"PASSWORD": CANARY})
    assert config.secrets() == (CANARY,) and config.warnings == ()
    file = write(tmp_path / "d.yaml", "destination: vault\n", 0o666)
    assert load_target(file, environ={"LAKEPORT_PASSWORD": CANARY}).secrets() == (CANARY,)


def test_spark_secrets_count_as_secrets(tmp_path: Path) -> None:
    text = f"destination: local\npath: /lake\nspark:\n  x.secret.key: {CANARY}\n"
    with pytest.raises(ConfigError, match="holds secrets"):
        load_target(write(tmp_path / "c.yaml", text, 0o666), environ={})


def test_unknown_destinations_list_the_known() -> None:
    with pytest.raises(ConfigError) as caught:
        config_class("amazon_s4")
    assert "local" in caught.value.hint


def test_the_place_of_the_keys_is_named_once() -> None:
    with pytest.raises(ConfigError) as caught, load.prefix_errors("flags"):
        load.for_destination("local", {"config": "x"})
    assert caught.value.message == "flags: `config` has to hold keys"


@pytest.mark.parametrize("key", [1, None, True, b"mode", ("a", "b")])
def test_keys_that_are_no_text_are_refused(key: Any) -> None:
    local = {"destination": "local", "path": "/lake"}
    wrong: tuple[tuple[Any, Any], ...] = (
        ({**local, key: "x"}, None),
        ({"destination": "local", "config": {"path": "/lake", key: "x"}}, None),
        ({"config": local, key: "x"}, None),
        ({"connector_type": "amazon_s3", "bucket": "lake", "prefix": "a/b", key: "x"}, None),
        (local, {key: "x"}),
    )
    for to, overrides in wrong:
        with pytest.raises(ConfigError, match="key that is no text") as caught:
            load_target(to, overrides, environ={})
        assert type(key).__name__ in caught.value.message
