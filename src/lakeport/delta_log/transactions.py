"""Commit marks and `txn` numbers: batches of runs, content of files, and bookmarks of sources.

A `txn` action has an application id and its number. The protocol keeps the newest of each id for
good, and every append reads them. So our checkpoints keep the newest 500 of runs and files. The
others are archived in small files beside the data before that:
```
_lakeport/transactions/<xx>/<SHA-256 of the application id>.json
{"app": "lakeport::content:…", "recorded": [[<version of the checkpoint>, <number>], …]}
```
A `txn` action in the checkpoint says that there are such files. Actions of bookmarks and of other
programs always stay.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from lakeport.errors import CommitConflict, DestinationError
from lakeport.model import Storage

CONTENT: Final = "lakeport::content:"
"""Prefix of the application id of a source file's content."""
_ARCHIVED: Final = "lakeport::archived"
_KEPT: Final = 500
_AT_ONCE: Final = 1000
_READERS: Final = 16

Transactions = Mapping[str, Mapping[str, Any]]
"""Application id -> its `txn` action."""


def run_app_id(run_id: str, stream: str) -> str:
    """Return the `txn` application id under which a run's stream counts its batches.

    >>> run_app_id("r1", "users")
    'lakeport:r1:users'
    """
    return f"lakeport:{run_id}:{stream}"


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Operation, parameters and metrics of a commit, for the table's history.

    Attributes:
        overwrite: whether a WRITE replaces rows.
        dynamic: whether it replaces only those of some partitions.
        new_schema: whether it may replace the schema.
        partition_columns: the table's partition columns, of the commit that creates it.
        user_metadata: free text kept with the commit.
        metrics: numbers for the history, such as `numFiles`.
        name: WRITE, MERGE, DELETE, UPDATE or RESTORE.
        condition: SQL condition on the rows of a MERGE, DELETE or UPDATE.
        version: the older version that a RESTORE brings back.
    """

    overwrite: bool = False
    dynamic: bool = False
    new_schema: bool = False
    partition_columns: tuple[str, ...] = ()
    user_metadata: str = ""
    metrics: Mapping[str, int] = field(default_factory=dict)
    name: str = "WRITE"
    condition: str = ""
    version: int = -1


def conflict_error() -> CommitConflict:
    """Return the CommitConflict for a table that another writer changed at the same time."""
    return CommitConflict(
        "another writer changed the table at the same time",
        "nothing of this batch was committed; run it again.",
    )


@dataclass(frozen=True, slots=True)
class CommitMark:
    """Lakeport's record of a commit: run, batch and Singer STATE, kept in `userMetadata`.

    Attributes:
        run_id: the run's id; empty for none.
        stream: the stream's name.
        sequence: the batch's ordinal among the stream's batches of the run; -1 for a commit that
            lands none.
        digest: SHA-256 of the input in hex; empty unless the run has an id.
        batch_id: the run's name.
        commit_id: unique to one attempt to land the batch.
        singer_state: the STATE that becomes durable with the commit, as the tap's bytes.
        bookmark_move: the bookmark's move that the commit makes; None for none, and when parsed.
        lowest_version: see `lakeport.model.Landed`.
    """

    run_id: str
    stream: str
    sequence: int
    digest: str
    batch_id: str
    commit_id: str
    singer_state: bytes | None = None
    bookmark_move: BookmarkMove | None = None
    lowest_version: int | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether the commit is of a numbered batch of a run, which lands once."""
        return bool(self.run_id) and self.sequence >= 0

    @property
    def transactions(self) -> dict[str, int]:
        """Numbers for the commit's `txn` actions by application id; may be empty."""
        numbers = {}
        if self.is_numbered:
            numbers[run_app_id(self.run_id, self.stream)] = self.sequence
        if self.bookmark_move is not None:
            numbers[self.bookmark_move.app_id] = self.bookmark_move.number
        return numbers

    def format(self) -> str:
        """Format the mark as JSON for `userMetadata`; a STATE that is not UTF-8 is in base64."""
        body: dict[str, Any] = {
            "run_id": self.run_id,
            "stream": self.stream,
            "sequence": self.sequence,
            "digest": self.digest,
            "batch_id": self.batch_id,
            "commit_id": self.commit_id,
            "state": None,
        }
        if (move := self.bookmark_move) is not None:
            body["bookmark"] = {"name": move.name, "number": move.number}
        if self.lowest_version is not None:
            body["lowest_version"] = self.lowest_version
        if self.singer_state is not None:
            try:
                body["state"] = self.singer_state.decode()
            except UnicodeDecodeError:
                body["state_base64"] = b64encode(self.singer_state).decode()
        return json.dumps({"lakeport": body}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> CommitMark | None:
        """Parse the mark in a commit's `userMetadata`; None if absent, or another program's."""
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


def bookmark_app_id(name: str) -> str:
    """Return the `txn` application id under which a bookmark's number is stored.

    >>> bookmark_app_id("files")
    'lakeport::bookmark:files'
    """
    return f"lakeport::bookmark:{name}"


@dataclass(frozen=True, slots=True)
class BookmarkMove:
    """Change of a bookmark's number by a commit, from `previous_number` to `number`."""

    name: str
    number: int
    previous_number: int

    @property
    def app_id(self) -> str:
        """Application id of the bookmark."""
        return bookmark_app_id(self.name)


def last_transactions(
    storage: Storage, folder: str, version: int, in_log: Transactions, app_ids: Collection[str]
) -> dict[str, int]:
    """Return the last `txn` number of each application id at a table's version; -1 for none.

    Numbers come from the log's `txn` actions at that version, else from archives in the table's
    folder. A damaged archive raises DestinationError.
    """
    numbers = {app: int(in_log[app]["version"]) for app in app_ids if app in in_log}
    archived = [app for app in app_ids if app not in in_log and _is_archivable(app)]
    if _ARCHIVED in in_log and archived:

        def read_number(app: str) -> int:
            until = [n for at, n in _read_archive(storage, folder, app) if at <= version]
            return until[-1] if until else -1

        with ThreadPoolExecutor(min(_READERS, len(archived))) as pool:
            numbers.update(zip(archived, pool.map(read_number, archived), strict=True))
    return {app: numbers.get(app, -1) for app in app_ids}


def archive_transactions(
    storage: Storage, folder: str, version: int, in_log: Transactions
) -> list[Mapping[str, Any]]:
    """Move up to 1,000 old `txn` actions from the log to archive files; return the other actions.

    After a DestinationError the checkpoint must not be written.
    """
    ours = [app for app in in_log if _is_archivable(app)]
    ours.sort(key=lambda app: in_log[app].get("lastUpdated") or 0)
    old = ours[: max(0, len(ours) - _KEPT)][:_AT_ONCE]
    if not old:
        return list(in_log.values())

    def write(app: str) -> None:
        number = int(in_log[app]["version"])
        before = _read_archive(storage, folder, app)
        if not before or before[-1][0] < version:
            body = {"app": app, "recorded": [*before, (version, number)]}
            storage.put(_archive_key(folder, app), json.dumps(body, ensure_ascii=False).encode())

    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(write, old):
            pass
    left_out = {*old, _ARCHIVED}
    kept = [action for app, action in in_log.items() if app not in left_out]
    updated = max(in_log[app].get("lastUpdated") or 0 for app in old)
    return [*kept, {"appId": _ARCHIVED, "version": version, "lastUpdated": updated}]


def _is_archivable(app: str) -> bool:
    """Whether an application id belongs to a run or to a loaded file's content.

    >>> _is_archivable("lakeport:r1:users"), _is_archivable("lakeport::bookmark:files")
    (True, False)
    """
    of_run = app.startswith("lakeport:") and not app.startswith("lakeport::")
    return of_run or app.startswith(CONTENT)


def _archive_key(folder: str, app: str) -> str:
    """Return the key of the archive file with an application id's numbers."""
    name = hashlib.sha256(app.encode("utf-8", "surrogatepass")).hexdigest()
    below = f"_lakeport/transactions/{name[:2]}/{name}.json"
    return f"{folder}/{below}" if folder else below


def _read_archive(storage: Storage, folder: str, app: str) -> Sequence[tuple[int, int]]:
    """Read an application id's archived (table version, number) pairs, oldest first; may be empty.

    Raises DestinationError if the archive is damaged.
    """
    key = _archive_key(folder, app)
    data = storage.get(key)
    if data is None:
        return ()
    try:
        body = json.loads(data)
        if body["app"] == app:
            return [(int(at), int(number)) for at, number in body["recorded"]]
    except (ValueError, KeyError, TypeError):
        pass
    raise DestinationError(
        f"{storage.uri(key)} does not tell how far {app!r} has come in its table",
        "the file is damaged: bring it back from a copy, or delete it to have that forgotten.",
    )
