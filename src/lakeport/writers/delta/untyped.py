"""The data files of a Delta table and its places that never had a value.

What a file lacks is null to every reader, whatever the column's type is: so columns and members
without a value stay out of files, and the first value's type takes a change of the metadata alone.
Parts of lists and maps, and objects of which nothing else is known, can't be left out: they are
text there, and such files are written anew once there is a type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.delta_log.actions import parse_path
from lakeport.delta_log.state import file_schema
from lakeport.errors import DestinationError, SourceError
from lakeport.model import Storage
from lakeport.schema.nested import find_untyped_columns, is_untyped, to_file_field
from lakeport.schema.spark_schema import list_part_types

if TYPE_CHECKING:
    from lakeport.delta_log.actions import DataFile

_READERS = 16


def stored_columns(
    columns: pa.Schema, partitions: Iterable[str], keep: Iterable[str] = ()
) -> pa.Schema:
    """Return the columns that data files store: no partition columns, none without a value.

    Args:
        columns: the table's, with the types of `lakeport.schema.nested`: a column of the type null
            is left out, and of the others what `to_file_type` leaves out.
        partitions: partition columns, which the files' folders tell.
        keep: names, in any case, of others that are there all the same, as text. Where no column
            were left for the files, all are, as files without columns have no rows.
    """
    apart = {name.lower() for name in partitions}
    kept = apart | {name.lower() for name in keep}
    left = [f for f in columns if not pa.types.is_null(f.type) or f.name.lower() in kept]
    own = [f for f in left if f.name.lower() not in apart]
    return pa.schema([to_file_field(f) for f in (left if own else columns)])


def open_stored_columns(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, pa.DataType]:
    """The columns with places without a value, by their names in data files, and their types there.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: its columns, with the types of `lakeport.schema.nested`.
    """
    return find_untyped_columns(file_schema(schema, columns))


def find_holders(
    storage: Storage,
    folder: str,
    files: Sequence[DataFile],
    before: Mapping[str, pa.DataType | None],
    after: Mapping[str, pa.DataType],
) -> list[DataFile]:
    """Return the data files whose footer has text in a column that gets another type.

    Args:
        storage: where the table is.
        folder: its key.
        files: the table's.
        before: columns, by their names in the files, and their types with those of
            `lakeport.schema.nested` in places without a value; None: any file that has the column.
        after: what they come to be. For a partition column its values are looked at.

    Raises:
        DestinationError: a file can't be read.
    """
    import pyarrow.parquet as pq

    def holds(file: DataFile) -> bool:
        values = file.partition
        if any(values[name] is not None for name in before if name in values):
            return True
        names = [name for name in before if name not in values]
        if not names:
            return False
        key = "/".join(filter(None, (folder, parse_path(file.path))))
        with storage.open(key) as opened, name_unreadable_file(storage.uri(key)):
            there = {f.name: f.type for f in pq.ParquetFile(opened).schema_arrow}
        return any(_misfits(there[n], before[n], after[n]) for n in names if n in there)

    with ThreadPoolExecutor(min(_READERS, max(1, len(files))), "lakeport-footers") as pool:
        found = list(pool.map(holds, files))
    return [file for file, there in zip(files, found, strict=True) if there]


def _misfits(file: pa.DataType, before: pa.DataType | None, after: pa.DataType) -> bool:
    """Whether a place that a file has, and that never had a value, has another type there."""
    if before is None:
        return True
    if is_untyped(before):
        return not is_untyped(after) and not file.equals(after)
    if pa.types.is_struct(before) and pa.types.is_struct(file) and pa.types.is_struct(after):
        there, wanted = {f.name: f.type for f in file}, {f.name: f.type for f in after}
        members = [f for f in before if f.name in there and f.name in wanted]
        return any(_misfits(there[f.name], f.type, wanted[f.name]) for f in members)
    parts = zip(
        list_part_types(file), list_part_types(before), list_part_types(after), strict=False
    )
    return any(_misfits(one[2], two[2], three[2]) for one, two, three in parts)


@contextmanager
def name_unreadable_file(uri: str) -> Iterator[None]:
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
