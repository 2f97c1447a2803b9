"""What a table's log counts: the batches of runs, the content of files, bookmarks of sources.

Each count is a `txn` action: an application id and its number. The protocol keeps them for good,
and every append reads them. So a checkpoint of ours keeps the newest 500 of those of runs and
files. The others become small files beside the data, before it:
```
_lakeport/transactions/<xx>/<SHA-256 of the application id>.json
{"app": "lakeport::content:…", "recorded": [[<version of the checkpoint>, <number>], …]}
```
A `txn` action in the checkpoint says that there are such files. Those of bookmarks and of other
programs are not touched.
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
"""Begins the application id of a file that was loaded."""
_ARCHIVED: Final = "lakeport::archived"
_KEPT: Final = 500
_AT_ONCE: Final = 1000
_READERS: Final = 16

Transactions = Mapping[str, Mapping[str, Any]]
"""Application id -> its `txn` action."""


def app_id(run_id: str, stream: str) -> str:
    """Return the application id under which a table's log counts a run's batches of a stream.

    >>> app_id("r1", "users")
    'lakeport:r1:users'
    """
    return f"lakeport:{run_id}:{stream}"


@dataclass(frozen=True, slots=True)
class Operation:
    """How a commit describes itself in the table's history.

    Attributes:
        overwrite: it replaces rows.
        dynamic: only those of some partitions.
        new_schema: it may replace the schema.
        partition_columns: the table's, for the commit that creates it.
        user_metadata: free text kept with the commit.
        metrics: numbers for the history, such as `numFiles`.
        name: WRITE, MERGE, DELETE, UPDATE or RESTORE.
        condition: SQL text of which rows a MERGE, DELETE or UPDATE is about.
        version: the older one whose contents a RESTORE brings back.
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


def conflict() -> CommitConflict:
    """The error for a commit whose table another writer has changed meanwhile."""
    return CommitConflict(
        "another writer changed the table at the same time",
        "nothing of this batch was committed; run it again.",
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """A commit's user metadata, as lakeport writes it.

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
    moved: BookmarkMove | None = None
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


def bookmark_app(name: str) -> str:
    """The application id under which a table's log has a bookmark's number.

    >>> bookmark_app("files")
    'lakeport::bookmark:files'
    """
    return f"lakeport::bookmark:{name}"


@dataclass(frozen=True, slots=True)
class BookmarkMove:
    """A bookmark whose document is written, and that a commit is to move.

    Attributes:
        name: the bookmark's name.
        number: what the table's log is to say.
        after: what it said when the source was opened.
    """

    name: str
    number: int
    after: int

    @property
    def app(self) -> str:
        """See `bookmark_app`."""
        return bookmark_app(self.name)


def last_transactions(
    storage: Storage, folder: str, version: int, known: Transactions, apps: Collection[str]
) -> dict[str, int]:
    """Return the number that each application has come to at a version, -1 for none.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: the table's version.
        known: what the log says at that version.
        apps: the applications' ids.

    Raises:
        DestinationError: the store refused, or an archived entry is damaged.
    """
    found = {app: int(known[app]["version"]) for app in apps if app in known}
    away = [app for app in apps if app not in known and _is_archivable(app)]
    if _ARCHIVED in known and away:

        def number(app: str) -> int:
            then = [count for at, count in _read(storage, folder, app) if at <= version]
            return then[-1] if then else -1

        with ThreadPoolExecutor(min(_READERS, len(away))) as pool:
            found.update(zip(away, pool.map(number, away), strict=True))
    return {app: found.get(app, -1) for app in apps}


def archive(
    storage: Storage, folder: str, version: int, known: Transactions
) -> list[Mapping[str, Any]]:
    """Write the entries that a checkpoint leaves out to files; return those that it keeps.

    Args:
        storage: where the table is.
        folder: its key; empty when it is the storage's root.
        version: the checkpoint's.
        known: what the log says at that version.

    Raises:
        DestinationError: the store refused: then the checkpoint must not be written.
    """
    ours = [app for app in known if _is_archivable(app)]
    ours.sort(key=lambda app: known[app].get("lastUpdated") or 0)
    going = ours[: max(0, len(ours) - _KEPT)][:_AT_ONCE]
    if not going:
        return list(known.values())

    def write(app: str) -> None:
        number = int(known[app]["version"])
        before = _read(storage, folder, app)
        if not before or before[-1][0] < version:
            body = {"app": app, "recorded": [*before, (version, number)]}
            storage.put(_key(folder, app), json.dumps(body, ensure_ascii=False).encode())

    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(write, going):
            pass
    left_out = {*going, _ARCHIVED}
    kept = [action for app, action in known.items() if app not in left_out]
    updated = max(known[app].get("lastUpdated") or 0 for app in going)
    return [*kept, {"appId": _ARCHIVED, "version": version, "lastUpdated": updated}]


def _is_archivable(app: str) -> bool:
    """Whether an application id is a run's or a file's; others of ours begin `lakeport::`, too.

    >>> _is_archivable("lakeport:r1:users"), _is_archivable("lakeport::bookmark:files")
    (True, False)
    """
    of_run = app.startswith("lakeport:") and not app.startswith("lakeport::")
    return of_run or app.startswith(CONTENT)


def _key(folder: str, app: str) -> str:
    name = hashlib.sha256(app.encode("utf-8", "surrogatepass")).hexdigest()
    below = f"_lakeport/transactions/{name[:2]}/{name}.json"
    return f"{folder}/{below}" if folder else below


def _read(storage: Storage, folder: str, app: str) -> Sequence[tuple[int, int]]:
    """Read what was archived of an application: versions of checkpoints and its number there."""
    key = _key(folder, app)
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
