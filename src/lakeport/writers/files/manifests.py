"""Write a manifest after each load into a table of files, and read the newest ones.

All raise DestinationError if the store refuses.

```
_lakeport/manifests/<table>/<YYYYMMDD-HHMMSS>-<id>.json   rows, files, columns and STATE of a load
```
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

import msgspec

from lakeport.model import Batch, Storage
from lakeport.writers.files.journal import PlannedObject
from lakeport.writers.naming import HOME, as_utc, safe_segment

if TYPE_CHECKING:
    from lakeport.writers.base import TablePlan

_THREADS = 16


class ManifestFile(msgspec.Struct):
    """URI and row count of a file that a load has landed."""

    uri: str
    rows: int


class Manifest(msgspec.Struct):
    """The facts of one load that are read from its manifest: time, rows, files, untyped columns.

    Attributes:
        table: the table's folder, as users name it.
        run_id: the run's id or name; empty in manifests of before.
        untyped: columns with places that had no value, so that their type was unknown.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    rows: int
    files: list[ManifestFile]
    table: str = ""
    run_id: str = ""
    untyped: list[str] = []

    def file_rows(self, folder: str) -> dict[str, int]:
        """Return key -> rows of each file, for the table's folder in its lake."""
        return {folder + file.uri.removeprefix(self.table): file.rows for file in self.files}


_MANIFEST = msgspec.json.Decoder(Manifest)


def read_manifests(storage: Storage, folder: str, limit: int) -> list[Manifest]:
    """Read the manifests of a table's newest `limit` loads (0: all), oldest first; skip damaged."""
    return sorted((one for _, one in iterate_manifests(storage, folder, limit)), key=_get_time)


def find_untyped_files(storage: Storage, folder: str) -> list[str]:
    """Return the sorted keys of existing files that were landed with untyped columns."""
    loads = [load for _, load in iterate_manifests(storage, folder) if load.untyped]
    keys = {key for load in loads for key in load.file_rows(folder)}
    return sorted(keys & {item.key for item in storage.list(folder)}) if keys else []


def count_rows_after(loads: Sequence[Manifest], rows: int | None) -> list[tuple[float, int]]:
    """Return the table's number of rows after each load, oldest first: (Unix seconds, rows).

    Args:
        loads: the newest loads, oldest first.
        rows: the table's rows now; None if unknown, where `loads` are all its loads.
    """
    total = sum(load.rows for load in loads)
    start = 0 if rows is None else max(rows - total, 0)
    sums = list(accumulate((load.rows for load in loads), initial=start))[1:]
    return [(load.at.timestamp(), after) for load, after in zip(loads, sums, strict=True)]


def _get_time(load: Manifest) -> datetime:
    """Return when a load landed."""
    return load.at


def iterate_manifests(
    storage: Storage, folder: str, limit: int = 0
) -> Iterator[tuple[str, Manifest]]:
    """Yield key and content of a table's newest `limit` manifests, oldest first (0: all).

    Damaged ones are skipped.
    """
    if not folder:
        return
    home = f"{HOME}/manifests/{safe_segment(folder)}"
    keys = [item.key for item in storage.list(home) if item.key.endswith(".json")][-limit:]
    with ThreadPoolExecutor(_THREADS) as pool:
        for key, data in zip(keys, pool.map(storage.get, keys), strict=True):
            with suppress(msgspec.DecodeError):
                yield key, _MANIFEST.decode(data or b"")


def write_manifest(
    storage: Storage,
    table: str,
    batch: Batch,
    plan: TablePlan,
    objects: Sequence[PlannedObject],
    singer_state: bytes | None = None,
    run: str = "",
) -> None:
    """Write the manifest of a landed batch under a new name: rows, files, columns, Singer STATE.

    `run` is the run's id or name.
    """
    clock = as_utc(plan.detail.names.clock)
    untyped = [name for name in plan.schema.names if name in plan.untyped]
    content = {
        "stream": batch.stream,
        "run_id": run,
        "table": storage.uri(table),
        "at": clock.isoformat(timespec="microseconds"),
        "rows": sum(planned.staged.rows for planned in objects),
        "bytes": sum(planned.staged.bytes for planned in objects),
        "files": [
            {
                "uri": storage.uri(planned.key),
                "rows": planned.staged.rows,
                "bytes": planned.staged.bytes,
                "checksum": planned.staged.checksum,
            }
            for planned in objects
        ],
        "schema": [{"name": column.name, "type": str(column.type)} for column in plan.schema],
        **({"untyped": untyped} if untyped else {}),
        "state": None if singer_state is None else singer_state.decode("utf-8", "replace"),
    }
    name = f"{clock:%Y%m%d-%H%M%S}-{secrets.token_hex(8)}.json"
    key = f"{HOME}/manifests/{safe_segment(table)}/{name}"
    data = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    storage.put(key, data, create_only=True)
