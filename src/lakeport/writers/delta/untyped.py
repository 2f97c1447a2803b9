"""Places of a Delta table that never had a value: they take the type of the first one.

The schema in the log has such a place as text, with `lakeport.noValueYet` in the metadata of the
column or member that it is, or is in:
```
true                        the column or member itself, which data files leave out
["{}"]                      had objects without members alone: JSON text in data files
["element", "value.{}"]     parts of its lists and maps, which have no metadata: text in data files
```
What a file lacks is null to every reader, whatever the column's type is: so the first value's type
takes a change of the metadata alone. Only files that have text in the place are written anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakeport.errors import DestinationError, SourceError
from lakeport.model import Storage
from lakeport.schema.sparktypes import spark_json
from lakeport.schema.untyped import (
    OBJECT,
    is_untyped,
    open_columns,
    reopened,
    stored_field,
    with_text,
)
from lakeport.writers.delta.log.actions import parse_path
from lakeport.writers.delta.schema import file_schema

__all__ = [
    "holders",
    "in_files",
    "marked",
    "open_in_files",
    "opened",
    "readable",
    "typed",
]

_UNTYPED = "lakeport.noValueYet"
_OBJECT = "{}"
_READERS = 16


def opened(schema: Mapping[str, Any], columns: pa.Schema) -> pa.Schema:
    """A table's columns, with the types of `lakeport.schema.untyped` in places without a value.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: the same as Arrow has it, or the type of an object.
    """
    pairs = zip(schema["fields"], columns, strict=True)
    return pa.schema(
        [reopened(f, _opened(json_["type"], f.type, _marks(json_))) for json_, f in pairs]
    )


def _opened(spark: Any, type_: pa.DataType, marks: Collection[str]) -> pa.DataType:
    if "" in marks:
        return pa.null()
    if _OBJECT in marks:
        return OBJECT
    if pa.types.is_struct(type_):
        return pa.struct(list(opened(spark, type_)))
    return _with_parts(
        type_,
        [_opened(spark[key], part, _below(marks, name)) for key, name, part in _parts(type_)],
    )


def _marks(field: Mapping[str, Any]) -> frozenset[str]:
    """The places without a value in a column or member, as paths below it; empty for itself."""
    found = field["metadata"].get(_UNTYPED, [])
    return frozenset({""} if found is True else found)


def _below(marks: Collection[str], name: str) -> frozenset[str]:
    """The marks within a part of a list or map.

    >>> sorted(_below({"element", "element.{}", "value"}, "element"))
    ['', '{}']
    """
    paths = (mark.partition(".") for mark in marks)
    return frozenset(rest for first, _, rest in paths if first == name)


def _parts(type_: pa.DataType) -> list[tuple[str, str, pa.DataType]]:
    """The parts of a list or map: their keys in Delta's JSON, their names in paths, their types."""
    if pa.types.is_list(type_):
        return [("elementType", "element", type_.value_type)]
    if pa.types.is_map(type_):
        return [("keyType", "key", type_.key_type), ("valueType", "value", type_.item_type)]
    return []


def _with_parts(type_: pa.DataType, parts: Sequence[pa.DataType]) -> pa.DataType:
    """A list or map with other types of its parts."""
    if pa.types.is_list(type_):
        return pa.list_(reopened(type_.value_field, parts[0]))
    if pa.types.is_map(type_):
        return pa.map_(parts[0], reopened(type_.item_field, parts[1]))
    return type_


def marked(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """A schema, as Delta's JSON, that says which of its places never had a value, and of no others.

    Args:
        schema: the schema, with text in these places.
        columns: the same columns, or type of an object, with the types of
            `lakeport.schema.untyped` there.
    """
    fields = []
    for field, column in zip(schema["fields"], columns, strict=True):
        metadata = {key: value for key, value in field["metadata"].items() if key != _UNTYPED}
        if marks := _marks_of(column.type):
            metadata[_UNTYPED] = True if marks == [""] else marks
        type_ = _marked(field["type"], column.type)
        fields.append({**field, "type": type_, "metadata": metadata})
    return {**schema, "fields": fields}


def _marked(spark: Any, type_: pa.DataType) -> Any:
    if is_untyped(type_):
        return spark
    if pa.types.is_struct(type_):
        return marked(spark, type_)
    return (
        {
            **spark,
            **{key: _marked(spark[key], part) for key, _, part in _parts(type_)},
        }
        if pa.types.is_nested(type_)
        else spark
    )


def _marks_of(type_: pa.DataType) -> list[str]:
    """What is said of a column or member of a type."""
    if is_untyped(type_):
        return [_OBJECT if type_ == OBJECT else ""]
    return [
        f"{name}.{mark}" if mark else name
        for _, name, part in _parts(type_)
        for mark in _marks_of(part)
    ]


def typed(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    """A table's schema, as Delta's JSON, whose places without a value have the types of columns.

    Args:
        schema: the table's.
        columns: what the columns, or the members of an object, are to be; others are left alone.
    """
    types = {column.name: column.type for column in columns}
    fields = [
        {**f, "type": _typed(f["type"], types.get(f["name"]), _marks(f))} for f in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _typed(spark: Any, type_: pa.DataType | None, marks: frozenset[str]) -> Any:
    if type_ is None:
        return spark
    if marks & {"", _OBJECT}:
        wanted = json.loads(spark_json(with_text(pa.schema([("place", type_)]))))
        return wanted["fields"][0]["type"]
    if isinstance(spark, str):
        return spark
    if pa.types.is_struct(type_) and spark["type"] == "struct":
        return typed(spark, type_)
    parts = [one for one in _parts(type_) if one[0] in spark]
    return {**spark, **{k: _typed(spark[k], part, _below(marks, n)) for k, n, part in parts}}


def in_files(columns: pa.Schema, partitions: Iterable[str], keep: Iterable[str] = ()) -> pa.Schema:
    """The columns that batches have on their way into the files.

    Args:
        columns: the table's, with the types of `lakeport.schema.untyped`: a column of the type null
            is left out, and of the others what `as_stored` leaves out.
        partitions: partition columns, which the files' folders tell.
        keep: names, in any case, of others that are there all the same, as text. Where no column
            were left for the files, all are, as files without columns have no rows.
    """
    apart = {name.lower() for name in partitions}
    kept = apart | {name.lower() for name in keep}
    left = [f for f in columns if not pa.types.is_null(f.type) or f.name.lower() in kept]
    own = [f for f in left if f.name.lower() not in apart]
    return pa.schema([stored_field(f) for f in (left if own else columns)])


def open_in_files(schema: Mapping[str, Any], columns: pa.Schema) -> dict[str, pa.DataType]:
    """The columns with places without a value, by their names in data files, and their types there.

    Args:
        schema: the table's schema as Delta's JSON.
        columns: its columns, with the types of `lakeport.schema.untyped`.
    """
    return open_columns(file_schema(schema, columns))


def holders(
    storage: Storage,
    folder: str,
    entries: Sequence[Mapping[str, Any]],
    before: Mapping[str, pa.DataType | None],
    after: Mapping[str, pa.DataType],
) -> list[Mapping[str, Any]]:
    """The data files that have text where a column's type comes to be another; reads their footers.

    Args:
        storage: where the table is.
        folder: its key.
        entries: `add` actions.
        before: columns, by their names in the files, and their types with those of
            `lakeport.schema.untyped` in places without a value; None: any file that has the column.
        after: what they come to be. For a partition column its values are looked at.

    Raises:
        DestinationError: a file can't be read.
    """
    import pyarrow.parquet as pq

    def holds(entry: Mapping[str, Any]) -> bool:
        values = entry.get("partitionValues") or {}
        if any(values[name] is not None for name in before if name in values):
            return True
        names = [name for name in before if name not in values]
        if not names:
            return False
        key = "/".join(filter(None, (folder, parse_path(entry["path"]))))
        with storage.open(key) as file, readable(storage.uri(key)):
            there = {f.name: f.type for f in pq.ParquetFile(file).schema_arrow}
        return any(_misfits(there[n], before[n], after[n]) for n in names if n in there)

    with ThreadPoolExecutor(min(_READERS, max(1, len(entries))), "lakeport-footers") as pool:
        found = list(pool.map(holds, entries))
    return [entry for entry, there in zip(entries, found, strict=True) if there]


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
    parts = zip(_parts(file), _parts(before), _parts(after), strict=False)
    return any(_misfits(one[2], two[2], three[2]) for one, two, three in parts)


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
