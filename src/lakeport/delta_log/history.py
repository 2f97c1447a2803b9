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
    """Sums over data files: number, known bytes and rows, and files where these are unknown."""

    files: int = 0
    known_bytes: int = 0
    known_rows: int = 0
    files_without_bytes: int = 0
    files_without_rows: int = 0

    @classmethod
    def of(cls, files: Iterable[VersionFile]) -> FileTotals:
        """Sum up number, bytes and rows of files; count those without a size or a row count."""
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
        """Return these totals plus `added` minus `removed`."""
        return FileTotals(
            self.files + added.files - removed.files,
            self.known_bytes + added.known_bytes - removed.known_bytes,
            self.known_rows + added.known_rows - removed.known_rows,
            self.files_without_bytes + added.files_without_bytes - removed.files_without_bytes,
            self.files_without_rows + added.files_without_rows - removed.files_without_rows,
        )

    @property
    def bytes(self) -> int | None:
        """Size in bytes; None if a file has no size."""
        return None if self.files_without_bytes else self.known_bytes

    @property
    def rows(self) -> int | None:
        """Number of rows; None if a file has no count."""
        return None if self.files_without_rows else self.known_rows


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A data file with its row count (None if unknown) and the index of its schema.

    `schema` is the index in `LogHistory.schemas` of the schema when it was added, or of the oldest.
    """

    file: DataFile
    rows: int | None
    schema: int


@dataclass(slots=True)
class TableVersion:
    """One version of a table: what its commit changed, and the totals of all data files then.

    Attributes:
        number: the version's number.
        info: the `commitInfo` action; empty if the writer wrote none.
        schema: index of its schema in `LogHistory.schemas`; -1 if the log no longer has it.
        added: totals of the files that the commit added.
        removed: totals of the files that the commit removed.
        totals: totals of the table's files; None if the log no longer has them.
        changes_metadata: whether the commit changes the table's schema or properties.
    """

    number: int
    info: Mapping[str, Any] = field(default_factory=dict)
    schema: int = -1
    added: FileTotals = field(default_factory=FileTotals)
    removed: FileTotals = field(default_factory=FileTotals)
    totals: FileTotals | None = None
    changes_metadata: bool = False

    @property
    def committed_at(self) -> datetime | None:
        """Time of the commit in UTC; None if the commit has no valid timestamp."""
        stamp = self.info.get("inCommitTimestamp") or self.info.get("timestamp")
        if not isinstance(stamp, (int, float)):
            return None
        with suppress(ValueError, OverflowError, OSError):  # a writer with other units
            return datetime.fromtimestamp(stamp / 1000, UTC)
        return None


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A table's versions, oldest first, and the state and data files of the newest one.

    `schemas` are the versions' schemas, each once, as Delta's JSON text.
    """

    state: TableState
    versions: list[TableVersion]
    files: Sequence[VersionFile]
    schemas: list[str]


def read_history(
    log: LogFiles, *, max_bytes: int, max_commits: int | None = None
) -> LogHistory | None:
    """Read a table's history within limits; None if checkpoint, schema or protocol is missing.

    `max_bytes` limits the size of all commits, and of a checkpoint. Older commits are left out. A
    damaged file raises DestinationError.
    """
    commits = _newest_commits(log, max_bytes, max_commits)
    first = log.newest - len(commits) + 1
    start, checkpoint = -1, Checkpoint()
    if first > 0:
        found = _read_oldest_checkpoint(log, first - 1, max_bytes)
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


def _newest_commits(log: LogFiles, max_bytes: int, max_commits: int | None) -> list[str]:
    """Return keys of the newest commits, without a gap and within the limits, oldest first."""
    keys: list[str] = []
    for version in range(log.newest, -1, -1):
        item = log.commits.get(version)
        if item is None or len(keys) == max_commits or (max_bytes := max_bytes - item.bytes) < 0:
            break
        keys.append(item.key)
    return keys[::-1]


def _read_oldest_checkpoint(
    log: LogFiles, from_version: int, max_bytes: int
) -> tuple[int, Checkpoint] | None:
    """Read the oldest readable checkpoint from a version on; return it with its version, or None.

    None if there is none up to `max_bytes`; DestinationError if all are damaged.
    """
    import pyarrow as pa

    storage = log.log.storage
    damaged: Exception | None = None
    for version, items in log.checkpoints.items():
        if version < from_version or sum(item.bytes for item in items) > max_bytes:
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
    """Replays a log's commits, oldest first, and collects the table's versions."""

    def __init__(self) -> None:
        self._versions: list[TableVersion] = []
        self._schemas: list[str] = []
        self._now = Checkpoint()
        self._files: dict[Any, VersionFile] = {}
        self._first_schemas: dict[str, int] = {}
        self._totals: FileTotals | None = None
        self._schema = -1

    def apply_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the state by a checkpoint's; fill in the totals of the versions before it."""
        self._now = checkpoint
        if checkpoint.metadata is not None:
            self._use_schema(checkpoint.metadata)
        schema = self._schema
        self._files = {file.identity: self._version_file(file) for file in checkpoint.files}
        self._totals = totals = FileTotals.of(self._files.values())
        for version in reversed(self._versions):
            version.totals = totals
            totals = totals.plus(version.removed, version.added)
            version.schema = schema if version.schema < 0 else version.schema
            schema = -1 if version.changes_metadata else schema

    def apply_commit(self, number: int, actions: Sequence[Action]) -> None:
        """Apply a commit's actions to the state, and append the version `number`."""
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
        if self._totals is not None:
            version.totals = self._totals = self._totals.plus(version.added, version.removed)
        self._versions.append(version)

    def make_history(self, version: int) -> LogHistory | None:
        """Return the history up to a version; None if its schema or protocol is unknown."""
        state = self._now.state(version)
        if state is None:
            return None
        return LogHistory(state, self._versions, tuple(self._files.values()), self._schemas)

    def _version_file(self, file: DataFile) -> VersionFile:
        """Return a file with its row count and the schema of when its path was first added."""
        # A file that is restored has no more columns than when it was first added.
        if self._first_schemas.get(file.path, -1) < 0:
            self._first_schemas[file.path] = self._schema
        return VersionFile(file, file.rows, self._first_schemas[file.path])

    def _remove(self, file: DataFile, *, replaced: bool = False) -> list[VersionFile]:
        """Remove a file from the state; return it in a list, which is empty if it is unknown.

        Before the table's files are known, a removed file is returned as the log has it, unless it
        is `replaced` by its own `add`.
        """
        removed = self._files.pop(file.identity, None)
        if removed is not None:
            return [removed]
        is_known = replaced or self._totals is not None
        return [] if is_known else [VersionFile(file, file.rows, -1)]

    def _use_schema(self, metadata: Mapping[str, Any]) -> None:
        """Make a `metaData` action's schema the current one; add it to the schemas if it is new."""
        text = metadata["schemaString"]
        if text not in self._schemas:
            self._schemas.append(text)
        self._schema = self._schemas.index(text)
