"""Keys of the destination `google_cloud_storage`: tables as Parquet or CSV files in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lakeport.config.clouds import GcpConfig

if TYPE_CHECKING:
    from lakeport.storage.gcs.store import GcsStorage


class GoogleCloudStorageConfig(GcpConfig):
    """Files named `<object_key_path>/<table>/[date folders/]YYYYMMDD-HHMMSS.<file_type>`.

    Example:
        >>> GoogleCloudStorageConfig(bucket="lake", object_key_path="/raw/").object_key_path
        'raw'
    """

    destination: Literal["google_cloud_storage"] = Field(
        default="google_cloud_storage", description="`google_cloud_storage`."
    )
    file_type: Literal["parquet", "csv"] = Field(
        default="parquet", description="Format of the files: parquet or csv."
    )

    def storage(self) -> GcsStorage:
        """The bucket below `object_key_path`.

        Raises:
            ConfigError: the key's file can't be read.
        """
        from lakeport.storage.gcs.store import GcsStorage

        return GcsStorage(self.bucket, self.object_key_path, self.gcp_settings())
