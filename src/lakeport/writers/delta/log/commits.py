"""The commits of a Delta table as its log files tell them, read without Spark."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeport.model import Storage
from lakeport.writers.delta.log.bookmarks import Moved
from lakeport.writers.delta.log.checkpoint import last_transactions
from lakeport.writers.delta.log.reader import (
    STATE,
    Entry,
    LogFiles,
    log_folder,
    parse_entries,
    parse_path,
    read_contents,
    replay,
    row_count,
)


def app_id(run_id: str, stream: str) -> str:
    """The name under which Delta counts the batches of a stream in a run.

    >>> app_id("r1", "users")
    'lakeport:r1:users'
    """
    return f"lakeport:{run_id}:{stream}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit of ours says about itself in its user metadata.

    Attributes:
        run_id: the run; empty when it had no id.
        stream: the stream's name.
        sequence: the batch's ordinal among the stream's batches of the run; -1 for a commit that
            lands none.
        digest: SHA-256 of the input in hex; empty unless the run has an id.
        batch_id: the caller's name for the batch.
        commit_id: unique to one attempt to land it.
        singer_state: the STATE that becomes durable with the commit, as the bytes that came.
        moved: the bookmark that the commit moves; None for none, and when read back.
        lowest_version: see `lakeport.model.Landed`.
    """

    run_id: str
    stream: str
    sequence: int
    digest: str
    batch_id: str
    commit_id: str
    singer_state: bytes | None = None
    moved: Moved | None = None
    lowest_version: int | None = None

    @property
    def numbered(self) -> bool:
        """Whether the commit counts among the batches that its run lands once."""
        return bool(self.run_id) and self.sequence >= 0

    @property
    def transactions(self) -> dict[str, int]:
        """Application id -> version: what the commit moves on in the table's log."""
        counted = {app_id(self.run_id, self.stream): self.sequence} if self.numbered else {}
        return {**counted, **({self.moved.app: self.moved.number} if self.moved else {})}

    def text(self) -> str:
        """The commit's user metadata, as JSON text."""
        body: dict[str, Any] = {
            "run_id": self.run_id,
            "stream": self.stream,
            "sequence": self.sequence,
            "digest": self.digest,
            "batch_id": self.batch_id,
            "commit_id": self.commit_id,
            "state": None,
        }
        if self.moved is not None:
            body["bookmark"] = {"name": self.moved.name, "number": self.moved.number}
        if self.lowest_version is not None:
            body["lowest_version"] = self.lowest_version
        if self.singer_state is not None:
            try:
                body["state"] = self.singer_state.decode()
            except UnicodeDecodeError:
                body["state_base64"] = b64encode(self.singer_state).decode()
        return json.dumps({"lakeport": body}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> Mark | None:
        """Read a commit's user metadata; None when it is not ours."""
        try:
            body = json.loads(text or "")["lakeport"]
            coded, text = body.get("state_base64"), body.get("state")
            raw = b64decode(coded) if coded else None if text is None else text.encode()
            return cls(
                body["run_id"],
                body["stream"],
                body["sequence"],
                body["digest"],
                body["batch_id"],
                body.get("commit_id", ""),
                raw,
                lowest_version=body.get("lowest_version"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table.

    Attributes:
        version: its number.
        info: the `commitInfo` action; empty when the writer left none.
        added: number of files added.
        removed: number of files removed.
        rows_added: rows in the files added; -1 when some file does not say.
        bytes_added: size of the files added.
        transactions: application id -> version, as recorded in this commit.
        protocol: the `protocol` action, if the commit has one.
        touched: the partitions of the files added, each once, as the log spells them.
        changes_metadata: whether it changes the table's schema or properties.
        removed_from: the partitions of the files removed; None where some file does not say.
    """

    version: int
    info: Mapping[str, Any]
    added: int
    removed: int
    rows_added: int
    bytes_added: int
    transactions: Mapping[str, int]
    protocol: Mapping[str, Any] | None = None
    touched: tuple[Mapping[str, str | None], ...] = ()
    changes_metadata: bool = False
    removed_from: tuple[Mapping[str, str | None], ...] | None = None

    @property
    def mark(self) -> Mark | None:
        """What lakeport wrote into the commit, if it was lakeport."""
        return Mark.parse(self.info.get("userMetadata"))

    @property
    def restored(self) -> int | None:
        """The version whose contents this commit brought back; None for other commits."""
        if self.info.get("operation") != "RESTORE":
            return None
        version = str((self.info.get("operationParameters") or {}).get("version"))
        return int(version) if version.isdecimal() else None


class CommitLog:
    """The commit files of one table, newest first.

    Args:
        storage: where the table is.
        folder: the table's key; empty when it is the storage's root.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder
        self._log = log_folder(folder)

    @property
    def uri(self) -> str:
        """The table, as users name it."""
        return self._storage.uri(self._folder)

    @property
    def hadoop_uri(self) -> str:
        """The table, as Spark names it."""
        return self._storage.hadoop_uri(self._folder)

    def key(self, version: int) -> str:
        """The commit's file."""
        return f"{self._log}/{version:020d}.json"

    def shorten_deadline(self) -> None:
        """Give what is asked next a few seconds together."""
        self._storage.shorten_deadline()

    def newest(self) -> int:
        """The newest version; -1 when there is no table.

        Raises:
            DestinationError: the store refused.
        """
        return LogFiles.recent(self._storage, self._folder).newest

    def read(self, version: int) -> Commit | None:
        """Read one commit; None when its file is gone.

        Raises:
            DestinationError: the store refused, or the file is no commit.
        """
        entries = self._entries(version)
        return None if entries is None else _commit(version, entries)

    def _entries(self, version: int) -> Sequence[Entry] | None:
        key = self.key(version)
        data = self._storage.get(key)
        return None if data is None else parse_entries(data, self._storage.uri(key))

    def last_transactions(self, version: int, apps: Collection[str]) -> dict[str, int]:
        """The number that each application has come to at a version, -1 for none.

        Raises:
            SourceError: files of the log are missing or damaged, so that they do not tell.
            DestinationError: the store refused.
        """
        log = LogFiles.recent(self._storage, self._folder)
        contents = replay(self._storage, log, version, STATE)
        if contents is None:
            log = LogFiles.of(self._storage, self._folder)
            contents = read_contents(self._storage, self._folder, log, version, STATE)
        return self.told_by(version, contents.transactions, apps)

    def told_by(
        self, version: int, known: Mapping[str, Mapping[str, Any]], apps: Collection[str]
    ) -> dict[str, int]:
        """The same, by what the log says at that version; see `last_transactions`."""
        return last_transactions(self._storage, self._folder, version, known, apps)

    def newest_singer_state(self, version: int) -> Commit | None:
        """The commit whose STATE belongs to a version's rows; None when none in the log has one.

        A version that was restored brings back the STATE that it had.

        Raises:
            DestinationError: the store refused.
        """
        while version >= 0 and (commit := self.read(version)) is not None:
            if commit.mark is not None and commit.mark.singer_state is not None:
                return commit
            restored = commit.restored
            version = version - 1 if restored is None else restored
        return None

    def since(self, version: int) -> Iterator[Commit]:
        """The commits after a version, oldest first.

        They are asked for by name, one after the other: a listing may lag behind.

        Raises:
            DestinationError: the store refused.
        """
        while (commit := self.read(version := version + 1)) is not None:
            yield commit

    def adds_any(self, keys: Collection[str], since: int) -> bool:
        """Whether a commit after a version adds one of these data files.

        Args:
            keys: the files' keys in the storage.
            since: the version.

        Raises:
            DestinationError: the store refused.
        """
        above = f"{self._folder}/" if self._folder else ""
        while (entries := self._entries(since := since + 1)) is not None:
            paths = (entry.add.path for entry in entries if entry.add is not None)
            if any(above + parse_path(path) in keys for path in paths):
                return True
        return False

    def recorded(self, version: int, run_id: str, stream: str, sequence: int) -> Mark | None:
        """What the commit of a run's batch says about itself; None when it is no longer there.

        Raises:
            DestinationError: the store refused.
        """
        wanted = (run_id, stream, sequence)
        for commit in self.back_from(version):
            mark = commit.mark
            if mark is not None and (mark.run_id, mark.stream, mark.sequence) == wanted:
                return mark
        return None

    def back_from(self, version: int) -> Iterator[Commit]:
        """The commits from a version backwards, until the first that has no file."""
        while version >= 0 and (commit := self.read(version)) is not None:
            yield commit
            version -= 1


def _commit(version: int, entries: Sequence[Entry]) -> Commit:
    info: Mapping[str, Any] = {}
    transactions: dict[str, int] = {}
    protocol: Mapping[str, Any] | None = None
    for entry in entries:
        info = entry.commit_info or info
        protocol = entry.protocol or protocol
        if entry.txn is not None:
            transactions[entry.txn["appId"]] = entry.txn["version"]
    added = [entry.add for entry in entries if entry.add is not None]
    rows = row_count(added)
    removed = [entry.remove for entry in entries if entry.remove is not None]
    told = [file.partition_values for file in removed]
    touched = {tuple(sorted(file.partition.items())): file.partition for file in added}
    return Commit(
        version,
        info,
        len(added),
        len(removed),
        -1 if rows is None else rows,
        sum(file.bytes for file in added),
        transactions,
        protocol,
        tuple(touched.values()),
        any(entry.meta_data is not None for entry in entries),
        None if None in told else tuple(values for values in told if values is not None),
    )
