"""The session that Spark's own code finds on a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakeport.engine.spark.jvm.classes import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["active", "ensure_active"]


def ensure_active(spark: SparkSession) -> None:
    """Let this thread of the JVM have an active session, if it has none that runs.

    Delta asks for it where it reads a checkpoint in the background, as it does with those of the
    newer kind; a thread that came by way of py4j has none.
    """
    jvm: Any = spark._jvm
    sessions = java_class(jvm, "org.apache.spark.sql.SparkSession")
    active = sessions.getActiveSession()
    if not active.isDefined() or active.get().sparkContext().isStopped():
        sessions.setActiveSession(spark._jsparkSession)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Have a session be the active one of this thread of the JVM for a moment.

    Spark's parser takes its settings from the active session, whosever parser it is.
    """
    jvm: Any = spark._jvm
    sessions = java_class(jvm, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
