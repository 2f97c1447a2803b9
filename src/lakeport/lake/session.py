"""Spark sessions for the user's own work on a lake, with its jars, file systems and credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, Unpack

from lakeport.config.base import config_class, delta_destination
from lakeport.config.load import load_target
from lakeport.destinations import open_storage
from lakeport.engine.base import SessionRequest
from lakeport.engine.session_options import configure_builder
from lakeport.engine.threads import choose_engine, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target, TargetKeys

Builder = TypeVar("Builder", bound="SparkSession.Builder")


def spark(to: Target | DestinationConfig | None = None, **keys: Unpack[TargetKeys]) -> SparkSession:
    """Return a Spark session that reads and writes a lake: files and Delta tables.

    It starts with the key `spark`, the jars of Delta and of the store's file system. The store's
    credentials are in its Hadoop options, where no command line or page shows them. URIs are as
    users write them: `s3://` or `s3a://`, `abfss://`, `gs://`.

    The session is yours: loads use it, and none stops or replaces it. `stop()` ends it, or the end
    of the process. If a session runs already, that one is returned, with access to this lake too.

    Args:
        to: as for `lakeport.land`; a table's name has no effect.
        keys: keys of the config, which win over those in `to`.

    Raises:
        ConfigError: the config is wrong; or a session runs that lacks jars or settings, which the
            hint lists.
        MissingDependency: Java, a jar or the store's SDK is missing.
        SparkFailure: Spark did not start.

    Example:
        >>> import lakeport
        >>> session = lakeport.spark(to="s3://bucket/lake")  # doctest: +SKIP
        >>> session.sql("OPTIMIZE delta.`s3://bucket/lake/users`")  # doctest: +SKIP
    """
    return _open_session(load_target(to, keys))


def configure_spark(
    builder: Builder, to: Target | DestinationConfig, **keys: Unpack[TargetKeys]
) -> Builder:
    """Add to a session's builder what `lakeport.spark` has, and return the builder.

    Jars and settings are added at once, beside those that the builder has. `getOrCreate` hands the
    store's credentials to the session. If one runs already, that one has to have what it takes.

    Args:
        builder: `SparkSession.builder`, or what its methods return.
        to: as for `lakeport.land`; a table's name has no effect.
        keys: keys of the config, which win over those in `to`.

    Raises:
        ConfigError: the config is wrong. `getOrCreate` raises it, too, if a session runs that lacks
            something.
        MissingDependency: a jar or the store's SDK is missing.

    Example:
        >>> from pyspark.sql import SparkSession
        >>> import lakeport
        >>> builder = SparkSession.builder.appName("report")  # doctest: +SKIP
        >>> builder = lakeport.configure_spark(builder, to="s3://bucket/lake")  # doctest: +SKIP
        >>> session = builder.getOrCreate()  # doctest: +SKIP
    """
    config = load_target(to, keys)
    configure_builder(builder, _needs(config), config.spark, lambda: _open_session(config))
    return builder


def _needs(config: DestinationConfig) -> frozenset[str]:
    """Return the names of the jars for files and Delta tables in a target's store."""
    return config_class(delta_destination(config.destination)).session_jars()


def _open_session(config: DestinationConfig) -> SparkSession:
    """Return this process's session, or a new one, with access to the target's store."""
    storage, needs = open_storage(config), _needs(config)
    request = SessionRequest(needs, config.spark, quick_start=False)
    with choose_engine(config.engine, request) as engine:
        by_spark = require_spark(engine, "a session for a lake")
        by_spark.secrets.update(config.secrets())
        return by_spark.open_lake(
            needs,
            storage.hadoop_uri(),
            storage.session_settings(),
            commits=config.has_other_writers,
        )
