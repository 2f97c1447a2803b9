"""No secret is in any view of Spark, nor in what lands: two stores, one session."""

from __future__ import annotations

from pathlib import Path

from tests.emulators import Azurite, Minio, s3_config
from tests.spark import canary

# Whose commits hand Spark the credentials.
BY_DELTA_SPARK = {"table_properties": {"delta.enableChangeDataFeed": "true"}}


def test_secrets_stay_out_of_every_view_of_spark(
    minio: Minio, azurite: Azurite, tmp_path: Path, soak: bool
) -> None:
    bucket = minio.create_bucket("canary")
    azurite.create_container("canary")
    s3 = {
        "destination": "delta_lake_s3",
        "bucket": bucket,
        "object_key_path": "lake",
        "table": "shown",
        "role_arn": "arn:aws:iam::123456789012:role/x",
        "external_id": "canary-of-the-role",
        "aws_region": "us-east-1",
        **BY_DELTA_SPARK,
        **s3_config(minio),
    }
    azure = {
        "destination": "delta_lake_azure",
        "table_uri": azurite.uri("canary", "shown"),
        **BY_DELTA_SPARK,
        **azurite.config,
    }
    text = canary.shown([s3, azure], tmp_path, programs=2 if soak else 1)
    hidden = [minio.access_key, minio.secret_key, "canary-of-the-role", azurite.account_key]
    assert canary.leaks(text, hidden) == []

    client = minio.client()
    objects = client.list_objects_v2(Bucket=bucket)["Contents"]
    landed = [client.get_object(Bucket=bucket, Key=row["Key"])["Body"].read() for row in objects]
    container = azurite.client().get_container_client("canary")
    blobs = [container.download_blob(blob.name).readall() for blob in container.list_blobs()]
    assert len(landed) > 3 and len(blobs) > 3
    assert [body for body in [*landed, *blobs] if any(s.encode() in body for s in hidden)] == []
