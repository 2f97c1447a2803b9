"""The config that `--show_templates` prints: the keys that Mage's documents name."""

from __future__ import annotations

from typing import Any

from lakeport.config.base import config_class

_CALLERS = {
    "amazon_s3": "AmazonS3",
    "delta_lake_azure": "DeltaLakeAzure",
    "delta_lake_s3": "DeltaLakeS3",
    "google_cloud_storage": "GoogleCloudStorage",
}
_AWS = ("aws_access_key_id", "aws_secret_access_key", "aws_region", "bucket", "object_key_path")
_KEYS: dict[str, tuple[str, ...]] = {
    "amazon_s3": (
        *_AWS,
        "table",
        "file_type",
        "aws_endpoint",
        "role_arn",
        "column_header_format",
        "date_partition_format",
    ),
    "delta_lake_azure": ("account_name", "access_key", "table_uri", "mode"),
    "delta_lake_s3": (*_AWS, "table", "mode"),
    "google_cloud_storage": (
        "bucket",
        "object_key_path",
        "table",
        "file_type",
        "date_partition_format",
        "google_application_credentials",
    ),
    "local": ("path", "table", "file_type", "mode"),
}


def caller(destination: str) -> str:
    """The name under which a destination logs: that of its class.

    Example:
        >>> caller("amazon_s3"), caller("local")
        ('AmazonS3', 'Local')
    """
    return _CALLERS.get(destination, destination.title().replace("_", ""))


def template(destination: str) -> dict[str, Any]:
    """A destination's keys and their defaults; null where there is none.

    Raises:
        ConfigError: there is no destination of that name.

    Example:
        >>> list(template("local")["config"])
        ['path', 'table', 'file_type', 'mode']
    """
    fields = config_class(destination).model_fields
    keys = _KEYS[destination]
    return {
        "config": {key: None if fields[key].is_required() else fields[key].default for key in keys}
    }
