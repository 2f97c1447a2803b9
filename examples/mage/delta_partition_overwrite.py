"""Delta with partition overwrite: a day that is loaded again replaces that day and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pandas import DataFrame

from lakeport.mage import DeltaLakeS3
from lakeport.mage.io import ConfigFileLoader

if "data_exporter" not in globals():
    from mage_ai.data_preparation.decorators import data_exporter


@data_exporter
def export_days_to_delta(df: DataFrame, **kwargs: Any) -> None:
    """Replace the partitions of `gold/sales` that the frame has rows for, in one commit."""
    config_path = kwargs.get("config_path") or Path("io_config.yaml")
    DeltaLakeS3.with_config(
        ConfigFileLoader(config_path, "default"),
        bucket=kwargs.get("bucket", "my-bucket"),
        object_key_path="gold",
        mode="overwrite",
        partition_keys=["day"],
    ).export(df, table="sales")
