"""The choice of a load's engine, made once, when the load is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.engine.base import Engine
from lakeport.engine.threads import ThreadEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext


def choose(
    name: str,
    needs: frozenset[str],
    settings: Mapping[str, str],
    *,
    small: bool = True,
    keep: SparkContext | None = None,
    also: frozenset[str] = frozenset(),
    warm: str = "off",
) -> Engine:
    """Return the engine that a config names: Spark, unless it says `threads`.

    Spark does not begin to start before `Engine.begin`, or before it is asked for.

    Args:
        name: `spark` or `threads`.
        needs: names of `versions.JARS` that the work needs of Spark.
        settings: the user's `spark:` mapping.
        small: whether the load is known to be small, so that a quick start counts most.
        keep, also, warm: as for `DriverSession.start`.

    Raises:
        ConfigError: a setting is wrong, or the process's Spark lacks something.
        MissingDependency: there is no Java that Spark runs on.
    """
    if name == "threads":
        return ThreadEngine()
    from lakeport.engine.spark.engine import SparkEngine

    return SparkEngine(needs, settings, small=small, keep=keep, also=also, warm=warm)
