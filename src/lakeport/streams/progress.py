"""A checkpoint in a store: the connector that Spark needs for it, and the credentials."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakeport.config.classes import (
    config_class,
    destination_of,
    named_as_by_users,
    table_destination,
)
from lakeport.engine.spark.filesystems import knows_scheme
from lakeport.sources.remote import storage_of

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine


def connector(checkpoint: str | os.PathLike[str]) -> frozenset[str]:
    """What Spark needs for a checkpoint there, as named in `spark.jvm.versions`.

    >>> connector("s3a://lake/checkpoints/events"), connector("/var/checkpoints/events")
    (frozenset({'s3a'}), frozenset())
    """
    scheme, mark, _ = named_as_by_users(os.fspath(checkpoint)).partition("://")
    found = destination_of(scheme) if mark else ""
    return config_class(table_destination(found)).connectors() if found else frozenset()


def reach(checkpoint: str | os.PathLike[str], config: DestinationConfig, engine: Engine) -> str:
    """Have Spark's session reach a checkpoint; waits for the session.

    A store of the target's cloud is reached with the target's credentials, any other one with
    those of the environment. A session that somebody else built reaches it as it is set up to.

    Returns:
        The checkpoint as Spark names it.

    Raises:
        ConfigError: the session lacks the connector; the hint has the settings to build it with.
    """
    name, needs = os.fspath(checkpoint), connector(checkpoint)
    if not needs:
        return name
    scheme = name.partition("://")[0]
    if engine.adopted:
        if not knows_scheme(engine.spark, scheme):
            engine.delta_session(needs)
        return name
    storage = storage_of(config, named_as_by_users(name))
    if storage is None:
        return name
    engine.hand_over(storage.hadoop_uri(), storage.hadoop_settings(for_workers=not engine.is_local))
    return storage.hadoop_uri()
