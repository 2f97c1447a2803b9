"""A table's versions and what they hold, by one listing of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from lakeport.errors import ConfigError, SourceError
from lakeport.model import Storage
from lakeport.tables.lake import absent, many
from lakeport.tables.records import HistoryEntry, SingerState
from lakeport.tables.views import FilesView, entry
from lakeport.writers.delta.log.commits import Commit, CommitLog
from lakeport.writers.delta.log.reader import Contents, LogFiles, read_contents


@dataclass(frozen=True)
class Versions:
    """The versions of a table as they were when its log was listed.

    Attributes:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        log: the files of its log; none for a folder of plain files.
    """

    storage: Storage
    folder: str
    log: LogFiles

    @classmethod
    def of(cls, storage: Storage, folder: str) -> Versions:
        """List a table's log.

        Raises:
            DestinationError: the store refused.
        """
        return cls(storage, folder, LogFiles.of(storage, folder))

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self.storage.uri(self.folder)

    def newest(self) -> int:
        """The newest version.

        Raises:
            SourceError: this is not a Delta table.
        """
        if self.log.newest < 0:
            if next(iter(self.storage.list(self.folder)), None) is None:
                raise absent(self.storage, self.folder)
            raise many(self.storage, self.folder) or SourceError(
                f"{self.uri} is not a Delta table: it has no `_delta_log`",
                "only Delta tables have versions, and can be maintained.",
            )
        return self.log.newest

    def at(self, version: int | None, timestamp: str | datetime | None) -> int:
        """The version that is meant: by its number, by a moment, or the newest.

        Args:
            version: its number.
            timestamp: a moment; an ISO 8601 text or a datetime, UTC if naive.

        Raises:
            ConfigError: the text is no moment.
            SourceError: this is not a Delta table, or it has no such version.
        """
        newest, oldest = self.newest(), self.log.oldest
        if timestamp is not None:
            found = self.log.at(_moment(timestamp))
            if found < oldest:
                raise SourceError(
                    f"{self.uri} has no version as old as {timestamp}",
                    f"the oldest is {oldest}.",
                )
            return found
        if version is not None and not oldest <= version <= newest:
            raise SourceError(
                f"{self.uri} has no version {version}", f"it has {oldest} to {newest}."
            )
        return newest if version is None else version

    def files_or_version(
        self, version: int | None, timestamp: str | datetime | None
    ) -> FilesView | int:
        """The folder as plain files, or the Delta table's version that is meant; see `at`.

        Raises:
            ConfigError: the text is no moment.
            SourceError: there is no table, or no such version.
        """
        if self.log.newest >= 0:
            return self.at(version, timestamp)
        several = many(self.storage, self.folder)
        if several is not None:
            raise several
        found = FilesView.of(self.storage, self.folder)
        if found is None:
            raise absent(self.storage, self.folder)
        if version is not None or timestamp is not None:
            raise SourceError(
                f"{self.uri} is a folder of {found.kind} files, which has no versions",
                "leave out the version; only Delta tables have a history.",
            )
        return found

    def contents(self, version: int) -> Contents:
        """What the table holds at a version; see `read_contents` for the errors."""
        return read_contents(self.storage, self.folder, self.log, version)

    def entries(self, version: int, limit: int) -> list[HistoryEntry]:
        """The lines of the table's history from a version backwards."""
        commits = self._commits().back_from(version)
        return [entry(commit) for commit in islice(commits, limit)]

    def commits(self) -> Iterator[Commit]:
        """The table's commits, newest first, as far back as the log has them.

        Raises:
            SourceError: this is not a Delta table.
        """
        return self._commits().back_from(self.newest())

    def singer_state(self) -> SingerState | None:
        """The Singer STATE of the newest version's rows, with the commit that has it.

        Raises:
            SourceError: this is not a Delta table.
        """
        commit = self._commits().newest_singer_state(self.newest())
        if commit is None or commit.mark is None or commit.mark.singer_state is None:
            return None
        known = entry(commit)
        return SingerState(commit.mark.singer_state, known.version, known.timestamp, known.run_id)

    def _commits(self) -> CommitLog:
        return CommitLog(self.storage, self.folder)


def _moment(value: str | datetime) -> float:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(
                f"{value!r} is not a moment", "write it like 2024-05-01T10:30:00+02:00."
            ) from None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
