"""Look at tables and keep them in order: facts, history, rows, queries, maintenance.

```python
table = Table("./lake/flights")
table.describe()["rows"], table.history(limit=5)
table.query("SELECT carrier, count(*) FROM t GROUP BY 1")
```
What the log files tell is read without Spark; queries and maintenance run on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.config.common import DestinationConfig
    from lakeport.spark.session import Runtime
    from lakeport.tables.views import DeltaView, FilesView
    from lakeport.writers.delta_replay import Contents, LogFiles

__all__ = ["Table"]

_LARGE_BYTES = 1 << 30


class Table:
    """A Delta table, or a folder of Parquet or CSV files: local, on S3, Azure or Google Cloud.

    Args:
        table: a folder of this machine, a URI (`s3://`, `abfss://`, `gs://`), or, with `to`, the
            table's name below that target.
        to: a target as `land` takes it (a config file, a mapping, a config, a URI), for the
            store's credentials and endpoint. Without it the environment and the store's default
            chain count, as for `land`.
        runtime: the Spark to use; started when first needed if absent.
        keys: further keys of the config, such as `aws_endpoint`.

    Raises:
        ConfigError: the name is none, or the target is for another store.
        MissingDependency: the store's SDK is not installed.
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        to: str | os.PathLike[str] | Mapping[str, Any] | DestinationConfig | None = None,
        *,
        runtime: Runtime | None = None,
        **keys: Any,
    ) -> None:
        from lakeport.tables.place import locate

        self._place = locate(table, to, keys)
        self._storage, self._folder = self._place.storage, self._place.folder
        self._runtime = runtime

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self._place.uri

    @property
    def config(self) -> DestinationConfig:
        """How the table's store is reached."""
        return self._place.config

    def describe(
        self, *, version: int | None = None, timestamp: str | datetime | None = None
    ) -> dict[str, Any]:
        """Tell format, version, columns, partitions, rows, files, sizes, protocol, last writer.

        Args:
            version: as of this version.
            timestamp: as of this moment: an ISO 8601 text or a datetime, UTC if naive.

        Raises:
            SourceError: there is no table, or no such version.
        """
        view = self._view(version, timestamp)
        facts = view.facts()
        if facts["format"] == "delta":
            entry = next(iter(self._entries(facts["version"], 1)), {})
            facts["oldest_version"] = self._log().oldest
            facts["last_change"] = entry.get("timestamp")
            facts["last_operation"] = entry.get("operation")
            facts["last_run"] = entry.get("run_id")
            facts["last_writer"] = entry.get("engine")
        return facts

    def history(self, limit: int = 20) -> list[dict[str, Any]]:
        """List the newest versions, newest first.

        Raises:
            SourceError: this is not a Delta table.
        """
        return self._entries(self._at(None, None), limit)

    def preview(
        self,
        limit: int = 10,
        *,
        version: int | None = None,
        timestamp: str | datetime | None = None,
    ) -> pa.Table:
        """Return some rows; see `describe` for the arguments.

        Raises:
            SourceError: there is no table, or no such version.
        """
        view = self._view(version, timestamp)
        rows = view.preview(limit)
        if rows is None:
            from lakeport.tables.queries import fetch

            frame, at = self._frame(self._spark(), version, timestamp)
            rows = fetch(frame.limit(limit), self.uri, at)
        return rows

    def query(
        self,
        sql: str,
        *,
        limit: int = 1000,
        version: int | None = None,
        timestamp: str | datetime | None = None,
    ) -> pa.Table:
        """Run one Spark SQL query, in which the table is called `t` and by its folder's name.

        Args:
            sql: a SELECT, with or without WITH.
            limit: at most so many rows come back.
            version: as of this version.
            timestamp: as of this moment.

        Raises:
            ConfigError: the text is not one query, or Spark can't make sense of it.
            SourceError: there is no table, or no such version.
        """
        from lakeport.tables.queries import fetch, run_query

        self._files_or_version(version, timestamp)
        spark = self._spark().newSession()
        frame, at = self._frame(spark, version, timestamp)
        names = ("t", self.uri.rstrip("/").rsplit("/", 1)[-1])
        return fetch(run_query(spark, frame, names, sql, limit), self.uri, at)

    def compact_report(self) -> dict[str, Any]:
        """Tell which partitions have small files, and what `optimize` would do about them.

        Raises:
            SourceError: this is not a Delta table.
        """
        from lakeport.tables.compaction import report

        return report(self._contents(self._at(None, None)))

    def optimize(self, *, zorder: Sequence[str] = (), where: str | None = None) -> dict[str, Any]:
        """Merge small files into larger ones.

        Args:
            zorder: columns by which to sort the rows into files.
            where: a condition on partition columns, one SQL expression.

        Returns:
            Files and bytes that came and went, partitions that changed, the version then.

        Raises:
            ConfigError: a column or the condition does not fit the table.
            SourceError: this is not a Delta table.
            CommitConflict: another writer removed the same files at the same time.
        """
        from lakeport.tables.maintenance import optimize

        contents = self._contents(self._at(None, None))
        spark = self._spark(contents, writes=True)
        done = optimize(spark, self._place.hadoop_uri, contents, zorder, where)
        return {**done, "version": self._at(None, None)}

    def vacuum(
        self, *, retain_hours: int | None = None, dry_run: bool = False, force: bool = False
    ) -> dict[str, Any]:
        """Delete files that no version of the retained time uses.

        Args:
            retain_hours: keep what was in use within this time; the table's own retention, at
                least 168 hours, when absent.
            dry_run: delete nothing.
            force: allow less than 168 hours, or less than the table's own retention, which breaks
                readers and writers that take longer.

        Returns:
            `deleted` (files and empty folders), `bytes`, `version`; with `dry_run`, `files`: what
            would go.

        Raises:
            ConfigError: a retention that needs `force`.
            SourceError: this is not a Delta table.
        """
        from lakeport.tables.maintenance import vacuum

        contents = self._contents(self._at(None, None))
        spark = self._spark(contents, writes=True)
        uri = self._place.hadoop_uri
        files = vacuum(spark, uri, retain_hours, dry_run=dry_run, force=force)
        version = self._at(None, None)
        if dry_run:
            return {"dry_run": True, "version": version, "files": files}
        return {
            "deleted": int(self._metrics(version).get("numDeletedFiles", 0)),
            "bytes": int(self._metrics(version - 1).get("sizeOfDataToDelete", 0)),
            "version": version,
        }

    def restore(self, version: int) -> int:
        """Make a new version with the contents of an older one; return its number.

        Runs that came after the older version can be repeated, and land their rows again.

        Raises:
            SourceError: this is not a Delta table, there is no such version, or its files are gone.
            CommitConflict: others change the table at the same time.
        """
        from lakeport.tables.undo import restore

        newest = self._at(None, None)
        if self._at(version, None) == newest:
            raise SourceError(f"{self.uri} is at version {version} already", "name an older one.")
        return restore(self._spark(writes=True), self._place, version, self._contents)

    def undo(self, run_id: str) -> dict[str, Any]:
        """Put the table back to what it was before a run, if only that run has changed it since.

        The run's name is free again: the same run repeated lands everything anew.

        Args:
            run_id: the run's id, or the name that its report gives.

        Returns:
            `version` (the new one), `restored` (the one before the run), `undone` (the run's).

        Raises:
            SourceError: this is not a Delta table, it has no such run, the run made the table, or
                files of the version before are gone.
            CommitConflict: others have changed the table since; the message says who and what.
        """
        from lakeport.tables.undo import undo

        self._at(None, None)
        spark = self._spark(writes=True)
        return undo(spark, self._place, run_id, self._contents)

    def state(self) -> dict[str, Any] | None:
        """The Singer STATE that belongs to the table's rows: of the newest commit that has one.

        A restored version brings its own STATE back.

        Returns:
            `state` (the raw bytes that came), `version`, `timestamp`, `run_id`; None when no
            commit in the log carries a STATE.

        Raises:
            SourceError: this is not a Delta table.
        """
        from lakeport.tables.views import entry
        from lakeport.writers.delta_history import CommitLog

        self._at(None, None)
        commit = CommitLog(self._storage, self._folder).newest_state()
        if commit is None or commit.mark is None:
            return None
        known = entry(commit)
        told = {key: known[key] for key in ("version", "timestamp", "run_id")}
        return {"state": commit.mark.state, **told}

    def _spark(self, contents: Contents | None = None, *, writes: bool = False) -> SparkSession:
        """The session, with a JVM that suits the table's size."""
        if self._runtime is None:
            from lakeport.spark.session import Runtime

            known = 0 if contents is None else sum(int(file["size"]) for file in contents.files)
            settings = self._place.config.spark
            self._runtime = Runtime.start(self._place.jars, settings, small=known < _LARGE_BYTES)
        return self._place.session(self._runtime, writes=writes)

    def _metrics(self, version: int) -> Mapping[str, Any]:
        from lakeport.writers.delta_history import CommitLog

        commit = CommitLog(self._storage, self._folder).read(version)
        return {} if commit is None else commit.info.get("operationMetrics") or {}

    def _contents(self, version: int) -> Contents:
        """The table at a version: by its log files, or by Spark where they do not tell."""
        from lakeport.writers.delta_replay import replay

        contents = replay(self._storage, self._log(), version)
        if contents is None:
            from lakeport.tables.queries import contents_by_spark

            contents = contents_by_spark(self._spark(), self._place.hadoop_uri, version)
        return contents

    def _view(self, version: int | None, timestamp: str | datetime | None) -> DeltaView | FilesView:
        from lakeport.tables.views import DeltaView

        found = self._files_or_version(version, timestamp)
        if not isinstance(found, int):
            return found
        return DeltaView(self._storage, self._folder, self._contents(found))

    def _files_or_version(
        self, version: int | None, timestamp: str | datetime | None
    ) -> FilesView | int:
        """The folder as plain files, or the Delta table's version that is meant."""
        files = self._files(version, timestamp)
        return self._at(version, timestamp) if files is None else files

    def _files(self, version: int | None, timestamp: str | datetime | None) -> FilesView | None:
        """The folder as plain files; None when it is a Delta table."""
        from lakeport.tables.views import FilesView

        if self._log().newest >= 0:
            return None
        found = FilesView.of(self._storage, self._folder)
        if found is None:
            raise self._absent()
        if version is not None or timestamp is not None:
            raise SourceError(
                f"{self.uri} is a folder of {found.kind} files, which has no versions",
                "leave out the version; only Delta tables have a history.",
            )
        return found

    def _log(self) -> LogFiles:
        from lakeport.writers.delta_replay import LogFiles

        return LogFiles.of(self._storage, self._folder)

    def _absent(self) -> SourceError:
        return SourceError(
            f"there is no table in {self.uri}", "check its name; `land` makes tables."
        )

    def _at(self, version: int | None, timestamp: str | datetime | None) -> int:
        log = self._log()
        if log.newest < 0:
            if next(iter(self._storage.list(self._folder)), None) is None:
                raise self._absent()
            raise SourceError(
                f"{self.uri} is not a Delta table: it has no `_delta_log`",
                "only Delta tables have versions, and can be maintained.",
            )
        oldest, newest = log.oldest, log.newest
        if timestamp is not None:
            found = log.at(_moment(timestamp))
            if found < oldest:
                raise SourceError(
                    f"{self.uri} has no version as old as {timestamp}",
                    f"the oldest is {oldest}.",
                )
            return found
        if version is not None and not oldest <= version <= newest:
            raise SourceError(
                f"{self.uri} has no version {version}", f"it has {oldest} to {newest}."
            )
        return newest if version is None else version

    def _entries(self, version: int, limit: int) -> list[dict[str, Any]]:
        from itertools import islice

        from lakeport.tables.views import entry
        from lakeport.writers.delta_history import CommitLog

        commits = CommitLog(self._storage, self._folder).back_from(version)
        return [entry(commit) for commit in islice(commits, limit)]

    def _frame(
        self, spark: SparkSession, version: int | None, timestamp: str | datetime | None
    ) -> tuple[DataFrame, int]:
        """The rows, and the version that they are of; -1 for plain files."""
        uri = self._place.hadoop_uri
        found = self._files_or_version(version, timestamp)
        if isinstance(found, int):
            return spark.read.format("delta").option("versionAsOf", found).load(uri), found
        if found.kind == "csv":
            return spark.read.options(header=True, escape='"', multiLine=True).csv(uri), -1
        return spark.read.option("mergeSchema", "true").parquet(uri), -1


def _moment(value: str | datetime) -> float:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(
                f"{value!r} is not a moment", "write it like 2024-05-01T10:30:00+02:00."
            ) from None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
