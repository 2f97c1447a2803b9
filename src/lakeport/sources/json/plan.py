"""Plan the load of JSON files: documents become JSON lines, fields come from all records."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.schema.types import Field, check_names
from lakeport.sources.files.source import Planned
from lakeport.sources.input.plain import SourceFile
from lakeport.sources.json.blocks import Block, read_blocks
from lakeport.sources.json.documents import (
    begins_as_lines,
    document_to_lines,
    is_lines,
    split_lines,
)
from lakeport.sources.json.inference import infer_fields, merge_inferred
from lakeport.sources.json.reader import JsonReader

if TYPE_CHECKING:
    from lakeport.sources.files.source import FileSource
    from lakeport.sources.spool.location import SpoolLocation

__all__ = ["plan_json"]

_OUTPUT_RATIO = 0.2
_MAX_LINE = 100 << 20


def plan_json(source: FileSource) -> Planned:
    """Turn documents into lines, cut the files at line ends, and infer undeclared fields.

    Raises:
        SourceError: a file is not JSON, or no file holds a record.
    """
    files = source.plain_files()
    lines = dict(source.run(partial(_as_lines, source.spool), list(enumerate(files))))
    files = [lines[number] for number in sorted(lines)]
    splits = source.look(partial(_cut, source.split_bytes), files)
    fields = _fields(source, splits)
    reader = JsonReader(
        source.stream,
        fields,
        envelope=False,
        unknown=source.unknown,
        key_properties=source.keys,
        max_record_mb=source.max_record_mb,
    )
    size = sum(file.bytes for file in files)
    return Planned(reader, tuple(splits), size, _OUTPUT_RATIO)


def _as_lines(spool: SpoolLocation, item: tuple[int, SourceFile]) -> list[tuple[int, SourceFile]]:
    number, file = item
    if file.format == "jsonl" or is_lines(file):
        return [item]
    at = spool.new(number, "lines.jsonl")
    try:
        with file.open() as document, spool.create(at) as target:
            size = document_to_lines(document, target, file.name)
    except SourceError:
        if not begins_as_lines(file):
            raise
        return [item]  # JSON lines, some of which are bad records
    uri, key = (at, "") if spool.storage is None else (spool.storage.uri(at), at)
    plain = replace(file, uri=uri, format="jsonl", bytes=size, storage=spool.storage, key=key)
    return [(number, plain)]


def _cut(split_bytes: int, file: SourceFile) -> list[Split]:
    return split_lines(file, split_bytes)


def _fields(source: FileSource, splits: list[Split]) -> tuple[Field, ...]:
    if source.declares_all:
        return source.fields
    declared = {field.name: field for field in source.fields}
    parts = sorted(source.run(_infer, list(enumerate(splits))), key=itemgetter(0))
    found = merge_inferred(fields for _, fields in parts)
    present = {field.name for field in found}
    absent = [name for name in declared if name not in present | source.given]
    if absent:
        raise SourceError(
            f"field {absent[0]!r} is declared, but no record has it",
            f"the records have {', '.join(repr(field.name) for field in found[:20])}.",
        )
    if not splits:
        raise SourceError(f"stream {source.stream!r}: no file holds a record", "name other files.")
    fields = tuple(declared.get(field.name, field) for field in found)
    check_names(source.stream, [field.name for field in fields])
    return fields


def _infer(item: tuple[int, Split]) -> list[tuple[int, tuple[Field, ...]]]:
    number, split = item
    blocks = (block.data for block in read_blocks(split, _MAX_LINE) if isinstance(block, Block))
    return [(number, infer_fields(blocks))]
