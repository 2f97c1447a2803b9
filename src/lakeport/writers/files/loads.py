"""What the manifests beside a lake tell of its tables of files: the loads, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    from lakeport.model import Storage

_THREADS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """One load into a table of files.

    Attributes:
        at: when.
        rows: how many it landed.
        files: the file's name, as users know it -> its rows.
    """

    at: datetime
    rows: int
    files: dict[str, int]


class _File(msgspec.Struct):
    uri: str
    rows: int


class _Manifest(msgspec.Struct):
    at: datetime
    rows: int
    files: list[_File]
    table: str = ""
    untyped: list[str] = []


_MANIFEST = msgspec.json.Decoder(_Manifest)


def loads(storage: Storage, folder: str, most: int) -> list[Load]:
    """The newest loads into a table, oldest first.

    Args:
        storage: where the lake is.
        folder: the table's key.
        most: how many at most.

    Raises:
        DestinationError: the store refused.
    """
    found = (_load(manifest) for manifest in _manifests(storage, folder, most))
    return sorted(found, key=lambda load: load.at)


def untyped_files(storage: Storage, folder: str) -> list[str]:
    """Return the keys of a table's files whose loads knew no type for a place in them.

    Raises:
        DestinationError: the store refused.
    """
    found = [each for each in _manifests(storage, folder, 0) if each.untyped]
    keys = {folder + file.uri.removeprefix(each.table) for each in found for file in each.files}
    return sorted(keys & {item.key for item in storage.list(folder)}) if keys else []


def growth(found: Sequence[Load], rows: int | None) -> list[tuple[float, int]]:
    """Rows after each load, oldest first: (Unix seconds, rows).

    Args:
        found: the newest loads, oldest first.
        rows: how many the table has now; None when unknown, and the loads are all there were.
    """
    total = sum(load.rows for load in found)
    start = 0 if rows is None else max(rows - total, 0)
    sums = list(accumulate((load.rows for load in found), initial=start))[1:]
    return [(load.at.timestamp(), after) for load, after in zip(found, sums, strict=True)]


def _manifests(storage: Storage, folder: str, most: int) -> Iterator[_Manifest]:
    """Yield the newest manifests of a table, all if `most` is 0; without what is none."""
    if not folder:
        return
    home = f"{HOME}/manifests/{safe_segment(folder)}"
    keys = [item.key for item in storage.list(home) if item.key.endswith(".json")][-most:]
    with ThreadPoolExecutor(_THREADS) as pool:
        for data in pool.map(storage.get, keys):
            with suppress(msgspec.DecodeError):
                yield _MANIFEST.decode(data or b"")


def _load(told: _Manifest) -> Load:
    at = told.at if told.at.tzinfo else told.at.replace(tzinfo=UTC)
    return Load(at, told.rows, {file.uri: file.rows for file in told.files})
