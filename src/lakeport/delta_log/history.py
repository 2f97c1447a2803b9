"""Read a table's history: each version's files, rows and bytes, in one pass through its log.

```
oldest checkpoint ─▶ commit ─▶ commit ─▶ … ─▶ newest
   contents           + added - removed        contents
```
Commits before the oldest checkpoint are walked backwards from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakeport.delta_log.actions import Action, DataFile
from lakeport.delta_log.reader import Checkpoint, LogFiles, read_checkpoint, read_commits
from lakeport.delta_log.state import TableState
from lakeport.errors import DestinationError

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Totals of data files.

    Attributes:
        files: number of files.
        known_bytes: size of the files with a known size.
        known_rows: rows of the files with a row count.
        unsized: number of files without a size.
        uncounted: number of files without a row count.
    """

    files: int = 0
    known_bytes: int = 0
    known_rows: int = 0
    unsized: int = 0
    uncounted: int = 0

    @classmethod
    def of(cls, files: Iterable[VersionFile]) -> FileTotals:
        """Sum up files."""
        sizes, rows = [], []
        for known in files:
            sizes.append(known.file.size)
            rows.append(known.rows)
        return cls(
            len(rows),
            sum(filter(None, sizes)),
            sum(filter(None, rows)),
            sizes.count(None),
            rows.count(None),
        )

    def plus(self, added: FileTotals, removed: FileTotals) -> FileTotals:
        """Return the totals plus those added, minus those removed."""
        return FileTotals(
            self.files + added.files - removed.files,
            self.known_bytes + added.known_bytes - removed.known_bytes,
            self.known_rows + added.known_rows - removed.known_rows,
            self.unsized + added.unsized - removed.unsized,
            self.uncounted + added.uncounted - removed.uncounted,
        )

    @property
    def bytes(self) -> int | None:
        """Size in bytes; None if a file has no size."""
        return None if self.unsized else self.known_bytes

    @property
    def rows(self) -> int | None:
        """Number of rows; None if a file has no count."""
        return None if self.uncounted else self.known_rows


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A data file with its rows and its schema.

    Attributes:
        file: the file as the log has it.
        rows: number of rows; None without a count.
        schema: index in `LogHistory.schemas` of the schema when it was added, or of the oldest.
    """

    file: DataFile
    rows: int | None
    schema: int


@dataclass(slots=True)
class TableVersion:
    """A version of a table: its commit, and the totals of the table's files after it.

    Attributes:
        number: the version's number.
        info: the `commitInfo` action; empty if the writer wrote none.
        schema: index of its schema in `LogHistory.schemas`; -1 if the log no longer has it.
        added: totals of the files that the commit added.
        removed: totals of the files that the commit removed.
        held: totals of the table's files; None if the log no longer has them.
        changes_metadata: whether the commit changes the table's schema or properties.
    """

    number: int
    info: Mapping[str, Any] = field(default_factory=dict)
    schema: int = -1
    added: FileTotals = field(default_factory=FileTotals)
    removed: FileTotals = field(default_factory=FileTotals)
    held: FileTotals | None = None
    changes_metadata: bool = False

    @property
    def at(self) -> datetime | None:
        """Time of the commit; None if the commit has none."""
        stamp = self.info.get("inCommitTimestamp") or self.info.get("timestamp")
        if not isinstance(stamp, (int, float)):
            return None
        with suppress(ValueError, OverflowError, OSError):  # a writer with other units
            return datetime.fromtimestamp(stamp / 1000, UTC)
        return None


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A table's versions as far back as its log goes, and its newest files.

    Attributes:
        state: the table's newest state.
        versions: the versions, oldest first.
        files: the data files of the newest version.
        schemas: the versions' schemas, each once, as Delta's JSON text.
    """

    state: TableState
    versions: list[TableVersion]
    files: Sequence[VersionFile]
    schemas: list[str]


def read_history(
    log: LogFiles,
    *,
    most_bytes: int,
    most_versions: int | None = None,
) -> LogHistory | None:
    """Read a table's history from its log.

    Args:
        log: a listing of the log.
        most_bytes: limit of the commits to read, and of a checkpoint; older commits are left out.
        most_versions: limit of the number of commits; None for none.

    Returns:
        The history; None if the files within these limits lack the table's contents.

    Raises:
        DestinationError: the store refused, or a file is damaged.
    """
    commits = _newest_commits(log, most_bytes, most_versions)
    first = log.newest - len(commits) + 1
    start, checkpoint = -1, Checkpoint()
    if first > 0:
        found = _read_oldest_checkpoint(log, first - 1, most_bytes)
        if found is None:
            return None
        start, checkpoint = found
    replay = _HistoryReplay()
    if start < first:
        replay.apply_checkpoint(checkpoint)
    numbers = range(first, log.newest + 1)
    for number, actions in zip(numbers, read_commits(log.log.storage, commits), strict=True):
        replay.apply_commit(number, actions)
        if number == start:
            replay.apply_checkpoint(checkpoint)
    return replay.make_history(log.newest)


def _newest_commits(log: LogFiles, most_bytes: int, most: int | None) -> list[str]:
    """Return the keys of the newest commits without a gap and within the limits, oldest first."""
    keys: list[str] = []
    for version in range(log.newest, -1, -1):
        item = log.commits.get(version)
        if item is None or len(keys) == most or (most_bytes := most_bytes - item.bytes) < 0:
            break
        keys.append(item.key)
    return keys[::-1]


def _read_oldest_checkpoint(
    log: LogFiles, since: int, most_bytes: int
) -> tuple[int, Checkpoint] | None:
    """Read the oldest readable checkpoint from version `since` on; None if there is none.

    Raises:
        DestinationError: all are damaged.
    """
    import pyarrow as pa

    storage = log.log.storage
    damaged: Exception | None = None
    for version, items in log.checkpoints.items():
        if version < since or sum(item.bytes for item in items) > most_bytes:
            continue
        try:
            return version, read_checkpoint(storage, items)
        except (pa.ArrowException, OSError) as error:
            damaged = damaged or DestinationError(
                f"{storage.uri(items[0].key)} is no checkpoint of a Delta table",
                "the file is damaged, or something else wrote it: bring it back from a copy.",
            )
            damaged.__cause__ = error
    if damaged is not None:
        raise damaged
    return None


class _HistoryReplay:
    """Replays the commits of a log, oldest first, and collects its versions."""

    def __init__(self) -> None:
        self._versions: list[TableVersion] = []
        self._schemas: list[str] = []
        self._now = Checkpoint()
        self._files: dict[Any, VersionFile] = {}
        self._first_schemas: dict[str, int] = {}
        self._held: FileTotals | None = None
        self._schema = -1

    def apply_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the state by a checkpoint's, and compute backwards what earlier versions held."""
        self._now = checkpoint
        if checkpoint.metadata is not None:
            self._use_schema(checkpoint.metadata)
        schema = self._schema
        self._files = {file.identity: self._version_file(file) for file in checkpoint.files}
        self._held = held = FileTotals.of(self._files.values())
        for version in reversed(self._versions):
            version.held = held
            held = held.plus(version.removed, version.added)
            version.schema = schema if version.schema < 0 else version.schema
            schema = -1 if version.changes_metadata else schema

    def apply_commit(self, number: int, actions: Sequence[Action]) -> None:
        """Apply the actions of a version's commit."""
        version = TableVersion(number)
        for action in actions:
            self._now.apply(action)
            version.info = action.commit_info or version.info
            if action.meta_data is not None:
                version.changes_metadata = True
                self._use_schema(action.meta_data)
        version.schema = self._schema
        removed = [f for a in actions if a.remove is not None for f in self._remove(a.remove)]
        added = []
        for action in actions:
            if action.add is not None:
                file = self._version_file(action.add)
                removed += self._remove(action.add, replaced=True)
                self._files[action.add.identity] = file
                added.append(file)
        version.added, version.removed = FileTotals.of(added), FileTotals.of(removed)
        if self._held is not None:
            version.held = self._held = self._held.plus(version.added, version.removed)
        self._versions.append(version)

    def make_history(self, version: int) -> LogHistory | None:
        """Return the history up to a version; None if its schema or protocol is unknown."""
        state = self._now.state(version)
        if state is None:
            return None
        return LogHistory(state, self._versions, tuple(self._files.values()), self._schemas)

    def _version_file(self, file: DataFile) -> VersionFile:
        """Return a file with its row count and the schema at the time it was first added."""
        # A file that is restored has no more columns than when it was first added.
        if self._first_schemas.get(file.path, -1) < 0:
            self._first_schemas[file.path] = self._schema
        return VersionFile(file, file.rows, self._first_schemas[file.path])

    def _remove(self, file: DataFile, *, replaced: bool = False) -> list[VersionFile]:
        """Remove a file; return it as it was added, or nothing if the table lacks it.

        Before the table's files are known, a removed file is returned as the log has it; of a file
        that is `replaced` by its own `add`, nothing is.
        """
        removed = self._files.pop(file.identity, None)
        if removed is not None:
            return [removed]
        is_known = replaced or self._held is not None
        return [] if is_known else [VersionFile(file, file.rows, -1)]

    def _use_schema(self, metadata: Mapping[str, Any]) -> None:
        """Make a `metaData` action's schema the present one."""
        text = metadata["schemaString"]
        if text not in self._schemas:
            self._schemas.append(text)
        self._schema = self._schemas.index(text)
