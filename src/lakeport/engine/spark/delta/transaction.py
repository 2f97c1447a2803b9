"""Transactions of delta-spark, driven through py4j by the JSON text of actions.

Conflict detection, log stores, checkpoints and protocol upgrades are delta-spark's. A transaction
runs no Spark job unless it must. Errors are those of `lakeport.errors`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from lakeport.delta_log.transactions import CommitInfo, conflict_error
from lakeport.engine.failures import is_java_error, translate, translate_jvm_errors
from lakeport.engine.spark.jvm.calls import (
    active_session,
    ensure_active,
    java_class,
    scala_option,
    scala_seq,
)
from lakeport.engine.spark.settings import COMMIT_SETTINGS
from lakeport.errors import CommitConflict, SchemaConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
"""Session setting with the user metadata of commits."""
_DELTA: Final = "org.apache.spark.sql.delta"
_WIDER_TYPE: Final = re.compile(r'toType\\+": *\\+"(\w+)')
"""Pattern of the types in `delta.typeChanges`, within a schema that is JSON in JSON."""
_WIDER_TYPES_OF_SPARK_3: Final = {"short", "integer"}


class DeltaTransaction:
    """One optimistic transaction of delta-spark on a table's newest version.

    Attributes:
        version: the table's version at the begin; -1 for no table.

    Raises:
        LakeportError: the log can't be read.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Begin on the newest version of the table at a URI, as Hadoop writes URIs."""
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._actions = java_class(self._jvm, f"{_DELTA}.actions.Action")
        with translate_jvm_errors(()):
            ensure_active(spark)
            self._txn = delta_log(spark, uri).startTransaction()
            self.version = int(self._txn.readVersion())
        self._removed: list[Any] = []

    @property
    def id(self) -> str:
        """The transaction's id, which its commit records."""
        return str(self._txn.txnId())

    def watch(self, app_id: str) -> None:
        """Have commits by others for the same application id conflict with this one."""
        getattr(self._txn.readTxn(), "$plus$eq")(app_id)

    def set_metadata(self, action: str, *, replaces_files: bool = False) -> None:
        """Stage a `metaData` action, also for a new table; raise if Delta refuses it.

        Args:
            action: a `metaData` action as JSON text.
            replaces_files: whether the commit replaces all data files, which the new schema may
                not fit.

        Raises:
            SchemaConflict: it widens a type so that Delta on Spark 3.5 could not read the table.
            LakeportError: Delta refuses the change.
        """
        wider = set(_WIDER_TYPE.findall(action)) - _WIDER_TYPES_OF_SPARK_3
        if wider and self._spark.version < "4":
            raise SchemaConflict(
                f"columns would be widened to {', '.join(sorted(wider))}, which Delta on Spark "
                f"{self._spark.version} can't read",
                "use Spark 4.0 or newer for it; older ones read no such table.",
            )
        with translate_jvm_errors(()):
            if replaces_files:
                self._txn.updateMetadataForTableOverwrite(self._action(action))
            else:
                self._txn.updateMetadata(self._action(action), False)

    def read_all(self) -> None:
        """Have any change to the table conflict with this commit, except blind appends."""
        self._txn.readWholeTable()

    def remove_adds(self, actions: Iterable[str], *, changes_rows: bool) -> None:
        """Stage the removal of the data files that these `add` actions name.

        Args:
            changes_rows: whether the commit changes the table's rows (`dataChange`).
        """
        now = int(time.time() * 1000)
        files = map(self._action, actions)
        self._removed += [file.removeWithTimestamp(now, changes_rows) for file in files]

    def commit_actions(self, actions: Sequence[str], operation: CommitInfo) -> int:
        """Commit and return the new version; CommitConflict if another writer interfered.

        Args:
            actions: `add` and `txn` actions as JSON text.

        Raises:
            CommitConflict: another writer changed what this transaction has read; nothing landed.
            LakeportError: the commit failed, or its outcome is unknown.
        """
        try:
            entries = scala_seq(self._jvm, [*self._removed, *map(self._action, actions)])
            _register_metrics(self._spark, self._txn, operation.metrics)
            with _annotate_commit(self._spark, operation):
                return int(self._txn.commit(entries, _java_operation(self._spark, operation)))
        except Exception as error:
            if not is_java_error(error):  # a lost connection to the JVM counts as one
                raise
            failure = translate(error)
            if isinstance(failure, CommitConflict):
                raise conflict_error() from error
            raise failure from error

    def _action(self, text: str) -> Any:
        """Return Delta's action of a JSON text."""
        return self._actions.fromJson(text)


def delta_log(spark: SparkSession, uri: str) -> Any:
    """Return Delta's `DeltaLog` of the table at a URI, as Hadoop writes URIs."""
    return java_class(spark._jvm, f"{_DELTA}.DeltaLog").forTable(spark._jsparkSession, uri)


def scala_defaults(owner: Any, method: str) -> list[Any]:
    """Return the default arguments of a Scala object's method, in order.

    Versions of Delta add such arguments to a method's end.
    """
    names = [name for name in dir(owner) if name.startswith(f"{method}$default$")]
    return [getattr(owner, name)() for name in sorted(names, key=lambda name: (len(name), name))]


def clone_for_commit(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Clone a session, with `settings` and those by which Delta detects its own commit."""
    from pyspark.sql import SparkSession as Session

    own = Session(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in {**COMMIT_SETTINGS, **settings}.items():
        own.conf.set(name, value)
    return own


def _annotate_commit(spark: SparkSession, operation: CommitInfo) -> AbstractContextManager[None]:
    """Activate, for the body, a session whose settings carry the commit's user metadata.

    The settings have Delta recognise its own commit after a lost answer, and add user metadata to
    operations whose description has no field for it.
    """
    settings = dict(COMMIT_SETTINGS)
    if operation.name not in ("WRITE", "RESTORE"):
        settings[USER_METADATA] = operation.user_metadata
    if all(spark.conf.get(name, None) == value for name, value in settings.items()):
        return nullcontext()
    return active_session(clone_for_commit(spark, settings))


def _java_operation(spark: SparkSession, operation: CommitInfo) -> Any:
    """Return delta-spark's operation for a commit: restore, write, delete, update or merge."""
    jvm: Any = spark._jvm
    if operation.name == "RESTORE":
        version = scala_option(jvm, java_class(jvm, "java.lang.Long")(operation.version))
        return _delta_operation(jvm, "Restore")(version, scala_option(jvm))
    if operation.name == "WRITE":
        return _write_operation(jvm, operation)
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    condition = parser.parseExpression(operation.condition)
    if operation.name == "DELETE":
        return _delta_operation(jvm, "Delete")(scala_seq(jvm, [condition]))
    if operation.name == "UPDATE":
        return _delta_operation(jvm, "Update")(scala_option(jvm, condition))
    return _merge_operation(jvm, condition)


def _register_metrics(spark: SparkSession, txn: Any, metrics: Mapping[str, int]) -> None:
    """Add operation metrics to a transaction, so that DESCRIBE HISTORY shows them."""
    jvm: Any = spark._jvm
    maker = java_class(jvm, "org.apache.spark.sql.execution.metric.SQLMetrics")
    context = spark.sparkContext._jsc.sc()
    java_map = java_class(jvm, "java.util.HashMap")()
    for name, value in metrics.items():
        metric = maker.createMetric(context, name)
        metric.set(value)
        java_map.put(name, metric)
    scala_map = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(java_map)
    txn.registerSQLMetrics(spark._jsparkSession, scala_map)


def _write_operation(jvm: Any, operation: CommitInfo) -> Any:
    """Return delta-spark's `Write` operation, with mode, partitions and user metadata."""
    modes = java_class(jvm, "org.apache.spark.sql.SaveMode")
    columns = operation.partition_columns
    given = [
        scala_option(jvm, scala_seq(jvm, columns)) if columns else scala_option(jvm),
        scala_option(jvm),
        scala_option(jvm, operation.user_metadata),
        scala_option(jvm, operation.dynamic or None),
        scala_option(jvm, operation.new_schema or None),
    ]
    write = _delta_operation(jvm, "Write")
    defaults = scala_defaults(
        getattr(_delta_operation(jvm, "Write$"), "MODULE$"), "$lessinit$greater"
    )
    # Delta 4.0 and older have only the first three.
    arguments = [*given[: len(defaults)], *defaults[len(given) :]]
    return write(modes.Overwrite if operation.overwrite else modes.Append, *arguments)


def _merge_operation(jvm: Any, condition: Any) -> Any:
    """Return delta-spark's `Merge` operation with one update clause and one insert clause."""
    clause = _delta_operation(jvm, "MergePredicate")
    none = scala_option(jvm)
    update, insert = (clause(none, action) for action in ("update", "insert"))
    return _delta_operation(jvm, "Merge")(
        scala_option(jvm, condition),
        none,
        none,
        none,
        scala_seq(jvm, [update]),
        scala_seq(jvm, [insert]),
        scala_seq(jvm, []),
    )


def _delta_operation(jvm: Any, name: str) -> Any:
    """Return the class of one of Delta's operations."""
    return java_class(jvm, f"org.apache.spark.sql.delta.DeltaOperations${name}")
