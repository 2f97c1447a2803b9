"""Columns of a Delta table that never had a value: they take the type of the first one.

The schema in the log has such a column as text, with `lakeport.noValueYet` in its metadata, and
data files leave it out. What a file lacks is null to every reader, whatever the column's type is:
so the first value's type takes a change of the metadata alone, and no file is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeport.errors import DestinationError, SourceError
from lakeport.model import Storage
from lakeport.schema.types import with_text
from lakeport.writers.delta.log.actions import parse_path
from lakeport.writers.delta.schema import physical_names

__all__ = [
    "holders",
    "in_files",
    "left_out",
    "marked",
    "opened",
    "readable",
    "settled",
    "untyped",
    "without",
]

_UNTYPED = "lakeport.noValueYet"
_READERS = 16


def untyped(schema: Mapping[str, Any]) -> frozenset[str]:
    """The columns of a schema, as Delta's JSON, that never had a value."""
    return frozenset(f["name"] for f in schema["fields"] if f["metadata"].get(_UNTYPED))


def opened(columns: pa.Schema, names: Collection[str]) -> pa.Schema:
    """A table's columns, with the type null for those of these names."""
    return pa.schema([f.with_type(pa.null()) if f.name in names else f for f in columns])


def settled(incoming: pa.Schema, table: pa.Schema) -> pa.Schema:
    """A batch's columns, where those without a value have the table's type, or are text.

    >>> table = pa.schema([("N", pa.int64())])
    >>> settled(pa.schema([("n", pa.null()), ("m", pa.null())]), table).types
    [DataType(int64), DataType(string)]
    """
    types = {field.name.lower(): field.type for field in table}
    return with_text(
        pa.schema(
            [
                f.with_type(types.get(f.name.lower(), f.type)) if pa.types.is_null(f.type) else f
                for f in incoming
            ]
        )
    )


def in_files(columns: pa.Schema, partitions: Iterable[str], keep: Iterable[str] = ()) -> pa.Schema:
    """The columns that batches have on their way into the files: no untyped ones.

    Args:
        columns: the table's, with the type null for those that never had a value.
        partitions: partition columns, which the files' folders tell.
        keep: names, in any case, of others that are there all the same, as text. Where no column
            were left for the files, all are, as files without columns have no rows.
    """
    apart = {name.lower() for name in partitions}
    kept = apart | {name.lower() for name in keep}
    left = [f for f in columns if not pa.types.is_null(f.type) or f.name.lower() in kept]
    own = [f for f in left if f.name.lower() not in apart]
    return with_text(pa.schema(left) if own else columns)


def marked(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema, as Delta's JSON, that says of these columns alone that they never had a value."""
    fields = []
    for field in schema["fields"]:
        rest = {key: value for key, value in field["metadata"].items() if key != _UNTYPED}
        mark = {_UNTYPED: True} if field["name"] in names else {}
        fields.append({**field, "metadata": {**rest, **mark}})
    return {**schema, "fields": fields}


def left_out(schema: Mapping[str, Any], columns: pa.Schema) -> frozenset[str]:
    """The names in data files of the untyped columns that batches of these columns lack."""
    names = sorted(untyped(schema) - {*columns.names})
    return frozenset(physical_names(schema, names).values())


def without(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema, as Delta's JSON, without these columns."""
    return {**schema, "fields": [f for f in schema["fields"] if f["name"] not in names]}


def holders(
    storage: Storage, folder: str, entries: Sequence[Mapping[str, Any]], column: str
) -> list[Mapping[str, Any]]:
    """The data files that have a column, be it of nulls alone; reads their footers.

    Args:
        storage: where the table is.
        folder: its key.
        entries: `add` actions.
        column: the column's name in the files; for a partition column its values are looked at.

    Raises:
        DestinationError: a file can't be read.
    """
    has = _column_check(storage, folder, column)
    with ThreadPoolExecutor(min(_READERS, max(1, len(entries))), "lakeport-footers") as pool:
        found = list(pool.map(has, entries))
    return [entry for entry, there in zip(entries, found, strict=True) if there]


def _column_check(
    storage: Storage, folder: str, column: str
) -> Callable[[Mapping[str, Any]], bool]:
    import pyarrow.parquet as pq

    def has(entry: Mapping[str, Any]) -> bool:
        values = entry.get("partitionValues") or {}
        if column in values:
            return values[column] is not None
        key = "/".join(filter(None, (folder, parse_path(entry["path"]))))
        with storage.open(key) as file, readable(storage.uri(key)):
            return column in pq.ParquetFile(file).schema_arrow.names

    return has


@contextmanager
def readable(uri: str) -> Iterator[None]:
    """Have an error say which data file can't be read.

    Raises:
        DestinationError: the file is damaged, or holds what can't be told for sure.
    """
    try:
        yield
    except SourceError as error:
        problem = f"can't read the data file {uri}: {error.message}"
        raise DestinationError(problem, error.hint) from error
    except pa.ArrowException as error:
        raise DestinationError(
            f"can't read the data file {uri}: {error}",
            "restore the file, or the table to a version without it.",
        ) from error
