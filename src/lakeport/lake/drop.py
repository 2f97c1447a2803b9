"""Drop a table, and bring a dropped one back.

In a local folder a dropped table is renamed into the lake's bin, with what the lake keeps about it.
Object stores have no renaming, and copying a table may take hours: there its objects are deleted.

```
_lakeport/bin/<table>/<time>/table      the table's folder
_lakeport/bin/<table>/<time>/journal    the folder `_lakeport/journal/<table>`; others likewise
```
A load that is under way makes the table anew with its own rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lakeport.errors import CommitConflict, ObjectExists
from lakeport.lake.records import DropReport
from lakeport.storage.local import LocalStorage
from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeport.lake.location import TableLocation
    from lakeport.lake.records import TableDescription
    from lakeport.model import Storage

_BIN: Final = f"{HOME}/bin"
_BESIDE: Final = ("manifests", "schemas", "journal", "bookmarks/files", "bookmarks/journal")
"""Folders of a lake's `_lakeport` that have a folder for each table of files."""
_KEPT: Final = timedelta(days=1)
_STAMP: Final = "%Y%m%d-%H%M%S-%f"
_THREADS: Final = 16
_ROUNDS: Final = 3


def plan_drop(location: TableLocation, table: TableDescription) -> DropReport:
    """Return what dropping a table would do, and until when it can be brought back."""
    kept = isinstance(location.storage, LocalStorage)
    return DropReport(
        table.format,
        table.rows,
        table.files,
        table.bytes,
        kept_until=datetime.now(UTC).replace(microsecond=0) + _KEPT if kept else None,
        dry_run=True,
    )


def drop(location: TableLocation, table: TableDescription) -> DropReport:
    """Move a local table into the lake's bin, or delete one on an object store; see `plan_drop`.

    Raises:
        CommitConflict: another program goes on writing into the table.
        DestinationError: the store refused; of an object store's table, some may be deleted.
    """
    done = replace(plan_drop(location, table), dry_run=False)
    empty_bin(location)
    lake, folder = location.find_lake()
    if isinstance(lake, LocalStorage):
        _move_to_bin(lake, folder)
    else:
        _delete_objects(lake, folder)
    return done


def find_dropped(location: TableLocation) -> tuple[datetime, str] | None:
    """Return when a local table was dropped last (UTC), and its path in the bin; None if never."""
    lake, folder = location.find_lake()
    if not isinstance(lake, LocalStorage):
        return None
    entries = _list_entries(lake, safe_segment(folder))
    newest = max(entries, default=None)
    return None if newest is None else (newest[0], lake.uri(f"{newest[1]}/table"))


def bring_back(location: TableLocation) -> None:
    """Move the local table that was dropped last back to its place, with what was kept about it.

    Raises:
        ObjectExists: there is a table again.
    """
    lake, folder = location.find_lake()
    assert isinstance(lake, LocalStorage)
    _, entry = max(_list_entries(lake, safe_segment(folder)))
    lake.move_folder(f"{entry}/table", folder)
    for name in _BESIDE:
        if _is_folder(lake, f"{entry}/{name}"):
            with suppress(ObjectExists):
                lake.move_folder(f"{entry}/{name}", f"{HOME}/{name}/{safe_segment(folder)}")
    lake.delete_folder(entry)


def empty_bin(location: TableLocation) -> None:
    """Delete the tables that were dropped from a local table's lake a day ago or earlier."""
    lake, _ = location.find_lake()
    if not isinstance(lake, LocalStorage):
        return
    for table in lake.list_folder(_BIN).folders:
        for dropped, entry in _list_entries(lake, table):
            if datetime.now(UTC) - dropped > _KEPT:
                lake.delete_folder(entry)


def _list_entries(lake: Storage, table: str) -> Iterator[tuple[datetime, str]]:
    """Yield (time of the drop in UTC, key) of each of a table's folders in the bin."""
    for name in lake.list_folder(f"{_BIN}/{table}").folders:
        with suppress(ValueError):
            dropped = datetime.strptime(name, _STAMP).replace(tzinfo=UTC)
            yield dropped, f"{_BIN}/{table}/{name}"


def _move_to_bin(lake: LocalStorage, folder: str) -> None:
    """Rename a table's folder, then the lake's folders about it, to a new folder in the bin."""
    table = safe_segment(folder)
    entry = f"{_BIN}/{table}/{datetime.now(UTC):{_STAMP}}"
    lake.move_folder(folder, f"{entry}/table")
    for name in _BESIDE:
        if _is_folder(lake, f"{HOME}/{name}/{table}"):
            lake.move_folder(f"{HOME}/{name}/{table}", f"{entry}/{name}")


def _is_folder(lake: Storage, key: str) -> bool:
    """Whether a folder has any entry."""
    entries = lake.list_folder(key)
    return bool(entries.folders or entries.objects)


def _delete_objects(lake: Storage, folder: str) -> None:
    """Delete a table's objects, those of its log first, and the lake's objects about it.

    Raises CommitConflict if there are new ones each time.
    """
    table = safe_segment(folder)
    for _ in range(_ROUNDS):
        # A log without its beginning is refused by readers and writers.
        keys = [item.key for part in ("/_delta_log", "") for item in lake.list(f"{folder}{part}")]
        if not keys:
            break
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lake.delete, dict.fromkeys(keys)))
    else:
        raise CommitConflict(
            f"another program writes into {lake.uri(folder)} while it is dropped",
            "let it end, and drop the table again.",
        )
    for name in _BESIDE:
        for item in lake.list(f"{HOME}/{name}/{table}"):
            lake.delete(item.key)
