"""Sources that lie in object stores, landed in a local lake and in the store itself."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import feather, orc

import lakeport
from lakeport.errors import SourceError
from tests.emulators import FakeGcs, Minio

SINGER = (
    b'{"type":"SCHEMA","stream":"t","schema":{"properties":{"id":{"type":"integer"}}}}\n'
    b'{"type":"RECORD","stream":"t","record":{"id":1}}\n'
    b'{"type":"RECORD","stream":"t","record":{"id":2}}\n'
)


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2]}), sink)
    return bytes(sink.getvalue().to_pybytes())


def other(suffix: str) -> bytes:
    """The same rows in another format."""
    sink, table = io.BytesIO(), pa.table({"id": [1, 2]})
    if suffix == "avro":
        schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
        fastavro.writer(sink, schema, table.to_pylist())
    elif suffix == "xlsx":
        book = openpyxl.Workbook()
        for row in (["id"], [1], [2]):
            book.active.append(row)
        book.save(sink)
    elif suffix == "zip":
        with zipfile.ZipFile(sink, "w") as archive:
            archive.writestr("a.csv", "id\n1\n")
            archive.writestr("b.csv", "id\n2\n")
    else:
        {"orc": orc.write_table, "feather": feather.write_feather}[suffix](table, sink)
    return sink.getvalue()


FILES = {
    "in/a.csv": b"id\n1\n2\n",
    "gz/day=7/a.csv.gz": gzip.compress(b"id\n1\n2\n"),
    "jsonl/day=7/a.jsonl": b'{"id": 1}\n{"id": 2}\n',
    "parquet/a.parquet": parquet(),
    "singer/deep/t.singer": SINGER,
    **{
        f"{suffix}/a.{suffix}": other(suffix)
        for suffix in ("orc", "feather", "avro", "xlsx", "zip")
    },
}


def config(minio: Minio, bucket: str) -> dict[str, Any]:
    return {
        "destination": "amazon_s3",
        "bucket": bucket,
        "object_key_path": "out",
        **minio.config,
        "manifest": False,
    }


@pytest.mark.parametrize(
    "source",
    [
        "in/a.csv",
        "gz/",
        "jsonl/**/*.jsonl",
        "parquet",
        "singer/deep",
        "orc/a.orc",
        "feather/",
        "avro/*.avro",
        "xlsx",
        "zip/a.zip",
    ],
)
def test_sources_in_the_target_s_own_store(minio: Minio, source: str) -> None:
    bucket = f"own-{source.split('/')[0]}"
    minio.create_bucket(bucket)
    client = minio.client()
    for key, content in FILES.items():
        client.put_object(Bucket=bucket, Key=key, Body=content)
    report = lakeport.land(f"s3://{bucket}/{source}", config(minio, bucket), table="t")
    assert report.rows == 2
    (entry,) = client.list_objects_v2(Bucket=bucket, Prefix="out/t/")["Contents"]
    body = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
    rows = pq.read_table(pa.BufferReader(body)).to_pylist()
    assert [row["id"] for row in rows] == [1, 2]
    foldered = source.startswith(("gz", "jsonl"))
    assert [row.get("day") for row in rows] == [7 if foldered else None] * 2


def test_credentials_of_the_environment_and_a_local_lake(minio: Minio, tmp_path: Path) -> None:
    minio.create_bucket("environment")
    minio.client().put_object(Bucket="environment", Key="a.csv", Body=FILES["in/a.csv"])
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": minio.access_key,
        "AWS_SECRET_ACCESS_KEY": minio.secret_key,
        "LAKEPORT_AWS_ENDPOINT": minio.endpoint,
    }
    command = [sys.executable, "-m", "lakeport", "land", "s3://environment/a.csv"]
    command += ["--to", str(tmp_path / "lake"), "--table", "t"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = DeltaTable(str(tmp_path / "lake" / "t")).to_pyarrow_table()
    assert sorted(table.column("id").to_pylist()) == [1, 2]


def test_a_folder_in_gcs(fake_gcs: FakeGcs) -> None:
    fake_gcs.create_bucket("sources")
    bucket = fake_gcs.client().bucket("sources")
    for i in (1, 2):
        bucket.blob(f"in/{i}.jsonl").upload_from_string(json.dumps({"id": i}) + "\n")
    target = {
        "destination": "google_cloud_storage",
        "bucket": "sources",
        "object_key_path": "out",
        **fake_gcs.config,
    }
    assert lakeport.land("gs://sources/in/*.jsonl", target, table="t").rows == 2


def test_nothing_there(minio: Minio) -> None:
    minio.create_bucket("empty")
    with pytest.raises(SourceError, match="empty"):
        lakeport.land("s3://empty/x/*.csv", config(minio, "empty"), table="t")
