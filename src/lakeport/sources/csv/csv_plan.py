"""Plan the load of CSV files: detect dialects, infer types, reconcile files, make notes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Batch, Split, UnknownPolicy
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.types import Kind, check_column_names, is_number, to_arrow_type
from lakeport.sources.csv.conversion import ANY_KIND
from lakeport.sources.csv.detection import (
    CsvFile,
    classify_field,
    detect_files,
    is_header_above_values,
    split_file,
)
from lakeport.sources.csv.dialect import (
    MINUS,
    PLAIN_NUMBER,
    AmountFormat,
    CsvDialect,
    CsvOptions,
    Format,
    NumberFormat,
)
from lakeport.sources.csv.inference import (
    PLAIN_DOUBLE,
    TRACES,
    UNSEEN_TRACES,
    CandidateBits,
    ColumnInference,
    FormatCandidates,
    InferredType,
    NumberEvidence,
    infer_type,
    merge_candidates,
    needs_thorough_inference,
    split_and_infer,
)
from lakeport.sources.csv.reader import VALUE_OPTIONS, CsvLayout, CsvReader, JoinTraces
from lakeport.sources.files.file_set import FileSet

_OUTPUT_RATIO = 0.25
_NOT_IN_CSV = {Kind.LIST, Kind.STRUCT, Kind.BINARY}

_DOUBTS = {
    "decimal": "{} may have a decimal comma or grouped digits: `--decimal` says which",
    "thousands": "{} may have grouped digits: `--thousands` or `--decimal` says so",
    "date_format": "{} has dates that begin with the day or the month: `--date-format` says which, "
    "such as %d/%m/%Y",
}


def plan_csv(files: FileSet) -> Batch:
    """Plan the load of CSV files as one batch; InputError if they contradict declared columns."""
    plain = files.make_plain(files.csv.encoding)
    declared = _declared_types(files)
    formats = FormatCandidates.from_options(files.csv)
    detected = detect_files(files, plain, list(declared))
    formats = replace(formats, amounts=_find_amounts(files.csv, detected, declared, formats))
    scanned = _split_files(files, detected, declared, formats)
    csv_files, unnamed_warnings = _drop_empty_columns(files, scanned, declared)
    names = _reconcile_columns(files, csv_files, declared)
    columns, traces = _infer_columns(files, csv_files, names, declared, formats)
    is_joined, join_warnings = _detect_joined_files(traces, csv_files, columns)
    layouts = list(dict.fromkeys(csv.layout for csv in csv_files))
    layout_of = {csv.file.uri: layouts.index(csv.layout) for csv in csv_files}
    reader = CsvReader(
        stream=files.stream,
        schema=pa.schema([(name, columns.type_of(name)) for name in names]),
        layouts=tuple(layouts),
        layout_of={uri: index for uri, index in layout_of.items() if index},
        required=frozenset(field.name for field in files.fields if field.required),
        formats=columns.formats,
        empty=columns.empty,
        is_joined=is_joined,
        given=frozenset(name for name in VALUE_OPTIONS if getattr(files.csv, name) is not None),
    )
    splits = chain.from_iterable(csv.splits for csv in csv_files)
    return Batch(
        files.stream,
        0,
        reader,
        tuple(split for split in splits if split.start < split.end),
        bytes=sum(file.bytes for file in plain),
        output_ratio=_OUTPUT_RATIO,
        warnings=(*unnamed_warnings, *join_warnings),
        notes=_make_notes(files, csv_files, columns),
        untyped=dict.fromkeys(columns.empty, pa.null()),
    )


class _Columns(NamedTuple):
    """Types and formats of the columns that a CSV load lands.

    Attributes:
        types: declared or inferred; columns without an entry are text.
        formats: formats of the columns whose numbers or dates are not plain.
        inferred: inferred types of undeclared columns.
        empty: undeclared columns without any value.
        plain_doubles: columns, also declared ones, whose texts are numbers with a decimal point.
    """

    types: dict[str, pa.DataType]
    formats: dict[str, Format]
    inferred: dict[str, InferredType]
    empty: frozenset[str]
    plain_doubles: frozenset[str]

    def type_of(self, name: str) -> pa.DataType:
        """Return a column's declared or inferred type; text if it has neither."""
        return self.types.get(name, pa.string())


def _declared_types(files: FileSet) -> dict[str, pa.DataType]:
    """Return the declared columns' Arrow types; SourceError for lists, structs and binary."""
    for field in files.fields:
        if field.type.kind in _NOT_IN_CSV:
            raise SourceError(
                f"column {field.name!r} is declared as {field.type.kind}, which CSV can't hold",
                "declare it as `string` (or `json`).",
            )
    return {field.name: to_arrow_type(field.type) for field in files.fields}


def _find_amounts(
    options: CsvOptions,
    csv_files: Sequence[CsvFile],
    declared: Mapping[str, pa.DataType],
    formats: FormatCandidates,
) -> dict[str, AmountFormat]:
    """Return formats of those columns declared as numbers whose first values are amounts.

    An amount has a currency or `%`, parentheses, or a minus behind. The first unit is a column's.
    """
    numeric = {name for name, type_ in declared.items() if is_number(type_)}
    if not numeric or not (options.detect or options.currency):
        return {}
    found: dict[str, list[str]] = {}
    for csv in csv_files[:_AMOUNT_FILES]:
        names = csv.layout.columns
        for _, row in csv.first_rows():
            for name, value in zip(names, row, strict=False):
                if name in numeric:
                    found.setdefault(name, []).append(value)
    amounts: dict[str, AmountFormat] = {}
    for name, values in found.items():
        parts = [part for value in values if (part := _SIGNED_NUMBER.fullmatch(value))]
        signs = [(p["before"].strip(), p["after"].strip()) for p in parts]
        if not options.currency and all(s in (("", ""), ("-", ""), ("+", "")) for s in signs):
            continue
        units = [re.findall(_UNIT, " ".join(both)) for both in signs]
        first = next(chain.from_iterable(units), "")
        amount = AmountFormat(first if first == "%" else options.currency or first)
        alike = [p[0] for p, u in zip(parts, units, strict=True) if {*u} <= {amount.unit}]
        texts = amount.strip(pa.array(alike, pa.string()))
        evidence = NumberEvidence(frozenset(), frozenset(), allows_comma=True)
        how = infer_type(formats, formats.narrow(texts, formats.initial), evidence).format
        known = how or formats.format_of_declared(declared[name])
        amounts[name] = replace(amount, number=known) if isinstance(known, NumberFormat) else amount
    return amounts


def _plain_columns(declared: Mapping[str, pa.DataType], formats: FormatCandidates) -> set[str]:
    """Return the declared columns with only one possible format, such as text and booleans."""
    return {
        name
        for name, type_ in declared.items()
        if not formats.formats or pa.types.is_string(type_) or pa.types.is_boolean(type_)
    }


def _split_files(
    files: FileSet,
    detected: Sequence[CsvFile],
    declared: Mapping[str, pa.DataType],
    formats: FormatCandidates,
) -> list[CsvFile]:
    """Split files; if the native kernel can, also infer column types in the same read.

    Inference covers the columns that will need a type, and those without a name: these are left
    out if they have no value either.
    """
    skipped = _plain_columns(declared, formats)
    if not files.csv.infer_types:
        skipped = _named_columns(detected) - (declared.keys() - skipped)
    split = partial(_split_file, files.split_bytes, formats, skipped, files.local)
    return files.run_light(split, detected)


def _split_file(
    split_bytes: int,
    formats: FormatCandidates,
    skipped: Collection[str],
    is_local: bool,
    csv: CsvFile,
) -> list[CsvFile]:
    """Split one file; also infer type candidates if it is local and the native kernel can read it.

    The kernel takes no longer than to split. Otherwise tasks infer the columns of each split
    afterwards. Run inside tasks.
    """
    columns = frozenset(csv.layout.columns).difference(skipped)
    inference = ColumnInference(csv.layout, columns, formats)
    if inference.create_parser() is not None and (is_local or not columns):
        splits, found = split_and_infer(csv.file, csv.header, inference, split_bytes)
        return [csv._replace(splits=splits, candidates=found)]
    splits = split_file(csv.file, csv.header, csv.layout.dialect, split_bytes)
    return [csv._replace(splits=splits)]


def _named_columns(csv_files: Sequence[CsvFile]) -> set[str]:
    """Return the columns that have a name in the header of every file."""
    unnamed = {name for csv in csv_files for name, _ in csv.header.unnamed}
    return {name for csv in csv_files for name in csv.layout.columns} - unnamed


def _drop_empty_columns(
    files: FileSet, csv_files: list[CsvFile], declared: Mapping[str, pa.DataType]
) -> tuple[list[CsvFile], tuple[str, ...]]:
    """Drop columns with neither name nor value, with a warning; SourceError if no column is left.

    There is a warning for each column without a name.
    """
    unnamed = dict(chain.from_iterable(csv.header.unnamed for csv in csv_files))
    if not unnamed:
        return csv_files, ()
    named: set[str] = set()
    for csv in csv_files:
        named |= {*csv.layout.columns} - dict(csv.header.unnamed).keys()
    found = _read_candidates(files, unnamed, csv_files, FormatCandidates())
    empty = {name for name in unnamed if found.get(name, ANY_KIND) & ANY_KIND == ANY_KIND}
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
    return [csv.drop_columns(empty) for csv in csv_files], warnings


def _reconcile_columns(
    files: FileSet, csv_files: Sequence[CsvFile], declared: Mapping[str, pa.DataType]
) -> list[str]:
    """Merge all headers into the columns to land; SourceError or UnknownFields if they don't fit.

    Raises:
        SourceError: no file has a declared column.
        UnknownFields: a file has a column that is not expected, and `unknown_fields` is `fail`.
    """
    present = list(dict.fromkeys(name for csv in csv_files for name in csv.layout.columns if name))
    there = {*present, *files.folder_names}
    absent = [name for name in declared if name not in there]
    if absent and not files.declares_all:
        raise SourceError(
            f"column {absent[0]!r} is declared, but no file has it",
            f"the files have {quote_names(sort_by_similarity(absent[0], present))}.",
        )
    first = [name for name in csv_files[0].layout.columns if name]
    expected = list(declared) if files.declares_all else first
    extra = [name for name in present if name not in {*expected}]
    if extra and files.config.unknown_fields is UnknownPolicy.FAIL:
        raise UnknownFields(
            f"stream {files.stream!r} has columns that "
            + ("its schema does not declare: " if files.declares_all else "its first file lacks: ")
            + ", ".join(repr(name) for name in extra),
            "declare them, or set `unknown_fields` to `evolve` or `drop`.",
        )
    if files.config.unknown_fields is UnknownPolicy.DROP:
        extra = []
    check_column_names(files.stream, [*expected, *extra])
    return [*expected, *extra]


def _infer_columns(
    files: FileSet,
    csv_files: Sequence[CsvFile],
    names: list[str],
    declared: dict[str, pa.DataType],
    formats: FormatCandidates,
) -> tuple[_Columns, JoinTraces]:
    """Infer undeclared columns' types and all formats; also return signs of joined files."""
    inferable = {*names} if files.csv.infer_types else {*declared}
    inferable -= _plain_columns(declared, formats)
    wanted = [name for name in names if name in inferable]
    chosen, traces = _choose_types(files, wanted, csv_files, formats)
    undeclared = {name: choice for name, choice in chosen.items() if name not in declared}
    found = {
        name: choice.format or formats.format_of_declared(declared.get(name))
        for name, choice in chosen.items()
    }
    for name, amount in formats.amounts.items():
        known = chosen[name].format if name in chosen else None
        found[name] = replace(amount, number=known) if isinstance(known, NumberFormat) else amount
    columns = _Columns(
        types={name: choice.type for name, choice in undeclared.items()} | declared,
        formats={name: format_ for name, format_ in found.items() if format_},
        inferred=undeclared,
        empty=frozenset(name for name, choice in undeclared.items() if choice.is_empty),
        plain_doubles=frozenset(n for n, choice in chosen.items() if choice == PLAIN_DOUBLE),
    )
    return columns, traces


def _choose_types(
    files: FileSet, names: Sequence[str], csv_files: Sequence[CsvFile], formats: FormatCandidates
) -> tuple[dict[str, InferredType], JoinTraces]:
    """Choose each column's type by its texts in all files; also return signs of joined files."""
    allows_comma = all(csv.layout.dialect.delimiter != "," for csv in csv_files)
    collect = partial(NumberEvidence.collect, formats, allows_comma=allows_comma)
    found = _read_candidates(files, names, csv_files, formats)
    traces = JoinTraces(UNSEEN_TRACES & ~found.pop(TRACES, UNSEEN_TRACES))
    evidence = collect(found.values())
    unsure = [n for n in found if needs_thorough_inference(formats, found[n], evidence)]
    if unsure:
        found |= _read_candidates(files, unsure, csv_files, formats, is_thorough=True)
        found.pop(TRACES, None)
        evidence = collect(found.values())
    chosen = {
        name: infer_type(formats, found.get(name, formats.initial), evidence) for name in names
    }
    return chosen, traces


def _read_candidates(
    files: FileSet,
    names: Iterable[str],
    csv_files: Iterable[CsvFile],
    formats: FormatCandidates,
    *,
    is_thorough: bool = False,
) -> dict[str, CandidateBits]:
    """Return by column the bits of types and formats that fit all texts, and of unseen traces.

    Files that were inferred while they were split are not read again, unless `is_thorough`.
    """
    columns = frozenset(names)
    keys = columns | {TRACES}
    found: list[dict[str, int]] = []
    splits: dict[CsvLayout, list[Split]] = {}
    for csv in csv_files:
        if is_thorough or csv.candidates is None:
            splits.setdefault(csv.layout, []).extend(csv.splits)
        else:
            found.append({name: some for name, some in csv.candidates.items() if name in keys})
    for layout, some in splits.items():
        found += files.run(ColumnInference(layout, columns, formats, is_thorough), some)
    return merge_candidates(found)


def _detect_joined_files(
    traces: JoinTraces, csv_files: Iterable[CsvFile], columns: _Columns
) -> tuple[bool, list[str]]:
    """Decide whether readers drop repeated headers and byte order marks; also return warnings.

    They are dropped where they can't be data: a column would be text because of them alone.
    """

    def is_other_than_text(name: str) -> bool:
        return name in columns.empty or not pa.types.is_string(columns.type_of(name))

    names = [csv.layout.columns for csv in csv_files]
    is_joined = (
        JoinTraces.MARKED_HEADER in traces
        or (JoinTraces.HEADER in traces and any(map(is_other_than_text, chain(*names))))
        or (JoinTraces.MARK in traces and any(is_other_than_text(some[0]) for some in names))
    )
    warnings = []
    if traces & (JoinTraces.HEADER | JoinTraces.MARKED_HEADER):
        warnings.append(
            "files were joined into one: the rows that repeat the header are left out."
            if is_joined
            else "a row repeats the header, and is landed as data, as every column is text; "
            "`--sql` with a `WHERE` leaves it out."
        )
    if JoinTraces.MARK in traces:
        warnings.append(
            "files were joined into one: the byte order marks before rows are left out."
            if is_joined
            else "a byte order mark stands before a row, and is landed as part of its first text."
        )
    return is_joined, warnings


def _make_notes(files: FileSet, csv_files: Sequence[CsvFile], columns: _Columns) -> tuple[str, ...]:
    """Return the notes for the report: detected dialects and formats, and columns left as text."""
    notes = _note_dialects(files.csv, csv_files, _describe_formats(files.csv, columns))
    doubts = {name: choice.doubt for name, choice in columns.inferred.items() if choice.doubt}
    notes += [
        f"column {_DOUBTS[option].format(repr(name))}; it stays text."
        for name, option in doubts.items()
    ]
    notes += [
        f"column {name!r} has amounts{f' in {unit!r}' * bool(unit)} ({', '.join(marks)}), which "
        f"land as numbers{f' without {unit!r}' * bool(unit)}{': 5 % is 5' * (unit == '%')}."
        for name, format_ in columns.formats.items()
        if isinstance(format_, AmountFormat)
        for unit in (format_.unit,)
        for marks in (format_.describe(is_whole=False) or ("decimal point",),)
    ]
    if files.csv.detect and files.csv.infer_types:
        notes += _suggest_options(csv_files[0], columns, files.csv)
    return tuple(notes)


def _describe_formats(options: CsvOptions, columns: _Columns) -> tuple[str, ...]:
    """Return a phrase for each inferred number or date format; none if the user set it."""
    given = {
        "decimal": options.decimal,
        "thousands": options.thousands,
        "dates": options.date_format,
    }
    phrases = [
        phrase
        for name, format_ in columns.formats.items()
        for phrase in format_.describe(is_whole=pa.types.is_integer(columns.type_of(name)))
    ]
    return tuple(dict.fromkeys(p for p in phrases if given[p.partition(" ")[0]] is None))


def _note_dialects(
    options: CsvOptions, csv_files: Sequence[CsvFile], formats: tuple[str, ...]
) -> list[str]:
    """Return one note for each detected dialect with its files, and add the phrases `formats`."""
    plain = CsvDialect.from_options(options)
    groups: dict[tuple[str, ...], list[str]] = {}
    for csv in csv_files:
        phrases = csv.layout.dialect.describe_differences(plain)
        groups.setdefault(phrases, []).append(csv.file.name)
    if len(groups) == 1:
        groups = {(*phrases, *formats): names for phrases, names in groups.items()}
    elif formats:
        groups[formats] = [csv.file.name for csv in csv_files]
    return [f"{_abbreviate(names)}: {', '.join(found)}" for found, names in groups.items() if found]


def _abbreviate(names: Sequence[str]) -> str:
    """Return the first file name and the number of further files, if there are any.

    >>> _abbreviate(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more files'
    """
    if len(names) == 1:
        return names[0]
    more = len(names) - 1
    return f"{names[0]} and {more} more file{'s' if more > 1 else ''}"


def _suggest_options(csv: CsvFile, columns: _Columns, options: CsvOptions) -> Iterator[str]:
    """Yield notes that suggest options for reading a file better, judged by its first records.

    Only columns that are text for certain are looked at, and plain doubles whose points may group
    digits.
    """
    names, dialect, _ = csv.layout
    texts = {
        name
        for name, choice in columns.inferred.items()
        if pa.types.is_string(choice.type) and not choice.is_empty and not choice.doubt
    }
    numbers = frozenset[str]()
    if not _are_points_decimal(dialect, options):
        formats = columns.formats.items()
        amounts = {
            n for n, f in formats if isinstance(f, AmountFormat) and f.number == PLAIN_NUMBER
        }
        numbers = columns.plain_doubles | amounts
    rows = [(line, row) for line, row in csv.first_rows() if len(row) == len(names)]
    if not rows or not (texts or numbers):
        return
    if len(names) == 1 and options.delimiter is None:
        lines = [*names * dialect.header, *(row[0] for _, row in rows)]
        other, width = suggest_delimiter(lines)
        if other:
            yield f"{csv.file.name}: one column; `--delimiter {other!r}` makes {width} of it."
    if not dialect.header and is_header_above_values([row for _, row in rows], 0):
        yield (
            f"{csv.file.name}: the first record looks like a header, and is landed as a row: "
            f"`--skip-rows {csv.header.line}` leaves it out."
        )
        return
    for n, name in enumerate(names):
        if name in numbers and may_be_grouped([row[n] for _, row in rows if row[n]]):
            yield (
                f"column {name!r} is read with a decimal point; if points group its digits, "
                "`--thousands .` says so."
            )
    reasons: dict[str, list[str]] = {}
    for n, name in enumerate(names):
        if name in texts:
            fields = [(line, row[n]) for line, row in rows if row[n]]
            reasons.setdefault(explain_text_column(name, fields, options), []).append(name)
    for reason, (name, *others) in reasons.items():
        if reason:
            alike = f", like {quote_names(others)}" if others else ""
            yield f"column {name!r} {reason}; it stays text{alike}."


def _are_points_decimal(dialect: CsvDialect, options: CsvOptions) -> bool:
    """Whether points are certainly decimal marks: commas delimit fields, or the user set marks."""
    return dialect.delimiter == "," or options.decimal is not None or options.thousands is not None


_DOUBTED_DELIMITERS = ";,\t|:#!*/ "
_NAME_WORDS = 2  # in each record are a habit of names
_FIRST_FIELDS = 20  # show whether a column is text for good
_MIN_ALIKE = 2  # fields beside which one is odd
_MAX_ODD_SHARE = 0.05
_CODE = re.compile(r"\+|-?0[0-9]|-?[0-9]{16,}|[0-9]{3}(?:[ .\u00a0\u2009\u202f][0-9]{3})+$")
_POINT_GROUPS = re.compile(r"-?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_SHORT_DATE = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2[0-9]{2}(?: .*)?")
_MONTHS = 12
_NULL_WORDS = {"null", "none", "nil", "nan", "n/a", "#n/a", "n.a.", "k.a.", "n.v.", "s/o", "nd"}
_NULL_WORDS |= {"(null)", "#null!", "missing", "\\n", "-", "--", "---", ".", "?", "*"}

_UNIT = (  # currency signs, their abbreviations, three letters of ISO 4217
    r"[A-Za-z]{0,2}[$\u00a2-\u00a5\u20a0-\u20cf]|[%‰]|[A-Z]{3}\b|S?Fr\.|kr\.?|zł|Kč|Ft|лв\.?|руб\.?"
)
_SIGNS = rf"(?:{_UNIT}|[-+\u2212\u2013()]|\s)*"
_SIGNED_NUMBER = re.compile(
    rf"(?P<before>{_SIGNS})(?P<number>[0-9][0-9.,'\u2019 \u00a0\u2009\u202f]*[0-9]|[0-9])"
    rf"(?P<after>{_SIGNS})"
)
_AMOUNT_FILES = 4  # whose beginnings show the currency of declared columns


def suggest_delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return the delimiter that splits all lines into most fields, and their count; or ("", 1).

    It has to cut all lines of the one-column file into the same number of fields.

    >>> suggest_delimiter(["id:name", "1:Ada"]), suggest_delimiter(["name", "Ada"])
    ((':', 2), ('', 1))
    """
    widths = {
        delimiter: len(parts[0])
        for delimiter in _DOUBTED_DELIMITERS
        if len(parts := [line.split(delimiter) for line in lines]) > 1
        and len({len(fields) for fields in parts}) == 1
    }
    if widths.get(" ", 0) <= _NAME_WORDS:
        widths.pop(" ", None)
    best = max(widths, key=widths.__getitem__, default="")
    return (best, widths[best]) if widths.get(best, 1) > 1 else ("", 1)


def may_be_grouped(fields: Sequence[str]) -> bool:
    """Whether all fields are numbers with points before each three digits; False if empty.

    >>> may_be_grouped(["1.234", "(€12.500)"]), may_be_grouped(["1.234", "0.500"])
    (True, False)
    """
    found = [_SIGNED_NUMBER.fullmatch(field) for field in fields]
    return bool(found) and all(each and _POINT_GROUPS.fullmatch(each["number"]) for each in found)


def explain_text_column(name: str, fields: Sequence[tuple[int, str]], options: CsvOptions) -> str:
    """Return why a column stays text, with the option to change it; empty if it is plainly text.

    `fields` are its first ones that are not empty, each with its line.

    >>> from lakeport.sources.csv.dialect import CsvOptions
    >>> explain_text_column("n", [(2, "1"), (3, "NULL"), (4, "2")], CsvOptions())
    "has numbers, and 'NULL': `--null-value '' --null-value NULL` makes that null"
    """
    values = [value for _, value in fields]
    first = values[:_FIRST_FIELDS]
    words = {v for v in first if _classify(v) == "text" and not _SIGNED_NUMBER.fullmatch(v)}
    if not values or 2 * len(words) > len(first):
        return ""
    if reason := _describe_short_dates(values) or _describe_signs(name, values):
        return reason
    kinds = [_classify(value) for value in values]
    codes = sum(classify_field(value) == "code" for value in values)
    if codes and codes + kinds.count("number") == len(values):
        option = shlex.quote(f"{name}=number")
        some = "a value" if codes == 1 else f"{codes} values"
        return f"has {some} like 1E5, which may be codes: `--column {option}` makes numbers of it"
    found = {*kinds} - {"text"}
    if len(found) != 1 or "code" in found:
        return ""
    what = f"{found.pop()}s"
    odd = [field for field, kind in zip(fields, kinds, strict=True) if kind == "text"]
    if not odd:
        by = _name_given_options(what, options)
        return f"looks like {what}, but not all of its values can be read as such in one way{by}"
    words = {value.strip() for _, value in odd}
    if len(words) == 1 and (word := words.pop()).lower() in _NULL_WORDS:
        ways = f"--null-value '' --null-value {shlex.quote(word)}"
        return f"has {what}, and {word!r}: `{ways}` makes that null"
    if len(odd) > max(1, _MAX_ODD_SHARE * len(values)) or len(values) - len(odd) < _MIN_ALIKE:
        return ""
    return f"has {what}, but for line {odd[0][0]}"


def _name_given_options(kind: str, options: CsvOptions) -> str:
    """Return " by " and the user's flags for `dates` or `numbers`; empty if none is set."""
    if kind == "dates" and options.date_format is not None:
        return " by `--date-format`"
    if kind == "numbers" and (options.decimal is not None or options.thousands is not None):
        return " by `--decimal` and `--thousands`"
    return ""


def _classify(value: str) -> str:
    """Return a field's kind: `number`, `code` (such as `007`), `date`, `text` (also blank)."""
    kind = classify_field(value)
    if kind in ("integer", "number"):
        return "code" if _CODE.match(value) else "number"
    return kind or "text"


def _describe_short_dates(values: Sequence[str]) -> str:
    """Suggest formats for two-digit years; empty unless all values are such dates."""
    found = [_SHORT_DATE.fullmatch(value) for value in values]
    dates = [(int(date[1]), date[2], int(date[3])) for date in found if date]
    if len(dates) < len(values) or len({mark for _, mark, _ in dates}) > 1:
        return ""
    mark = dates[0][1]
    orders = [f"%d{mark}%m{mark}%y"] * all(month <= _MONTHS for _, _, month in dates)
    if mark != ".":
        orders += [f"%m{mark}%d{mark}%y"] * all(month <= _MONTHS for month, _, _ in dates)
    if not orders:
        return ""
    ways = " or ".join(f"`--date-format {order}`" for order in orders)
    return f"has dates with two digits for the year: {ways} reads them"


def _describe_signs(name: str, values: Sequence[str]) -> str:
    """Name the signs around numbers, such as `€`, and the option that reads them as numbers.

    Empty for none, or if a value is no number.
    """
    signs: dict[str, None] = {}
    units: set[str] = set()
    for value in values:
        parts = _SIGNED_NUMBER.fullmatch(value)
        if parts is None or _CODE.match(parts["number"]):
            return ""
        around = f"{parts['before']} {parts['after']}"
        units |= {*re.findall(_UNIT, around)}
        signs |= dict.fromkeys(map(repr, re.findall(_UNIT, around)))
        signs |= dict.fromkeys(["parentheses"] * ("(" in around))
        signs |= dict.fromkeys(["a minus behind"] * bool(re.search(f"[{MINUS}]", parts["after"])))
        signs |= dict.fromkeys(["a typographic minus"] * bool({*parts["before"]} & {*MINUS[:-1]}))
        signs |= dict.fromkeys(["spaces around them"] * (value != value.strip()))
    if not signs:
        return ""
    if len(units) > 1:
        return f"has numbers with {', '.join(signs)}, several units"
    type_ = "number" if units & {"%", "‰"} else "decimal(12,2)"
    option, without = shlex.quote(f"{name}={type_}"), "".join(f", without {u!r}" for u in units)
    return (
        f"has numbers with {', '.join(signs)}: `--column {option}` makes numbers of them{without}"
    )
