"""Mage's streaming sinks, io_config.yaml and catalogs as configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.destinations.local import LocalConfig
from lakeport.config.mage.io_config import ConfigFileLoader, destination_keys
from lakeport.errors import ConfigError
from tests.unit.config.kit import load_target, read_sink_interval

S3 = {"connector_type": "amazon_s3", "bucket": "lake", "prefix": "raw/clicks"}
AZURE_URI = "abfss://lake@acme.dfs.core.windows.net/silver/clicks"


def sink(**values: Any) -> tuple[Any, Any]:
    return load_target(values, environ={}), read_sink_interval(values)


def test_a_sink_file(tmp_path: Path) -> None:
    file = tmp_path / "sink.yaml"
    file.write_text(
        "connector_type: amazon_s3\nbucket: {{ env_var('BUCKET') }}\nprefix: raw/clicks\n"
        "file_type: csv\nbuffer_size_mb: 8\nbuffer_timeout_seconds: 60\n"
        "date_partition_format: '%Y/%m/%d'\n"
    )
    config: Any
    environ = {"BUCKET": "lake"}
    config = load_target(str(file), environ=environ)
    assert (config.destination, config.bucket, config.object_key_path) == (
        "amazon_s3",
        "lake",
        "raw",
    )
    assert (config.table, config.file_type, config.date_partition_format) == (
        "clicks",
        "csv",
        "%Y/%m/%d",
    )
    assert read_sink_interval(file, environ=environ) == 60
    assert read_sink_interval(tmp_path) is None and read_sink_interval({"path": "x"}) is None


def test_each_kind_of_sink() -> None:
    config, seconds = sink(**S3)
    assert (config.file_type, seconds) == ("parquet", 300)
    config, _ = sink(**S3, aws_access_key_id="AK", aws_secret_access_key="x", region="eu-west-1")
    assert (config.aws_region, config.aws_access_key_id.get_secret_value()) == ("eu-west-1", "AK")
    config, _ = sink(**{**S3, "connector_type": "google_cloud_storage", "prefix": "clicks"})
    assert (config.destination, config.object_key_path, config.table) == (
        "google_cloud_storage",
        "",
        "clicks",
    )
    config, _ = sink(**S3, file_type="delta", mode="append")
    assert (config.destination, config.object_key_path, config.table) == (
        "delta_lake_s3",
        "raw",
        "clicks",
    )
    config, _ = sink(connector_type="amazon_s3", file_type="delta", table_uri="s3://lake/a/b/c")
    assert (config.bucket, config.object_key_path, config.table) == ("lake", "a/b", "c")
    config, _ = sink(connector_type="azure_data_lake", table_uri=AZURE_URI, access_key="a2V5")
    assert (config.destination, config.table_pattern) == ("delta_lake_azure", "clicks")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"connector_type": "amazon_s4"}, "did you mean `amazon_s3`"),
        ({**S3, "bufer_size_mb": 1}, "did you mean `buffer_size_mb`"),
        ({**S3, "buffer_timeout_seconds": "soon"}, "`buffer_timeout_seconds` is 'soon'"),
        ({**S3, "buffer_size_mb": 0}, "`buffer_size_mb` is 0"),
        ({"connector_type": "amazon_s3", "bucket": "lake"}, "no `prefix`"),
        ({**S3, "prefix": "/"}, "`prefix` is '/'"),
        ({**S3, "file_type": "parqet"}, "did you mean `parquet`"),
        ({**S3, "file_type": "delta", "table_uri": "lake/x"}, "`table_uri` is 'lake/x'"),
        ({"connector_type": "google_cloud_storage", "file_type": "delta"}, "file_type: delta"),
    ],
)
def test_a_wrong_sink_is_told(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sink(**values)
    assert named in caught.value.message


PROFILES = """
version: 0.1.1
default:
  AWS_ACCESS_KEY_ID: "{{ env_var('KEY_ID') }}"
  AWS_SECRET_ACCESS_KEY: {{ env_var('SECRET') }}
  AWS_SESSION_TOKEN: session_token (Used to generate Redshift credentials)
  AWS_REGION: region
  AWS_ENDPOINT: http://127.0.0.1:9000
  POSTGRES_PASSWORD: "{{ env_var('NOT_SET') }}"
  GOOGLE_SERVICE_ACC_KEY:
    type: service_account
    private_key: "-----BEGIN PRIVATE KEY-----\\nyour_private_key\\n-----END_PRIVATE_KEY"
  GOOGLE_SERVICE_ACC_KEY_FILEPATH: /keys/lake.json
  AZURE_CLIENT_ID: client_id
  AZURE_STORAGE_ACCOUNT_NAME: acme
verbose:
  AWS:
    access_key_id: AK
    secret_access_key: "{{ env_var('SECRET') }}"
    region: eu-west-1
  BigQuery:
    credentials_mapping: {type: service_account, private_key: pem}
    path_to_credentials: /keys/other.json
"""
SECRET = "a: 'b' #\"{{"


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    file = tmp_path / "io_config.yaml"
    file.write_text(PROFILES)
    return file


def test_a_flat_profile(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ID", "AK")
    monkeypatch.setenv("SECRET", SECRET)
    loader = ConfigFileLoader(profiles, "default")
    assert destination_keys(loader, "delta_lake_s3") == {
        "aws_access_key_id": "AK",
        "aws_secret_access_key": SECRET,
        "aws_endpoint": "http://127.0.0.1:9000",
    }
    assert destination_keys(loader, "delta_lake_azure") == {"account_name": "acme"}
    assert destination_keys(loader, "google_cloud_storage") == {
        "google_application_credentials": "/keys/lake.json"
    }
    assert "POSTGRES_PASSWORD" in loader and loader["AWS_NOTHING"] is None
    with pytest.raises(ConfigError, match="'NOT_SET' is not set"):
        loader["POSTGRES_PASSWORD"]


def test_a_profile_with_headers(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    loader = ConfigFileLoader(profiles, "verbose")
    assert destination_keys(loader, "amazon_s3") == {
        "aws_access_key_id": "AK",
        "aws_secret_access_key": SECRET,
        "aws_region": "eu-west-1",
    }
    key = destination_keys(loader, "google_cloud_storage")["google_application_credentials"]
    assert json.loads(key) == {"type": "service_account", "private_key": "pem"}


def test_a_profile_that_is_not_there(profiles: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean `default`") as caught:
        ConfigFileLoader(profiles, "defualt")
    assert "verbose" in caught.value.hint
    with pytest.raises(ConfigError, match="can't be read"):
        ConfigFileLoader(profiles.parent / "none.yaml")


CATALOG = {
    "streams": [
        {
            "tap_stream_id": "users",
            "schema": {"properties": {"id": {"type": "integer"}}},
            "key_properties": ["id"],
            "partition_keys": ["id", "id"],
            "bookmark_properties": None,
            "replication_method": "INCREMENTAL",
            "unique_conflict_method": "UPDATE",
            "unique_constraints": ["id"],
            "disable_column_type_check": False,
        }
    ]
}


@pytest.mark.parametrize("given", [CATALOG, json.dumps(CATALOG)])
def test_a_catalog(given: Any) -> None:
    config = LocalConfig(path="/lake", catalog=given)
    stream = config.catalog["users"]
    assert (stream.key_properties, stream.partition_keys) == (("id",), ("id",))
    [warning] = config.warnings
    assert "unique_constraints" in warning and "'users'" in warning


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("{", "is no JSON"),
        ([], "has to look like"),
        ({"stream": []}, "has no list `streams`"),
        ({"streams": [{"schema": {}}]}, "number 1"),
        ({"streams": [{"stream": "users"}]}, "stream 'users'"),
        (
            {"streams": [{"stream": "u", "schema": {"properties": {}}, "partition_keys": "a"}]},
            "`partition_keys`",
        ),
    ],
)
def test_a_wrong_catalog_is_told(given: Any, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LocalConfig(path="/lake", catalog=given)
    assert "`catalog`" in caught.value.message and named in caught.value.message
