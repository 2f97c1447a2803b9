"""Keys of the destination `delta_lake_s3`: Delta tables in a bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from lakeport.config.clouds import AwsConfig

if TYPE_CHECKING:
    from lakeport.storage.s3.store import S3Storage

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


class DeltaLakeS3Config(AwsConfig):
    """Tables at `s3://<bucket>/<object_key_path>/<table>`.

    Example:
        >>> DeltaLakeS3Config(bucket="lake", object_key_path="silver", mode="overwrite").mode
        <Mode.OVERWRITE: 'overwrite'>
    """

    delta_jars = frozenset({"delta", "s3a"})

    destination: Literal["delta_lake_s3"] = Field(
        default="delta_lake_s3", description="`delta_lake_s3`."
    )
    file_type: Literal["delta"] = Field(default="delta", description="Format of the tables: delta.")

    @model_validator(mode="after")
    def _spark_can_reach_it(self) -> Self:
        if not _HOST_NAME.fullmatch(self.bucket):
            raise ValueError(
                f"`bucket`: {self.bucket!r} can't be reached by Spark, which takes names of lower "
                "case letters, digits, dots and hyphens only"
            )
        return self

    def storage(self) -> S3Storage:
        """The bucket below `object_key_path`."""
        from lakeport.storage.s3.store import S3Storage

        return S3Storage(self.bucket, self.object_key_path, self.aws_settings())
