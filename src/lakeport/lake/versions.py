"""The versions of a table, from one listing of its log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from lakeport.delta_log.reader import Commit, DeltaLog, LogFiles
from lakeport.errors import ConfigError, SourceError
from lakeport.lake.records import HistoryEntry, SingerState
from lakeport.lake.snapshots import FilesSnapshot
from lakeport.lake.tables import missing_table_error, several_tables_error
from lakeport.model import Storage


@dataclass(frozen=True)
class TableVersions:
    """A table's versions at the time when its log was listed.

    Attributes:
        log: the table's log.
        files: its files; none for a folder of plain files.
    """

    log: DeltaLog
    files: LogFiles

    @classmethod
    def of(cls, storage: Storage, folder: str) -> TableVersions:
        """List a table's log; one without files is no Delta table.

        Raises:
            DestinationError: the store refused.
        """
        log = DeltaLog(storage, folder)
        return cls(log, log.list_files())

    def find_newest(self) -> int:
        """Return the newest version; raise SourceError if this is no Delta table.

        Raises:
            SourceError: this is not a Delta table.
        """
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
        """Return a version by its number or by a time; the newest if neither is given.

        Args:
            version: its number.
            timestamp: a moment; an ISO 8601 text or a datetime, UTC if naive.

        Raises:
            ConfigError: the text is no moment.
            SourceError: this is not a Delta table, or it has no such version.
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
        """Return a Delta table's version, or the snapshot of plain files.

        Raises:
            ConfigError: the text is no moment.
            SourceError: there is no table, or no such version.
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
        """List the history of the table from a version backwards."""
        return [
            build_history_entry(commit)
            for commit in islice(self.log.commits_back_from(version), limit)
        ]

    def find_singer_state(self) -> SingerState | None:
        """Return the newest Singer STATE with its commit; None if there is none.

        Raises:
            SourceError: this is not a Delta table.
        """
        commit = self.log.find_singer_state(self.find_newest())
        if commit is None or commit.mark is None or commit.mark.singer_state is None:
            return None
        known = build_history_entry(commit)
        return SingerState(commit.mark.singer_state, known.version, known.timestamp, known.run_id)


def build_history_entry(commit: Commit) -> HistoryEntry:
    """Return the history entry of a commit."""
    info, mark = commit.info, commit.mark
    moment = info.get("timestamp")
    return HistoryEntry(
        version=commit.version,
        timestamp=datetime.fromtimestamp(moment / 1000, UTC) if moment else None,
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
    """Parse an ISO 8601 text or a datetime into Unix seconds; naive ones are UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(
                f"{value!r} is not a moment", "write it like 2024-05-01T10:30:00+02:00."
            ) from None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
