"""Calls into a session's JVM by py4j: classes, Scala's values, the active session.

Spark's code looks for the active session of its thread; a thread of py4j's has none unless it is
set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java_class(jvm: Any, name: str) -> Any:
    """Return the JVM's class of a full name, in one py4j call.

    `jvm.org.apache.…` would ask for one package after the other, and for each the JVM looks for a
    class of that name in every jar of its class path.

    Args:
        name: the full name, such as `java.util.ArrayList`; a nested class as `Outer$Inner`.
    """
    return getattr(jvm, name)


def scala_option(jvm: Any, value: Any = None) -> Any:
    """Return Scala's `Option` of a value; Scala's `None` for None."""
    return java_class(jvm, "scala.Option").apply(value)


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """Convert Python items to a Scala `Seq`."""
    collected = java_class(jvm, "java.util.ArrayList")()
    for item in items:
        collected.add(item)
    return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(collected)


def iterate_seq(seq: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    return (seq.apply(index) for index in range(seq.size()))


def ensure_active(spark: SparkSession) -> None:
    """Make `spark` this thread's active session in the JVM, unless a running one is active.

    Delta needs it where it reads a V2 checkpoint in the background.
    """
    sessions = java_class(spark._jvm, "org.apache.spark.sql.SparkSession")
    found = sessions.getActiveSession()
    if not found.isDefined() or found.get().sparkContext().isStopped():
        sessions.setActiveSession(spark._jsparkSession)


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Context manager in which `spark` is this thread's active session in the JVM.

    Spark's parser takes its settings from the active session, also the parser of another one.
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
