"""Plan the load of CSV files: headers, types from all values, splits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.named import like, listed
from lakeport.schema.types import Kind, arrow_type, check_names
from lakeport.sources.csv.inference import (
    ColumnKinds,
    Head,
    InferKinds,
    merged,
    read_head,
    split_and_infer,
    split_file,
)
from lakeport.sources.csv.reader import CsvReader, Layout
from lakeport.sources.csv.values import ANY_KIND, type_of_kinds
from lakeport.sources.files.file_set import FilePlan, FileSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakeport.sources.csv.options import CsvOptions
    from lakeport.sources.files.source_file import SourceFile

__all__ = ["plan_csv"]

_OUTPUT_RATIO = 0.25
_NOT_IN_CSV = {Kind.LIST, Kind.STRUCT, Kind.BINARY}


class _Cut(NamedTuple):
    """How a file is cut; and what its undeclared columns can be, if that was seen on the way."""

    uri: str
    splits: list[Split]
    kinds: list[ColumnKinds] | None


def plan_csv(files: FileSet) -> FilePlan:
    """Read headers, infer the types of undeclared columns, and cut the files.

    Raises:
        InputError: the files don't go together, or with what is declared.
    """
    plain = files.plain(files.csv.encoding)
    declared = _declared(files)
    heads = _heads(files, plain, list(declared))
    known = frozenset(declared) if files.csv.infer_types and files.local else None
    cuts = files.look(partial(_cut, files.csv, files.options.split_bytes, known), heads)
    heads, warnings = _without_empty(files, heads, cuts, declared)
    layouts = tuple(dict.fromkeys(head.layout for _, head in heads))
    names = _columns(files, layouts, declared)
    places = {file.uri: layouts.index(head.layout) for file, head in heads}
    kinds = _inferred(files, [n for n in names if n not in declared], heads, cuts)
    types = declared | {name: type_of_kinds(of) for name, of in kinds.items()}
    reader = CsvReader(
        stream=files.stream,
        schema=pa.schema([(name, types[name]) for name in names]),
        options=files.csv,
        layouts=layouts,
        files={uri: place for uri, place in places.items() if place},
        unknown=files.options.unknown,
        required=frozenset(field.name for field in files.fields if field.required),
    )
    size = sum(file.bytes for file in plain)
    splits = [split for cut in cuts for split in cut.splits if split.start < split.end]
    untyped = frozenset(name for name, of in kinds.items() if of == ANY_KIND)
    return FilePlan(reader, tuple(splits), size, _OUTPUT_RATIO, warnings=warnings, untyped=untyped)


def _declared(files: FileSet) -> dict[str, pa.DataType]:
    for field in files.fields:
        if field.type.kind in _NOT_IN_CSV:
            raise SourceError(
                f"column {field.name!r} is declared as {field.type.kind}, which CSV can't hold",
                "declare it as `string` (or `json`).",
            )
    return {field.name: arrow_type(field.type) for field in files.fields}


def _heads(
    files: FileSet, plain: list[SourceFile], declared: list[str]
) -> list[tuple[SourceFile, Head]]:
    names = [n for n in declared if n not in files.folder_names] if not files.csv.header else ()
    heads = files.look(partial(_head, files.csv, names), plain)
    filled = [(file, head) for file, head in heads if head.layout]
    if not filled:
        raise SourceError(
            f"file {plain[0].name!r} is empty" if len(plain) == 1 else "all files are empty",
            "a CSV file needs at least a header, or a row if `header` is false.",
        )
    return filled


def _head(
    options: CsvOptions, names: Sequence[str], file: SourceFile
) -> list[tuple[SourceFile, Head]]:
    return [(file, read_head(file, options, names))]


def _cut(
    options: CsvOptions,
    split_bytes: int,
    declared: frozenset[str] | None,
    item: tuple[SourceFile, Head],
) -> list[_Cut]:
    file, head = item
    if declared is not None:
        infer = InferKinds(head.layout, frozenset(head.layout) - declared, options)
        if infer.native and infer.columns:
            return [_Cut(file.uri, *split_and_infer(file, head, infer, split_bytes))]
    return [_Cut(file.uri, split_file(file, head, options, split_bytes), None)]


def _columns(
    files: FileSet, layouts: tuple[Layout, ...], declared: dict[str, pa.DataType]
) -> list[str]:
    """The columns to land, in order: the files' by name, or those of the JSON schema first."""
    present = list(dict.fromkeys(name for layout in layouts for name in layout if name))
    absent = [name for name in declared if name not in {*present, *files.folder_names}]
    if absent and not files.declares_all:
        raise SourceError(
            f"column {absent[0]!r} is declared, but no file has it",
            f"the files have {listed(like(absent[0], present))}.",
        )
    known = list(declared) if files.declares_all else [name for name in layouts[0] if name]
    extra = [name for name in present if name not in known]
    if extra and files.options.unknown is UnknownPolicy.FAIL:
        raise UnknownFields(
            f"stream {files.stream!r} has columns that "
            + ("its schema does not declare: " if files.declares_all else "its first file lacks: ")
            + ", ".join(repr(name) for name in extra),
            "declare them, or set `unknown_fields` to `evolve` or `drop`.",
        )
    names = known if files.options.unknown is UnknownPolicy.DROP else known + extra
    check_names(files.stream, names)
    return names


def _without_empty(
    files: FileSet,
    heads: list[tuple[SourceFile, Head]],
    cuts: list[_Cut],
    declared: Mapping[str, pa.DataType],
) -> tuple[list[tuple[SourceFile, Head]], tuple[str, ...]]:
    """Leave columns out that have neither a name nor a value; and say so of all without a name."""
    unnamed = dict(item for _, head in heads for item in head.unnamed)
    if not unnamed:
        return heads, ()
    named = {name for _, head in heads for name in {*head.layout} - {*dict(head.unnamed)}}
    kinds = _kinds(files, unnamed, heads, cuts)
    empty = {name for name in unnamed if kinds.get(name, ANY_KIND) == ANY_KIND}
    empty -= named | declared.keys()
    if not named and empty == unnamed.keys():
        raise SourceError(
            f"no column of stream {files.stream!r} has a name or a value",
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
    files: FileSet,
    names: list[str],
    heads: list[tuple[SourceFile, Head]],
    cuts: list[_Cut],
) -> dict[str, int]:
    """What the texts of undeclared columns can be: `ANY_KIND` where there is none."""
    if not files.csv.infer_types or not names:
        return dict.fromkeys(names, 0)
    kinds = _kinds(files, names, heads, cuts)
    return {name: kinds.get(name, ANY_KIND) for name in names}


def _kinds(
    files: FileSet,
    names: Iterable[str],
    heads: list[tuple[SourceFile, Head]],
    cuts: list[_Cut],
) -> dict[str, int]:
    """What the texts of columns can be in all files that have them; see `InferKinds`."""
    wanted = frozenset(names)
    found = [of for cut in cuts for of in cut.kinds or () if of.name in wanted]
    waiting = {cut.uri: cut.splits for cut in cuts if cut.kinds is None}
    of_layout: dict[Layout, list[Split]] = {}
    for file, head in heads:
        of_layout.setdefault(head.layout, []).extend(waiting.get(file.uri, ()))
    for layout, splits in of_layout.items():
        if splits:
            found += files.run(InferKinds(layout, wanted, files.csv), splits)
    return merged(found)
