"""Plan the load of JSON files: documents become JSON lines, fields come from all records."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Batch, Split
from lakeport.schema.hints import hint_missing_column
from lakeport.schema.nested import find_untyped_columns
from lakeport.schema.types import (
    Field,
    Kind,
    check_column_count,
    check_column_names,
    to_arrow_field,
    to_arrow_type,
)
from lakeport.sources.files.declared_columns import get_json_type
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.json.documents import (
    Values,
    begins_as_lines,
    document_to_lines,
    hint_of,
    is_lines,
    split_lines,
)
from lakeport.sources.json.inference import infer_fields, merge_inferred
from lakeport.sources.json.reader import JsonReader, read_blocks
from lakeport.sources.options import max_record_mb

if TYPE_CHECKING:
    from lakeport.sources.spool import SpoolLocation

_OUTPUT_RATIO = 0.2
_MAX_LINE = 100 << 20


def plan_json(files: FileSet) -> Batch:
    """Turn documents into lines, cut the files at line ends, and infer undeclared fields.

    Raises:
        SourceError: a file is not JSON, or no file holds a record.
    """
    as_lines = partial(_as_lines, files.spool, files.records_path)
    lines = dict(files.run(as_lines, list(enumerate(files.make_plain()))))
    plain = [lines[number] for number in sorted(lines)]
    splits = files.run_light(partial(_cut, files.split_bytes), plain)
    fields = _fields(files, splits)
    reader = JsonReader(
        files.stream,
        fields,
        envelope=False,
        unknown=files.config.unknown_fields,
        max_record_mb=max_record_mb(files.config),
    )
    size = sum(file.bytes for file in plain)
    hint = "" if files.declares_all or files.records_path else hint_of(plain, fields)
    declared = {field.name for field in files.fields}
    inferred = pa.schema(
        [
            (f.name, to_arrow_type(f.type, keep_untyped=True))
            for f in fields
            if f.name not in declared
        ]
    )
    return Batch(
        files.stream,
        0,
        reader,
        tuple(splits),
        bytes=size,
        output_ratio=_OUTPUT_RATIO,
        warnings=(hint,) if hint else (),
        untyped=find_untyped_columns(inferred),
    )


def _as_lines(
    spool: SpoolLocation, path: tuple[str, ...], item: tuple[int, SourceFile]
) -> list[tuple[int, SourceFile]]:
    number, file = item
    if not path and (file.format == "jsonl" or is_lines(file)):
        return [item]
    at = spool.new_name(number, "lines.jsonl")
    try:
        with file.open() as document, spool.create_file(at) as target:
            size = document_to_lines(Values(document, file.name, path), target)
    except SourceError:
        if path or not begins_as_lines(file):
            raise
        return [item]  # JSON lines, some of which are bad records
    uri, key = (at, "") if spool.storage is None else (spool.storage.uri(at), at)
    plain = replace(file, uri=uri, format="jsonl", bytes=size, storage=spool.storage, key=key)
    return [(number, plain)]


def _cut(split_bytes: int, file: SourceFile) -> list[Split]:
    return split_lines(file, split_bytes)


def _fields(files: FileSet, splits: list[Split]) -> tuple[Field, ...]:
    if files.declares_all:
        return files.fields
    declared = {field.name: field for field in files.fields}
    opaque = frozenset(n for n, field in declared.items() if field.type.kind is Kind.JSON)
    infer = partial(_infer, opaque, files.config.max_columns)
    parts = sorted(files.run(infer, list(enumerate(splits))), key=itemgetter(0))
    found = merge_inferred(fields for _, fields in parts)
    present = {field.name for field in found}
    absent = [name for name in declared if name not in present | files.folder_names]
    if absent:
        raise SourceError(
            f"field {absent[0]!r} is declared, but no record has it",
            hint_missing_column(absent[0], present, "the records have"),
        )
    if not splits:
        raise SourceError(f"stream {files.stream!r}: no file holds a record", "name other files.")
    fields = tuple(_read(declared.get(field.name), field, files) for field in found)
    columns = pa.schema([to_arrow_field(field.name, field.type) for field in fields])
    check_column_count(files.stream, columns, files.config.max_columns, every=False)
    check_column_names(files.stream, [field.name for field in fields])
    return fields


def _read(declared: Field | None, found: Field, files: FileSet) -> Field:
    """A field as it is read, where a declaration is of its type in the table."""
    if declared is None:
        return found
    if found.name not in files.config.columns:
        return declared
    return replace(declared, type=get_json_type(declared.type, found.type))


def _infer(
    opaque: frozenset[str], most: int, item: tuple[int, Split]
) -> list[tuple[int, tuple[Field, ...]]]:
    number, split = item
    blocks = (block.data for block in read_blocks(split, _MAX_LINE) if not block.is_cut)
    return [(number, infer_fields(blocks, opaque, most))]
