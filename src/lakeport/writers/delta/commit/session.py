"""Sessions that commit: their settings suit one commit, and give it its user metadata."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from lakeport.engine.spark.active import active
from lakeport.engine.spark.settings import COMMIT_SETTINGS
from lakeport.writers.delta.commit.operation import Operation, Restoration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["USER_METADATA", "annotated", "committing_session"]

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""Setting of a session that gives its commits their user metadata."""


def annotated(
    spark: SparkSession, operation: Operation | Restoration
) -> AbstractContextManager[None]:
    """Run this thread's commit in a session whose settings suit it.

    They have it know its own work again, and give it user metadata where its description has no
    room for that.
    """
    settings = dict(COMMIT_SETTINGS)
    if isinstance(operation, Operation) and operation.name != "WRITE":
        settings[USER_METADATA] = operation.user_metadata
    if all(spark.conf.get(name, None) == value for name, value in settings.items()):
        return nullcontext()
    return active(committing_session(spark, settings))


def committing_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session like this one, with settings for one commit, which knows its own work again."""
    from pyspark.sql import SparkSession as Session

    own = Session(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in {**COMMIT_SETTINGS, **settings}.items():
        own.conf.set(name, value)
    return own
