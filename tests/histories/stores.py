"""The stores that histories are played on, as lakeport and delta-rs reach a table there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

import lakeport
from tests.contract.targets import AzureFiles, Files, S3Files
from tests.emulators import Azurite, Minio, s3_config
from tests.histories.checker import Row
from tests.histories.reader import Reader
from tests.s3_stub import BrokenS3

CONTAINER = "histories"
PUBLICATION = r"(POST \S*\.parquet\?\S*uploadId=|PUT \S*\.parquet\?\S*comp=blocklist)"
"""Method and target of the request that makes a data file visible."""
COLUMNS = pa.schema([("key", pa.int64()), ("value", pa.string()), ("part", pa.string())])


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Rows as Arrow has them."""
    return pa.Table.from_pylist([row._asdict() for row in rows], COLUMNS)


@dataclass(frozen=True)
class Store:
    """A table's place.

    Attributes:
        dialect: `s3` or `azure`.
        endpoint: the server's address.
        config: how lakeport reaches the table.
        uri: how delta-rs names the table.
        options: what delta-rs needs to open it.
        files: the container's objects, of all tables.
    """

    dialect: str
    endpoint: str
    config: dict[str, Any]
    uri: str
    options: dict[str, str]
    files: Files

    def through(self, endpoint: str) -> Store:
        """The same table, behind a proxy."""
        text = {
            name: value.replace(self.endpoint, endpoint) for name, value in self.options.items()
        }
        config = {
            name: endpoint if value == self.endpoint else value
            for name, value in self.config.items()
        }
        return replace(self, endpoint=endpoint, config=config, options=text)

    @property
    def reader(self) -> Reader:
        """Reads the table."""
        return Reader(self.uri, self.options)

    def table(self) -> lakeport.Table:
        """The table, as users of lakeport open it."""
        return lakeport.Table(self.config["table"], self.config)

    def land(self, *rows: Row, run_id: str, mode: str = "append") -> int:
        """Land rows with lakeport; return the version."""
        report = lakeport.land(arrow(rows), self.config, mode=mode, run_id=run_id)
        return report.streams[0].last_version

    def create_table(self) -> None:
        """Make the table, by delta-rs."""
        DeltaTable.create(
            self.uri,
            Schema.from_arrow(COLUMNS),
            partition_by=["part"],
            storage_options=self.options,
            configuration={"delta.checkpointInterval": "10"},
        )


_COMMON = {"internal_columns": False, "merge_keys": ["key"], "partition_keys": ["part"]}


def on_s3(server: Minio | BrokenS3, table: str) -> Store:
    """A table in the bucket `histories`."""
    keys = {
        "destination": "delta_lake_s3",
        "bucket": CONTAINER,
        "object_key_path": "lake",
        "table": table,
        **s3_config(server),
        "aws_region": server.region,
    }
    options = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": server.region,
        "AWS_ALLOW_HTTP": "true",
    }
    uri = f"s3://{CONTAINER}/lake/{table}"
    files = S3Files(server.client(), CONTAINER)
    return Store("s3", server.endpoint, {**keys, **_COMMON}, uri, options, files)


def on_azure(azurite: Azurite, table: str) -> Store:
    """A table in the container `histories`."""
    keys = {
        "destination": "delta_lake_azure",
        "table_uri": azurite.uri(CONTAINER, f"lake/{table}"),
        "table": table,
        **azurite.config,
    }
    options = azurite.delta_options
    uri = f"az://{CONTAINER}/lake/{table}"
    files = AzureFiles(azurite.client(), CONTAINER)
    return Store("azure", azurite.endpoint, {**keys, **_COMMON}, uri, options, files)
