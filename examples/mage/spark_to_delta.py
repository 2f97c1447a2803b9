"""A Spark frame: appended to a Delta table by the cluster that has it, never collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from lakeport.mage import DeltaLakeS3
from lakeport.mage.io import ConfigFileLoader

if "data_exporter" not in globals():
    from mage_ai.data_preparation.decorators import data_exporter


@data_exporter
def export_data_to_delta(df: DataFrame, **kwargs: Any) -> None:
    """Append the frame to the table `silver/events`."""
    config_path = kwargs.get("config_path") or Path("io_config.yaml")
    DeltaLakeS3.with_config(
        ConfigFileLoader(config_path, "default"),
        bucket=kwargs.get("bucket", "my-bucket"),
        object_key_path="silver",
        mode="append",
    ).export(df, table="events")
