"""Mage's io classes, as `@data_exporter` blocks use them: one frame, one object, named by its key.

```
from lakeport.mage.io import S3, ConfigFileLoader

S3.with_config(ConfigFileLoader("io_config.yaml", "default")).export(df, "bucket", "a/b.parquet")
```
An object of that name is replaced, whole or not at all. To add rows to a table, use the
destinations in `lakeport.mage`.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lakeport.config.explain import unknown_name_error
from lakeport.config.load import load_target
from lakeport.config.mage.io_config import (
    ConfigFileLoader,
    ConfigLoader,
    EnvironmentVariableLoader,
    destination_keys,
)
from lakeport.destinations import open_storage
from lakeport.errors import ConfigError, ObjectExists, SourceError
from lakeport.schema.rebase import HybridCalendar

if TYPE_CHECKING:
    import pandas as pd

    from lakeport.model import Storage

__all__ = [
    "S3",
    "AzureBlobStorage",
    "ConfigFileLoader",
    "EnvironmentVariableLoader",
    "GoogleCloudStorage",
]

_FORMATS = ("csv", "json", "parquet")


class _ObjectStore:
    """What the three have in common.

    Args:
        config: keys of the destination: credentials, region, endpoint.
    """

    destination: ClassVar[str]

    def __init__(self, **config: Any) -> None:
        self._config = config

    @classmethod
    def with_config(cls, loader: ConfigLoader) -> Self:
        """With the credentials of a profile of `io_config.yaml`, lakeport's loader or Mage's.

        Raises:
            ConfigError: a setting names something that is not set.
        """
        return cls(**destination_keys(loader, cls.destination))

    def load(
        self,
        bucket_name: str,
        object_key: str,
        format: str | None = None,  # noqa: A002
        limit: int | None = None,
        **reading: Any,
    ) -> pd.DataFrame:
        """Read one object as a pandas frame, its first `limit` rows.

        Raises:
            SourceError: there is no such object, or not of that format.
        """
        import pandas as pd

        kind = _format(format, object_key)
        storage = self._storage(bucket_name)
        content = storage.get(_key(object_key))
        if content is None:
            raise SourceError(
                f"there is no object {storage.uri(_key(object_key))}",
                "check the bucket's name and the key.",
            )
        read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[kind]
        try:
            content = _rebased(content) if kind == "parquet" else content
            frame: pd.DataFrame = read(io.BytesIO(content), **reading)
        except (ValueError, OSError) as error:
            where = storage.uri(_key(object_key))
            raise SourceError(
                f"{where} can't be read as {kind}: {type(error).__name__}",
                f"give its real `format`, and no other arguments than pandas' `read_{kind}` has.",
            ) from error
        return frame if limit is None else frame.head(limit)

    def exists(self, bucket_name: str, prefix: str) -> bool:
        """Whether there is an object of that name, or one below it."""
        return next(iter(self._storage(bucket_name).list(_key(prefix))), None) is not None

    def _storage(self, bucket: str) -> Storage:
        values = {"destination": self.destination, **self._place(bucket), **self._config}
        return open_storage(load_target(values))

    def _place(self, bucket: str) -> dict[str, str]:
        raise NotImplementedError


class _Bucket(_ObjectStore):
    """What S3 and Google Cloud Storage have in common."""

    def export(
        self,
        data: Any,
        bucket_name: str,
        object_key: str,
        format: str | None = None,  # noqa: A002  # the name that blocks use
        **writing: Any,
    ) -> None:
        """Write a frame as one object, in place of one that has that name.

        Args:
            data: a pandas frame, one that can become one (Polars, Spark, Arrow), or the path of a
                local file, which is uploaded as it is.
            bucket_name: the bucket, or the container.
            object_key: the object's name.
            format: csv, json or parquet; default: by the name's ending.
            writing: for pandas' `to_csv`, `to_json` or `to_parquet`.

        Raises:
            LakeportError: what failed and what to do.
        """
        content = _content(data, format, object_key, writing)
        self._storage(bucket_name).put(_key(object_key), content)

    def _place(self, bucket: str) -> dict[str, str]:
        return {"bucket": bucket}


class S3(_Bucket):
    """Objects in S3 and stores that speak its protocol."""

    destination = "amazon_s3"


class GoogleCloudStorage(_Bucket):
    """Objects in Google Cloud Storage."""

    destination = "google_cloud_storage"


class AzureBlobStorage(_ObjectStore):
    """Blobs in a container of Azure; `upload_kwargs={"overwrite": True}` replaces one."""

    destination = "delta_lake_azure"

    def export(
        self,
        data: Any,
        container_name: str,
        blob_path: str,
        format: str | None = None,  # noqa: A002
        upload_kwargs: dict[str, Any] | None = None,
        **writing: Any,
    ) -> None:
        """Write a frame as one blob.

        Args:
            data: as for `S3.export`.
            container_name: the container.
            blob_path: the blob's name.
            format: csv, json or parquet; default: by the name's ending.
            upload_kwargs: `overwrite` is the one that counts.
            writing: for pandas' `to_csv`, `to_json` or `to_parquet`.

        Raises:
            ObjectExists: there is such a blob, and `overwrite` is not set.
            LakeportError: what else failed and what to do.
        """
        upload = dict(upload_kwargs or {})
        overwrite = bool(upload.pop("overwrite", False))
        if upload:
            raise unknown_name_error("upload argument", next(iter(upload)), ["overwrite"])
        content = _content(data, format, blob_path, writing)
        try:
            self._storage(container_name).put(_key(blob_path), content, create_only=not overwrite)
        except ObjectExists as error:
            raise ObjectExists(
                error.message, 'name another blob, or give `upload_kwargs={"overwrite": True}`.'
            ) from None

    def _place(self, bucket: str) -> dict[str, str]:
        return {"table_uri": f"abfss://{bucket}/table"}


def _content(data: Any, named: str | None, key: str, writing: dict[str, Any]) -> bytes:
    if isinstance(data, (str, os.PathLike)):
        try:
            return Path(data).read_bytes()
        except OSError as error:
            raise SourceError(
                f"can't read {os.fspath(data)}: {error.strerror}",
                "name a file that exists and that you may read.",
            ) from None
    kind = _format(named, key)
    frame = _pandas(data)
    buffer = io.BytesIO()
    write = {"csv": frame.to_csv, "json": frame.to_json, "parquet": frame.to_parquet}[kind]
    try:
        write(buffer, **writing)
    except (ValueError, TypeError, OverflowError) as error:
        raise SourceError(
            f"the frame can't be written as {kind}: {type(error).__name__}",
            "give each column a name of its own and values of one type, and no other arguments "
            f"than pandas' `to_{kind}` has.",
        ) from error
    return buffer.getvalue()


def _pandas(data: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    for method in ("toPandas", "to_pandas"):
        if hasattr(data, method):
            frame: pd.DataFrame = getattr(data, method)()
            return frame
    raise SourceError(
        f"a value of type {type(data).__name__!r} is not a frame",
        "give a pandas, Polars, Spark or Arrow frame, or a file's path.",
    )


def _format(named: str | None, key: str) -> str:
    kind = str(getattr(named, "value", named) or Path(key).suffix.removeprefix(".")).lower()
    if kind not in _FORMATS:
        raise unknown_name_error("file format", kind, _FORMATS)
    return kind


def _rebased(content: bytes) -> bytes:
    """Return a Parquet file with the dates and timestamps of the hybrid calendar rebased."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = pq.ParquetFile(io.BytesIO(content), coerce_int96_timestamp_unit="us")
    calendar = HybridCalendar.of_parquet(source.metadata)
    batches = [calendar.rebase(batch) for batch in source.iter_batches()] if calendar else []
    if not batches:
        return content
    target = io.BytesIO()
    pq.write_table(pa.Table.from_batches(batches), target)
    return target.getvalue()


def _key(key: str) -> str:
    """A key without slashes at its ends.

    Raises:
        ConfigError: it is empty.
    """
    clean = key.strip("/")
    if not clean:
        raise ConfigError("the object's key is empty", "name the object.")
    return clean
