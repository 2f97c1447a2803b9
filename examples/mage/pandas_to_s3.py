"""A pandas frame: rows added to a table of Parquet files, and one object with a fixed name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pandas import DataFrame

from lakeport.mage import AmazonS3
from lakeport.mage.io import S3, ConfigFileLoader

if "data_exporter" not in globals():
    from mage_ai.data_preparation.decorators import data_exporter


@data_exporter
def export_data_to_s3(df: DataFrame, **kwargs: Any) -> None:
    """Add the frame to `raw/users`, and replace the object `latest/users.csv` with it."""
    config_path = kwargs.get("config_path") or Path("io_config.yaml")
    loader = ConfigFileLoader(config_path, "default")
    bucket = kwargs.get("bucket", "my-bucket")

    AmazonS3.with_config(loader, bucket=bucket, object_key_path="raw").export(df, table="users")
    S3.with_config(loader).export(df, bucket, "latest/users.csv", index=False)
