"""Plan the load of CSV files: headers, types from all values, splits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.types import Kind, arrow_type, check_names
from lakeport.sources.csv import CsvReader, Layout
from lakeport.sources.csv_infer import Head, InferKinds, merged, read_head, split_file
from lakeport.sources.csv_values import ANY_KIND, type_of_kinds
from lakeport.sources.files import Planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeport.sources.csv_text import CsvOptions
    from lakeport.sources.files import FileSource
    from lakeport.sources.plain import SourceFile

__all__ = ["plan_csv"]

_OUTPUT_RATIO = 0.25
_NOT_IN_CSV = {Kind.LIST, Kind.STRUCT, Kind.BINARY}


def plan_csv(source: FileSource) -> Planned:
    """Read headers, infer the types of undeclared columns, and cut the files.

    Raises:
        InputError: the files don't go together, or with what is declared.
    """
    files = source.plain_files(source.csv.encoding)
    declared = _declared(source)
    heads = _heads(source, files, list(declared))
    layouts = tuple(dict.fromkeys(head.layout for _, head in heads))
    names = _columns(source, layouts, declared)
    splits = source.look(partial(_cut, source.csv, source.split_bytes), heads)
    places = {file.uri: layouts.index(head.layout) for file, head in heads}
    types = declared | _inferred(
        source, [n for n in names if n not in declared], layouts, places, splits
    )
    reader = CsvReader(
        stream=source.stream,
        schema=pa.schema([(name, types[name]) for name in names]),
        options=source.csv,
        layouts=layouts,
        files={uri: place for uri, place in places.items() if place},
        unknown=source.unknown,
        required=frozenset(field.name for field in source.fields if field.required),
    )
    size = sum(file.bytes for file in files)
    return Planned(reader, tuple(s for s in splits if s.start < s.end), size, _OUTPUT_RATIO)


def _declared(source: FileSource) -> dict[str, pa.DataType]:
    for field in source.fields:
        if field.type.kind in _NOT_IN_CSV:
            raise SourceError(
                f"column {field.name!r} is declared as {field.type.kind}, which CSV can't hold",
                "declare it as `string` (or `json`).",
            )
    return {field.name: arrow_type(field.type) for field in source.fields}


def _heads(
    source: FileSource, files: list[SourceFile], declared: list[str]
) -> list[tuple[SourceFile, Head]]:
    names = declared if not source.csv.header else ()
    heads = source.look(partial(_head, source.csv, names), files)
    filled = [(file, head) for file, head in heads if head.layout]
    if not filled:
        raise SourceError(
            f"file {files[0].name!r} is empty" if len(files) == 1 else "all files are empty",
            "a CSV file needs at least a header, or a row if `header` is false.",
        )
    return filled


def _head(
    options: CsvOptions, names: Sequence[str], file: SourceFile
) -> list[tuple[SourceFile, Head]]:
    return [(file, read_head(file, options, names))]


def _cut(options: CsvOptions, split_bytes: int, item: tuple[SourceFile, Head]) -> list[Split]:
    return split_file(*item, options, split_bytes)


def _columns(
    source: FileSource, layouts: tuple[Layout, ...], declared: dict[str, pa.DataType]
) -> list[str]:
    """The columns to land, in order: the files' by name, or those of the JSON schema first."""
    present = list(dict.fromkeys(name for layout in layouts for name in layout))
    absent = [name for name in declared if name not in present]
    if absent and not source.declares_all:
        raise SourceError(
            f"column {absent[0]!r} is declared, but no file has it",
            f"the files have {', '.join(repr(name) for name in present[:20])}.",
        )
    known = list(declared) if source.declares_all else list(layouts[0])
    extra = [name for name in present if name not in known]
    if extra and source.unknown is UnknownPolicy.FAIL:
        raise UnknownFields(
            f"stream {source.stream!r} has columns that "
            + ("its schema does not declare: " if source.declares_all else "its first file lacks: ")
            + ", ".join(repr(name) for name in extra),
            "declare them, or set `unknown_fields` to `evolve` or `drop`.",
        )
    names = known if source.unknown is UnknownPolicy.DROP else known + extra
    check_names(source.stream, names)
    return names


def _inferred(
    source: FileSource,
    names: list[str],
    layouts: tuple[Layout, ...],
    places: dict[str, int],
    splits: list[Split],
) -> dict[str, pa.DataType]:
    if not source.csv.infer_types or not names:
        return dict.fromkeys(names, pa.string())
    found = []
    for place, layout in enumerate(layouts):
        judge = InferKinds(layout, frozenset(names), source.csv)
        found += source.run(judge, [s for s in splits if places[s.uri] == place])
    kinds = merged(found)
    return {name: type_of_kinds(kinds.get(name, ANY_KIND)) for name in names}
