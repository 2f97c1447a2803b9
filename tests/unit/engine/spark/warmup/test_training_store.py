"""The empty bucket that the class archive's training shows to Spark's S3 connector."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError

from lakeport.engine.spark.warmup.training_store import empty_bucket


def test_it_lists_nothing_finds_nothing_and_takes_everything() -> None:
    with empty_bucket() as endpoint:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-west-2",
            aws_access_key_id="training",
            aws_secret_access_key="training",
        )
        assert client.list_objects_v2(Bucket="training")["KeyCount"] == 0
        client.put_object(Bucket="training", Key="table/file", Body=b"x" * 100_000)
        with pytest.raises(ClientError, match="404"):
            client.head_object(Bucket="training", Key="table/file")
        client.delete_object(Bucket="training", Key="table/file")
        client.close()
