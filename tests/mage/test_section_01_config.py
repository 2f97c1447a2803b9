"""Section 1: config keys, `_streams`, block files and catalogs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import ConfigError
from lakeport.mage import AmazonS3, DeltaLakeAzure, DeltaLakeS3, GoogleCloudStorage
from tests.mage.conftest import Place, record, schema
from tests.unit.config.kit import load_file

INTEGER = {"type": ["null", "integer"]}
STRING = {"type": ["null", "string"]}
BLOCKS = {
    "amazon_s3": """
  aws_access_key_id: "{{ env_var('KEY') }}"
  aws_secret_access_key: "{{ env_var('SECRET') }}"
  aws_region: us-west-2
  bucket: lake
  object_key_path: raw/
  table: users
  file_type: parquet
  column_header_format: lower
  date_partition_format: '%Y/%m/%d'
  role_arn: null
  aws_endpoint: null
""",
    "google_cloud_storage": """
  bucket: lake
  object_key_path: raw
  table: users
  file_type: csv
  google_application_credentials: null
  date_partition_format: '%Y%m%dT%H'
""",
    "delta_lake_s3": """
  aws_access_key_id: AK
  aws_secret_access_key: {{ env_var('SECRET') }}
  aws_region: us-west-2
  bucket: lake
  object_key_path: raw
  table: users
  mode: overwrite
  partition_keys: [country]
""",
    "delta_lake_azure": """
  account_name: acme
  access_key: {{ mage_secret_var('azure_key') }}
  table_uri: abfs://lake/silver/users
  table: users
  mode: append
""",
}


@pytest.mark.parametrize("destination", BLOCKS)
def test_a_block_of_each_destination(destination: str, tmp_path: Path) -> None:
    file = tmp_path / "block.yaml"
    file.write_text(f"destination: {destination}\nconfig:{BLOCKS[destination]}")
    file.chmod(0o600)
    environ = {"KEY": "AK", "SECRET": "s: '3' #\"", "LAKEPORT_SECRET_AZURE_KEY": "a2V5"}
    config: Any = load_file(file, environ=environ)
    assert config.destination == destination
    assert config.table == "users"
    assert set(config.secrets()) <= {"AK", "s: '3' #\"", "a2V5"}
    if destination == "amazon_s3":
        assert config.aws_secret_access_key.get_secret_value() == "s: '3' #\""
        assert config.object_key_path == "raw"


@pytest.mark.parametrize("kind", [AmazonS3, DeltaLakeS3, DeltaLakeAzure, GoogleCloudStorage])
@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"buckt": "lake"}, "did you mean `bucket`"),
        ({"file_type": "parqet"}, "'parqet' is not one of"),
        ({"column_header_format": "loewr"}, "did you mean `lower`"),
        ({"maximum_batch_size_mb": "much"}, "'much'"),
    ],
)
def test_a_wrong_key_or_value_is_told_before_anything_is_read(
    kind: Any, config: dict[str, Any], named: str
) -> None:
    if kind is DeltaLakeAzure and "buckt" in config:
        config, named = {"table_ur": "abfs://a/b"}, "did you mean `table_uri`"
    with pytest.raises(ConfigError) as caught:
        _ = kind(config=config).config
    assert named in caught.value.message


def test_no_config_at_all_is_told() -> None:
    with pytest.raises(ConfigError, match="`bucket` is missing"):
        AmazonS3(config={}).test_connection()


def test_stream_overrides_and_a_catalog(delta: Place) -> None:
    """Constants win over values, keys partition, records are cut to the catalog's schema."""
    catalog = {
        "streams": [
            {
                "tap_stream_id": "users",
                "schema": {"properties": {"id": INTEGER, "country": STRING, "gone": STRING}},
                "partition_keys": ["country"],
            }
        ]
    }
    overrides = {"columns": {"source": "eu", "id": "one"}, "partition_keys": ["source", "country"]}
    made = delta.made(_streams=overrides, catalog=json.dumps(catalog))
    made.process(
        io.BytesIO(
            b'{"type":"SCHEMA","stream":"users","schema":{"properties":{"id":{"type":"string"}}}}\n'
            b'{"type":"RECORD","stream":"users","record":'
            b'{"id":7,"country":"NL","source":"us","secret":1,"gone":null}}\n'
        )
    )
    table = delta.table()
    assert set(table.metadata().partition_columns) == {"source", "country"}
    found = delta.arrow().drop_columns(["_mage_created_at", "_mage_updated_at"])
    assert found.to_pylist() == [{"id": "one", "country": "NL", "gone": None, "source": "eu"}]
    assert overrides["partition_keys"] == ["source", "country"]


def test_partition_keys_of_the_schema_and_of_the_config(delta: Place) -> None:
    properties = {"id": INTEGER, "country": STRING, "day": STRING}
    delta.land(
        schema(properties, partition_keys=["day", "country"]),
        record(id=1, country="N L:/%", day="2024-03-04 15:30"),
        partition_keys=["country"],
    )
    assert delta.table().metadata().partition_columns == ["country", "day"]
    assert delta.rows("id", "country", "day") == [(1, "N L:/%", "2024-03-04 15:30")]


def test_a_batch_size_of_nothing_lands_each_record(s3: Place) -> None:
    s3.land(schema({"id": INTEGER}), record(id=1), record(id=2), maximum_batch_size_mb=0)
    assert len(s3.data_keys()) == 2
    assert s3.rows("id") == [(1,), (2,)]
