"""Plan the load of CSV files: dialects, headers, types from all values, splits."""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.named import like, listed
from lakeport.schema.types import Kind, arrow_type, check_names
from lakeport.sources.csv.formats.choice import Choice, Evidence, choose, unseen
from lakeport.sources.csv.formats.readings import Readings
from lakeport.sources.csv.heads import CsvFile, heads_of
from lakeport.sources.csv.inference import (
    JOINTS,
    UNJOINED,
    ColumnKinds,
    InferKinds,
    merged,
    split_and_infer,
    split_file,
)
from lakeport.sources.csv.reader import CsvReader, Form, Joints, Layout
from lakeport.sources.csv.telling import notes_of
from lakeport.sources.csv.values import ANY_KIND
from lakeport.sources.files.file_set import FilePlan, FileSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_OUTPUT_RATIO = 0.25
_NOT_IN_CSV = {Kind.LIST, Kind.STRUCT, Kind.BINARY}


class _Cut(NamedTuple):
    """How a file is cut; and what its columns can be, if that was seen on the way."""

    uri: str
    splits: list[Split]
    kinds: list[ColumnKinds] | None


def plan_csv(files: FileSet) -> FilePlan:
    """Find out how files are written, infer the types of undeclared columns, and cut the files.

    Raises:
        InputError: the files don't go together, or with what is declared.
    """
    plain = files.plain(files.csv.encoding)
    declared = _declared(files)
    readings = Readings.of(files.csv)
    heads = heads_of(files, plain, list(declared), readings)
    known = declared.keys() - _foreign(heads, declared, readings)
    skip = known if files.csv.infer_types else _named_columns(heads) - (declared.keys() - known)
    infer_now = partial(_cut, files.options.split_bytes, readings, skip, files.local)
    cuts = files.look(infer_now, heads)
    heads, warnings = _without_empty(files, heads, cuts, declared)
    forms = tuple(dict.fromkeys(file.form for file in heads))
    names = _columns(files, tuple(form.layout for form in forms), declared)
    places = {file.file.uri: forms.index(file.form) for file in heads}
    inferred = {*names} if files.csv.infer_types else {*declared}
    wanted = [name for name in names if name in inferred and name not in known]
    choices, joints = _choices(files, wanted, heads, cuts, readings)
    types = {name: choice.type for name, choice in choices.items()} | declared
    formats = {
        name: format_
        for name, choice in choices.items()
        if (format_ := choice.format or readings.named(declared.get(name)))
    }
    untyped = frozenset(n for n, c in choices.items() if c.empty) - declared.keys()
    without_headers, without_marks, told = _joined(joints, heads, types, untyped)
    reader = CsvReader(
        stream=files.stream,
        schema=pa.schema([(name, types.get(name, pa.string())) for name in names]),
        forms=forms,
        files={uri: place for uri, place in places.items() if place},
        unknown=files.options.unknown,
        required=frozenset(field.name for field in files.fields if field.required),
        formats=formats,
        empty=untyped,
        headers=tuple({one for h in heads for one in h.head.spellings} if without_headers else ()),
        marks=without_marks,
    )
    size = sum(file.bytes for file in plain)
    splits = [split for cut in cuts for split in cut.splits if split.start < split.end]
    doubts = {n: c.doubt for n, c in choices.items() if c.doubt and n not in declared}
    texts = {n for n, c in choices.items() if pa.types.is_string(c.type) and not c.empty}
    texts -= doubts.keys() | declared.keys()
    numbers = {n for n, c in choices.items() if c.type == pa.float64() and c.format is None}
    said = [(format_, pa.types.is_integer(types[n])) for n, format_ in formats.items()]
    return FilePlan(
        reader,
        tuple(splits),
        size,
        _OUTPUT_RATIO,
        warnings=(*warnings, *told),
        notes=notes_of(files, heads, said, doubts, texts, numbers),
        untyped=dict.fromkeys(untyped, pa.null()),
    )


def _joined(
    joints: Joints,
    heads: list[CsvFile],
    types: Mapping[str, pa.DataType],
    untyped: frozenset[str],
) -> tuple[bool, bool, list[str]]:
    """Tell repeated headers from data: they are none where they would make a column text.

    Returns:
        Whether readers drop repeated headers, and byte order marks; and what the user has to know.
    """

    def otherwise(name: str) -> bool:
        return name in untyped or not pa.types.is_string(types.get(name, pa.string()))

    layouts = [file.form.layout for file in heads]
    marked = Joints.HEADER_MARKED in joints
    headers = marked or (Joints.HEADER in joints and any(map(otherwise, chain(*layouts))))
    marks = marked or (Joints.MARK in joints and any(otherwise(names[0]) for names in layouts))
    told = []
    if headers:
        told.append("files were joined into one: the rows that repeat the header are left out.")
    elif Joints.HEADER in joints:
        told.append(
            "a row repeats the header, and is landed as data, as every column is text; `--sql` "
            "with a `WHERE` leaves it out."
        )
    if Joints.MARK in joints:
        told.append(
            "files were joined into one: the byte order marks before rows are left out."
            if marks
            else "a byte order mark stands before a row, and is landed as part of its first text."
        )
    return headers, marks, told


def _declared(files: FileSet) -> dict[str, pa.DataType]:
    for field in files.fields:
        if field.type.kind in _NOT_IN_CSV:
            raise SourceError(
                f"column {field.name!r} is declared as {field.type.kind}, which CSV can't hold",
                "declare it as `string` (or `json`).",
            )
    return {field.name: arrow_type(field.type) for field in files.fields}


def _foreign(
    heads: list[CsvFile], declared: Mapping[str, pa.DataType], readings: Readings
) -> set[str]:
    """Declared columns of numbers or dates that may be written otherwise than plainly."""
    return {
        name
        for file in heads
        for name, foreign in zip(file.form.layout, file.foreign, strict=True)
        if foreign or readings.named(declared.get(name))
        if not pa.types.is_string(declared.get(name, pa.string()))
    }


def _named_columns(heads: list[CsvFile]) -> set[str]:
    """Return the columns that have a name in the header of every file."""
    unnamed = {name for file in heads for name, _ in file.head.unnamed}
    return {name for file in heads for name in file.form.layout} - unnamed


def _cut(
    split_bytes: int, readings: Readings, skip: Collection[str], local: bool, csv: CsvFile
) -> list[_Cut]:
    """Cut a file into splits, look for joints and infer all columns but those to `skip`.

    On Spark, tasks infer the columns of each split afterwards.
    """
    layout, dialect = csv.form
    columns = frozenset(layout).difference(skip)
    infer = InferKinds(layout, columns, dialect, readings, csv.sample, csv.head.spellings)
    if infer.native and (local or not columns):
        return [_Cut(csv.file.uri, *split_and_infer(csv.file, csv.head, infer, split_bytes))]
    return [_Cut(csv.file.uri, split_file(csv.file, csv.head, dialect, split_bytes), None)]


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
            f"the files have {listed(like(absent[0], present))}.",
        )
    known = list(declared) if files.declares_all else [name for name in layouts[0] if name]
    expected = {*known}
    extra = [name for name in present if name not in expected]
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
    heads: list[CsvFile],
    cuts: list[_Cut],
    declared: Mapping[str, pa.DataType],
) -> tuple[list[CsvFile], tuple[str, ...]]:
    """Leave columns out that have neither a name nor a value; and say so of all without a name."""
    unnamed = dict(item for file in heads for item in file.head.unnamed)
    if not unnamed:
        return heads, ()
    named = {n for file in heads for n in {*file.form.layout} - {*dict(file.head.unnamed)}}
    kinds = _kinds(files, unnamed, heads, cuts, Readings())
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
    cuts: list[_Cut],
    readings: Readings,
) -> tuple[dict[str, Choice], Joints]:
    """Types and formats of columns, by all of their texts; and what was seen of joined files."""
    comma = all(file.form.dialect.delimiter != "," for file in heads)
    kinds = _kinds(files, names, heads, cuts, readings)
    joints = Joints(UNJOINED & ~kinds.pop(JOINTS, UNJOINED))
    evidence = Evidence.of(readings, kinds.values(), comma=comma)
    if again := [name for name in kinds if unseen(readings, kinds[name], evidence)]:
        kinds |= _kinds(files, again, heads, cuts, readings, thorough=True)
        kinds.pop(JOINTS, None)
        evidence = Evidence.of(readings, kinds.values(), comma=comma)
    choices = {name: choose(readings, kinds.get(name, readings.any), evidence) for name in names}
    return choices, joints


def _kinds(
    files: FileSet,
    names: Iterable[str],
    heads: list[CsvFile],
    cuts: list[_Cut],
    readings: Readings,
    *,
    thorough: bool = False,
) -> dict[str, int]:
    """What the texts of columns can be in all files that have them; see `InferKinds`."""
    wanted = frozenset(names)
    splits_of = {cut.uri: cut.splits for cut in cuts if thorough or cut.kinds is None}
    seen = () if thorough else cuts
    asked = wanted | {JOINTS}
    found = [of for cut in seen for of in cut.kinds or () if of.name in asked]
    splits: dict[Form, list[Split]] = {}
    samples: dict[Form, tuple[int, ...]] = {}
    for file in heads:
        form = file.form
        splits.setdefault(form, []).extend(splits_of.get(file.file.uri, ()))
        samples[form] = tuple(map(and_, samples.get(form, file.sample), file.sample))
    for form, some in splits.items():
        if some:
            layout, dialect = form
            headers = tuple({one for h in heads if h.form == form for one in h.head.spellings})
            infer = InferKinds(layout, wanted, dialect, readings, samples[form], headers, thorough)
            found += files.run(infer, some)
    return merged(found)
