"""Plan the load of CSV files: dialects, headers, types from all values, splits."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Batch, Split, UnknownPolicy
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.types import Kind, check_column_names, to_arrow_type
from lakeport.sources.csv.detection import contrast, may_be_grouped, other_delimiter, why_text
from lakeport.sources.csv.dialect import CsvDialect, CsvOptions
from lakeport.sources.csv.inference import (
    JOINTS,
    UNJOINED,
    ColumnKinds,
    CsvFile,
    InferKinds,
    heads_of,
    merged,
    split_and_infer,
    split_file,
)
from lakeport.sources.csv.reader import CsvReader, Form, Joints, Layout
from lakeport.sources.csv.readings import Choice, Evidence, Readings, choose, is_partly_seen
from lakeport.sources.csv.values import ANY_KIND
from lakeport.sources.files.file_set import FileSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_OUTPUT_RATIO = 0.25
_NOT_IN_CSV = {Kind.LIST, Kind.STRUCT, Kind.BINARY}

_DOUBTS = {
    "decimal": "{} may have a decimal comma or grouped digits: `--decimal` says which",
    "thousands": "{} may have grouped digits: `--thousands` or `--decimal` says so",
    "date_format": "{} has dates that begin with the day or the month: `--date-format` says which, "
    "such as %d/%m/%Y",
}


def plan_csv(files: FileSet) -> Batch:
    """Find out how files are written, infer the types of undeclared columns, and cut the files.

    Raises:
        InputError: the files don't go together, or with what is declared.
    """
    plain = files.plain(files.csv.encoding)
    declared = _declared(files)
    readings = Readings.of(files.csv)
    heads = heads_of(files, plain, list(declared))
    known = {name for name, type_ in declared.items() if not _has_formats(type_, readings)}
    skip = known if files.csv.infer_types else _named_columns(heads) - (declared.keys() - known)
    cut = partial(_cut, files.split_bytes, readings, skip, files.local)
    heads, warnings = _without_empty(files, files.look(cut, heads), declared)
    forms = tuple(dict.fromkeys(file.form for file in heads))
    names = _columns(files, tuple(form.layout for form in forms), declared)
    places = {file.file.uri: forms.index(file.form) for file in heads}
    inferred = {*names} if files.csv.infer_types else {*declared}
    wanted = [name for name in names if name in inferred and name not in known]
    choices, joints = _choices(files, wanted, heads, readings)
    types = {name: choice.type for name, choice in choices.items()} | declared
    formats = {
        name: format_
        for name, choice in choices.items()
        if (format_ := choice.format or readings.named(declared.get(name)))
    }
    untyped = frozenset(n for n, c in choices.items() if c.empty) - declared.keys()
    joined, told = _joined(joints, heads, types, untyped)
    reader = CsvReader(
        stream=files.stream,
        schema=pa.schema([(name, types.get(name, pa.string())) for name in names]),
        forms=forms,
        files={uri: place for uri, place in places.items() if place},
        unknown=files.config.unknown_fields,
        required=frozenset(field.name for field in files.fields if field.required),
        formats=formats,
        empty=untyped,
        joined=joined,
    )
    size = sum(file.bytes for file in plain)
    splits = [split for file in heads for split in file.splits if split.start < split.end]
    return Batch(
        files.stream,
        0,
        reader,
        tuple(splits),
        bytes=size,
        output_ratio=_OUTPUT_RATIO,
        warnings=(*warnings, *told),
        notes=_notes_of(files, heads, choices, declared, reader),
        untyped=dict.fromkeys(untyped, pa.null()),
    )


def _joined(
    joints: Joints,
    heads: list[CsvFile],
    types: Mapping[str, pa.DataType],
    untyped: Collection[str],
) -> tuple[bool, list[str]]:
    """Tell repeated headers and byte order marks from data: they would make a column text.

    Returns:
        Whether readers leave them out, and what the user has to know.
    """

    def is_other_than_text(name: str) -> bool:
        return name in untyped or not pa.types.is_string(types.get(name, pa.string()))

    layouts = [file.form.layout for file in heads]
    joined = (
        Joints.HEADER_MARKED in joints
        or (Joints.HEADER in joints and any(map(is_other_than_text, chain(*layouts))))
        or (Joints.MARK in joints and any(is_other_than_text(names[0]) for names in layouts))
    )
    told = []
    if joints & (Joints.HEADER | Joints.HEADER_MARKED):
        told.append(
            "files were joined into one: the rows that repeat the header are left out."
            if joined
            else "a row repeats the header, and is landed as data, as every column is text; "
            "`--sql` with a `WHERE` leaves it out."
        )
    if Joints.MARK in joints:
        told.append(
            "files were joined into one: the byte order marks before rows are left out."
            if joined
            else "a byte order mark stands before a row, and is landed as part of its first text."
        )
    return joined, told


def _declared(files: FileSet) -> dict[str, pa.DataType]:
    for field in files.fields:
        if field.type.kind in _NOT_IN_CSV:
            raise SourceError(
                f"column {field.name!r} is declared as {field.type.kind}, which CSV can't hold",
                "declare it as `string` (or `json`).",
            )
    return {field.name: to_arrow_type(field.type) for field in files.fields}


def _has_formats(type_: pa.DataType, readings: Readings) -> bool:
    """Whether values of a declared type may be written otherwise than plainly."""
    return bool(readings.formats) and not (pa.types.is_string(type_) or pa.types.is_boolean(type_))


def _named_columns(heads: list[CsvFile]) -> set[str]:
    """Return the columns that have a name in the header of every file."""
    unnamed = {name for file in heads for name, _ in file.head.unnamed}
    return {name for file in heads for name in file.form.layout} - unnamed


def _cut(
    split_bytes: int, readings: Readings, skip: Collection[str], local: bool, csv: CsvFile
) -> list[CsvFile]:
    """Cut a file into splits, look for joints, and infer all columns but those to `skip`.

    On Spark, tasks infer the columns of each split afterwards.
    """
    columns = frozenset(csv.form.layout).difference(skip)
    infer = InferKinds(csv.form, columns, readings)
    if infer.native and (local or not columns):
        splits, kinds = split_and_infer(csv.file, csv.head, infer, split_bytes)
        return [csv._replace(splits=splits, kinds=kinds)]
    return [csv._replace(splits=split_file(csv.file, csv.head, csv.form.dialect, split_bytes))]


def _columns(
    files: FileSet, layouts: tuple[Layout, ...], declared: dict[str, pa.DataType]
) -> list[str]:
    """The columns to land, in order: the files' by name, or those of the JSON schema first."""
    present = list(dict.fromkeys(name for layout in layouts for name in layout if name))
    there = {*present, *files.folder_names}
    absent = [name for name in declared if name not in there]
    if absent and not files.declares_all:
        raise SourceError(
            f"column {absent[0]!r} is declared, but no file has it",
            f"the files have {quote_names(sort_by_similarity(absent[0], present))}.",
        )
    known = list(declared) if files.declares_all else [name for name in layouts[0] if name]
    expected = {*known}
    extra = [name for name in present if name not in expected]
    if extra and files.config.unknown_fields is UnknownPolicy.FAIL:
        raise UnknownFields(
            f"stream {files.stream!r} has columns that "
            + ("its schema does not declare: " if files.declares_all else "its first file lacks: ")
            + ", ".join(repr(name) for name in extra),
            "declare them, or set `unknown_fields` to `evolve` or `drop`.",
        )
    names = known if files.config.unknown_fields is UnknownPolicy.DROP else known + extra
    check_column_names(files.stream, names)
    return names


def _without_empty(
    files: FileSet,
    heads: list[CsvFile],
    declared: Mapping[str, pa.DataType],
) -> tuple[list[CsvFile], tuple[str, ...]]:
    """Leave columns out that have neither a name nor a value; and say so of all without a name."""
    unnamed = dict(item for file in heads for item in file.head.unnamed)
    if not unnamed:
        return heads, ()
    named = {n for file in heads for n in {*file.form.layout} - {*dict(file.head.unnamed)}}
    kinds = _kinds(files, unnamed, heads, Readings())
    empty = {name for name in unnamed if kinds.get(name, ANY_KIND) & ANY_KIND == ANY_KIND}
    empty -= named | declared.keys()
    if not named and empty == unnamed.keys():
        raise SourceError(
            f"no column of stream {files.stream!r} has a name or a value",
            "check `--delimiter` and `--skip-rows`, and whether this is a CSV file.",
        )
    warnings = tuple(
        f"column {position} has no name"
        + (" and no value: it is left out." if name in empty else f": it is called {name!r}.")
        for name, position in unnamed.items()
    )
    return [file.without(empty) for file in heads], warnings


def _choices(
    files: FileSet,
    names: list[str],
    heads: list[CsvFile],
    readings: Readings,
) -> tuple[dict[str, Choice], Joints]:
    """Choose types and formats of columns, by all texts; return what shows joined files, too."""
    comma = all(file.form.dialect.delimiter != "," for file in heads)
    kinds = _kinds(files, names, heads, readings)
    joints = Joints(UNJOINED & ~kinds.pop(JOINTS, UNJOINED))
    evidence = Evidence.of(readings, kinds.values(), comma=comma)
    if again := [name for name in kinds if is_partly_seen(readings, kinds[name], evidence)]:
        kinds |= _kinds(files, again, heads, readings, thorough=True)
        kinds.pop(JOINTS, None)
        evidence = Evidence.of(readings, kinds.values(), comma=comma)
    choices = {name: choose(readings, kinds.get(name, readings.any), evidence) for name in names}
    return choices, joints


def _kinds(
    files: FileSet,
    names: Iterable[str],
    heads: list[CsvFile],
    readings: Readings,
    *,
    thorough: bool = False,
) -> dict[str, int]:
    """What the texts of columns can be in all files that have them; see `InferKinds`."""
    wanted = frozenset(names)
    asked = wanted | {JOINTS}
    found: list[ColumnKinds] = []
    splits: dict[Form, list[Split]] = {}
    for file in heads:
        if thorough or file.kinds is None:
            splits.setdefault(file.form, []).extend(file.splits)
        else:
            found += (of for of in file.kinds if of.name in asked)
    for form, some in splits.items():
        found += files.run(InferKinds(form, wanted, readings, thorough), some)
    return merged(found)


def _notes_of(
    files: FileSet,
    heads: Sequence[CsvFile],
    choices: Mapping[str, Choice],
    declared: Mapping[str, pa.DataType],
    reader: CsvReader,
) -> tuple[str, ...]:
    """What was found out of files that are not plain, and what columns stay text for want of it.

    Args:
        files: the load's.
        heads: how each is written.
        choices: what becomes of columns.
        declared: the types of those that are declared.
        reader: knows how columns are written.
    """
    own = {name: choice for name, choice in choices.items() if name not in declared}
    doubts = {name: choice.doubt for name, choice in own.items() if choice.doubt}
    plain = CsvDialect.of(files.csv)
    groups: dict[tuple[str, ...], list[str]] = {}
    for csv in heads:
        found = csv.form.dialect.differences(plain)
        groups.setdefault(found, []).append(csv.file.name)
    given = {
        "decimal": files.csv.decimal,
        "thousands": files.csv.thousands,
        "dates": files.csv.date_format,
    }
    words = [
        word
        for name, format_ in reader.formats.items()
        for word in format_.words(whole=pa.types.is_integer(reader.schema.field(name).type))
    ]
    said = tuple(dict.fromkeys(w for w in words if given[w.partition(" ")[0]] is None))
    if len(groups) == 1:
        groups = {(*found, *said): names for found, names in groups.items()}
    elif said:
        groups[said] = [csv.file.name for csv in heads]
    notes = [f"{_some(names)}: {', '.join(found)}" for found, names in groups.items() if found]
    notes += [
        f"column {_DOUBTS[option].format(repr(name))}; it stays text."
        for name, option in doubts.items()
    ]
    if files.csv.detect and files.csv.infer_types:
        texts = {n for n, c in own.items() if pa.types.is_string(c.type) and not c.empty}
        numbers = {n for n, c in choices.items() if c.type == pa.float64() and c.format is None}
        notes += _hints(heads[0], texts - doubts.keys(), numbers, files.csv)
    return tuple(notes)


def _hints(
    csv: CsvFile, texts: Collection[str], numbers: Collection[str], options: CsvOptions
) -> Iterator[str]:
    """What may be meant otherwise than it is read, by the beginning of a file."""
    layout, dialect, _ = csv.form
    rows = [(line, row) for line, row in csv.first_rows() if len(row) == len(layout)]
    if dialect.delimiter == "," or options.decimal is not None or options.thousands is not None:
        numbers = ()  # a point is one
    if not rows or not (texts or numbers):
        return
    if len(layout) == 1 and options.delimiter is None:
        lines = [*layout * dialect.header, *(row[0] for _, row in rows)]
        other, width = other_delimiter(lines)
        if other:
            yield f"{csv.file.name}: one column; `--delimiter {other!r}` makes {width} of it."
    if not dialect.header and contrast([row for _, row in rows], 0):
        yield (
            f"{csv.file.name}: the first record looks like a header, and is landed as a row: "
            f"`--skip-rows {csv.head.line}` leaves it out."
        )
        return
    for n, name in enumerate(layout):
        if name in numbers and may_be_grouped([row[n] for _, row in rows if row[n]]):
            yield (
                f"column {name!r} is read with a decimal point; if points group its digits, "
                "`--thousands .` says so."
            )
    hints: dict[str, list[str]] = {}
    for n, name in enumerate(layout):
        if name in texts:
            cells = [(line, row[n]) for line, row in rows if row[n]]
            hints.setdefault(why_text(name, cells, options), []).append(name)
    for hint, (name, *others) in hints.items():
        if hint:
            like = f", like {quote_names(others)}" if others else ""
            yield f"column {name!r} {hint}; it stays text{like}."


def _some(names: Sequence[str]) -> str:
    """
    >>> _some(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more files'
    """
    if len(names) == 1:
        return names[0]
    more = len(names) - 1
    return f"{names[0]} and {more} more file{'s' if more > 1 else ''}"
