"""List the tables of a lake with few requests and without Spark.

```
folder ─▶ its own level ─┬─ `_delta_log` ───────────────────▶ a Delta table: its log tells
                         ├─ data files, partition folders ──▶ a table of files: footers tell
                         └─ other folders ──────────────────▶ look into each
```
How much is looked into has limits; what they leave unknown is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from lakeport.config.explain import closest_match
from lakeport.config.load import load_target
from lakeport.delta_log.history import FileTotals, TableVersion, read_history
from lakeport.delta_log.reader import DeltaLog
from lakeport.destinations import open_storage
from lakeport.errors import LakeportError, SourceError
from lakeport.lake.records import to_plain_values
from lakeport.lake.snapshots import FilesSnapshot, classify_data_file
from lakeport.schema.hints import format_command
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES
from lakeport.writers.files.manifests import count_rows_after, read_manifests
from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.model import FolderEntries, Storage, StoredObject

_FOLDERS = 10_000
_FILES = 10_000
_FOOTERS = 1_000
_LOG_BYTES = 64 << 20
_GROWTH = 12_000  # commits and manifests that are read for the growth of all tables
_THREADS = 16
_NEIGHBOURS = 200
_NAMES_SHOWN = 20
_LOG_LOOKUPS = 8  # folders in which a Delta table's log is looked for
_LOG = "_delta_log"
_DATE = re.compile(r"[\d.:TZ_-]+")


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table of a lake; fields that would take many requests to fill are None.

    Attributes:
        name: its folder below the target, such as `silver/flights`.
        uri: the table's URI as users write it.
        format: `delta`, `parquet` or `csv`; both with a comma between where it has files of both.
        rows: how many, where the log or the files' footers say.
        bytes: size of the data files, in bytes.
        files: how many data files.
        last_change: when it last changed, UTC.
        version: the newest version of a Delta table; None for files.
        problem: the reason why the table can't be read; None for most tables.
        small_files: how many of its files are small; None when unknown.
        growth: its rows at moments, oldest first: (Unix seconds, rows); only pages ask for it.
    """

    name: str
    uri: str
    format: str
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    last_change: datetime | None = None
    version: int | None = None
    problem: str | None = None
    small_files: int | None = field(default=None, repr=False, compare=False)
    growth: Sequence[tuple[float, int]] = field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without `growth` and `small_files`."""
        facts = to_plain_values(self)
        del facts["small_files"], facts["growth"]
        return facts


def tables(
    to: Target | DestinationConfig | None = None, **keys: Unpack[StoreKeys]
) -> list[LakeTable]:
    """List the tables of a lake, sorted by name.

    Args:
        to: a folder, a URI, a config file or a config, as `land` takes it.
        keys: further keys of the config, such as `aws_endpoint`.

    Returns:
        One record a table; the target itself if that is a table.

    Raises:
        ConfigError: the target is none.
        SourceError: it is no folder of this machine, or has more folders than are looked into.
        DestinationError: the store refused.
    """
    return list_tables(*open_lake(load_target(to, keys)))


def open_lake(config: DestinationConfig) -> tuple[Storage, str]:
    """Open a config's storage; return it with the lake's key. SourceError if no such local folder.

    The key is empty, for the root, unless the config names a table's URI.
    """
    storage = open_storage(config)
    if isinstance(storage, LocalStorage):
        root = Path(storage.uri())
        if not root.is_dir():
            beside = root.parent.iterdir() if root.parent.is_dir() else ()
            close = closest_match(root.name, [each.name for each in beside if each.is_dir()])
            raise SourceError(
                f"there is no folder {root}" + (f"; did you mean {close}?" if close else ""),
                "check its name; `lakeport land` makes lakes.",
            )
    # A table's own URI names a folder of the storage, which may as well be one of tables.
    own = config.table_pattern if "table_uri" in type(config).model_fields else None
    return storage, "" if own is None or "{stream}" in own else own


def list_tables(storage: Storage, folder: str, growth_points: int = 0) -> list[LakeTable]:
    """List the tables in a folder of a store, sorted; SourceError beyond 10,000 folders.

    `growth_points` is the number of points in each table's growth. Each may cost a request, so
    there are fewer for many tables.
    """
    found = sorted(find_tables(storage, folder))
    growth_points = min(growth_points, _GROWTH // max(len(found), 1))
    with ThreadPoolExecutor(_THREADS) as pool:
        described = list(
            pool.map(lambda one: _describe_table(storage, folder, one, growth_points), found)
        )
        result = [table for table, _ in described]
        uncounted: dict[int, Sequence[StoredObject]] = {}
        room = _FOOTERS
        for place, (table, files) in enumerate(described):
            if table.format == "parquet" and len(files) <= room:
                uncounted[place], room = files, room - len(files)
        sums = pool.map(lambda files: _count_footer_rows(storage, files), uncounted.values())
        for place, rows in zip(uncounted, sums, strict=True):
            result[place] = replace(result[place], rows=rows)
    return result


def find_tables(storage: Storage, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield (key, whether it is a Delta table) for each table below a folder, at any depth.

    Files that lie right in `folder` hide no tables below it. More than 10,000 folders raise
    SourceError.
    """
    waiting, seen = [folder], 0
    with ThreadPoolExecutor(_THREADS) as pool:
        while waiting:
            seen += len(waiting)
            if seen > _FOLDERS:
                raise SourceError(
                    f"{storage.uri(folder)} has more than {_FOLDERS:,} folders",
                    "name a folder further down.",
                )
            deeper: list[str] = []
            each = pool.map(lambda key: _classify_folder(storage, key, top=key == folder), waiting)
            for key, (kind, entries) in zip(waiting, each, strict=True):
                if kind is _FolderKind.FOLDERS:
                    names = _list_public_folders(entries)
                    deeper += [f"{key}/{name}".lstrip("/") for name in names]
                elif kind is not _FolderKind.NOTHING:
                    yield key, kind is _FolderKind.DELTA
            waiting = deeper


def missing_table_error(storage: Storage, folder: str) -> SourceError:
    """Return the SourceError for a missing table; its hint lists neighbouring tables."""
    uri = storage.uri(folder)
    above, _, name = uri.rstrip("/").rpartition("/")
    beside = [other for other in list_neighbours(storage, folder) if other != name]
    close = closest_match(name, beside)
    guess = f"; did you mean {close}?" if close else ""
    return SourceError(
        f"there is no table in {uri}{guess}",
        f"tables in {above}: {format_names(beside)}."
        if beside
        else "check its name; `land` makes tables.",
    )


def several_tables_error(storage: Storage, folder: str) -> SourceError | None:
    """Return the SourceError if a folder holds tables instead of being one; None otherwise."""
    kind, entries = _classify_folder(storage, folder, top=False)
    if kind not in (_FolderKind.FOLDERS, _FolderKind.FILES) or not _list_public_folders(entries):
        return None
    found = list(find_tables(storage, folder))
    if kind is _FolderKind.FILES and not any(is_delta for _, is_delta in found):
        return None  # files in folders, all of one table
    names = [key.removeprefix(folder).strip("/") for key, _ in found]
    if not names:
        return None
    return SourceError(
        f"{storage.uri(folder)} is no table but a folder of tables",
        f"name one of them: {format_names(sorted(names))}.",
    )


def format_names(names: Sequence[str]) -> str:
    """Join the first 20 names, and say how many more there are."""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}"


def table_as_lake_error(storage: Storage, folder: str) -> SourceError | None:
    """Return the SourceError if a folder is a table and not a lake; None otherwise."""
    if _classify_folder(storage, folder, top=True)[0] not in _TABLES:
        return None
    uri = storage.uri(folder).rstrip("/")
    return SourceError(
        f"{uri} is a table, and reports of runs lie beside its lake's tables",
        f"{format_command('runs', uri.rpartition('/')[0])} may list them; "
        f"{format_command('table', 'history', uri)} tells what became of a Delta table.",
    )


def list_neighbours(storage: Storage, folder: str) -> list[str]:
    """Return the names of tables in the parent folder's first 200 folders; empty on failure."""
    above, _, _ = folder.rpartition("/")
    if not folder:  # as for a local table, whose storage begins at the table
        storage = LocalStorage(str(Path(storage.uri()).parent))
    try:
        keys = [
            f"{above}/{name}".lstrip("/")
            for name in _list_public_folders(storage.list_folder(above))[:_NEIGHBOURS]
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            kinds = pool.map(lambda key: _classify_folder(storage, key, top=False)[0], keys)
            found = zip(keys, kinds, strict=True)
            return [key.rpartition("/")[2] for key, kind in found if kind in _TABLES]
    except LakeportError:
        return []


class _FolderKind(Enum):
    """Kind of a folder in a lake: Delta table, plain files, folders, or nothing."""

    DELTA = "a Delta table"
    FILES = "a table of plain files"
    FOLDERS = "a folder of folders"
    NOTHING = "nothing of these"


_TABLES = (_FolderKind.DELTA, _FolderKind.FILES)


def _classify_folder(storage: Storage, key: str, *, top: bool) -> tuple[_FolderKind, FolderEntries]:
    """List a folder; return its kind and entries. `top` says that it is the lake's own folder."""
    entries = storage.list_folder(key)
    folders = _list_public_folders(entries)
    if _LOG in entries.folders:
        return _FolderKind.DELTA, entries
    if not folders:
        return (_FolderKind.FILES if _has_data(entries) else _FolderKind.NOTHING), entries
    if HOME in entries.folders:  # a lake, whatever its tables are called, and what lies beside them
        return _FolderKind.FOLDERS, entries
    partitions = any("=" in name for name in folders) or (_has_data(entries) and not top)
    # Partitions, or folders by date, unless they are tables with such names.
    may_be_partitions = partitions or all(map(_DATE.fullmatch, folders))
    if may_be_partitions and not _holds_tables(storage, key, folders):
        return _FolderKind.FILES, entries
    return _FolderKind.FOLDERS, entries


def _holds_tables(storage: Storage, key: str, folders: Sequence[str]) -> bool:
    """Whether folders named like partitions are tables, by Delta logs or lakeport's manifests.

    Delta tables are looked for among the first folders alone, as partitions may be thousands.
    """
    names = [f"{key}/{name}".lstrip("/") for name in folders]
    if any(_LOG in storage.list_folder(name).folders for name in names[:_LOG_LOOKUPS]):
        return True
    known = {
        name
        for kind in ("manifests", "schemas")
        for name in storage.list_folder(f"{HOME}/{kind}").folders
    }
    return any(safe_segment(name) in known for name in names)


def _list_public_folders(entries: FolderEntries) -> list[str]:
    """Return the names of a folder's folders, without those that begin with `_` or `.`."""
    return [name for name in entries.folders if not name.startswith(("_", "."))]


def _has_data(entries: FolderEntries) -> bool:
    """Whether a folder has Parquet or CSV files right in it."""
    return any(classify_data_file(item.key.rpartition("/")[2]) for item in entries.objects)


_TableAndFiles = tuple[LakeTable, Sequence["StoredObject"]]
"""A table, and its files if their footers would tell its rows."""


def _describe_table(
    storage: Storage, above: str, key_and_kind: tuple[str, bool], growth_points: int
) -> _TableAndFiles:
    """Return a table's facts (or its error as `problem`), and files whose rows are uncounted."""
    key, is_delta = key_and_kind
    name = key.removeprefix(above).strip("/") or storage.uri(key).rstrip("/").rpartition("/")[2]
    one = LakeTable(name, storage.uri(key), "delta" if is_delta else "")
    try:
        return (_describe_delta if is_delta else _describe_files)(storage, key, one, growth_points)
    except LakeportError as error:
        return replace(one, problem=error.message), ()


def _describe_delta(
    storage: Storage, key: str, table: LakeTable, growth_points: int
) -> _TableAndFiles:
    """Fill in a Delta table's facts from its log; only version and time beyond 64 MiB of log."""
    log = DeltaLog(storage, key).list_files()
    if log.newest < 0:
        return replace(table, problem="its `_delta_log` has no version"), ()
    newest = log.commits.get(log.newest) or log.checkpoints[log.newest][0]
    table = replace(table, version=log.newest, last_change=_to_datetime(newest.modified))
    commits = max(log.newest - max(log.checkpoints, default=-1), growth_points)
    history = read_history(log, max_bytes=_LOG_BYTES, max_commits=commits)
    if history is None:
        return table, ()
    totals = FileTotals.of(history.files)
    small = sum((known.file.size or 0) < SMALL_FILE_BYTES for known in history.files)
    grown = _list_growth(history.versions[-growth_points:]) if growth_points else ()
    table = replace(table, rows=totals.rows, bytes=totals.bytes, files=totals.files)
    return replace(table, small_files=small, growth=grown), ()


def _list_growth(versions: Sequence[TableVersion]) -> list[tuple[float, int]]:
    """Return (Unix time, row count) of each version that has both."""
    return [
        (version.committed_at.timestamp(), version.totals.rows)
        for version in versions
        if version.committed_at is not None
        and version.totals is not None
        and version.totals.rows is not None
    ]


def _describe_files(
    storage: Storage, key: str, table: LakeTable, growth_points: int
) -> _TableAndFiles:
    """Fill in formats and sizes of a table of plain files; return it with its files.

    Beyond 10,000 files only the formats are added, and no files are returned.
    """
    listed = list(islice(storage.list(key), _FILES + 1))
    kinds = [classify_data_file(item.key.removeprefix(f"{key}/")) for item in listed]
    files = [item for item, kind in zip(listed, kinds, strict=True) if kind]
    table = replace(table, format=", ".join(sorted({*kinds} - {""})))
    if len(listed) > _FILES:
        return table, ()
    last = max((item.modified for item in files), default=0.0)
    table = replace(
        table,
        bytes=sum(item.bytes for item in files),
        files=len(files),
        last_change=_to_datetime(last),
        small_files=sum(item.bytes < SMALL_FILE_BYTES for item in files),
        growth=count_rows_after(read_manifests(storage, key, growth_points), None)
        if growth_points
        else (),
    )
    return table, files


def _count_footer_rows(storage: Storage, files: Sequence[StoredObject]) -> int | None:
    """Sum the row counts in Parquet files' footers; None if a file is damaged."""
    try:
        footers = FilesSnapshot(storage, files, "parquet").iterate_footers()
        return sum(int(footer.num_rows) for footer in footers)
    except LakeportError:
        return None


def _to_datetime(seconds: float) -> datetime | None:
    """Convert Unix seconds to UTC; None for 0."""
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
