"""Look at a table and maintain it: facts, history, rows, queries, OPTIMIZE, VACUUM, undo.

```python
table = Table("./lake/flights")
table.describe().rows, table.history(limit=5)
table.query("SELECT carrier, count(*) FROM t GROUP BY 1")
```
What the log files tell is read without Spark; queries and maintenance run on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Unpack

from lakeport.engine.threads import require_spark
from lakeport.errors import LakeportError, SourceError
from lakeport.lake.drop import bring_back, drop, empty_bin, find_dropped, plan_drop
from lakeport.lake.records import (
    AlterReport,
    CompactReport,
    DropReport,
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
    from lakeport.engine.spark.delta.session import DeltaSession
    from lakeport.lake.snapshots import DeltaSnapshot, FilesSnapshot
    from lakeport.lake.tables import LakeTable
    from lakeport.lake.versions import TableVersions


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
        from lakeport.lake.location import locate_table

        self._location = locate_table(table, to, keys)

    def __repr__(self) -> str:
        return f"Table({self.uri!r})"

    def _repr_html_(self) -> str | None:
        """Return the table's figures and columns as HTML for notebooks; None if unreadable."""
        from lakeport.html.document import build_notebook_part
        from lakeport.html.table import render_table_part
        from lakeport.lake.facts import read_table_facts

        try:
            facts, _ = read_table_facts(self._location.storage, self._location.folder, self.uri)
        except LakeportError:
            return None  # `repr` tells its name
        return build_notebook_part(render_table_part(facts))

    @property
    def uri(self) -> str:
        """The table's URI as users write it."""
        return self._location.uri

    @property
    def config(self) -> DestinationConfig:
        """The config of the table's store."""
        return self._location.config

    def describe(
        self, *, version: int | None = None, timestamp: str | datetime | None = None
    ) -> TableDescription:
        """Describe the table: columns, partitions, rows, files, sizes, protocol, last change.

        Args:
            version: as of this version.
            timestamp: as of this moment: an ISO 8601 text or a datetime, UTC if naive.

        Raises:
            SourceError: there is no table, or no such version.
        """
        versions = self._read_versions()
        found = versions.find_version_or_files(version, timestamp)
        described = self._open_snapshot(versions, found).describe()
        if not isinstance(found, int):
            return described
        described = replace(described, oldest_version=versions.files.oldest)
        for last in versions.list_history(found, 1):
            return replace(
                described,
                last_change=last.timestamp,
                last_operation=last.operation,
                last_run=last.run_id,
                last_writer=last.engine,
            )
        return described

    def tables(self) -> list[LakeTable]:
        """List the tables in this folder; empty if the folder is itself a table.

        Raises:
            DestinationError: the store refused.
        """
        from lakeport.lake.tables import list_tables, several_tables_error

        storage, folder = self._location.storage, self._location.folder
        return list_tables(storage, folder) if several_tables_error(storage, folder) else []

    def history(self, limit: int = 20) -> History:
        """List the newest versions, newest first.

        Raises:
            SourceError: this is not a Delta table.
        """
        versions = self._read_versions()
        return History(versions.list_history(versions.find_newest(), limit))

    def preview(
        self,
        limit: int = 10,
        *,
        version: int | None = None,
        timestamp: str | datetime | None = None,
    ) -> pa.Table:
        """Return the first rows, read without Spark if possible; see `describe` for the arguments.

        Raises:
            SourceError: there is no table, or no such version.
        """
        versions = self._read_versions()
        found = versions.find_version_or_files(version, timestamp)
        rows = self._open_snapshot(versions, found).preview(limit)
        if rows is None:
            from lakeport.lake.snapshots import fetch_rows, read_table

            with self._open_session("a preview of such files") as session:
                self._check_files(session, found)
                frame = read_table(session.spark, self._location.log.hadoop_uri, found)
                rows = fetch_rows(frame.limit(limit), {self.uri: found})
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
        """Run a Spark SQL query, in which the table has the name `t`, and that of its folder.

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
        from lakeport.engine.sql.policy import TABLE_SCOPE
        from lakeport.lake.query import QueriedTable, run_query
        from lakeport.lake.snapshots import check_query_start

        check_query_start(sql, self.uri)
        found = self._read_versions().find_version_or_files(version, timestamp)
        table = QueriedTable(self._location, found)
        names = {"t", self.uri.rstrip("/").rsplit("/", 1)[-1].lower()}

        def find(parts: tuple[str, ...]) -> QueriedTable | None:
            return table if len(parts) == 1 and parts[0].lower() in names else None

        return run_query(self._location, find, sql, TABLE_SCOPE, limit=limit, timeout=timeout)

    def compact_report(self) -> CompactReport:
        """Report which partitions have small files, and what `optimize` would do.

        Raises:
            SourceError: this is not a Delta table.
        """
        from lakeport.lake.maintenance import build_compact_report

        return build_compact_report(self._read_contents())

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
        from lakeport.lake.maintenance import check_partitioned, quote_sort_columns
        from lakeport.writers.delta.optimize import condition_error, optimize

        contents = self._read_contents()
        columns = quote_sort_columns(contents, zorder)
        if where is not None:
            check_partitioned(contents, where)
        with self._open_session("OPTIMIZE", contents, writes=True) as session:
            if where is not None:
                refusal = partial(condition_error, where, contents=contents)
                session.check_condition(where, refusal)
            log = self._location.log
            done = asdict(optimize(session, log, contents, sort_by=columns, where=where))
        return OptimizeReport(**done, version=self._read_versions().find_newest())

    def vacuum(
        self, *, retain_hours: int | None = None, dry_run: bool = False, force: bool = False
    ) -> VacuumReport:
        """Delete files that no version within the retention needs, and tables dropped a day ago.

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
        from lakeport.lake.maintenance import check_retention_hours, vacuum

        check_retention_hours(retain_hours, force=force)
        contents = self._read_contents()
        newest = contents.state.version
        with self._open_session("VACUUM", contents, writes=True) as session:
            done = vacuum(
                session, self._location, newest, retain_hours, dry_run=dry_run, force=force
            )
        if not dry_run:
            empty_bin(self._location)
        return done

    def alter(self, column: str, type_: str, *, dry_run: bool = False) -> AlterReport:
        """Change a column's type in one commit, if every value survives the change.

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
        from lakeport.lake.maintenance import alter

        self._read_versions().find_newest()
        with self._location.open_engine() as engine:
            return alter(self._location, engine, column, type_, dry_run=dry_run)

    def restore(self, version: int) -> RestoreReport:
        """Commit a new version with the contents of an older one.

        Runs that came after the older version can be repeated, and land their rows again.

        Raises:
            SourceError: this is not a Delta table, there is no such version, or its files are gone.
            CommitConflict: others change the table at the same time.
        """
        from lakeport.lake.undo import restore

        versions = self._read_versions()
        if versions.find_version(version, None) == versions.find_newest():
            raise SourceError(f"{self.uri} is at version {version} already", "name an older one.")
        return restore(self._location, version)

    def undo(self, run_id: str = "", *, dry_run: bool = False) -> UndoReport:
        """Undo a run in one commit, if nothing else has changed the table since; or undo a drop.

        The run's name is free again: the same run repeated lands everything anew. Of a table that
        was dropped, and can be brought back, the drop is the last thing that is undone. Of a table
        of files any run can be undone; its files are deleted for good.

        Args:
            run_id: the run's id, or the name that its report gives; empty for the last run.
            dry_run: tell what would be done, and change nothing.

        Raises:
            SourceError: this is not a Delta table, it has no such run, the run made the table, or
                files of the version before are gone.
            CommitConflict: others have changed the table since; the message says who and what.

        Example:
            >>> plan = table.undo(dry_run=True)  # doctest: +SKIP
            >>> plan.run_id, plan.rows_before, plan.rows_after  # doctest: +SKIP
            ('monday', 6, 3)
        """
        from lakeport.lake.runs import mark_undone
        from lakeport.lake.undo import plan_undo, undo, undo_files

        versions = self._read_versions()
        if versions.files.newest < 0 and not run_id and (found := self._undo_drop(dry_run)):
            return found
        if isinstance(versions.find_version_or_files(None, None), int):
            if dry_run:
                return plan_undo(self._location, versions.files, run_id)
            done = undo(self._location, run_id)
        else:
            done = undo_files(self._location, run_id, dry_run=dry_run)
            if dry_run:
                return done
        with suppress(LakeportError):  # the table is undone, whatever its lake says
            mark_undone(self._location.find_lake()[0], done.run_id, self.uri)
        return done

    def _undo_drop(self, dry_run: bool) -> UndoReport | None:
        """Bring a dropped table back; None if it was not dropped, or there is one again."""
        found = find_dropped(self._location)
        if found is None or next(iter(self._location.storage.list(self._location.folder)), None):
            return None
        dropped, path = found
        done = UndoReport("", dropped, 0, Table(path).describe().rows, dry_run=dry_run)
        if not dry_run:
            bring_back(self._location)
        return done

    def drop(self, *, dry_run: bool = False) -> DropReport:
        """Drop the table, and what its lake keeps about it: a load makes it anew.

        A local table is moved into the lake's bin, from where `undo` brings it back for a day.
        Elsewhere its objects are deleted, and nothing brings them back.

        Args:
            dry_run: tell what would be done, and change nothing.

        Raises:
            SourceError: there is no table, or this is a folder of tables.
            CommitConflict: another program goes on writing into the table.
        """
        return (plan_drop if dry_run else drop)(self._location, self.describe())

    def state(self) -> SingerState | None:
        """Return the newest Singer STATE in the log, which belongs to the table's rows.

        A restored version brings its own STATE back.

        Returns:
            None when no commit in the log carries a STATE.

        Raises:
            SourceError: this is not a Delta table.
        """
        return self._read_versions().find_singer_state()

    def _read_versions(self) -> TableVersions:
        """List the files of the table's Delta log; empty for a table of plain files."""
        from lakeport.lake.versions import TableVersions

        return TableVersions.of(self._location.storage, self._location.folder)

    def _read_contents(self) -> Contents:
        """Read the newest version of a Delta table; raise SourceError for other tables."""
        versions = self._read_versions()
        return versions.files.read_contents(versions.find_newest())

    def _open_snapshot(
        self, versions: TableVersions, version_or_files: FilesSnapshot | int
    ) -> DeltaSnapshot | FilesSnapshot:
        """Read the snapshot of a Delta version; return a snapshot of plain files unchanged."""
        from lakeport.lake.snapshots import DeltaSnapshot

        if not isinstance(version_or_files, int):
            return version_or_files
        contents = versions.files.read_contents(version_or_files)
        return DeltaSnapshot(versions.log, contents)

    def _check_files(self, session: DeltaSession, version_or_files: FilesSnapshot | int) -> None:
        """Raise SourceError if a Delta version names files outside of the table's folder."""
        if isinstance(version_or_files, int):
            self._location.check_files(session, version_or_files)

    @contextmanager
    def _open_session(
        self, operation: str, contents: Contents | None = None, *, writes: bool = False
    ) -> Iterator[DeltaSession]:
        """Yield a Delta session for the `with` body; `operation` is its name in errors.

        The files of `contents` are checked to lie in the table's folder; else SourceError.
        """
        with self._location.open_engine(contents) as engine:
            require_spark(engine, operation)
            session = self._location.session(engine, writes=writes)
            if contents is not None:
                self._location.check_files(session, contents.state.version)
            yield session
