"""What the manifests beside a lake tell of its tables of files: the loads, and the rows of each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    from lakeport.model import Storage

__all__ = ["Load", "growth", "loads"]

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
    if not folder:
        return []
    home = f"{HOME}/manifests/{safe_segment(folder)}"
    keys = [item.key for item in storage.list(home) if item.key.endswith(".json")][-most:]
    if not keys:
        return []
    with ThreadPoolExecutor(_THREADS) as pool:
        found = [load for data in pool.map(storage.get, keys) if (load := _load(data))]
    return sorted(found, key=lambda load: load.at)


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


def _load(data: bytes | None) -> Load | None:
    """What a manifest tells; None for what is none."""
    try:
        told = _MANIFEST.decode(data or b"")
    except msgspec.DecodeError:
        return None
    at = told.at if told.at.tzinfo else told.at.replace(tzinfo=UTC)
    return Load(at, told.rows, {file.uri: file.rows for file in told.files})
