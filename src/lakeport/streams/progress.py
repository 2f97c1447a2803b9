"""A checkpoint in a store: the connector that Spark needs for it, and the credentials."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from lakeport.spark import adopt
from lakeport.spark.filesystems import hand_over
from lakeport.storage.azure import hadoop as azure_hadoop
from lakeport.storage.s3 import hadoop as s3a
from lakeport.storage.s3.client import for_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakeport.config.base import DestinationConfig
    from lakeport.model import Storage
    from lakeport.spark.session import Runtime

__all__ = ["connector", "reach"]

_CONNECTORS: Final = {"abfs": "azure", "abfss": "azure", "s3": "s3a", "s3a": "s3a"}


def connector(checkpoint: str | os.PathLike[str]) -> frozenset[str]:
    """What Spark needs for a checkpoint there, as named in `spark.jvm.versions`.

    >>> connector("s3a://lake/checkpoints/events"), connector("/var/checkpoints/events")
    (frozenset({'s3a'}), frozenset())
    """
    scheme, mark, _ = os.fspath(checkpoint).partition("://")
    return frozenset({_CONNECTORS[scheme]} if mark and scheme in _CONNECTORS else ())


def reach(checkpoint: str | os.PathLike[str], config: DestinationConfig, runtime: Runtime) -> str:
    """Have Spark's session reach a checkpoint; waits for the session.

    A store of the target's cloud is reached with the target's credentials, any other one with
    those of the environment. A session that somebody else built reaches it as it is set up to.

    Returns:
        The checkpoint as Spark names it.

    Raises:
        ConfigError: the session lacks the connector; the hint has the settings to build it with.
    """
    from lakeport.sources.remote import storage_of

    name, needs = os.fspath(checkpoint), connector(checkpoint)
    if not needs:
        return name
    scheme, _, rest = name.partition("://")
    if runtime.adopted:
        if not _knows(runtime, scheme):
            adopt.check(runtime.spark, needs)
        return name
    storage = storage_of(config, f"s3://{rest}" if scheme == "s3a" else name)
    if storage is None:
        return name
    hand_over(runtime, storage.hadoop_uri(), _settings(storage, for_workers=not runtime.is_local))
    return storage.hadoop_uri()


def _knows(runtime: Runtime, scheme: str) -> bool:
    """Whether the session has a file system for URIs of a scheme, whoever's it is."""
    jvm: Any = runtime.spark._jvm
    conf = runtime.spark._jsparkSession.sessionState().newHadoopConf()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
    except Exception:
        return False
    return True


def _settings(storage: Storage, *, for_workers: bool) -> Mapping[str, str]:
    """What Spark's connector needs to reach a store; some values are secrets."""
    from lakeport.storage.azure.store import AzureStorage
    from lakeport.storage.s3.store import S3Storage

    if isinstance(storage, S3Storage):
        return s3a.hadoop_settings(
            storage.bucket, for_spark(storage.settings, for_workers=for_workers)
        )
    return (
        azure_hadoop.hadoop_settings(storage.settings) if isinstance(storage, AzureStorage) else {}
    )
