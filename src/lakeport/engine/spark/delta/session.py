"""Delta tables in a Spark session: transactions, snapshots, OPTIMIZE, VACUUM and properties.

OPTIMIZE and VACUUM run in their own sessions with settings for ordinary tables, as Delta's defaults
are made for tables of thousands of folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakeport.delta_log.paths import check_actions, check_log
from lakeport.delta_log.reader import DeltaLog
from lakeport.engine.failures import translate, translate_errors
from lakeport.engine.spark.delta.rows import DeltaRows
from lakeport.engine.spark.delta.transaction import (
    USER_METADATA,
    DeltaTransaction,
    delta_log,
    scala_defaults,
)
from lakeport.engine.spark.jvm.calls import ensure_active, java_class, scala_option, scala_seq
from lakeport.engine.spark.settings import COMMIT_SETTINGS
from lakeport.engine.sql.policy import check_expression
from lakeport.engine.sql.query import sql_error_sentence
from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    PermissionRefused,
    Unreachable,
)
from lakeport.schema.spark_schema import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.model import Storage

_DELTA: Final = "spark.databricks.delta"
_CLASSES: Final = "org.apache.spark.sql.delta"
_INVENTORY: Final = "inventory"
_INVENTORY_COLUMNS: Final = "path string, length bigint, isDir boolean, modificationTime bigint"
_PROBE: Final = ('{"commitInfo":{"operation":"CONNECTION TEST"}}',)
_EXISTS: Final = "FileAlreadyExistsException"
_ODD_SQL: Final = r"(?i)^[/\\\\]|:|\\.\\.|\\\\|%(2e|2f|5c)"

InventoryRow = tuple[str, int, bool, int]
"""A file or folder for VACUUM: URI, bytes, whether it is a folder, milliseconds of its change."""


@dataclass(frozen=True, slots=True)
class DeltaSession:
    """Transactions, row changes, OPTIMIZE and VACUUM of Delta tables in one Spark session.

    Methods take the URI of a table as Hadoop writes it, and raise LakeportError if Delta refuses or
    the log can't be read. No message has one of `secrets`.
    """

    spark: SparkSession
    secrets: Collection[str] = ()

    def transaction(self, uri: str) -> DeltaTransaction:
        """Begin a transaction on a table; see `DeltaTransaction`."""
        return DeltaTransaction(self.spark, uri)

    def snapshot(self, uri: str, version: int) -> Snapshot:
        """Return a table's snapshot at a version; raise LakeportError if there is none."""
        return Snapshot(self, uri, version)

    def rows(
        self,
        uri: str,
        partition_columns: Sequence[str],
        user_metadata: str,
        transactions: Mapping[str, int],
        *,
        evolve: bool,
    ) -> DeltaRows:
        """Return a `DeltaRows`, for one commit to the table at `uri` by Spark's own writer."""
        return DeltaRows(self.spark, uri, partition_columns, user_metadata, transactions, evolve)

    def probe(self, folder: str) -> LogStoreProbe:
        """Return a test of commits in a folder; see `LogStoreProbe`."""
        return LogStoreProbe(self, folder)

    def check_files(
        self, storage: Storage, folder: str, version: int, allowed_roots: Sequence[str] = ()
    ) -> None:
        """Raise SourceError if a log or data file lies outside `folder` and `allowed_roots`.

        The files are those that Delta itself reads from the log. The folder is the table's key,
        empty for the storage's root. A damaged log raises the error that names its file.
        """
        check_log(storage, folder, allowed_roots)
        try:
            self.snapshot(storage.hadoop_uri(folder), version).check_files(allowed_roots)
        except LakeportError as error:
            if not isinstance(error, PermissionRefused | Unreachable):
                # Spark does not say which commit it could not parse.
                DeltaLog(storage, folder).list_files().read_contents(version)
            raise

    def validate_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return table properties in Delta's spelling; ConfigError for a bad name or value."""
        ensure_active(self.spark)
        maker = java_class(self.spark._jvm, "org.apache.spark.api.python.PythonUtils")
        configs = getattr(java_class(self.spark._jvm, f"{_CLASSES}.DeltaConfigs$"), "MODULE$")
        convert = java_class(self.spark._jvm, "scala.collection.JavaConverters")
        # Delta compares how long the log and how long removed files are kept.
        kept = {name: value for name, value in properties.items() if "retention" in name.lower()}
        found: dict[str, str] = {}
        for name, value in properties.items():
            group = kept if name in kept else {name: value}
            try:
                checked = configs.validateConfigurations(maker.toScalaMap(group))
                found.update(convert.mapAsJavaMap(checked))
            except Exception as error:
                # The method's name has a prefix where Delta keeps it private.
                listed = next(method for method in dir(configs) if method.endswith("entries"))
                entries = getattr(configs, listed)()
                known = {f"delta.{key}": key for key in entries.keySet()}
                others = [other for other in known if other != name.lower()]
                close = get_close_matches(name.lower(), others, n=1)
                reason = translate(error, self.secrets).message.partition(": ")[2]
                raise ConfigError(
                    f"`table_properties`: {name} can't be {value!r}: {reason}",
                    f"did you mean `{entries.get(known[close[0]]).key()}`?"
                    if close and name.lower() not in known
                    else "Delta's documentation lists the properties and their values.",
                ) from error
        return found

    def check_condition(self, text: str, make_error: Callable[[str], ConfigError]) -> None:
        """Check that a text is one expression on a row; see `policy.check_expression`."""
        check_expression(self._tuned_session({}), text, make_error)

    def optimize(
        self,
        uri: str,
        *,
        file_bytes: int,
        user_metadata: str,
        where: str | None,
        extra_conditions: Sequence[str],
        sort_by: Sequence[str],
        make_error: Callable[[str], ConfigError],
    ) -> dict[str, Any]:
        """Run OPTIMIZE on a table's partitions that match `where`; return Delta's metrics.

        Args:
            file_bytes: target size of files.
            where: a condition on partition columns that `check_condition` has checked; or None.
            extra_conditions: further conditions, quoted for SQL.
            sort_by: columns of a Z-order, quoted for SQL.
            make_error: returns the error for a condition that does not fit, given Spark's reason.

        Raises:
            ConfigError: the condition does not fit the table.
            LakeportError: Delta refused, or the outcome is unknown.
        """
        from pyspark.errors import AnalysisException

        sizes = {f"{_DELTA}.optimize.{which}FileSize": str(file_bytes) for which in ("min", "max")}
        session = self._tuned_session({**sizes, USER_METADATA: user_metadata})
        command = f"OPTIMIZE {_sql_name(uri)}"
        # A comment at the end of the condition ends with its line.
        conditions = [f"({where}\n)"] if where is not None else []
        conditions += extra_conditions
        if conditions:
            command += f" WHERE {' AND '.join(conditions)}"
        if sort_by:
            command += f" ZORDER BY ({', '.join(sort_by)})"
        with translate_errors(self.secrets):
            try:
                result = session.sql(command)
            except AnalysisException as error:
                if where is None:
                    raise
                raise make_error(sql_error_sentence(error)) from error
            found = result.select("metrics").first()
        metrics: dict[str, Any] = found[0].asDict(recursive=True) if found else {}
        return metrics

    def vacuum(
        self,
        uri: str,
        hours: int,
        *,
        user_metadata: str,
        dry_run: bool,
        force: bool,
        read_inventory: Callable[[DeltaSession], list[InventoryRow]] | None,
    ) -> list[str]:
        """Delete files unused for `hours` and return []; with `dry_run`, only list them.

        Args:
            force: allow less than the table's own retention.
            read_inventory: takes a tuned session; returns the files to look at. None for all files.
        """
        settings = {
            f"{_DELTA}.retentionDurationCheck.enabled": str(not force).lower(),
            f"{_DELTA}.vacuum.parallelDelete.enabled": "true",
            f"{_DELTA}.vacuum.logging.enabled": "true",
            USER_METADATA: user_metadata,
        }
        with translate_errors(self.secrets):
            session = self._tuned_session(settings)
            command = f"VACUUM {_sql_name(uri)}"
            if read_inventory is not None:
                rows = read_inventory(replace(self, spark=session))
                named = session.createDataFrame(rows, _INVENTORY_COLUMNS)
                named.createOrReplaceTempView(_INVENTORY)
                command += f" USING INVENTORY (TABLE {_INVENTORY})"
            command += f" RETAIN {hours:d} HOURS"
            found = session.sql(command + (" DRY RUN" if dry_run else "")).collect()
        return sorted(str(row[0]) for row in found) if dry_run else []

    def retention_hours(self, uri: str) -> int:
        """Return for how many hours a table's properties keep removed files."""
        with translate_errors(self.secrets):
            logs = java_class(self.spark._jvm, f"{_CLASSES}.DeltaLog")
            milliseconds = logs.tombstoneRetentionMillis(self._latest_snapshot(uri).metadata())
            return int(milliseconds) // 3_600_000

    def removed_paths(self, uri: str) -> set[str]:
        """Return paths of the log's `remove` entries, percent-decoded. Runs a Spark job."""
        from pyspark.sql import DataFrame

        with translate_errors(self.secrets):
            state = DataFrame(self._latest_snapshot(uri).stateDF(), self.spark)
            rows = state.where("remove IS NOT NULL").select("remove.path").collect()
        return {unquote(row[0]) for row in rows}

    def qualified_folder(self, uri: str) -> str:
        """Return a table's folder as a fully qualified URI, in Hadoop's spelling."""
        with translate_errors(self.secrets):
            log = delta_log(self.spark, uri)
            path = log.dataPath()
            system = path.getFileSystem(log.newDeltaHadoopConf())
            return str(system.makeQualified(path).toString())

    def _latest_snapshot(self, uri: str) -> Any:
        """Return Delta's newest snapshot of a table."""
        none = scala_option(self.spark._jvm)
        return delta_log(self.spark, uri).update(False, none, none)

    def _tuned_session(self, settings: Mapping[str, str]) -> SparkSession:
        """Return a new session with `settings` and one shuffle partition per core."""
        tasks = str(max(2, self.spark.sparkContext.defaultParallelism))
        own = self.spark.newSession()
        base = {
            **COMMIT_SETTINGS,
            "spark.sql.shuffle.partitions": tasks,
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks,
            "spark.sql.variable.substitute": "false",
            f"{_DELTA}.snapshotPartitions": "2",
            f"{_DELTA}.v2.enableMode": "NONE",
        }
        for name, value in {**base, **settings}.items():
            own.conf.set(name, value)
        return own


class Snapshot:
    """A Delta table at one version, read by delta-spark."""

    def __init__(self, session: DeltaSession, uri: str, version: int) -> None:
        """Read the log; raise LakeportError if that fails, or there is no such version."""
        spark = self._spark = session.spark
        self._uri, self._secrets = uri, session.secrets
        self._none = scala_option(spark._jvm)
        with translate_errors(self._secrets):
            ensure_active(spark)
            self._log = delta_log(spark, uri)
            others = scala_defaults(self._log, "getSnapshotAt")
            self._snapshot = self._log.getSnapshotAt(version, *others)

    def check_files(self, allowed_roots: Sequence[str] = ()) -> None:
        """Raise SourceError if a file lies outside the table and `allowed_roots`. Runs a job.

        Only paths that look odd come to this process.
        """
        from pyspark.sql import DataFrame

        odd = f"path rlike '{_ODD_SQL}' or deletionVector.storageType in ('p', 'u')"
        with translate_errors(self._secrets):
            files = DataFrame(self._snapshot.allFiles().toDF(), self._spark)
            text = "to_json(struct(path, deletionVector)) AS file"
            rows = files.where(odd).selectExpr(text).collect()
        check_actions(({"add": json.loads(row.file)} for row in rows), self._uri, allowed_roots)

    def rows_of(self, actions: Iterable[str]) -> DataFrame:
        """Return a frame with the rows of the data files that these `add` actions name."""
        from pyspark.sql import DataFrame

        jvm = self._spark._jvm
        with translate_errors(self._secrets):
            ensure_active(self._spark)
            parsed = java_class(jvm, f"{_CLASSES}.actions.Action")
            files = scala_seq(jvm, map(parsed.fromJson, actions))
            frame = self._log.createDataFrame(self._snapshot, files, False, self._none)
            return DataFrame(frame, self._spark)


class LogStoreProbe:
    """Tests whether a store refuses to overwrite a Delta commit, in a folder of its own.

    It uses Hadoop's connector and Delta's log store, as a load's commits do; data files are staged
    by other libraries. Methods raise LakeportError if the store refuses or can't be reached.

    Args:
        folder: URI of a folder that is used for nothing else.
    """

    def __init__(self, session: DeltaSession, folder: str) -> None:
        spark, self._secrets = session.spark, session.secrets
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        path = java_class(jvm, "org.apache.hadoop.fs.Path")
        self._folder = path(folder)
        self._commit = path(f"{folder}/_delta_log/{0:020d}.json")
        stores = java_class(jvm, "org.apache.spark.sql.delta.storage.LogStore")
        with translate_errors(self._secrets):
            self._store = stores.apply(spark._jsparkSession)

    def write(self) -> None:
        """Write a test commit to the folder's new log."""
        with translate_errors(self._secrets):
            self._files().mkdirs(self._commit.getParent())
            self._put()

    def refuse(self) -> None:
        """Write the test commit again; raise DestinationError unless the store refuses."""
        from py4j.protocol import Py4JError

        with translate_errors(self._secrets):
            try:
                self._put()
            except Py4JError as error:
                if _EXISTS not in str(error):
                    raise
                return
        raise DestinationError(
            "a commit can be overwritten: two writers of a table would lose data",
            "use a store that honours If-None-Match (AWS, MinIO, R2, Ceph).",
        )

    def read(self) -> None:
        """Read the test commit; raise DestinationError if its content has changed."""
        with translate_errors(self._secrets):
            found = self._store.read(self._commit, self._conf)
            lines = tuple(str(found.apply(number)) for number in range(found.size()))
        if lines != _PROBE:
            raise DestinationError("a commit is not read as it was written", "try again.")

    def list(self) -> None:
        """List the test log; raise DestinationError if the commit is not in the listing."""
        with translate_errors(self._secrets):
            found = self._store.listFrom(self._commit, self._conf)
            names = [found.next().getPath().getName()] if found.hasNext() else []
        if names != [self._commit.getName()]:
            raise DestinationError("a commit is not listed after it was written", "try again.")

    def delete(self) -> None:
        """Delete the folder."""
        with translate_errors(self._secrets):
            self._files().delete(self._folder, True)

    def close(self) -> None:
        """Delete the folder, if that is allowed. Never raises."""
        with suppress(LakeportError):
            self.delete()

    def _files(self) -> Any:
        """Return Hadoop's file system of the folder."""
        return self._folder.getFileSystem(self._conf)

    def _put(self) -> None:
        """Write the test commit through Delta's log store; raise py4j's error if it exists."""
        lines = scala_seq(self._jvm, _PROBE).iterator()
        self._store.write(self._commit, lines, False, self._conf)


def _sql_name(uri: str) -> str:
    """Return "delta.`uri`" for use in SQL, with backticks in the URI escaped.

    >>> _sql_name("file:///lake/a`b")
    'delta.`file:///lake/a``b`'
    """
    return "delta." + quote_identifier(uri)
