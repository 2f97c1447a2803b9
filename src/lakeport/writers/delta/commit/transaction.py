"""delta-spark's own transaction log, driven through py4j: no Spark job where there is another way.

Conflict detection, log stores, checkpoints and protocol upgrades are delta-spark's; what is made
here are the actions of one commit. What became of one that failed is looked up in the log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from lakeport.config.explain import nearest
from lakeport.engine.spark.active import ensure_active
from lakeport.engine.spark.causes import from_java
from lakeport.engine.spark.failures import translate
from lakeport.engine.spark.jvm.classes import java_class
from lakeport.errors import CommitConflict, ConfigError, LakeportError
from lakeport.writers.delta.commit.operation import (
    Operation,
    Restoration,
    described,
    register_metrics,
    scala_seq,
)
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.commit.session import annotated
from lakeport.writers.delta.log.commits import CommitLog
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.plan import TARGET_FILE_SIZE
from lakeport.writers.delta.schema import logical_paths
from lakeport.writers.delta.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Added", "DeltaLog", "Transaction", "conflict"]

_DELTA = "org.apache.spark.sql.delta"
_CONFLICTS = frozenset(
    {
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "DeltaConcurrentModificationException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }
)


@dataclass(frozen=True, slots=True)
class Added:
    """A file that the table has now, and the JVM's own object if that is asked."""

    file: DataFile
    action: Any


class DeltaLog:
    """One table's log.

    Args:
        spark: a session with Delta's jars.
        commits: the same log, read without Spark.

    Raises:
        DestinationError: the store refused.
    """

    def __init__(self, spark: SparkSession, commits: CommitLog) -> None:
        self._spark = spark
        self._commits = commits
        logs = java_class(spark._jvm, f"{_DELTA}.DeltaLog")
        try:
            ensure_active(spark)
            self._log = logs.forTable(spark._jsparkSession, commits.hadoop_uri)
        except Py4JJavaError as error:
            raise translate(error) from error

    def checked(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Table properties under the names that Delta knows them by.

        Raises:
            ConfigError: Delta knows no such property, or not that value.
        """
        maker = java_class(self._spark._jvm, "org.apache.spark.api.python.PythonUtils")
        configs = getattr(java_class(self._spark._jvm, f"{_DELTA}.DeltaConfigs$"), "MODULE$")
        found: dict[str, str] = {}
        for name, value in properties.items():
            if name.lower() == TARGET_FILE_SIZE.lower():
                if not value.isdecimal() or int(value) < 1:
                    raise ConfigError(
                        f"`table_properties`: {TARGET_FILE_SIZE} is {value!r}",
                        "write whole bytes, such as 268435456.",
                    )
                found[TARGET_FILE_SIZE] = value
                continue
            try:
                pair = configs.validateConfiguration(
                    name, value, False, maker.toScalaMap(dict(properties))
                )
            except Exception as error:
                known = [f"delta.{key}" for key in configs.entries().keySet()]
                close = nearest(name, [key for key in known if key != name.lower()])
                reason = translate(error).message.partition(": ")[2]
                raise ConfigError(
                    f"`table_properties`: {name} can't be {value!r}: {reason}",
                    f"did you mean `{configs.entries().get(close[6:]).key()}`?"
                    if close and name.lower() not in known
                    else "Delta's documentation lists the properties and their values.",
                ) from error
            found[str(pair._1())] = str(pair._2())
        return found

    def begin(self) -> Transaction:
        """Start a transaction on the newest version.

        Raises:
            LakeportError: the log can't be read.
        """
        try:
            return Transaction(self._spark, self._log.startTransaction(), self._commits)
        except Py4JJavaError as error:
            raise translate(error) from error


class Transaction:
    """One optimistic transaction. Use each for one commit."""

    def __init__(self, spark: SparkSession, txn: Any, commits: CommitLog) -> None:
        self._spark = spark
        self._commits = commits
        self._jvm = spark._jvm
        self._actions = java_class(self._jvm, f"{_DELTA}.actions.Action")
        self._txn = txn
        self._snapshot = txn.snapshot()
        self.version: int = txn.readVersion()
        self._removed: list[Any] = []

    def state(self) -> TableState | None:
        """The table as it is; None when there is none. May run a Spark job."""
        if self.version < 0:
            return None
        metadata = json.loads(self._snapshot.metadata().json())["metaData"]
        protocol = json.loads(self._snapshot.protocol().json())["protocol"]
        state = TableState(self.version, metadata, protocol)
        if "clustering" not in state.features:
            return state
        return replace(state, clustering=self._clustering(state.schema_json))

    def _clustering(self, schema: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns by which the table is clustered, nested ones as dotted paths."""
        tables = java_class(self._jvm, f"{_DELTA}.skipping.clustering.ClusteredTableUtils")
        found = tables.getClusteringColumnsOptional(self._snapshot)
        columns = _each(found.get()) if found.isDefined() else ()
        physical = [[str(part) for part in _each(column.physicalName())] for column in columns]
        return logical_paths(schema, physical)

    def watch(self, app_id: str) -> None:
        """Conflict with commits that others make for the same application."""
        self._txn.readTxn().addOne(app_id)

    def last_transactions(self, apps: Collection[str]) -> dict[str, int]:
        """The number that each application has come to, -1 for none.

        Raises:
            SourceError: files of the log are missing or damaged, so that they do not tell.
            DestinationError: the store refused.
        """
        if self.version < 0:
            return dict.fromkeys(apps, -1)
        return self._commits.last_transactions(self.version, apps)

    def all_files(self) -> list[Added]:
        """Every file of the table. Any change to the table then conflicts with this commit."""
        self._txn.readWholeTable()
        known = self._checksum("allFiles")
        return _added(_each(self._txn.filterFiles()) if known is None else known)

    def file(self, file: DataFile) -> Added:
        """A file that the log has, to be removed."""
        return Added(file, self._action(file.add()))

    def files_beside(self, actions: Sequence[str]) -> list[Added]:
        """The files in the partitions of these `add` actions, compared by value, not by spelling.

        Runs a Spark job. Only a change to those partitions conflicts with this commit.
        """
        return _added(
            _each(self._txn.filterFiles(scala_seq(self._jvm, map(self._action, actions))))
        )

    def set_metadata(self, action: str, *, replaces: bool = False) -> None:
        """Change the table's schema or properties, or create it.

        Args:
            action: a `metaData` action as JSON text.
            replaces: the schema need not fit the data files that are there.

        Raises:
            LakeportError: Delta refuses the change.
        """
        try:
            if replaces:
                self._txn.updateMetadataForTableOverwrite(self._action(action))
            else:
                self._txn.updateMetadata(self._action(action), False)
        except Py4JJavaError as error:
            raise translate(error) from error

    def read_all(self) -> None:
        """Have any change to the table conflict with this commit, but for blind appends."""
        self._txn.readWholeTable()

    def remove(self, files: Iterable[Added], *, changes_rows: bool = True) -> None:
        """Remove files with the commit.

        Args:
            files: the files.
            changes_rows: whether the table has other rows by the commit.
        """
        now = int(time.time() * 1000)
        self._removed += [file.action.removeWithTimestamp(now, changes_rows) for file in files]

    def commit(self, actions: Sequence[str], operation: Operation | Restoration) -> int:
        """Commit, whatever blind appends others have made meanwhile.

        Args:
            actions: `add` and `txn` actions as JSON text.
            operation: what the history says.

        Returns:
            The new version.

        Raises:
            CommitConflict: another writer changed what this transaction has read; nothing landed.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            LakeportError: it was not made.
        """
        try:
            return self._commit(actions, operation)
        except LakeportError as failure:
            own = str(self._txn.txnId())
            return settle(
                self._commits, lambda c: c.info.get("txnId") == own, self.version, failure
            ).version

    def _commit(self, actions: Sequence[str], operation: Operation | Restoration) -> int:
        try:
            entries = scala_seq(self._jvm, [*self._removed, *map(self._action, actions)])
            register_metrics(self._spark, self._txn, operation.metrics)
            with annotated(self._spark, operation):
                return int(self._txn.commit(entries, described(self._spark, operation)))
        except Exception as error:
            if not from_java(error):  # a lost connection to the JVM is one of its own
                raise
            failure = translate(error)
            if isinstance(failure, CommitConflict) or _java_class(error) in _CONFLICTS:
                raise conflict() from error
            raise failure from error

    def _checksum(self, part: str) -> list[Any] | None:
        """A list that the version's checksum file holds, if it has one and holds it."""
        checksum = self._snapshot.checksumOpt()
        if not checksum.isDefined():
            return None
        known = getattr(checksum.get(), part)()
        return _each(known.get()) if known.isDefined() else None

    def _action(self, text: str) -> Any:
        return self._actions.fromJson(text)


def conflict() -> CommitConflict:
    """The error for a commit whose table another writer has changed meanwhile."""
    return CommitConflict(
        "another writer changed the table at the same time",
        "nothing of this batch was committed; run it again.",
    )


def _java_class(error: Exception) -> str:
    """The Java exception's class; empty where there is none, as the JVM did not answer."""
    raised: Any = error
    try:
        return str(raised.java_exception.getClass().getSimpleName())
    except (AttributeError, Py4JError):
        return ""


def _each(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]


def _added(actions: Iterable[Any]) -> list[Added]:
    return [Added(DataFile.of_add(action.json()), action) for action in actions]
