"""How far applications have come in a table: by `txn` actions, and files for those left out.

A table's log counts what each run has landed of a stream, and each file that was loaded, in a `txn`
action of its own, which the protocol keeps for good and every append reads. So a checkpoint of ours
keeps the newest 500 of these. The others become small files beside the data, before it:
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
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import DestinationError

if TYPE_CHECKING:
    from lakeport.model import Storage

CONTENT: Final = "lakeport::content:"
"""Begins the application id of a file that was loaded."""
_ARCHIVED: Final = "lakeport::archived"
_KEPT: Final = 500
_AT_ONCE: Final = 1000
_THREADS: Final = 16

Transactions = Mapping[str, Mapping[str, Any]]
"""Application id -> its `txn` action."""


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

        with ThreadPoolExecutor(min(_THREADS, len(away))) as pool:
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

    with ThreadPoolExecutor(_THREADS) as pool:
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
