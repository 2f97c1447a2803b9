"""The versions of a table, from one listing of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from lakeport.delta_log.reader import Commit, DeltaLog, LogFiles
from lakeport.errors import ConfigError, SourceError
from lakeport.lake.records import HistoryEntry, SingerState
from lakeport.lake.snapshots import FilesSnapshot
from lakeport.lake.tables import missing_table_error, several_tables_error
from lakeport.model import Storage

MAINTENANCE: Final = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "COMPUTE STATS", "REORG"})
"""Operations of commits that change no row of a table."""


@dataclass(frozen=True)
class TableVersions:
    """A Delta table's log with a listing of its files, which is empty for plain files."""

    log: DeltaLog
    files: LogFiles

    @classmethod
    def of(cls, storage: Storage, folder: str) -> TableVersions:
        """List a table's log; without log files it is no Delta table."""
        log = DeltaLog(storage, folder)
        return cls(log, log.list_files())

    def find_newest(self) -> int:
        """Return the newest version; raise SourceError if this is not a Delta table."""
        storage, folder = self.log.storage, self.log.folder
        if self.files.newest < 0:
            if next(iter(storage.list(folder)), None) is None:
                raise missing_table_error(storage, folder)
            raise several_tables_error(storage, folder) or SourceError(
                f"{self.log.uri} is not a Delta table: it has no `_delta_log`",
                "only Delta tables have versions, and can be maintained.",
            )
        return self.files.newest

    def find_version(self, version: int | None, timestamp: str | datetime | None) -> int:
        """Check a version number, or find a version by time, or the newest; SourceError if absent.

        A timestamp is an ISO 8601 text, or ConfigError is raised, or a datetime; UTC if naive.
        """
        newest, oldest = self.find_newest(), self.files.oldest
        if timestamp is not None:
            found = self.files.version_at(_parse_timestamp(timestamp))
            if found < oldest:
                raise SourceError(
                    f"{self.log.uri} has no version as old as {timestamp}",
                    f"the oldest is {oldest}.",
                )
            return found
        if version is not None and not oldest <= version <= newest:
            raise SourceError(
                f"{self.log.uri} has no version {version}", f"it has {oldest} to {newest}."
            )
        return newest if version is None else version

    def find_version_or_files(
        self, version: int | None, timestamp: str | datetime | None
    ) -> FilesSnapshot | int:
        """Return a Delta table's version, or a snapshot of plain files; SourceError if no table.

        A version or time that is unknown, or asked of plain files, raises SourceError, too.
        """
        if self.files.newest >= 0:
            return self.find_version(version, timestamp)
        storage, folder = self.log.storage, self.log.folder
        several = several_tables_error(storage, folder)
        if several is not None:
            raise several
        found = FilesSnapshot.of(storage, folder)
        if found is None:
            raise missing_table_error(storage, folder)
        if version is not None or timestamp is not None:
            raise SourceError(
                f"{self.log.uri} is a folder of {found.kind} files, which has no versions",
                "leave out the version; only Delta tables have a history.",
            )
        return found

    def list_history(self, version: int, limit: int) -> list[HistoryEntry]:
        """Read up to `limit` commits from `version` back to older ones, as history entries."""
        return [
            build_history_entry(commit)
            for commit in islice(self.log.commits_back_from(version), limit)
        ]

    def find_singer_state(self) -> SingerState | None:
        """Return the newest Singer STATE, or None; raise SourceError if this is no Delta table."""
        commit = self.log.find_singer_state(self.find_newest())
        if commit is None or commit.mark is None or commit.mark.singer_state is None:
            return None
        entry = build_history_entry(commit)
        return SingerState(commit.mark.singer_state, entry.version, entry.timestamp, entry.run_id)


def build_history_entry(commit: Commit) -> HistoryEntry:
    """Convert a commit to a history entry; fields that its writer left out are None."""
    info, mark = commit.info, commit.mark
    milliseconds = info.get("timestamp")
    return HistoryEntry(
        version=commit.version,
        timestamp=datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None,
        operation=info.get("operation"),
        mode=(info.get("operationParameters") or {}).get("mode"),
        files_added=commit.added,
        files_removed=commit.removed,
        rows_added=commit.rows_added if commit.rows_added >= 0 else None,
        bytes_added=commit.bytes_added,
        run_id=(mark.run_id or mark.batch_id or None) if mark else None,
        engine=info.get("engineInfo"),
    )


def _parse_timestamp(value: str | datetime) -> float:
    """Parse ISO 8601 text or a datetime (UTC if naive) to Unix seconds, or raise ConfigError."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(
                f"{value!r} is not a moment", "write it like 2024-05-01T10:30:00+02:00."
            ) from None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
