"""Look at tables and keep them in order: facts, history, rows, queries, maintenance.

```python
table = Table("./lake/flights")
table.describe().rows, table.history(limit=5)
table.query("SELECT carrier, count(*) FROM t GROUP BY 1")
```
What the log files tell is read without Spark; queries and maintenance run on Spark.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Unpack

from lakeport.engine.base import SessionRequest
from lakeport.errors import LakeportError, SourceError, SparkFailure
from lakeport.tables.records import (
    AlterReport,
    CompactReport,
    History,
    OptimizeReport,
    RestoreReport,
    SingerState,
    TableDescription,
    UndoReport,
    VacuumReport,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.delta_log.reader import Contents
    from lakeport.engine.base import DeltaSession, Engine
    from lakeport.tables.lake import LakeTable
    from lakeport.tables.versions import Versions
    from lakeport.tables.views import DeltaView, FilesView

_LARGE_BYTES = 1 << 30


class Table:
    """A Delta table, or a folder of Parquet or CSV files: local, on S3, Azure or Google Cloud.

    Args:
        table: a folder of this machine, a URI (`s3://`, `abfss://`, `gs://`), or, with `to`, the
            table's name below that target.
        to: a target as `land` takes it (a config file, a mapping, a config, a URI), for the
            store's credentials and endpoint. Without it the environment and the store's default
            chain count, as for `land`.
        keys: further keys of the config, such as `aws_endpoint`.

    Raises:
        ConfigError: the name is none, or the target is for another store.
        MissingDependency: the store's SDK is not installed.
    """

    def __init__(
        self,
        table: str | os.PathLike[str],
        to: Target | DestinationConfig | None = None,
        **keys: Unpack[StoreKeys],
    ) -> None:
        from lakeport.tables.location import locate

        self._location = locate(table, to, keys)

    def __repr__(self) -> str:
        return f"Table({self.uri!r})"

    def _repr_html_(self) -> str | None:
        """The table as notebooks show it: figures, growth, columns; None where none can be told."""
        from lakeport.html.document import notebook
        from lakeport.html.table import table_part
        from lakeport.tables.overview import open_table_page

        try:
            facts, _ = open_table_page(self._location.storage, self._location.folder, self.uri)
        except LakeportError:
            return None  # `repr` tells its name
        return notebook(table_part(facts))

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self._location.uri

    @property
    def config(self) -> DestinationConfig:
        """How the table's store is reached."""
        return self._location.config

    def describe(
        self, *, version: int | None = None, timestamp: str | datetime | None = None
    ) -> TableDescription:
        """Tell format, version, columns, partitions, rows, files, sizes, protocol, last writer.

        Args:
            version: as of this version.
            timestamp: as of this moment: an ISO 8601 text or a datetime, UTC if naive.

        Raises:
            SourceError: there is no table, or no such version.
        """
        versions = self._versions()
        found = versions.files_or_version(version, timestamp)
        told = self._view(versions, found).describe()
        if not isinstance(found, int):
            return told
        told = replace(told, oldest_version=versions.files.oldest)
        for last in versions.entries(found, 1):
            return replace(
                told,
                last_change=last.timestamp,
                last_operation=last.operation,
                last_run=last.run_id,
                last_writer=last.engine,
            )
        return told

    def tables(self) -> list[LakeTable]:
        """List the tables in this folder, where it is a folder of tables; none for a table.

        Raises:
            DestinationError: the store refused.
        """
        from lakeport.tables.lake import list_tables, several_tables_error

        storage, folder = self._location.storage, self._location.folder
        return list_tables(storage, folder) if several_tables_error(storage, folder) else []

    def history(self, limit: int = 20) -> History:
        """List the newest versions, newest first.

        Raises:
            SourceError: this is not a Delta table.
        """
        versions = self._versions()
        return History(versions.entries(versions.newest(), limit))

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
        versions = self._versions()
        found = versions.files_or_version(version, timestamp)
        rows = self._view(versions, found).preview(limit)
        if rows is None:
            from lakeport.tables.views import fetch, read_table

            with self._spark("a preview of such files") as session:
                self._check_files(session, found)
                frame = read_table(session.spark, self._location.hadoop_uri, found)
                rows = fetch(frame.limit(limit), self.uri, found)
        return rows

    def query(
        self,
        sql: str,
        *,
        limit: int = 1000,
        version: int | None = None,
        timestamp: str | datetime | None = None,
        timeout: float = 600,
    ) -> pa.Table:
        """Run one Spark SQL query, in which the table is called `t` and by its folder's name.

        Args:
            sql: a SELECT, with or without WITH.
            limit: at most so many rows come back.
            version: as of this version.
            timestamp: as of this moment.
            timeout: after so many seconds, not counting Spark's start, the query is cancelled.

        Raises:
            ConfigError: the text is not one query, or Spark can't make sense of it.
            SourceError: there is no table, or no such version.
            SparkFailure: the query took longer than `timeout`.
        """
        from lakeport.engine.sql.policy import run_query
        from lakeport.tables.views import check_beginning, fetch, read_table

        check_beginning(sql)
        found = self._versions().files_or_version(version, timestamp)
        names = ("t", self.uri.rstrip("/").rsplit("/", 1)[-1])
        with self._engine() as engine:
            by_spark = engine.require_spark("a query")
            session = self._location.session(engine)
            self._check_files(session, found)
            spark = session.spark.newSession()

            def job() -> pa.Table:
                frame = read_table(spark, self._location.hadoop_uri, found)
                return fetch(run_query(frame, names, sql, limit), self.uri, found)

            seconds = min(timeout, threading.TIMEOUT_MAX)
            try:
                return by_spark.run_job("query a table", job, seconds=seconds)
            except TimeoutError:
                raise SparkFailure(
                    f"the query took longer than {timeout:g} s, and was cancelled",
                    "have it read or join fewer rows, or give it more time (`--timeout`).",
                ) from None

    def compact_report(self) -> CompactReport:
        """Tell which partitions have small files, and what `optimize` would do about them.

        Raises:
            SourceError: this is not a Delta table.
        """
        from lakeport.tables.maintenance import report

        return report(self._newest())

    def optimize(self, *, zorder: Sequence[str] = (), where: str | None = None) -> OptimizeReport:
        """Merge small files into larger ones.

        Args:
            zorder: columns by which to sort the rows into files.
            where: a condition on partition columns, one SQL expression.

        Raises:
            ConfigError: a column or the condition does not fit the table.
            SourceError: this is not a Delta table.
            CommitConflict: another writer removed the same files at the same time.
        """
        from lakeport.tables.maintenance import check_partitioned, sort_columns
        from lakeport.writers.delta.optimize import condition_error, optimize

        contents = self._newest()
        columns = sort_columns(contents, zorder)
        if where is not None:
            check_partitioned(contents, where)
        with self._spark("OPTIMIZE", contents, writes=True) as session:
            if where is not None:
                refusal = partial(condition_error, where, contents=contents)
                session.check_condition(where, refusal)
            log = self._location.log
            done = asdict(optimize(session, log, contents, sort_by=columns, where=where))
        return OptimizeReport(**done, version=self._versions().newest())

    def vacuum(
        self, *, retain_hours: int | None = None, dry_run: bool = False, force: bool = False
    ) -> VacuumReport:
        """Delete files that no version of the retained time uses.

        Args:
            retain_hours: keep what was in use within this time; the table's own retention, at
                least 168 hours, when absent.
            dry_run: delete nothing.
            force: allow less than 168 hours, or less than the table's own retention, which breaks
                readers and writers that take longer; files that are yet to be committed stay.

        Raises:
            ConfigError: a retention that needs `force`.
            SourceError: this is not a Delta table.
        """
        from lakeport.tables.maintenance import check_retention, vacuum

        check_retention(retain_hours, force=force)
        contents = self._newest()
        newest = contents.state.version
        with self._spark("VACUUM", contents, writes=True) as session:
            return vacuum(
                session, self._location, newest, retain_hours, dry_run=dry_run, force=force
            )

    def alter(self, column: str, type_: str, *, dry_run: bool = False) -> AlterReport:
        """Give a column another type, in one commit; every value stays what it is.

        Where Delta can tell old files by the log (a column without a value yet, a wider type in a
        table with `delta.enableTypeWidening`), no data are written; else the files that have the
        column are written anew.

        Args:
            column: its name.
            type_: such as `double` or `decimal(10,2)`; the names that `columns` takes.
            dry_run: look at every value, and change nothing.

        Raises:
            ConfigError: there is no such column, or no such type.
            SchemaConflict: a value has no equal of the type; the message tells the first ones.
            SourceError: this is not a Delta table.
            CommitConflict: others change the table at the same time, again and again.
        """
        from lakeport.tables.maintenance import alter

        self._versions().newest()
        with self._engine() as engine:
            return alter(self._location, engine, column, type_, dry_run=dry_run)

    def restore(self, version: int) -> RestoreReport:
        """Make a new version with the contents of an older one.

        Runs that came after the older version can be repeated, and land their rows again.

        Raises:
            SourceError: this is not a Delta table, there is no such version, or its files are gone.
            CommitConflict: others change the table at the same time.
        """
        from lakeport.tables.undo import restore

        versions = self._versions()
        if versions.at(version, None) == versions.newest():
            raise SourceError(f"{self.uri} is at version {version} already", "name an older one.")
        with self._spark("RESTORE", writes=True) as session:
            return restore(session, self._location, version)

    def undo(self, run_id: str) -> UndoReport:
        """Put the table back to what it was before a run, if only that run has changed it since.

        The run's name is free again: the same run repeated lands everything anew.

        Args:
            run_id: the run's id, or the name that its report gives.

        Raises:
            SourceError: this is not a Delta table, it has no such run, the run made the table, or
                files of the version before are gone.
            CommitConflict: others have changed the table since; the message says who and what.
        """
        from lakeport.tables.undo import find_run, undo

        # A name that is wrong does not wait for Spark.
        versions = self._versions()
        find_run(versions.log.back_from(versions.newest()), run_id, self.uri)
        with self._spark("`undo`", writes=True) as session:
            return undo(session, self._location, run_id)

    def state(self) -> SingerState | None:
        """The Singer STATE that belongs to the table's rows: of the newest commit that has one.

        A restored version brings its own STATE back.

        Returns:
            None when no commit in the log carries a STATE.

        Raises:
            SourceError: this is not a Delta table.
        """
        return self._versions().singer_state()

    def _versions(self) -> Versions:
        from lakeport.tables.versions import Versions

        return Versions.of(self._location.storage, self._location.folder)

    def _newest(self) -> Contents:
        versions = self._versions()
        return versions.files.contents(versions.newest())

    def _view(self, versions: Versions, found: FilesView | int) -> DeltaView | FilesView:
        from lakeport.tables.views import DeltaView

        if not isinstance(found, int):
            return found
        contents = versions.files.contents(found)
        return DeltaView(self._location.storage, self._location.folder, contents)

    def _check_files(self, session: DeltaSession, found: FilesView | int) -> None:
        if isinstance(found, int):
            self._location.check_files(session, found)

    @contextmanager
    def _spark(
        self, what: str, contents: Contents | None = None, *, writes: bool = False
    ) -> Iterator[DeltaSession]:
        """The session for as long as the body runs, with a JVM that suits the table's size.

        Args:
            what: what asks for Spark, in words.
            contents: the table, whose files are checked to lie in its folder.
            writes: whether the table will be changed.
        """
        with self._engine(contents) as engine:
            engine.require_spark(what)
            session = self._location.session(engine, writes=writes)
            if contents is not None:
                self._location.check_files(session, contents.state.version)
            yield session

    def _engine(self, contents: Contents | None = None) -> Engine:
        from lakeport.engine.threads import choose_engine

        known = 0 if contents is None else sum(file.bytes for file in contents.files)
        config, needs = self._location.config, self._location.jars
        request = SessionRequest(needs, config.spark, known < _LARGE_BYTES, warm=config.warm)
        return choose_engine(config.engine, request)
