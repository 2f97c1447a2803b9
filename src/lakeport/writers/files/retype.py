"""Rewrite Parquet files with text in places without a value, once a load brings these a type.

Items of empty lists, and objects without members, can't be left out of files: they are text there.
Once another file has another type in such a place, few readers accept both as one table. So these
files are rewritten, each under its name and with the same rows.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import DestinationError
from lakeport.model import Storage
from lakeport.schema.nested import EMPTY_STRUCT, UnexpectedValue, restore_untyped
from lakeport.writers.files.columns import ColumnLog, file_columns
from lakeport.writers.files.encode import encoder_for

_THREADS = 8


def has_text_places(files: pa.Schema, table: pa.Schema) -> bool:
    """Whether a file's columns have text where the table's have another type, or none yet."""
    there = pa.struct(list(files))
    return bool(_open_text(there, pa.struct(list(table))) != there)


def retype_files(storage: Storage, keys: Sequence[str], columns: pa.Schema) -> tuple[str, ...]:
    """Rewrite files that have text where `columns` have another type; return one warning at most.

    A file with a value in such a place stays as it is. Never raises for a store or damaged file.
    """

    def rewrite(key: str, *, again: bool = True) -> str:
        """Rewrite a file if needed, trying twice; return the failure's reason, or an empty text."""
        try:
            with storage.open(key) as file:
                there = pq.read_schema(file)
            if has_text_places(there, columns):
                storage.rewrite(key, lambda data: _retype_file(data, columns))
        except UnexpectedValue:
            pass
        except DestinationError as error:  # another load may just have done it
            return rewrite(key, again=False) if again else error.message
        except pa.ArrowException as error:
            return f"{storage.uri(key)}: {error}"
        return ""

    with ThreadPoolExecutor(_THREADS, "lakeport-retype") as pool:
        failures = [failure for failure in pool.map(rewrite, keys) if failure]
    return (retype_warning(len(failures), failures[0]),) if failures else ()


def retype_warning(file_count: int, reason: str) -> str:
    """Return the warning that `file_count` files could not be given the table's types."""
    count = f"{file_count:,} earlier files" if file_count > 1 else "an earlier file"
    return (
        f"{count} without a value where this load has the first one could not be given its type, "
        f"and few readers take the folder for one table; the next load tries again: {reason}"
    )


def retype_late(
    storage: Storage, table: str, keys: Sequence[str], planned_record: int = -1
) -> tuple[str, ...]:
    """Rewrite just published files if the table has a newer record of its columns; return warnings.

    Never raises for a store that refuses.

    Args:
        storage: where the lake is.
        table: the table's folder.
        keys: the files' keys.
        planned_record: number of the record by which the files were planned; -1 if unknown.
    """
    try:
        newest = ColumnLog(storage, table).read()
    except DestinationError as error:  # the files are visible: nothing may fail now
        return (retype_warning(len(keys), error.message),)
    if newest.schema is None or newest.number <= planned_record:
        return ()
    return retype_files(storage, keys, file_columns(newest.schema))


def _open_text(there: pa.DataType, table: pa.DataType) -> pa.DataType:
    """Return a file's type with null or an empty struct for text that is no text in the table."""
    if pa.types.is_string(there) and not pa.types.is_string(table):
        return EMPTY_STRUCT if pa.types.is_struct(table) else pa.null()
    if pa.types.is_struct(there) and pa.types.is_struct(table):
        types = {f.name: f.type for f in table}
        return pa.struct([_open_text_field(f, types.get(f.name, pa.null())) for f in there])
    if pa.types.is_list(there) and pa.types.is_list(table):
        return pa.list_(_open_text_field(there.value_field, table.value_type))
    if pa.types.is_map(there) and pa.types.is_map(table):
        return pa.map_(there.key_type, _open_text_field(there.item_field, table.item_type))
    return there


def _open_text_field(field: pa.Field, table: pa.DataType) -> pa.Field:
    """Return a file's field with the type of `_open_text`."""
    return field.with_type(_open_text(field.type, table))


def _retype_file(data: bytes, columns: pa.Schema) -> bytes:
    """Encode a Parquet file's rows again with other types, in the same codec; return its bytes.

    Raises:
        UnexpectedValue: the file has a value in a place that is to get another type.
    """
    file = pq.ParquetFile(pa.BufferReader(data))
    wanted, out = pa.struct(list(columns)), io.BytesIO()
    open_ = _open_text(pa.struct(list(file.schema_arrow)), wanted)
    codec = file.metadata.row_group(0).column(0).compression.lower()
    stage: Any = out
    encoded = encoder_for("parquet", codec.replace("uncompressed", "none")).open(columns, stage)
    for batch in file.iter_batches():
        rows = restore_untyped(restore_untyped(batch.to_struct_array(), open_), wanted)
        encoded.write(pa.RecordBatch.from_arrays(rows.flatten(), schema=columns))
    encoded.close()
    return out.getvalue()
