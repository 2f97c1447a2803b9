"""How a load starts, and what finds out what one would do: everything that comes before the data.

```
config ─▶ layout ─▶ store ─▶ Spark with the jars that the tables need ─▶ place ─▶ source ─▶ workers
```
What is wrong shows as early as it can be seen; nothing is written. Spark, if asked for, starts
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeport import destinations
from lakeport.destinations import check_layout, open_storage, open_table
from lakeport.sources.open import Source, open_source
from lakeport.sources.options import ReadOptions
from lakeport.sources.spool.location import open_spool
from lakeport.spark.quoting import quoted
from lakeport.spark.session import Runtime

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

    from lakeport.config.base import DestinationConfig
    from lakeport.loading.report import Observer
    from lakeport.model import Storage

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """What a load needs beside its source.

    Attributes:
        config: the target's config.
        storage: the target's store.
        runtime: Spark, which may be starting yet.
        warnings: what the user has to know.
        of_workers: those of them that `check_workers` has found.
    """

    config: DestinationConfig
    storage: Storage
    runtime: Runtime
    warnings: tuple[str, ...]
    of_workers: tuple[str, ...] = ()

    def check_place(self) -> None:
        """See that the target is no place inside of a Delta table.

        Raises:
            ConfigError: it is one.
        """
        destinations.check_place(self.config, self.storage)

    def check_workers(self, source: object = None) -> Prepared:
        """See that those who run the tasks can land; waits for Spark where they are not ours.

        Returns:
            The same, with a store that tells this run's uploads from others', and with what the
            user has to know of the workers.

        Raises:
            MissingDependency: a package is absent there.
            ConfigError: their Python does not fit.
        """
        storage, found = destinations.check_workers(self.config, self.storage, self.runtime, source)
        return replace(self, storage=storage, warnings=(*self.warnings, *found), of_workers=found)

    @contextmanager
    def opened(
        self, source: Any, options: ReadOptions, on_progress: Callable[[str, int, int], None]
    ) -> Iterator[tuple[Source, Prepared]]:
        """The source, opened for as long as the body runs, and what `check_workers` returns.

        Args:
            source: as for `lakeport.land`.
            options: how to read it.
            on_progress: takes a stream, its records and its bytes so far.

        Raises:
            InputError: the source can't be landed as it is.
            ConfigError: its kind or a setting is wrong.
        """
        with open_spool(self.config, self.runtime) as spool:
            found = open_source(
                source, options, self.config, spool, self.runtime, on_progress, self._keys_of
            )
            try:
                yield found, self.check_workers(source)
            finally:
                found.close()

    def _keys_of(self, stream: str, names: Sequence[str], mark: str) -> pa.Table | None:
        """Columns of a stream's table, of rows that are not marked; None if there is none."""
        from lakeport.tables.queries import fetch, read_table

        writer = open_table(self.config, self.storage, self.runtime, stream, writes=False)
        now = writer.current()
        if now is None:
            return None
        spark = destinations.spark_session(self.config, self.storage, self.runtime)()
        folder = writer.uri.removeprefix(self.storage.uri()).strip("/")
        frame = read_table(spark, self.storage.hadoop_uri(folder), now.version)
        if mark.lower() in (name.lower() for name in frame.columns):
            frame = frame.where(frame[quoted(mark)].isNull())
        return fetch(frame.select(*map(quoted, names)), writer.uri, now.version)


def prepare(
    config: DestinationConfig,
    *,
    keep: SparkContext | None = None,
    also: frozenset[str] = frozenset(),
    observer: Observer | None = None,
    warm: bool = True,
) -> Prepared:
    """Check the config, open the store, and begin to start Spark where it will be asked for.

    Never waits for it.

    Args:
        config: the target's config.
        keep: as for `Runtime.start`.
        also: as for `Runtime.start`.
        warm: whether the config may ask for a warm session's Spark.
        observer: hears the warnings at once, also where the load does not get any further.

    Raises:
        ConfigError: a table can't be laid out so, or a running Spark session lacks something.
        MissingDependency: the store's SDK or Java is not installed.
    """
    warnings = (*config.warnings, *check_layout(config))
    storage = open_storage(config)
    if observer is not None:
        for text in warnings:
            observer.on_warning(text)
    runtime = Runtime.start(
        config.jars,
        config.spark,
        small=True,
        keep=keep,
        also=also,
        warm=config.warm if warm else "off",
        store=destinations.spark_store(config, storage, config.jars),
    )
    if destinations.asks_for_spark(config):
        runtime.begin()
    return Prepared(config, storage, runtime, warnings)
