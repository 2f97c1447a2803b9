"""Keys of the destination `amazon_s3`: tables as Parquet or CSV files in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lakeport.config.clouds import AwsConfig

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage


class AmazonS3Config(AwsConfig):
    """Files named `<object_key_path>/<table>/[date folders/]YYYYMMDD-HHMMSS.<file_type>`.

    Example:
        >>> AmazonS3Config(bucket="lake", aws_access_key_id="AK", aws_secret_access_key="s3cr3t")
        AmazonS3Config(aws_access_key_id=SecretStr('**********'), \
aws_secret_access_key=SecretStr('**********'), bucket='lake')
    """

    destination: Literal["amazon_s3"] = Field(default="amazon_s3", description="`amazon_s3`.")
    file_type: Literal["parquet", "csv"] = Field(
        default="parquet",
        description="Format of the files: parquet or csv; Delta tables on S3 are for "
        "`destination: delta_lake_s3`.",
    )

    def storage(self) -> S3Storage:
        """The bucket below `object_key_path`."""
        from lakeport.storage.s3.store import S3Storage

        return S3Storage(self.bucket, self.object_key_path, self.aws_settings())
