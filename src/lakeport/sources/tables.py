"""Read Delta tables with Spark: whole, or the rows since the version that was landed last.

```
log's commits ─▶ changes ─▶ Spark's frame of added files, or the change feed ─▶ one batch
```
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.sources import TablesSource
from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.paths import check_actions, check_log
from lakeport.delta_log.reader import Commit, DeltaLog
from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import void_marked
from lakeport.engine.threads import require_spark
from lakeport.errors import ConfigError, SourceError
from lakeport.model import Bookmark, BookmarkStore, Flush, Mode
from lakeport.sources.frames import frame_flushes
from lakeport.sources.target import open_folder_storage
from lakeport.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.model import Storage

_FEED = "delta.enableChangeDataFeed"
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_NEW = ("insert", "update_postimage")
_FORMAT: Final = 1
_READERS: Final = 8
_RELOAD_HINT: Final = "land the whole table anew, with a full refresh."


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Files that a range of commits added; or the first version that removed or changed rows.

    Attributes:
        added: the files with new rows.
        moved_files: those of them whose rows OPTIMIZE has moved into other files since.
        rewritten: the first version that removed or changed rows; None if no version did. The
            other attributes are empty then.
        operation: that version's operation, such as `MERGE`.
    """

    added: tuple[DataFile, ...] = ()
    moved_files: tuple[DataFile, ...] = ()
    rewritten: int | None = None
    operation: str = ""


def read_changes(log: DeltaLog, after_version: int, last_version: int) -> TableChanges:
    """Return the changes of the versions after `after_version`, `last_version` included.

    Raises:
        SourceError: the log has lost one of the commits.
        DestinationError: the store refuses.
    """
    added: dict[str, DataFile] = {}
    moved: list[str] = []
    versions = range(after_version + 1, last_version + 1)
    with ThreadPoolExecutor(_READERS, "lakeport-log") as executor:
        for version, entries in zip(
            versions, executor.map(log.read_actions, versions), strict=True
        ):
            if entries is None:
                raise SourceError(
                    f"the log of {log.uri} does not have version {version} any more, and "
                    f"version {after_version} was the last one that was landed",
                    "land the whole table anew, with a full refresh; loads that are to go on from "
                    "a version have to come before the table's log is cleaned.",
                )
            removed = [entry.remove for entry in entries if entry.remove is not None]
            if any(file.data_change for file in removed):
                info = Commit.of(version, entries).info
                return TableChanges(rewritten=version, operation=str(info.get("operation", "")))
            moved += (file.path for file in removed)
            new = (entry.add for entry in entries if entry.add is not None)
            added.update((file.path, file) for file in new if file.data_change)
    return TableChanges(
        tuple(added.values()), tuple(added[path] for path in moved if path in added)
    )


@dataclass(frozen=True, slots=True)
class _TableRead:
    """Spark frame of the rows to read from one table (None if none is new), notes and bookmark."""

    frame: DataFrame | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    bookmark: Bookmark | None = None


class TablesFlushes:
    """Iterable of one flush with the rows of a Delta table; several tables need SQL over `frames`.

    Raises:
        ConfigError: the target does not support `incremental`.
        SourceError: a table does not exist, or its log does not show which rows are new.
    """

    def __init__(
        self,
        source: TablesSource,
        stream: str,
        config: DestinationConfig,
        engine: Engine,
        folder: Path,
        memory_of: Callable[[str], BookmarkStore],
    ) -> None:
        _check_target(source, config)
        self._stream, self._folder = stream, folder
        self._needs_digest = config.run_id is not None
        self._frames_taken = False
        opened = {name: DeltaTable(place, config, engine) for name, place in source.tables.items()}
        if source.incremental:
            memory = memory_of(stream)
            self._table_reads = {
                name: _read_new_rows(t, name, memory) for name, t in opened.items()
            }
        else:
            self._table_reads = {
                name: _TableRead(table.read_all()) for name, table in opened.items()
            }

    def frames(self) -> Mapping[str, DataFrame]:
        """Return the tables' rows as Spark frames by name; leave out tables without new rows."""
        self._frames_taken = True
        frames = {name: read.frame for name, read in self._table_reads.items()}
        return {name: void_marked(frame) for name, frame in frames.items() if frame is not None}

    def __iter__(self) -> Iterator[Flush]:
        """Yield one flush, with the bookmark of an incremental read; no batch if nothing is new.

        Raises:
            ConfigError: there are several tables, and `frames` was not called.
        """
        if len(self._table_reads) > 1 and not self._frames_taken:
            raise ConfigError(
                f"the source has {len(self._table_reads)} tables, and nothing says what is made of "
                "them",
                "give `sql` over their names, or name one table.",
            )
        read = next(iter(self._table_reads.values()))
        if read.frame is None:
            notes = {self._stream: " ".join(read.notes)}
            yield Flush((), last=True, notes=notes, quiet=(self._stream,))
            return
        for flush in frame_flushes(
            read.frame, self._stream, self._folder, digest=self._needs_digest
        ):
            batches = tuple(
                replace(
                    batch,
                    bookmark=read.bookmark,
                    notes=(*batch.notes, *read.notes),
                    warnings=(*batch.warnings, *read.warnings),
                )
                for batch in flush.batches
            )
            yield replace(flush, batches=batches)


class DeltaTable:
    """A Delta table at its newest version, which Spark reads with the target's credentials.

    Args:
        engine: Spark's engine; this waits for its session.

    Attributes:
        id: the table's ID; another table at the same place has another one.

    Raises:
        ConfigError: Spark can't read tables in that store.
        SourceError: there is no Delta table at the place.
    """

    def __init__(self, place: str, config: DestinationConfig, engine: Engine) -> None:
        self.storage = _open_storage(place, config)
        spark = require_spark(engine, "a Delta table as a source")
        self._engine, self._roots = spark, config.table_roots
        self.log = DeltaLog(self.storage, "")
        check_log(self.storage, "", self._roots)
        state = self.log.read_state()
        if state is None:
            raise SourceError(
                f"{self.storage.uri()!r} is no Delta table",
                "name the folder of one; files are named as files.",
            )
        self.version, self.id = state.version, str(state.metadata["id"])
        self.has_feed = state.properties.get(_FEED, "").lower() == "true"
        session = spark.delta_session(
            f"read {self.log.uri}",
            TablesSource(tables={"": place}).jars,
            self.storage.hadoop_uri(),
            self.storage.hadoop_settings(),
            commits=False,
        )
        self._snapshot = session.snapshot(self.log.hadoop_uri, self.version)
        self._snapshot.check_files(self._roots)

    def read_all(self) -> DataFrame:
        """Return all rows of the version."""
        return self._load_frame(versionAsOf=self.version)

    def read_files(self, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of some of the table's data files as a Spark frame."""
        actions = [file.add_action() for file in files]
        check_actions(map(json.loads, actions), self.log.hadoop_uri, self._roots)
        return self._snapshot.rows_of(actions)

    def read_change_feed(self, after_version: int) -> tuple[DataFrame, bool]:
        """Return rows inserted or updated after a version, and whether rows were deleted since.

        Raises:
            LakeportError: the feed does not reach back to that version.
        """
        check_log(self.storage, "", self._roots, after_version)
        changes = self._load_frame(
            readChangeFeed="true", startingVersion=after_version + 1, endingVersion=self.version
        )
        kind = changes["_change_type"]
        with translate_errors(self._engine.secrets):
            deleted = not changes.where(kind == "delete").isEmpty()
        return changes.where(kind.isin(*_NEW)).drop(*_FEED_COLUMNS), deleted

    def _load_frame(self, **options: Any) -> DataFrame:
        """Return the table as a Spark frame, with options of Spark's Delta reader."""
        with translate_errors(self._engine.secrets):
            reader = self._engine.spark.read.format("delta").options(**options)
            return reader.load(self.storage.hadoop_uri())


def _open_storage(place: str, config: DestinationConfig) -> Storage:
    """Return the store of a table's path or URI; raise ConfigError if Spark has no connector."""
    storage = open_folder_storage(config, f"{place.rstrip('/')}/") if "://" in place else None
    if storage is None:
        path = Path(place.removeprefix("file://")).expanduser().absolute()
        return LocalStorage(str(path))
    if not storage.hadoop_settings() and storage.uri().startswith("gs://"):
        raise ConfigError(
            f"Spark has no connector for {storage.uri()}",
            "tables as sources are local, in S3 or in Azure.",
        )
    return storage


def bookmark_name(table: str) -> str:
    """Return the name of the bookmark for a table, given its name in the source."""
    return f"tables {table}"


def _check_target(source: TablesSource, config: DestinationConfig) -> None:
    """Raise ConfigError if `incremental` is set for several tables or for an overwrite."""
    if not source.incremental:
        return
    if len(source.tables) > 1:
        raise ConfigError(
            "`incremental` is about one table, and the source has "
            f"{', '.join(map(repr, source.tables))}: a join of their new rows alone would miss "
            "those that belong to rows from before",
            "make one load of each, or leave `incremental` out.",
        )
    if config.mode is Mode.OVERWRITE:
        raise ConfigError(
            "`incremental` gives new rows alone, and `mode: overwrite` would replace the table by "
            "them",
            "use `mode: append` or `merge`; leave `incremental` out to land all rows each time.",
        )


def _read_new_rows(table: DeltaTable, name: str, memory: BookmarkStore) -> _TableRead:
    """Read the rows since a table's bookmark: all rows without one, no frame if none is new."""
    key, uri = bookmark_name(name), table.storage.uri()
    saved = memory.bookmark(key)
    value = {"format": _FORMAT, "table": uri, "id": table.id, "version": table.version}
    bookmark = Bookmark(key, value, saved.number)
    if not saved.value:
        note = f"all rows of version {table.version} of {uri}"
        return _TableRead(table.read_all(), (note,), bookmark=bookmark)
    before = _get_landed_version(table, name, saved.value)
    if before == table.version:
        return _TableRead(None, (f"nothing new: version {before} of {uri} was landed",))
    arrived = f"came to {uri} with versions {before + 1} to {table.version}"
    note = f"what {arrived}"
    changes = read_changes(table.log, before, table.version)
    if changes.rewritten is not None:
        return _read_feed(table, before, changes, note, bookmark)
    if not changes.added:
        return _TableRead(None, (f"nothing new: no row {arrived}",))
    _check_moved_files(table, changes)
    return _TableRead(table.read_files(changes.added), (note,), bookmark=bookmark)


def _get_landed_version(table: DeltaTable, name: str, value: Mapping[str, Any]) -> int:
    """Return the table version in a bookmark's value; SourceError if it doesn't fit the table."""
    uri = table.storage.uri()
    if value.get("format") != _FORMAT:
        raise SourceError(
            f"what is remembered of {name!r} has format {value.get('format')!r}, and this version "
            f"of lakeport knows format {_FORMAT}",
            "use the version that wrote it, or a newer one.",
        )
    if value["table"] != uri:
        raise SourceError(
            f"what was landed of {name!r} so far came from {value['table']}, and now it is {uri}",
            f"give the table another name, or {_RELOAD_HINT}",
        )
    if value["id"] != table.id:
        raise SourceError(
            f"{uri} is another table than the one that was landed so far: it was made anew",
            _RELOAD_HINT,
        )
    if value["version"] > table.version:
        raise SourceError(
            f"{uri} ends with version {table.version}, and version {value['version']} was landed",
            f"bring its log back, or {_RELOAD_HINT}",
        )
    return int(value["version"])


def _read_feed(
    table: DeltaTable, landed_version: int, changes: TableChanges, note: str, bookmark: Bookmark
) -> _TableRead:
    """Read new and changed rows by the change feed, SourceError without it; warn of deleted rows.

    Raises:
        SourceError: the table keeps no change feed.
    """
    uri = table.storage.uri()
    if not table.has_feed:
        raise SourceError(
            f"version {changes.rewritten} of {uri} removed or changed rows"
            + (f" ({changes.operation})" if changes.operation else "")
            + ", and nothing tells which",
            "let the table keep a change feed (`delta.enableChangeDataFeed`) from now on, and "
            + _RELOAD_HINT,
        )
    rows, deleted = table.read_change_feed(landed_version)
    warning = (
        f"rows were deleted from {uri} since version {landed_version}; they stay in the target, "
        "which gets new and changed rows alone."
    )
    notes = (f"{note}, by its change feed",)
    return _TableRead(rows, notes, (warning,) if deleted else (), bookmark)


def _check_moved_files(table: DeltaTable, changes: TableChanges) -> None:
    """Raise SourceError if a vacuum has removed a file whose rows OPTIMIZE moved to another one."""
    for path in table.log.find_missing(changes.moved_files):
        raise SourceError(
            f"file {path!r} of {table.log.uri} is gone: its rows were moved into another file, and "
            "it was vacuumed before they were landed",
            f"keep files for longer than loads are apart; now {_RELOAD_HINT}",
        )
