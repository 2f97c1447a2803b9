"""Mage's io classes for `@data_exporter` blocks: they read and write one object as a frame.

```
from lakeport.mage.io import S3, ConfigFileLoader

S3.with_config(ConfigFileLoader("io_config.yaml", "default")).export(df, "bucket", "a/b.parquet")
```
An existing object is replaced, whole or not at all. To add rows to a table, use the destinations
in `lakeport.mage`.
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
    """Base class of Mage's io classes: reads objects in a store as pandas frames."""

    destination: ClassVar[str]

    def __init__(self, **config: Any) -> None:
        self._config = config

    @classmethod
    def with_config(cls, loader: ConfigLoader) -> Self:
        """Create a store with credentials from a profile of `io_config.yaml`.

        Args:
            loader: a `ConfigFileLoader`, lakeport's or Mage's.

        Raises:
            ConfigError: a setting names a variable that is not set.
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
        """Read an object (CSV, JSON, Parquet) as a pandas frame, `limit` rows at most.

        Raises:
            SourceError: there is no such object, or it has another format.
        """
        import pandas as pd

        kind = _format_of(format, object_key)
        storage = self._storage(bucket_name)
        content = storage.get(_key(object_key))
        if content is None:
            raise SourceError(
                f"there is no object {storage.uri(_key(object_key))}",
                "check the bucket's name and the key.",
            )
        read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[kind]
        try:
            content = _rebase_calendar(content) if kind == "parquet" else content
            frame: pd.DataFrame = read(io.BytesIO(content), **reading)
        except (ValueError, OSError) as error:
            where = storage.uri(_key(object_key))
            raise SourceError(
                f"{where} can't be read as {kind}: {type(error).__name__}",
                f"give its real `format`, and no other arguments than pandas' `read_{kind}` has.",
            ) from error
        return frame if limit is None else frame.head(limit)

    def exists(self, bucket_name: str, prefix: str) -> bool:
        """Whether the bucket has an object named `prefix`, or one below it."""
        return next(iter(self._storage(bucket_name).list(_key(prefix))), None) is not None

    def _storage(self, bucket: str) -> Storage:
        """Open the storage of a bucket or container."""
        values = {"destination": self.destination, **self._bucket_keys(bucket), **self._config}
        return open_storage(load_target(values))

    def _bucket_keys(self, bucket: str) -> dict[str, str]:
        """Return the config keys that name a bucket or container."""
        raise NotImplementedError


class _BucketStore(_ObjectStore):
    """Base class of S3 and Google Cloud Storage classes: also writes objects."""

    def export(
        self,
        data: Any,
        bucket_name: str,
        object_key: str,
        format: str | None = None,  # noqa: A002  # the name that blocks use
        **writing: Any,
    ) -> None:
        """Write a frame, or a local file, as one object; replace an existing one.

        Args:
            data: a pandas, Polars, Spark or Arrow frame, or the path of a local file, which is
                uploaded unchanged.
            bucket_name: the bucket.
            object_key: the object's name.
            format: csv, json or parquet; default: by the name's ending.
            writing: arguments of pandas' `to_csv`, `to_json` or `to_parquet`.

        Raises:
            LakeportError: the object could not be written.
        """
        content = _encode(data, format, object_key, writing)
        self._storage(bucket_name).put(_key(object_key), content)

    def _bucket_keys(self, bucket: str) -> dict[str, str]:
        return {"bucket": bucket}


class S3(_BucketStore):
    """Reads and writes objects in S3 and in stores with its protocol."""

    destination = "amazon_s3"


class GcsObjects(_BucketStore):
    """Reads and writes objects in Google Cloud Storage."""

    destination = "google_cloud_storage"


GoogleCloudStorage = GcsObjects
"""Mage's name of the class."""


class AzureBlobStorage(_ObjectStore):
    """Reads and writes blobs in Azure; replaces a blob with `{"overwrite": True}` only."""

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
        """Write a frame, or a local file, as one blob; raise ObjectExists if it exists.

        Args:
            data: as for `S3.export`.
            container_name: the container.
            blob_path: the blob's name.
            format: csv, json or parquet; default: by the name's ending.
            upload_kwargs: `{"overwrite": True}` replaces an existing blob.
            writing: arguments of pandas' `to_csv`, `to_json` or `to_parquet`.

        Raises:
            ObjectExists: the blob exists, and `overwrite` is not set.
            LakeportError: the blob could not be written.
        """
        upload = dict(upload_kwargs or {})
        overwrite = bool(upload.pop("overwrite", False))
        if upload:
            raise unknown_name_error("upload argument", next(iter(upload)), ["overwrite"])
        content = _encode(data, format, blob_path, writing)
        try:
            self._storage(container_name).put(_key(blob_path), content, create_only=not overwrite)
        except ObjectExists as error:
            raise ObjectExists(
                error.message, 'name another blob, or give `upload_kwargs={"overwrite": True}`.'
            ) from None

    def _bucket_keys(self, bucket: str) -> dict[str, str]:
        return {"table_uri": f"abfss://{bucket}/table"}


def _encode(data: Any, format_name: str | None, key: str, writing: dict[str, Any]) -> bytes:
    """Encode a frame as csv, json or parquet, or read a file's bytes; SourceError if it fails."""
    if isinstance(data, (str, os.PathLike)):
        try:
            return Path(data).read_bytes()
        except OSError as error:
            raise SourceError(
                f"can't read {os.fspath(data)}: {error.strerror}",
                "name a file that exists and that you may read.",
            ) from None
    kind = _format_of(format_name, key)
    frame = _to_pandas(data)
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


def _to_pandas(data: Any) -> pd.DataFrame:
    """Convert a Spark, Polars or Arrow frame to pandas; raise SourceError for other values."""
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


def _format_of(name: str | None, key: str) -> str:
    """Return csv, json or parquet, by the given name, else the key's ending; else ConfigError."""
    kind = str(getattr(name, "value", name) or Path(key).suffix.removeprefix(".")).lower()
    if kind not in _FORMATS:
        raise unknown_name_error("file format", kind, _FORMATS)
    return kind


def _rebase_calendar(content: bytes) -> bytes:
    """Return Parquet bytes with dates of Spark's old calendar converted to today's."""
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
    """Strip slashes from the ends of an object's key; raise ConfigError if nothing is left."""
    clean = key.strip("/")
    if not clean:
        raise ConfigError("the object's key is empty", "name the object.")
    return clean
