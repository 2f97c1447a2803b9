"""One Delta table, as Spark reads it: a version, the rows of some files, or its change feed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.delta_log.paths import check_actions, check_log
from lakeport.delta_log.reader import DeltaLog
from lakeport.engine.failures import translate_errors
from lakeport.errors import ConfigError, SourceError
from lakeport.sources.target import storage_of
from lakeport.storage.local import LocalStorage

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.delta_log.actions import DataFile
    from lakeport.engine.base import DataFrame, Engine
    from lakeport.model import Storage

_FEED = "delta.enableChangeDataFeed"
_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_NEW = ("insert", "update_postimage")


class DeltaTable:
    """A Delta table at its newest version; waits for Spark.

    Args:
        place: a path or a URI.
        config: the target's; a table in its cloud is read with its credentials.
        engine: Spark.

    Attributes:
        storage: rooted at the table's folder.
        log: the table's log.
        version: the newest one.
        id: tells this table from another one that takes its place.
        has_feed: whether it keeps a change data feed.

    Raises:
        ConfigError: Spark can't read tables there.
        SourceError: there is no Delta table.
    """

    def __init__(self, place: str, config: DestinationConfig, engine: Engine) -> None:
        self.storage = _storage(place, config)
        spark = engine.require_spark("a Delta table as a source")
        self._engine, self._roots = spark, config.table_roots
        spark.hand_over(self.storage.hadoop_uri(), self.storage.hadoop_settings())
        self.log = DeltaLog(self.storage, "")
        check_log(self.storage, "", self._roots)
        state = self.log.state()
        if state is None:
            raise SourceError(
                f"{self.storage.uri()!r} is no Delta table",
                "name the folder of one; files are named as files.",
            )
        self.version, self.id = state.version, str(state.metadata["id"])
        self.has_feed = state.properties.get(_FEED, "").lower() == "true"
        session = spark.delta_session(f"read {self.log.uri}")
        self._snapshot = session.snapshot(self.log.hadoop_uri, self.version)
        self._snapshot.check_files(self._roots)

    def whole(self) -> DataFrame:
        """All rows of the version."""
        return self._read(versionAsOf=self.version)

    def rows_of(self, files: Sequence[DataFile]) -> DataFrame:
        """The rows of some of its files."""
        actions = [file.add() for file in files]
        check_actions(map(json.loads, actions), self.log.hadoop_uri, self._roots)
        return self._snapshot.rows_of(actions)

    def fed(self, after: int) -> tuple[DataFrame, bool]:
        """Rows that came or changed behind a version, as the change feed has them.

        Returns:
            The rows, as they are after each change; and whether others were deleted.

        Raises:
            LakeportError: the feed does not reach back to that version.
        """
        check_log(self.storage, "", self._roots, after)
        changes = self._read(
            readChangeFeed="true", startingVersion=after + 1, endingVersion=self.version
        )
        kind = changes["_change_type"]
        with translate_errors(self._engine.secrets):
            deleted = not changes.where(kind == "delete").isEmpty()
        return changes.where(kind.isin(*_NEW)).drop(*_FEED_COLUMNS), deleted

    def _read(self, **options: Any) -> DataFrame:
        with translate_errors(self._engine.secrets):
            reader = self._engine.spark.read.format("delta").options(**options)
            return reader.load(self.storage.hadoop_uri())


def _storage(place: str, config: DestinationConfig) -> Storage:
    storage = storage_of(config, f"{place.rstrip('/')}/") if "://" in place else None
    if storage is None:
        path = Path(place.removeprefix("file://")).expanduser().absolute()
        return LocalStorage(str(path))
    if not storage.hadoop_settings() and storage.uri().startswith("gs://"):
        raise ConfigError(
            f"Spark has no connector for {storage.uri()}",
            "tables as sources are local, in S3 or in Azure.",
        )
    return storage
