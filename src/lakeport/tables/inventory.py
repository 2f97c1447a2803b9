"""The files that VACUUM may look at, where it keeps them for less than a week.

A file that no version names is left over from a writer that ended, or belongs to one at work, which
names it with its next commit: nothing tells which. VACUUM takes it for left over when it is older
than the retention, so a short one would delete the files of writers at work, and what they commit
could not be read. So such files are not shown to it until they are a week old.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.engine.spark.delta.maintenance import qualified, removed_paths
from lakeport.model import StoredObject

if TYPE_CHECKING:
    from lakeport.engine.types import SparkSession
    from lakeport.tables.location import TableLocation

__all__ = ["inventory", "shown"]

_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        ("isDir", pa.bool_()),
        ("modificationTime", pa.int64()),
    ]
)
"""What `VACUUM ... USING INVENTORY` reads (`VacuumCommand.INVENTORY_SCHEMA` of delta-spark)."""

_CHANGES = "_change_data/"


def inventory(spark: SparkSession, location: TableLocation, before: float) -> pa.Table:
    """The files of a table and the folders they are in, as VACUUM takes them. Runs a Spark job.

    Args:
        spark: a session with Delta.
        location: where the table is.
        before: newer files that no version has named are left out; Unix seconds.

    Raises:
        DestinationError: the store refused.
    """
    removed = removed_paths(spark, location.hadoop_uri)
    root = qualified(spark, location.hadoop_uri)
    start = len(f"{location.folder}/") if location.folder else 0
    files = {item.key[start:]: item for item in location.storage.list(location.folder)}
    kept = shown(files, removed, before)
    folders = {str(folder) for name in kept for folder in PurePosixPath(name).parents} - {"."}
    rows = [
        *((f"{root}/{name}", f.bytes, False, int(f.modified * 1000)) for name, f in kept.items()),
        *((f"{root}/{folder}", 0, True, 0) for folder in folders),
    ]
    named = [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, _SCHEMA)


def shown(
    files: Mapping[str, StoredObject], removed: Collection[str], before: float
) -> dict[str, StoredObject]:
    """The files that can't be those of a writer at work.

    Change data counts as left over at once: no version's rows depend on it.

    Args:
        files: by their paths in the table.
        removed: paths of files that a version has removed.
        before: newer files that no version has named are left out; Unix seconds.

    >>> files = {name: StoredObject(name, 1, modified=9.0) for name in ("removed", "unknown")}
    >>> list(shown(files, {"removed"}, before=5.0))
    ['removed']
    """
    return {
        name: file
        for name, file in files.items()
        if file.modified < before or name in removed or name.startswith(_CHANGES)
    }
