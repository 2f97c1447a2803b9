"""Mage's four destinations: the same config and the same lines in each, read by others' readers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.mage import (
    AmazonS3,
    DeltaLakeAzure,
    DeltaLakeS3,
    GoogleCloudStorage,
    running,
)
from tests.contract.targets import AzureFiles, Files, GcsFiles, S3Files
from tests.emulators import Azurite, FakeGcs, Minio

DESTINATIONS = ("amazon_s3", "google_cloud_storage", "delta_lake_s3", "delta_lake_azure")
Make = Callable[..., "Place"]
_numbers = count()


@dataclass(frozen=True)
class Place:
    """One destination with a config as Mage's documents show it, and the store behind it.

    Attributes:
        kind: the class.
        config: what it is made with.
        files: the store, seen from outside.
        uri: of the table, for delta-rs; empty for files.
        options: what delta-rs needs.
    """

    kind: Any
    config: dict[str, Any]
    files: Files
    uri: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def made(self, **more: Any) -> Any:
        """The destination; further config keys, null to leave one out."""
        config = {**self.config, **more}
        return self.kind(
            config={key: value for key, value in config.items() if value is not None},
            batch_processing=True,
        )

    def land(self, *messages: Any, **more: Any) -> list[Any]:
        """Process Singer messages; the STATEs that went to standard output."""
        out = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with redirect_stdout(out):
            self.made(**more).process(io.BytesIO(singer(*messages)))
        out.seek(0)
        return [json.loads(line) for line in out.read().splitlines()]

    def data_keys(self, ending: str = ".parquet") -> list[str]:
        """Names of the table's objects, lakeport's own left out."""
        return [
            key
            for key in self.files.keys()  # noqa: SIM118  # not a mapping
            if key.endswith(ending) and "_lakeport/" not in key and "_delta_log" not in key
        ]

    def table(self) -> Any:
        """The Delta table, by delta-rs."""
        from deltalake import DeltaTable

        return DeltaTable(self.uri, storage_options=self.options)

    def arrow(self) -> pa.Table:
        """Every row, by delta-rs or pyarrow."""
        if self.uri:
            return pa.table(self.table().to_pyarrow_table())
        parts = [pq.read_table(io.BytesIO(self.files.read(key))) for key in self.data_keys()]
        return pa.concat_tables(parts, promote_options="default")

    def rows(self, *columns: str) -> list[Any]:
        """Rows sorted, as tuples of these columns."""
        found = self.arrow().select(list(columns)).to_pylist()
        return sorted(tuple(row[name] for name in columns) for row in found)


def singer(*messages: Any) -> bytes:
    """Lines from messages; bytes are lines as they are."""
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    return b"".join(line + b"\n" for line in lines)


def schema(properties: dict[str, Any], stream: str = "users", **more: Any) -> dict[str, Any]:
    """A SCHEMA message as Mage's sources write it."""
    return {
        "type": "SCHEMA",
        "stream": stream,
        "schema": {"type": "object", "properties": properties},
        "key_properties": [],
        "bookmark_properties": [],
        "replication_method": "FULL_TABLE",
        "disable_column_type_check": None,
        **more,
    }


def record(stream: str = "users", **values: Any) -> dict[str, Any]:
    """A RECORD message."""
    return {"type": "RECORD", "stream": stream, "record": values}


def state(value: Any) -> dict[str, Any]:
    """A STATE message."""
    return {"type": "STATE", "value": value}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection test has time enough for a machine that is busy."""
    monkeypatch.setattr(running, "SECONDS", 120.0)
    monkeypatch.setattr(running, "_SPARK_SECONDS", 180.0)


@pytest.fixture(scope="session")
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a destination with a bucket or container of its own."""

    def build(destination: str) -> Place:
        return _BUILD[destination](request, f"mage-{next(_numbers)}")

    return build


@pytest.fixture(params=DESTINATIONS)
def place(request: pytest.FixtureRequest, make: Make) -> Iterator[Place]:
    """Each of the four."""
    yield make(request.param)


@pytest.fixture
def delta(make: Make) -> Place:
    """A Delta table in a bucket."""
    return make("delta_lake_s3")


@pytest.fixture
def s3(make: Make) -> Place:
    """Files in a bucket."""
    return make("amazon_s3")


def _s3_keys(minio: Minio, bucket: str) -> dict[str, Any]:
    return {
        "aws_access_key_id": minio.access_key,
        "aws_secret_access_key": minio.secret_key,
        "aws_region": "us-west-2",
        "aws_endpoint": minio.endpoint,
        "bucket": minio.create_bucket(bucket) or bucket,
        "object_key_path": "raw",
        "table": "users",
    }


def _amazon_s3(request: pytest.FixtureRequest, name: str) -> Place:
    minio: Minio = request.getfixturevalue("minio")
    config = {**_s3_keys(minio, name), "file_type": "parquet"}
    return Place(AmazonS3, config, S3Files(minio.client(), name))


def _delta_lake_s3(request: pytest.FixtureRequest, name: str) -> Place:
    minio: Minio = request.getfixturevalue("minio")
    config = {**_s3_keys(minio, name), "mode": "append"}
    options = minio.delta_options
    files = S3Files(minio.client(), name)
    return Place(DeltaLakeS3, config, files, f"s3://{name}/raw/users", options)


def _google_cloud_storage(request: pytest.FixtureRequest, name: str) -> Place:
    gcs: FakeGcs = request.getfixturevalue("fake_gcs")
    gcs.create_bucket(name)
    config = {
        "bucket": name,
        "object_key_path": "raw",
        "table": "users",
        "file_type": "parquet",
        "google_application_credentials": None,
        **gcs.config,
    }
    return Place(GoogleCloudStorage, config, GcsFiles(gcs.client(), name))


def _delta_lake_azure(request: pytest.FixtureRequest, name: str) -> Place:
    azurite: Azurite = request.getfixturevalue("azurite")
    azurite.create_container(name)
    config = {
        "account_name": azurite.account,
        "access_key": azurite.account_key,
        "table_uri": f"abfs://{name}/raw/users",
        "mode": "append",
        "azure_endpoint": azurite.endpoint,
    }
    options = azurite.delta_options
    files = AzureFiles(azurite.client(), name)
    return Place(DeltaLakeAzure, config, files, f"az://{name}/raw/users", options)


_BUILD = {
    "amazon_s3": _amazon_s3,
    "google_cloud_storage": _google_cloud_storage,
    "delta_lake_s3": _delta_lake_s3,
    "delta_lake_azure": _delta_lake_azure,
}
