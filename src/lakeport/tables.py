"""Look at tables and keep them in order: facts, history, rows, queries, maintenance.

```python
table = Table("./lake/flights")
table.describe()["rows"], table.history(limit=5)
table.query("SELECT carrier, count(*) FROM t GROUP BY 1")
```
What the log files tell is read without Spark; queries and maintenance run on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.errors import ConfigError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.model import Storage
    from lakeport.spark.session import Runtime
    from lakeport.table_views import DeltaView, FilesView

__all__ = ["Table"]


class Table:
    """A Delta table, or a folder of Parquet or CSV files.

    Args:
        path: the folder; its key in `storage` when that is given.
        storage: where the folder is; this machine's disk when absent.
        runtime: the Spark to use; started when first needed if absent.

    Raises:
        ConfigError: a URI without a storage.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        storage: Storage | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        text = str(path).removeprefix("file://")
        if storage is None:
            if "://" in text:
                raise ConfigError(
                    f"{text} is not a folder of this machine",
                    "name a local folder, or give the storage that holds the table.",
                )
            from lakeport.storage.local import LocalStorage

            storage, text = LocalStorage(text), ""
        self._storage = storage
        self._folder = text.strip("/")
        self._runtime = runtime

    @property
    def uri(self) -> str:
        """The folder, as users name it."""
        return self._storage.uri(self._folder)

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
            facts["last_change"] = entry.get("timestamp")
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
            rows = self._frame(self._spark(), version, timestamp).limit(limit).toArrow()
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
        from lakeport.table_spark import run_query

        spark = self._spark().newSession()
        frame = self._frame(spark, version, timestamp)
        return run_query(spark, frame, ("t", self.uri.rstrip("/").rsplit("/", 1)[-1]), sql, limit)

    def optimize(self, *, zorder: Sequence[str] = (), where: str | None = None) -> dict[str, Any]:
        """Merge small files into larger ones.

        Args:
            zorder: columns by which to sort the rows into files.
            where: a condition on partition columns.

        Returns:
            Delta's numbers: files added and removed.

        Raises:
            SourceError: this is not a Delta table.
        """
        from lakeport.table_spark import optimize

        return optimize(self._spark(), self._delta_uri(), zorder, where)

    def vacuum(
        self, *, retain_hours: float = 168, dry_run: bool = False, force: bool = False
    ) -> list[str]:
        """Delete files that no version of the retained time uses.

        Args:
            retain_hours: keep what was in use within this time.
            dry_run: delete nothing.
            force: allow less than 168 hours, which breaks readers and writers that take longer.

        Returns:
            With `dry_run`, the files that would go.

        Raises:
            ConfigError: less than 168 hours without `force`.
            SourceError: this is not a Delta table.
        """
        from lakeport.table_spark import vacuum

        return vacuum(self._spark(), self._delta_uri(), retain_hours, dry_run, force)

    def restore(self, version: int) -> int:
        """Make a new version with the contents of an older one; return its number.

        Raises:
            SourceError: this is not a Delta table, or there is no such version.
        """
        from lakeport.table_spark import restore

        self._at(version, None)
        restore(self._spark(), self._delta_uri(), version)
        return self._at(None, None)

    def _spark(self) -> SparkSession:
        if self._runtime is None:
            from lakeport.spark.session import Runtime

            self._runtime = Runtime.start({"delta"}, {}, small=True)
        return self._runtime.spark

    def _view(self, version: int | None, timestamp: str | datetime | None) -> DeltaView | FilesView:
        from lakeport.table_views import DeltaView
        from lakeport.writers.delta_replay import replay

        files = self._files(version, timestamp)
        if files is not None:
            return files
        contents = replay(self._storage, self._log(), self._at(version, timestamp))
        if contents is None:
            raise SourceError(
                f"the log of {self.uri} has checkpoints that can't be read without Spark, or lost "
                "the commits of that version",
                "use `query` for its rows.",
            )
        return DeltaView(self._storage, self._folder, contents)

    def _files(self, version: int | None, timestamp: str | datetime | None) -> FilesView | None:
        """The folder as plain files; None when it is a Delta table."""
        from lakeport.table_views import FilesView

        if self._log().newest >= 0:
            return None
        found = FilesView.of(self._storage, self._folder)
        if found is None:
            raise SourceError(f"there is no table in {self.uri}", "check the path.")
        if version is not None or timestamp is not None:
            raise SourceError(
                f"{self.uri} is a folder of {found.kind} files, which has no versions",
                "leave out the version; only Delta tables have a history.",
            )
        return found

    def _log(self) -> Any:
        from lakeport.writers.delta_replay import LogFiles

        return LogFiles.of(self._storage, self._folder)

    def _at(self, version: int | None, timestamp: str | datetime | None) -> int:
        log = self._log()
        if log.newest < 0:
            raise SourceError(f"{self.uri} is not a Delta table", "only those have versions.")
        if timestamp is not None:
            found: int = log.at(_moment(timestamp))
            if found < 0:
                raise SourceError(f"{self.uri} has no version as old as {timestamp}")
            return found
        newest: int = log.newest
        if version is not None and not 0 <= version <= newest:
            raise SourceError(f"{self.uri} has no version {version}", f"the newest is {newest}.")
        return newest if version is None else version

    def _entries(self, version: int, limit: int) -> list[dict[str, Any]]:
        from itertools import islice

        from lakeport.table_views import entry
        from lakeport.writers.delta_history import CommitLog

        commits = CommitLog(self._storage, self._folder).back_from(version)
        return [entry(commit) for commit in islice(commits, limit)]

    def _frame(
        self, spark: SparkSession, version: int | None, timestamp: str | datetime | None
    ) -> DataFrame:
        uri = self._storage.hadoop_uri(self._folder)
        files = self._files(version, timestamp)
        if files is None:
            at = self._at(version, timestamp)
            return spark.read.format("delta").option("versionAsOf", at).load(uri)
        if files.kind == "csv":
            return spark.read.options(header=True, escape='"', multiLine=True).csv(uri)
        return spark.read.option("mergeSchema", "true").parquet(uri)

    def _delta_uri(self) -> str:
        self._at(None, None)
        return self._storage.hadoop_uri(self._folder)


def _moment(value: str | datetime) -> float:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(
                f"{value!r} is not a moment", "write it like 2024-05-01T10:30:00+02:00."
            ) from None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
