"""A table's versions with what each held, by one walk through its log, without Spark.

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

from lakeport.delta_log.actions import DataFile, Entry
from lakeport.delta_log.reader import Checkpoint, LogFiles, read_checkpoint, read_commits
from lakeport.delta_log.state import TableState
from lakeport.errors import DestinationError

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Amount:
    """So many files.

    Attributes:
        files: how many.
        known_bytes: the size of those that say it.
        known_rows: the rows of those that say them.
        unsized: how many do not say their size.
        uncounted: how many do not say their rows.
    """

    files: int = 0
    known_bytes: int = 0
    known_rows: int = 0
    unsized: int = 0
    uncounted: int = 0

    @classmethod
    def of(cls, files: Iterable[KnownFile]) -> Amount:
        """Count files."""
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

    def changed(self, added: Amount, removed: Amount) -> Amount:
        """The amount after some came and others went."""
        return Amount(
            self.files + added.files - removed.files,
            self.known_bytes + added.known_bytes - removed.known_bytes,
            self.known_rows + added.known_rows - removed.known_rows,
            self.unsized + added.unsized - removed.unsized,
            self.uncounted + added.uncounted - removed.uncounted,
        )

    @property
    def bytes(self) -> int | None:
        """Their size; None where one does not say."""
        return None if self.unsized else self.known_bytes

    @property
    def rows(self) -> int | None:
        """Their rows; None where one does not say."""
        return None if self.uncounted else self.known_rows


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A data file of the newest version.

    Attributes:
        file: as the log has it.
        rows: its rows; None where its statistics do not say.
        schema: place in `LogHistory.schemas` of its schema when it came, or of the oldest known.
    """

    file: DataFile
    rows: int | None
    schema: int


@dataclass(slots=True)
class Version:
    """One commit, and what the table held after it.

    Attributes:
        number: its number.
        info: the `commitInfo` action; empty when the writer left none.
        schema: place of its schema in `LogHistory.schemas`; -1 where the log no longer tells.
        added: the files that it added.
        removed: the files that it removed.
        held: the files that the table had then; None where the log no longer tells.
        changes_metadata: whether it changes the table's schema or properties.
    """

    number: int
    info: Mapping[str, Any] = field(default_factory=dict)
    schema: int = -1
    added: Amount = field(default_factory=Amount)
    removed: Amount = field(default_factory=Amount)
    held: Amount | None = None
    changes_metadata: bool = False

    @property
    def at(self) -> datetime | None:
        """When it was committed; None where the commit does not say."""
        stamp = self.info.get("inCommitTimestamp") or self.info.get("timestamp")
        if not isinstance(stamp, (int, float)):
            return None
        with suppress(ValueError, OverflowError, OSError):  # of a writer with units of its own
            return datetime.fromtimestamp(stamp / 1000, UTC)
        return None


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A table's versions, as far back as its log tells them, and what it holds now.

    Attributes:
        state: the table at its newest version.
        versions: oldest first.
        files: the data files of the newest version.
        schemas: the schemas that the versions have had, each once, as Delta's JSON text.
    """

    state: TableState
    versions: list[Version]
    files: Sequence[KnownFile]
    schemas: list[str]


def read_history(
    log: LogFiles,
    *,
    most_bytes: int,
    most_versions: int | None = None,
) -> LogHistory | None:
    """Walk through a table's log.

    Args:
        log: the files of its log.
        most_bytes: of commits and of one checkpoint; older commits are left out.
        most_versions: so many commits at most.

    Returns:
        None when what may be read does not tell the table's contents.

    Raises:
        DestinationError: the store refused, or a file is damaged.
    """
    commits = _newest_commits(log, most_bytes, most_versions)
    first = log.newest - len(commits) + 1
    start, checkpoint = -1, Checkpoint()
    if first > 0:
        found = _oldest_checkpoint(log, first - 1, most_bytes)
        if found is None:
            return None
        start, checkpoint = found
    walk = _Walk()
    if start < first:
        walk.begin(checkpoint)
    numbers = range(first, log.newest + 1)
    for number, entries in zip(numbers, read_commits(log.log.storage, commits), strict=True):
        walk.commit(number, entries)
        if number == start:
            walk.begin(checkpoint)
    return walk.end(log.newest)


def _newest_commits(log: LogFiles, most_bytes: int, most: int | None) -> list[str]:
    """The keys of the newest commits without a gap, oldest first."""
    keys: list[str] = []
    for version in range(log.newest, -1, -1):
        item = log.commits.get(version)
        if item is None or len(keys) == most or (most_bytes := most_bytes - item.bytes) < 0:
            break
        keys.append(item.key)
    return keys[::-1]


def _oldest_checkpoint(log: LogFiles, since: int, most_bytes: int) -> tuple[int, Checkpoint] | None:
    """The oldest checkpoint that can be read, from a version on."""
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


class _Walk:
    """The commits of a log, one after the other."""

    def __init__(self) -> None:
        self._versions: list[Version] = []
        self._schemas: list[str] = []
        self._now = Checkpoint()
        self._files: dict[Any, KnownFile] = {}
        self._since: dict[str, int] = {}
        self._held: Amount | None = None
        self._schema = -1

    def begin(self, checkpoint: Checkpoint) -> None:
        """Take over what a checkpoint has, instead of what the commits before it told."""
        self._now = checkpoint
        if checkpoint.metadata is not None:
            self._use_schema(checkpoint.metadata)
        schema = self._schema
        self._files = {file.ident: self._known(file) for file in checkpoint.files}
        self._held = held = Amount.of(self._files.values())
        for version in reversed(self._versions):
            version.held = held
            held = held.changed(version.removed, version.added)
            version.schema = schema if version.schema < 0 else version.schema
            schema = -1 if version.changes_metadata else schema

    def commit(self, number: int, entries: Sequence[Entry]) -> None:
        """Apply one commit."""
        version = Version(number)
        for entry in entries:
            self._now.apply(entry)
            version.info = entry.commit_info or version.info
            if entry.meta_data is not None:
                version.changes_metadata = True
                self._use_schema(entry.meta_data)
        version.schema = self._schema
        gone = [known for e in entries if e.remove is not None for known in self._take(e.remove)]
        came = []
        for entry in entries:
            if entry.add is not None:
                known = self._known(entry.add)
                gone += self._take(entry.add, known=True)
                self._files[entry.add.ident] = known
                came.append(known)
        version.added, version.removed = Amount.of(came), Amount.of(gone)
        if self._held is not None:
            version.held = self._held = self._held.changed(version.added, version.removed)
        self._versions.append(version)

    def end(self, version: int) -> LogHistory | None:
        """What was found; None when no schema was among it."""
        state = self._now.state(version)
        if state is None:
            return None
        return LogHistory(state, self._versions, tuple(self._files.values()), self._schemas)

    def _known(self, file: DataFile) -> KnownFile:
        # A file that is brought back has no more columns than when it came.
        if self._since.get(file.path, -1) < 0:
            self._since[file.path] = self._schema
        return KnownFile(file, file.rows, self._since[file.path])

    def _take(self, file: DataFile, *, known: bool = False) -> list[KnownFile]:
        """The file that goes, as it came; nothing when it isn't there."""
        gone = self._files.pop(file.ident, None)
        if gone is not None:
            return [gone]
        return [] if known or self._held is not None else [KnownFile(file, file.rows, -1)]

    def _use_schema(self, metadata: Mapping[str, Any]) -> None:
        text = metadata["schemaString"]
        if text not in self._schemas:
            self._schemas.append(text)
        self._schema = self._schemas.index(text)
