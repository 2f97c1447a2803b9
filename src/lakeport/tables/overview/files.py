"""What a page shows of a folder of Parquet or CSV files, from footers and manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakeport.html.facts import MOST_POINTS, ColumnFacts, TableFacts
from lakeport.schema.sparktypes import NULL_FOLDER
from lakeport.tables.overview.footers import Footer, footer_columns, read_footer
from lakeport.tables.overview.partitions import partition_facts
from lakeport.tables.views import FilesView, size_facts, type_word
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES, target_bytes
from lakeport.writers.files.writer import growth, loads

if TYPE_CHECKING:
    from lakeport.model import Storage, StoredObject

_FOOTERS = 1_000
_LOADS = 1_000
_THREADS = 16


def files_facts(storage: Storage, folder: str, name: str, view: FilesView) -> TableFacts:
    """Tell a folder of files.

    Args:
        storage: where it is.
        folder: its key.
        name: its name on the page.
        view: its files.

    Raises:
        SourceError: a file is damaged.
        DestinationError: the store refused.
    """
    found = loads(storage, folder, _LOADS)
    landed = {uri: rows for load in found for uri, rows in load.files.items()}
    footers = _footers(view)
    counts = [
        footers[item.key].rows if item.key in footers else landed.get(storage.uri(item.key))
        for item in view.files
    ]
    rows = None if None in counts else sum(count or 0 for count in counts)
    named = [_pairs(item.key.removeprefix(folder)) for item in view.files]
    partition_columns = tuple(dict.fromkeys(name for pairs in named for name, _ in pairs))
    names = ["/".join(f"{name}={value}" for name, value in pairs) for pairs in named]
    each = zip(names, (item.bytes for item in view.files), counts, strict=True)
    files, partitions = partition_facts(list(each))
    sizes = size_facts([item.bytes for item in view.files])
    last = max((item.modified for item in view.files), default=0.0)
    return TableFacts(
        name=name,
        uri=storage.uri(folder),
        format=view.kind,
        rows=rows,
        bytes=sizes["bytes"],
        files=files,
        small_files=sizes["small_files"],
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes({}),
        warning=sizes.get("warning"),
        columns=_columns(view, footers, partition_columns),
        partitions=partitions,
        partition_columns=partition_columns,
        growth=growth(found, rows)[-MOST_POINTS:],
        last_change=datetime.fromtimestamp(last, UTC) if last else None,
        notes=_notes(view, footers),
    )


def _footers(view: FilesView) -> dict[str, Footer]:
    """Key -> footer, of the files whose footers are read."""
    if view.kind != "parquet" or len(view.files) > _FOOTERS:
        return {}

    def read(item: StoredObject) -> Footer:
        with view.readable(item):
            return read_footer(view.storage, item.key)

    with ThreadPoolExecutor(_THREADS) as pool:
        keys = [item.key for item in view.files]
        return dict(zip(keys, pool.map(read, view.files), strict=True))


def _columns(
    view: FilesView, footers: Mapping[str, Footer], partition_columns: Sequence[str]
) -> list[ColumnFacts]:
    if footers:
        columns = footer_columns(list(footers.values()))
    else:
        columns = [ColumnFacts(item.name, type_word(item.type)) for item in view.preview(1).schema]
    kept = [column for column in columns if column.name not in partition_columns]
    return [*kept, *(ColumnFacts(name, "string", "partition") for name in partition_columns)]


def _pairs(path: str) -> tuple[tuple[str, str], ...]:
    """The folders of a path that name a partition's column and value.

    >>> _pairs("/day=2024-05-01/city=a%2Fb/part.parquet")
    (('day', '2024-05-01'), ('city', 'a/b'))
    """
    folders = (part.partition("=") for part in path.split("/")[:-1])
    return tuple(
        (unquote(name), "null" if value == NULL_FOLDER else unquote(value))
        for name, sign, value in folders
        if sign and name
    )


def _notes(view: FilesView, footers: Mapping[str, Footer]) -> tuple[str, ...]:
    if view.kind == "csv":
        return ("CSV files do not say how many rows and nulls they have, nor their bounds.",)
    if not footers:
        return (f"The footers of more than {_FOOTERS:,} files are not read.",)
    return ()
