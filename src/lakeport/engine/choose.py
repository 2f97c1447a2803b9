"""The choice of a load's engine, made once, when the load is prepared."""

from __future__ import annotations

from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.threads import ThreadEngine


def choose(name: str, request: SessionRequest) -> Engine:
    """Return the engine that a config names: Spark, unless it says `threads`.

    Spark does not begin to start before `Engine.begin`, or before it is asked for.

    Args:
        name: `spark` or `threads`.
        request: the session that Spark is to have.

    Raises:
        ConfigError: a setting is wrong, or the process's Spark lacks something.
        MissingDependency: there is no Java that Spark runs on.
    """
    if name == "threads":
        return ThreadEngine()
    from lakeport.engine.spark.engine import SparkEngine

    return SparkEngine(request)
