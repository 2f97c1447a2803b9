"""One cluster of two workers for the whole folder, and one Spark session on it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.session import DriverSession
from tests.cluster.standalone import SHORT_LIVED, Standalone, packed_environment
from tests.conftest import KNOWN_NEEDS
from tests.emulators import Minio

_numbers = count()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Two workers; the session that the tests started on them ends with them."""
    with Standalone(tmp_path_factory.mktemp("cluster")) as started:
        yield started
        if DriverSession._current is not None:
            DriverSession._current.stop()


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes the session's event log."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(
    cluster: Standalone, events: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Settings of the one session: lakeport comes in an archive, and slow tasks run twice."""
    archive = packed_environment(tmp_path_factory.mktemp("packed"))
    settings = {
        **cluster.settings(),
        "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.multiplier": "3",
        "spark.speculation.minTaskRuntime": "2s",
    }
    DriverSession.acquire(SessionRequest(KNOWN_NEEDS & {"delta", "s3a"}, settings))
    return settings


@dataclass
class Bucket:
    """A bucket of its own for one test, and how to land in it and read it back."""

    minio: Minio
    name: str
    spark: Mapping[str, str]
    keys: dict[str, Any] = field(default_factory=dict)

    def land(
        self,
        source: Any,
        destination: str = "amazon_s3",
        on_state: Callable[[bytes], None] | None = None,
        **keys: Any,
    ) -> Any:
        """Land with the spool in the same bucket; files are small, so that work is shared out."""
        return lakeport.land(source, self.target(destination, **keys), on_state=on_state)

    def target(self, destination: str, **keys: Any) -> dict[str, Any]:
        """The config of a target below `lake/` in the bucket."""
        target = {"destination": destination, "bucket": self.name, "object_key_path": "lake"}
        common = {"spool_uri": f"s3://{self.name}/spool", "min_file_size_mb": 0.1}
        return {**target, **common, **self.keys, "spark": self.spark, **keys}

    def objects(self, prefix: str = "") -> list[str]:
        """Keys of all visible objects below a prefix."""
        pages = self.minio.client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.name, Prefix=prefix)
        return [row["Key"] for page in found for row in page.get("Contents", [])]

    def files(self, table: str) -> list[str]:
        """The data files of a table of files."""
        return self.objects(f"lake/{table}/")

    def rows(self, table: str) -> pa.Table:
        """All rows of a table of Parquet files."""
        client = self.minio.client()
        parts = [
            pq.read_table(io.BytesIO(client.get_object(Bucket=self.name, Key=key)["Body"].read()))
            for key in self.files(table)
        ]
        return pa.concat_tables(parts)

    def delta(self, table: str) -> DeltaTable:
        """A Delta table."""
        options = {
            "AWS_ACCESS_KEY_ID": self.minio.access_key,
            "AWS_SECRET_ACCESS_KEY": self.minio.secret_key,
            "AWS_ENDPOINT_URL": self.minio.endpoint,
            "AWS_REGION": "us-west-2",
            "AWS_ALLOW_HTTP": "true",
        }
        return DeltaTable(f"s3://{self.name}/lake/{table}", storage_options=options)

    def uploads(self) -> list[Path]:
        """All uploads that are under way, as MinIO keeps them; it lists them by whole keys."""
        place = self.minio.data / "objects" / ".minio.sys" / "multipart"
        found: list[Path] = []
        for key in place.glob("*"):
            with suppress(FileNotFoundError):  # its last upload has just ended
                found += key.iterdir()
        return found


@pytest.fixture
def bucket(minio: Minio, spark: Mapping[str, str]) -> Bucket:
    """An empty bucket; its keys are in the target's config."""
    name = minio.create_bucket(f"cluster-{next(_numbers)}")
    keys = {
        **minio.config,
    }
    return Bucket(minio, name, spark, keys)


def singer(records: int, *, stream: str = "people", width: int = 10) -> bytes:
    """A Singer stream whose records have ids from 0."""
    properties = {"id": {"type": "integer"}, "text": {"type": ["null", "string"]}}
    schema = {"type": "SCHEMA", "stream": stream, "key_properties": ["id"]}
    lines = [json.dumps(schema | {"schema": {"properties": properties}})]
    head = f'{{"type": "RECORD", "stream": "{stream}", "record": {{"id": '
    lines += [f'{head}{i}, "text": "{i:0{width}d}"}}}}' for i in range(records)]
    lines.append(json.dumps({"type": "STATE", "value": {"done": records}}))
    return "\n".join(lines).encode() + b"\n"
