"""Plan the load of CSV files: headers, types from all values, splits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.types import Kind, arrow_type, check_names
from lakeport.sources.csv.inference import Head, InferKinds, merged, read_head, split_file
from lakeport.sources.csv.reader import CsvReader, Layout
from lakeport.sources.csv.values import ANY_KIND, type_of_kinds
from lakeport.sources.files.source import Planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakeport.sources.csv.options import CsvOptions
    from lakeport.sources.files.source import FileSource
    from lakeport.sources.input.plain import SourceFile

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
    splits = source.look(partial(_cut, source.csv, source.split_bytes), heads)
    heads, warnings = _without_empty(source, heads, splits, declared)
    layouts = tuple(dict.fromkeys(head.layout for _, head in heads))
    names = _columns(source, layouts, declared)
    places = {file.uri: layouts.index(head.layout) for file, head in heads}
    types = declared | _inferred(source, [n for n in names if n not in declared], heads, splits)
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
    splits = [split for split in splits if split.start < split.end]
    return Planned(reader, tuple(splits), size, _OUTPUT_RATIO, warnings=warnings)


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
    names = [n for n in declared if n not in source.given] if not source.csv.header else ()
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
    present = list(dict.fromkeys(name for layout in layouts for name in layout if name))
    absent = [name for name in declared if name not in {*present, *source.given}]
    if absent and not source.declares_all:
        raise SourceError(
            f"column {absent[0]!r} is declared, but no file has it",
            f"the files have {', '.join(repr(name) for name in present[:20])}.",
        )
    known = list(declared) if source.declares_all else [name for name in layouts[0] if name]
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


def _without_empty(
    source: FileSource,
    heads: list[tuple[SourceFile, Head]],
    splits: list[Split],
    declared: Mapping[str, pa.DataType],
) -> tuple[list[tuple[SourceFile, Head]], tuple[str, ...]]:
    """Leave columns out that have neither a name nor a value; and say so of all without a name."""
    unnamed = dict(item for _, head in heads for item in head.unnamed)
    if not unnamed:
        return heads, ()
    named = {name for _, head in heads for name in {*head.layout} - {*dict(head.unnamed)}}
    kinds = _kinds(source, unnamed, heads, splits)
    empty = {name for name in unnamed if kinds.get(name, ANY_KIND) == ANY_KIND}
    empty -= named | declared.keys()
    if not named and empty == unnamed.keys():
        raise SourceError(
            f"no column of stream {source.stream!r} has a name or a value",
            "check `delimiter` and `skip_rows`, and whether this is a CSV file.",
        )
    warnings = tuple(
        f"column {position} has no name"
        + (" and no value: it is left out." if name in empty else f": it is called {name!r}.")
        for name, position in unnamed.items()
    )
    kept = [
        (file, head._replace(layout=tuple("" if n in empty else n for n in head.layout)))
        for file, head in heads
    ]
    return kept, warnings


def _inferred(
    source: FileSource,
    names: list[str],
    heads: list[tuple[SourceFile, Head]],
    splits: list[Split],
) -> dict[str, pa.DataType]:
    if not source.csv.infer_types or not names:
        return dict.fromkeys(names, pa.string())
    kinds = _kinds(source, names, heads, splits)
    return {name: type_of_kinds(kinds.get(name, ANY_KIND)) for name in names}


def _kinds(
    source: FileSource,
    names: Iterable[str],
    heads: list[tuple[SourceFile, Head]],
    splits: list[Split],
) -> dict[str, int]:
    """What the texts of columns can be in all files that have them; see `InferKinds`."""
    files: dict[Layout, set[str]] = {}
    for file, head in heads:
        files.setdefault(head.layout, set()).add(file.uri)
    found = []
    for layout, uris in files.items():
        infer = InferKinds(layout, frozenset(names), source.csv)
        found += source.run(infer, [split for split in splits if split.uri in uris])
    return merged(found)
