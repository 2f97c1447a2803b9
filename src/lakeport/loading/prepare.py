"""Prepare a load, or the plan of one: config, store, engine and source, before rows are read.

```
config ─▶ layout ─▶ store ─▶ Spark with the jars that the tables need ─▶ place ─▶ source ─▶ workers
```
The engine is chosen here, once. Errors show as early as possible, while Spark starts. Nothing is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeport import destinations
from lakeport.config.sources import DatabaseSource, TablesSource
from lakeport.destinations import check_layout, open_storage, open_table
from lakeport.engine.base import SessionRequest
from lakeport.engine.threads import choose_engine, require_spark
from lakeport.errors import ConfigError
from lakeport.model import Mode, SavedBookmark
from lakeport.sources.options import ReadOptions
from lakeport.sources.target import TargetTables, fixed_table_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

    from lakeport.config.base import DestinationConfig
    from lakeport.engine.base import Engine
    from lakeport.loading.report import Observer
    from lakeport.model import BookmarkStore, Storage
    from lakeport.sources.open import OpenedSource
    from lakeport.writers.base import TableWriter


_MOUNT_WARNING = (
    "the target is a folder and Spark's tasks run on other machines: every worker and this "
    "machine have to mount it under the same path."
)


@dataclass(frozen=True)
class PreparedLoad:
    """Config, store and engine of a load whose source is not open yet.

    Attributes:
        engine: runs the tasks; its Spark may still be starting.
        worker_warnings: those of the warnings that `check_workers` has added.
        original_mode: of a full refresh, the mode that the config had; None: sources go on from
            the bookmarks of their tables.
        writes: whether the load writes; a plan does not.
    """

    config: DestinationConfig
    storage: Storage
    engine: Engine
    warnings: tuple[str, ...]
    worker_warnings: tuple[str, ...] = ()
    original_mode: Mode | None = None
    writes: bool = True

    def check_workers(self, source: object = None) -> PreparedLoad:
        """Check the packages of Spark's workers; return the load, maybe with a warning added.

        Waits for Spark on a cluster.

        Raises:
            MissingDependency: the workers lack a package.
            ConfigError: the workers have another Python version.
        """
        if self.engine.has_own_workers:
            return self
        self.engine.check_workers(destinations.worker_packages(self.config, source))
        if self.engine.is_local or self.config.destination != "local":
            return self
        warnings = (*self.warnings, _MOUNT_WARNING)
        return replace(self, warnings=warnings, worker_warnings=(_MOUNT_WARNING,))

    def for_full_refresh(self) -> PreparedLoad:
        """Return the load with mode `overwrite` (`merge` stays); ConfigError unless Delta."""
        if self.config.file_type != "delta":
            raise ConfigError(
                f"a full refresh replaces a table, and `file_type` is {self.config.file_type!r}, "
                "of which files are only ever added",
                "land in another table, or in a Delta table.",
            )
        merges = self.config.mode is Mode.MERGE  # which keeps keys unique, an overwrite does not
        mode = Mode.MERGE if merges else Mode.OVERWRITE
        config = self.config.model_copy(update={"mode": mode})
        return replace(self, config=config, original_mode=self.config.mode)

    @contextmanager
    def open_source(
        self,
        source: Any,
        options: ReadOptions,
        on_progress: Callable[[str, int, int], None],
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[OpenedSource, PreparedLoad]]:
        """Open the source while the body runs; yield it, and the load after `check_workers`.

        Args:
            on_progress: takes a stream, and its records and bytes that were read so far.
            check: called while the source waits for input; raises when the load is to end.

        Raises:
            InputError: the source can't be landed as it is.
            ConfigError: its kind or a setting is wrong.
        """
        from lakeport.sources.open import SourceOpener
        from lakeport.sources.spool import open_spool

        with open_spool(self.config, self.engine) as spool:
            tables = TargetTables(
                self._open_bookmarks,
                self._read_keys,
                self.storage,
                self.original_mode or self.config.mode,
            )
            opener = SourceOpener(
                options, self.config, spool, self.engine, on_progress, tables, check
            )
            found = opener.open(source)
            try:
                yield found, self.check_workers(source)
            finally:
                found.close()

    def open_table(self, stream: str, run: str) -> TableWriter:
        """Return a writer of a stream's table; full refreshes by merge replace all rows."""
        writer = open_table(self.config, self.storage, self.engine, stream, run)
        if self.original_mode is Mode.MERGE:
            writer.replace_rows()
        return writer

    def _open_bookmarks(self, stream: str) -> BookmarkStore:
        """Return the bookmarks of a stream's table; for a full refresh, all are empty."""
        table = open_table(self.config, self.storage, self.engine, stream, writes=False)
        memory = table.bookmark_store(writes=self.writes)
        return _EmptyBookmarks(memory) if self.original_mode else memory

    def _read_keys(
        self, stream: str, names: Sequence[str], deletion_column: str
    ) -> pa.Table | None:
        """Read key columns of a stream's table, without rows that `deletion_column` marks.

        None without a table, and for a full refresh.
        """
        if self.original_mode:
            return None
        from lakeport.lake.snapshots import fetch_rows, read_table
        from lakeport.schema.spark_schema import quote_identifier

        writer = open_table(self.config, self.storage, self.engine, stream, writes=False)
        now = writer.read_existing()
        if now is None:
            return None
        folder = writer.uri.removeprefix(self.storage.uri()).strip("/")
        session = destinations.delta_session(self.config, self.storage, self.engine, folder)()
        session.check_files(self.storage, folder, now.version, self.config.table_roots)
        frame = read_table(session.spark, self.storage.hadoop_uri(folder), now.version)
        if deletion_column.lower() in (name.lower() for name in frame.columns):
            frame = frame.where(frame[quote_identifier(deletion_column)].isNull())
        found = frame.select(*map(quote_identifier, names))
        return fetch_rows(found, {writer.uri: now.version})


@dataclass(frozen=True, slots=True)
class _EmptyBookmarks:
    """Hides a table's bookmarks for a full refresh; keeps their numbers, to detect conflicts."""

    memory: BookmarkStore

    @property
    def storage(self) -> Storage:
        return self.memory.storage

    @property
    def folder(self) -> str:
        return self.memory.folder

    def next_number(self, after: int) -> int:
        return self.memory.next_number(after)

    def bookmark(self, name: str) -> SavedBookmark:
        return SavedBookmark({}, self.memory.bookmark(name).number)


def prepare(
    config: DestinationConfig,
    *,
    keep_context: SparkContext | None = None,
    optional_needs: frozenset[str] = frozenset(),
    observer: Observer | None = None,
    warm: bool = True,
    source: Any = None,
    start_engine: bool = True,
) -> PreparedLoad:
    """Check the config, open the store and start the engine in the background; never wait.

    Args:
        keep_context, optional_needs: as for `SessionRequest`.
        warm: whether the config may ask for a warm session's Spark.
        observer: hears the warnings at once, even if the load fails then.
        source: what is going to be landed, where that is known; tables need Spark.
        start_engine: whether Spark starts now, rather than with the first task.

    Raises:
        ConfigError: the table's layout is refused, or a running Spark session lacks something.
        MissingDependency: the store's SDK or Java is not installed.
    """
    config = config.for_one_load()
    warnings = (*config.warnings, *check_layout(config))
    storage = open_storage(config)
    if observer is not None:
        for text in warnings:
            observer.on_warning(text)
    by_spark = config.table_properties or config.cluster_by  # others may do without Spark
    needs = config.jars if config.file_type == "delta" and by_spark else frozenset()
    if isinstance(source, TablesSource):
        needs |= config.jars | source.jars
    request = SessionRequest(
        needs,
        config.spark,
        keep_context=keep_context,
        optional_needs=optional_needs | config.jars,
        frame=source,
        warm=config.warm if warm else "off",
    )
    engine = choose_engine(config.engine, request)
    try:
        if isinstance(source, TablesSource):
            require_spark(engine, "a Delta table as a source")
        if isinstance(source, DatabaseSource) and source.deletes == "compare":
            require_spark(engine, "`deletes: compare`")  # it reads the table's keys
        known = fixed_table_name(config)
        destinations.check_engine(config, storage, engine, [known] if known else ())
        if start_engine:
            engine.begin()
    except BaseException:
        engine.close()
        raise
    return PreparedLoad(config, storage, engine, warnings)


def check_streams(config: DestinationConfig, streams: Iterable[str], has_rules: bool) -> None:
    """Raise ConfigError for several streams if the config has one stream's settings or table.

    `has_rules` says whether rows are transformed or checked, which only one stream's can be.
    """
    names = list(dict.fromkeys(streams))
    if len(names) < 2:
        return
    listed = ", ".join(map(repr, names))
    if has_rules:
        raise ConfigError(
            f"`sql`, `python` and `expect` are about one stream, and the source has {listed}",
            "land the streams one by one.",
        )
    key = next((key for key in ("columns", "rename", "drop") if getattr(config, key)), "")
    if key:
        raise ConfigError(
            f"`{key}` is about the columns of one stream, and the source has {listed}",
            "land the streams one by one (`catalog` takes a schema for each of many).",
        )
    pattern = config.table_pattern
    if pattern is not None and "{stream}" not in pattern:
        raise ConfigError(
            f"streams {names[0]!r} and {names[1]!r} would both land in table {pattern!r}",
            "leave `table` out, so that each stream has its own table, or write `{stream}` "
            "in it, such as `raw_{stream}`.",
        )
