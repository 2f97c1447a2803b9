"""Calls into the JVM of a session: classes by their full names, Scala's values, the active session.

Spark's own code asks for the session that is active on its thread; one that came by way of py4j has
none unless it is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM.

    `jvm.org.apache.…` says the same, but asks for one package after the other, and the JVM looks
    for a class of each package's name in every jar of its class path before it says no.

    Args:
        jvm: py4j's view of the JVM.
        name: its full name, such as `java.util.ArrayList`; a class inside another as `Outer$Inner`.
    """
    return getattr(jvm, name)


def option(jvm: Any, value: Any = None) -> Any:
    """Return Scala's `Option` of a value; `None` of nothing."""
    return java_class(jvm, "scala.Option").apply(value)


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """Return Scala's sequence of these items."""
    collected = java_class(jvm, "java.util.ArrayList")()
    for item in items:
        collected.add(item)
    return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(collected)


def iterate_seq(seq: Any) -> Iterator[Any]:
    """Yield the items of a sequence of Scala's."""
    return (seq.apply(index) for index in range(seq.size()))


def ensure_active(spark: SparkSession) -> None:
    """Let this thread of the JVM have an active session, if it has none that runs.

    Delta asks for it where it reads a checkpoint in the background, as it does with those of the
    newer kind.
    """
    sessions = java_class(spark._jvm, "org.apache.spark.sql.SparkSession")
    found = sessions.getActiveSession()
    if not found.isDefined() or found.get().sparkContext().isStopped():
        sessions.setActiveSession(spark._jsparkSession)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Have a session be the active one of this thread of the JVM for a moment.

    Spark's parser takes its settings from the active session, whosever parser it is.
    """
    sessions = java_class(spark._jvm, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
