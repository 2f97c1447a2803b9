"""Detect the dialects of CSV files by their beginning, read their headers, and split them.

Where it is not certain whether a file has a header, its first record counts as one. No record's
value is kept or changed.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, pairwise
from typing import NamedTuple

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.csv.dialect import CsvDialect, CsvOptions, read_numbered_rows
from lakeport.sources.csv.reader import (
    ColumnNames,
    CsvBlock,
    CsvLayout,
    find_record_end,
    hint_for_reason,
    parse_block,
    read_blocks,
    split_records,
)
from lakeport.sources.files.file_set import FileSet
from lakeport.sources.files.source_file import SourceFile, check_signature

_SPACE = "[ \u00a0\u2009\u202f]"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    rf"[+-]?(?=[.,]?[0-9])(?:[0-9]{{1,3}}(?:(?:[.,'\u2019]|{_SPACE})[0-9]{{3}})*|[0-9]+)?(?:[.,][0-9]+)?"
    r"(?:[eE][+-]?[0-9]+)?"
)
_CODE = re.compile("-?[0-9]+[eE][0-9]+")
_DATE = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{2}(?:[0-9]{2})?)"
    r"(?:[T ][0-9]{1,2}:[0-9]{2}.*)?"
)
_YEARS = range(1900, 2101)
_NUMBERS = {"integer", "number"}  # kinds of fields that may stand in one column
_MAX_ROWS = 200
_MIN_SERIES = 3  # whole numbers that go on by one before they may be names
_PAIR = 2  # fields, of which one may well be empty

Row = Sequence[str]

SAMPLE_BYTES = 1 << 16
"""Bytes of a file that detection reads."""

_DELIMITERS = (",", ";", "\t", "|")
_RARE_DELIMITERS = ("~", "^", "\x01", "\x1f")  # hardly ever in texts; only in regular files
_SEPARATOR_LINE = re.compile(r'\A"?sep=(.)"?[ ,;\t]*(?:\r?\n|\Z)', re.IGNORECASE)
_REGULAR_SHARE = 0.8  # of the records from the first to the last regular one are regular,
_REGULAR_SHARE_FROM_TOP = 0.5  # or so many, where the very first one is
_TYPED_ROWS = 100
_LITERAL_QUOTES = 3  # so many quotes that are never closed are text

_MAX_HEADER_BYTES = 16 << 20
_BLOCK_BYTES = 8 << 20


def is_number_or_date(field: str) -> bool:
    """Whether a field is a number, a date or a code like `12E12`, as any country writes them."""
    return classify_field(field) not in ("", "text")


def classify_field(field: str) -> str:
    """Return `integer`, `number`, `date`, `code` (`12E12`) or `text`; empty for a blank field."""
    field = field.strip()
    if not field:
        return ""
    if _INTEGER.fullmatch(field):
        return "integer"
    if _DATE.fullmatch(field):
        return "date"
    if _CODE.fullmatch(field):
        return "code"
    return "number" if _NUMBER.fullmatch(field) else "text"


def has_header(rows: Sequence[Row], declared: Collection[str] = ()) -> bool:
    """Whether the first of several equally long records is a header; True in doubt.

    It is none if it has a number or a date in each column of numbers or dates. But such fields
    may be names after all: years, or whole numbers that go on by one, beside a column of text.
    A record with one of the `declared` columns' names is a header.

    >>> has_header([["id", "name"], ["1", "Ada"]]), has_header([["1", "Ada"], ["2", "Grace"]])
    (True, False)
    >>> has_header([["land", "2019", "2020"], ["DE", "5", "7"]])
    True
    """
    if len(rows) < 2 or set(rows[0]) & set(declared):
        return True
    first, body = rows[0], rows[1:_MAX_ROWS]
    kinds = [_classify_column([row[n] for row in body]) for n in range(len(first))]
    typed = [
        (classify_field(field), kind, field)
        for field, kind in zip(first, kinds, strict=True)
        if kind
    ]
    if not typed or any(own != kind and {own, kind} != _NUMBERS for own, kind, _ in typed):
        return True
    if any(own != "integer" for own, _, _ in typed):
        return False
    numbers = [int(field) for _, _, field in typed]
    if all(number in _YEARS for number in numbers):
        return True
    steps = {after - before for before, after in pairwise(numbers)}
    return len(first) > len(typed) >= _MIN_SERIES and steps == {1}


def _classify_column(fields: Row) -> str:
    """Return the kind (see `classify_field`) of all non-empty fields; empty for text or a mix."""
    found = {kind for field in fields if (kind := classify_field(field))}
    if found == _NUMBERS:
        return "number"
    return found.pop() if len(found) == 1 and found != {"text"} else ""


def find_header(rows: Sequence[Row], line_numbers: Sequence[int], width: int) -> int:
    """Return the index of the first row below titles and comments; 0 if they are uncertain.

    That is the header, or the first record of a file without one.

    Args:
        rows: all records with content.
        line_numbers: the line that each begins in, from 0.
        width: the number of fields that the table's records have.

    >>> find_header([["Sales 2024"], ["id", "name"], ["1", "Ada"]], [0, 2, 3], 2)
    1
    """
    place = next((n for n, row in enumerate(rows) if len(row) == width and not _is_title(row)), 0)
    while (
        place < len(rows)
        and rows[place][0].startswith("#")
        and is_header_above_values(rows, place + 1)
    ):
        place += 1
    lead = rows[:place]
    if not lead or place + 1 >= len(rows) or len(rows[place + 1]) != width:
        return 0
    if all(row[0].startswith("#") for row in lead):
        return place
    line_breaks = sum(field.count("\n") for field in rows[place - 1])
    is_apart = line_numbers[place] - line_numbers[place - 1] > 1 + line_breaks
    are_titles = all(len(row) == 1 or _is_title(row) for row in lead)
    if are_titles or is_apart:  # names that are there twice are refused as such
        return place if _looks_like_header(rows[place], least_distinct_share=0.5) else 0
    return place if is_header_above_values(rows, place) else 0


def _is_title(row: Row) -> bool:
    """Whether a record of three or more fields has one filled at most, as Excel writes titles."""
    return len(row) > _PAIR and sum(map(bool, row)) <= 1


def _looks_like_header(row: Row, least_distinct_share: float = 1) -> bool:
    """Whether a row is mostly filled, without numbers or dates, and has enough distinct fields."""
    names = [field for field in row if field]
    return (
        2 * len(names) > len(row)
        and len(set(names)) >= least_distinct_share * len(names)
        and not any(map(is_number_or_date, names))
    )


def is_header_above_values(rows: Sequence[Row], index: int) -> bool:
    """Whether the row at `index` looks like a header, and a column below has numbers or dates."""
    if index >= len(rows) or not _looks_like_header(rows[index]):
        return False
    width = len(rows[index])
    body = [row for row in rows[index + 1 : index + _MAX_ROWS] if len(row) == width]
    return any(_classify_column([row[n] for row in body]) for n in range(width))


class _SampleRows(NamedTuple):
    """Records of a sample, parsed with one delimiter and one quote character (empty for no quotes).

    Attributes:
        rows: the records with any content, as fields.
        lines: the line that each begins in, from 0.
        is_well_quoted: whether every quote is closed, and no text stands behind a closing one.
    """

    delimiter: str
    quote: str
    rows: list[list[str]]
    lines: list[int]
    is_well_quoted: bool

    @property
    def width(self) -> int:
        """The usual field count: the one whose records have most delimiters in total, or 1."""
        counts = Counter(len(row) for row in self.rows)
        cells = {width: count * (width - 1) for width, count in counts.items()}
        return max(cells, key=lambda width: (cells[width], width), default=1)

    @property
    def is_uniform(self) -> bool:
        """Whether all records are well quoted, with the same number of fields, at least two."""
        return self.is_well_quoted and self.width > 1 and len({len(r) for r in self.rows}) == 1

    @property
    def regular_cells(self) -> int:
        """The number of delimiters in records of the usual `width`; 0 if they are too few."""
        width = self.width
        places = [n for n, row in enumerate(self.rows) if len(row) == width]
        if width == 1:
            return 0
        least = _REGULAR_SHARE if places[0] else _REGULAR_SHARE_FROM_TOP
        if len(places) < least * (places[-1] - places[0] + 1):
            return 0
        return len(places) * (width - 1) if len(places) > 1 else 0

    @property
    def typed_share(self) -> float:
        """The share of numbers and dates in the filled fields of the first 100 records."""
        fields = [field for row in self.rows[:_TYPED_ROWS] for field in row if field]
        return sum(map(is_number_or_date, fields)) / max(1, len(fields))


@dataclass(frozen=True, slots=True)
class _Sample:
    """The decoded beginning of a CSV file, and the user's options for its detection.

    Attributes:
        text: without the lines that `skip_rows` leaves out, and Excel's `sep=` line.
        is_whole: whether that is the file to its end.
    """

    text: str
    is_whole: bool
    options: CsvOptions

    def cut(self, delimiter: str, quote: str) -> _SampleRows:
        """Parse the sample with a delimiter and a quote; drop comments and a cut off record."""
        rows, lines = [], []
        comment = self.options.comment
        dialect = CsvDialect(delimiter, quote, self.options.escape, null_values=())
        for line, row in read_numbered_rows(self.text, dialect):
            if row and not (comment and row[0].startswith(comment)):
                rows.append(row)
                lines.append(line)
        if not self.is_whole and rows:
            del rows[-1], lines[-1]
        is_well_quoted = not quote or self._is_well_quoted(dialect)
        return _SampleRows(delimiter, quote, rows, lines, is_well_quoted)

    def _is_well_quoted(self, dialect: CsvDialect) -> bool:
        """Whether every quote is closed, and no text stands behind a closing one."""
        end = find_record_end(self.text.encode(), dialect)
        return not end.has_stray_text and not (end.is_in_quotes and self.is_whole)

    def count_opening_quotes(self, delimiter: str, quote: str) -> int:
        """Return the number of fields that begin with a quote."""
        start = rf"(?:^|{re.escape(delimiter)}){quote}"
        return len(re.findall(start, self.text, re.MULTILINE))

    def has_quoted_field(self, delimiter: str, quote: str) -> bool:
        """Whether any field begins and ends with `quote` on the same line."""
        between = re.escape(delimiter)
        field = rf"(?:^|{between}){quote}[^{quote}\n]*{quote}(?:{between}|\r?$)"
        return re.search(field, self.text, re.MULTILINE) is not None


def detect_dialect(
    sample: bytes, options: CsvOptions, *, is_whole: bool, declared: Collection[str] = ()
) -> CsvDialect:
    """Return a UTF-8 file's dialect: options that are set, the rest detected in its first bytes.

    The sample is the file's beginning, or all of it (`is_whole`).
    """
    text = sample.decode("utf-8", "replace").lstrip("\ufeff")
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    delimiter, skipped = options.delimiter, options.skip_rows or 0
    if options.skip_rows is None and (line := _SEPARATOR_LINE.match(text)):
        skipped = 1
        quote = CsvDialect.from_options(options).quote
        taken = (quote, options.escape, options.comment, "\r", "\0")
        fits = line[1].isascii() and line[1] not in taken
        delimiter = delimiter or (line[1] if fits else None)
    rest = "".join(text.split("\n", skipped)[skipped:])
    content = _Sample(rest, is_whole, options)
    found = _cut_sample(content, delimiter)
    if delimiter is None and found.width == 1:
        found = _cut_by_rare_delimiter(content, found)
    dialect = CsvDialect.from_options(options)
    dialect = replace(dialect, delimiter=found.delimiter, quote=found.quote)
    place = 0
    if options.skip_rows is None and found.width > 1 and not re.search(r"\r(?!\n)", rest):
        place = find_header(found.rows, found.lines, found.width)
        skipped += found.lines[place] if place else 0
    header = dialect.header
    if options.header is None and not options.columns:
        header = _has_header_at(place, found, declared)
    return replace(dialect, skip_rows=skipped, header=header)


def _has_header_at(index: int, sample: _SampleRows, declared: Collection[str]) -> bool:
    """Whether the record at `index` is a header; True if it is wider or narrower than the table."""
    rows = sample.rows[index:]
    width = len(rows[0]) if rows else 0
    if sample.width > 1 and width != sample.width:
        return True
    return has_header([row for row in rows if len(row) == width], declared)


def _cut_sample(sample: _Sample, delimiter: str | None) -> _SampleRows:
    """Parse a sample with each usual delimiter, or the given one; return the most regular result.

    Fields have no quotes if those in the sample are text: never closed, and no field is quoted.
    """
    options = sample.options
    taken = {options.quote, options.escape, options.comment}
    delimiters = [d for d in _DELIMITERS if d not in taken and d in sample.text]
    if "," not in delimiters and "," not in taken:
        delimiters.insert(0, ",")
    delimiters = [delimiter] if delimiter else delimiters
    quote = '"' if options.quote is None else options.quote
    if quote in delimiters and options.quote is None:
        quote = ""
    best = _choose_cut([sample.cut(d, quote) for d in delimiters])
    if options.quote is not None or not quote:
        return best
    if not sample.count_opening_quotes(best.delimiter, quote):
        return best
    bare = _choose_cut([sample.cut(d, "") for d in delimiters])
    is_literal = (
        not best.is_well_quoted
        and not sample.has_quoted_field(bare.delimiter, quote)
        and bare.is_uniform
        and sample.count_opening_quotes(bare.delimiter, quote) >= _LITERAL_QUOTES
    )
    return bare if is_literal else best


def _cut_by_rare_delimiter(sample: _Sample, usual: _SampleRows) -> _SampleRows:
    """Parse with rare delimiters such as `~`; return the widest uniform result, else `usual`."""
    taken = {usual.quote, sample.options.escape, sample.options.comment}
    delimiters = [d for d in _RARE_DELIMITERS if d in sample.text and d not in taken]
    cuts = [sample.cut(d, usual.quote) for d in delimiters]
    fit = [cut for cut in cuts if cut.is_uniform and len(cut.rows) > 1]
    return max(fit, key=lambda cut: cut.width, default=usual)


def _choose_cut(cuts: Sequence[_SampleRows]) -> _SampleRows:
    """Choose the uniform result with most numbers and dates; if none, the most regular one."""
    if uniform := [cut for cut in cuts if cut.is_uniform]:
        return max(uniform, key=lambda cut: cut.typed_share)
    usual = cuts[0]
    one_column = all(len(row) == 1 for row in usual.rows) or usual.delimiter != ","
    fit = [
        cut
        for cut in cuts
        if cut.regular_cells
        and (cut is usual or not one_column or cut.width > 2 or cut.typed_share)
    ]
    return max(fit, key=lambda cut: cut.regular_cells, default=usual)


class CsvHeader(NamedTuple):
    """The header of a CSV file, and the position of its first record.

    Attributes:
        columns: their names; empty if the file holds nothing at all.
        start: offset of the first record behind the header.
        line: line number of that record, from 1.
        unnamed: the names that lakeport gave to columns without one, each with its position,
            from 1.
        spellings: the header as it stands there, and as other programs would write it.
    """

    columns: ColumnNames
    start: int
    line: int
    unnamed: tuple[tuple[str, int], ...] = ()
    spellings: frozenset[bytes] = frozenset()


def read_header(file: SourceFile, dialect: CsvDialect, names: Sequence[str] = ()) -> CsvHeader:
    """Read a UTF-8 CSV file's header; no columns if it is empty, SourceError if names repeat.

    `names` are the columns of a file without a header, in order. A header that can't be read is a
    SourceError, too.
    """
    name = file.name
    with file.open() as source:
        at = 0
        while source.read(len(BOM_UTF8)) == BOM_UTF8:  # a program may put its own before another's
            at += len(BOM_UTF8)
        source.seek(at)
        skipped = [source.readline(_MAX_HEADER_BYTES) for _ in range(dialect.skip_rows)]
        line, start = top = 1 + len(skipped), source.tell()
        record = b""
        comment = dialect.comment.encode()
        while not record.strip(b"\r\n") or (comment and record.startswith(comment)):
            line += bool(record)
            start = source.tell()
            record = source.readline(_MAX_HEADER_BYTES)
            if not record:
                return CsvHeader((), start, line)
        while not find_record_end(record, dialect).offset and (
            more := source.readline(_MAX_HEADER_BYTES)
        ):
            record += more
            if len(record) > _MAX_HEADER_BYTES:
                raise SourceError(
                    f"the first record of file {name!r} does not end within "
                    f"{_MAX_HEADER_BYTES} bytes",
                    "check `--quote`, and whether this is a CSV file.",
                )
    record = _cut_first_record(record, dialect)
    fields = _parse_header(record, name, dialect)
    if not dialect.header:
        if len(fields) == 1:  # where the lines without content are records, too
            line, start = top
        return CsvHeader(_name_by_position(len(fields), names, name), start, line)
    columns, unnamed = _name_unnamed(fields)
    _check_distinct(columns, name, line)
    spellings = frozenset({record.rstrip(b"\r\n"), *_spell_header(fields, dialect)})
    end = start + len(record)
    return CsvHeader(columns, end, line + record.count(b"\n"), unnamed, spellings)


def _spell_header(fields: ColumnNames, dialect: CsvDialect) -> Iterator[bytes]:
    """Yield the header line unquoted and fully quoted; nothing if a name has special characters."""
    special = {dialect.delimiter, dialect.quote, "\n", "\r"} - {""}
    if not any(character in name for name in fields for character in special):
        for quote in {"", dialect.quote}:
            yield dialect.delimiter.join(f"{quote}{name}{quote}" for name in fields).encode()


def _cut_first_record(lines: bytes, dialect: CsvDialect) -> bytes:
    """Return the first record of some lines with its line break, which may be a `\\r`."""
    text, _ = next(split_records(lines, dialect))
    end = lines.index(text) + len(text)
    return lines[: end + (2 if lines.startswith(b"\r\n", end) else 1)]


def _parse_header(record: bytes, file_name: str, dialect: CsvDialect) -> ColumnNames:
    """Parse the fields of a file's first record; SourceError if it is misquoted or not UTF-8."""
    width = 1
    dialect = replace(dialect, null_values=())
    for _ in range(2):
        end = find_record_end(record + b"\n", dialect)
        block = CsvBlock(record, 1, end.is_in_quotes, end.has_stray_text)
        parsed = parse_block(block, width, dialect)
        if not parsed.bad:
            return tuple(column[0].as_py() for column in parsed.columns)
        found = next(iter(parsed.bad.values())).rpartition("found ")[2]
        if not found.isdigit():
            break
        width = int(found)
    reason = next(iter(parsed.bad.values()))
    raise SourceError(
        f"the first record of file {file_name!r} can't be read: {reason}",
        f"{hint_for_reason(reason, dialect)} Check whether this is a CSV file.",
    )


def _name_by_position(width: int, names: Sequence[str], file_name: str) -> ColumnNames:
    """Return `names`, or `column_1`, ... if empty; SourceError unless there are `width` of them."""
    if not names:
        return tuple(f"column_{i + 1}" for i in range(width))
    if len(names) != width:
        raise SourceError(
            f"file {file_name!r} has {width} columns, but {len(names)} are declared",
            "a file without a header needs all of its columns declared, or named by `--columns`, "
            "in order.",
        )
    return tuple(names)


def _name_unnamed(fields: ColumnNames) -> tuple[ColumnNames, tuple[tuple[str, int], ...]]:
    """Name empty columns `column_N` by position; return all names, and each new name with its N.

    >>> _name_unnamed(("", "a", "", "column_3"))
    (('column_1', 'a', 'column_3_2', 'column_3'), (('column_1', 1), ('column_3_2', 3)))
    """
    taken = {name.lower() for name in fields}
    unnamed: dict[str, int] = {}
    for position, column in enumerate(fields, start=1):
        if not column:
            name = f"column_{position}"
            names = chain([name], (f"{name}_{n}" for n in count(2)))
            unnamed[next(n for n in names if n not in taken)] = position
    given = iter(unnamed)
    return tuple(column or next(given) for column in fields), tuple(unnamed.items())


def _check_distinct(columns: ColumnNames, file_name: str, line: int) -> None:
    """Raise SourceError if two columns of a header have the same name."""
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise SourceError(
                f"file {file_name!r} has two columns of the name {column!r}",
                "rename one in the header; or "
                f"leave it out with `--skip-rows {line}` and give all names with `--columns`; or "
                "say that there is none with `--no-header`.",
            )
        seen.add(column)


def split_file(
    file: SourceFile,
    header: CsvHeader,
    dialect: CsvDialect,
    split_bytes: int,
    on_block: Callable[[CsvBlock], None] | None = None,
    *,
    read_bytes: int = _BLOCK_BYTES,
) -> list[Split]:
    """Split a CSV file at record ends, about `split_bytes` each; BadRecords for one over 100 MB.

    It looks for quotes and line breaks only, and parses no field. A file of one split is not read;
    of another, `on_block` is called with each block of about `read_bytes`.
    """
    size = file.bytes
    whole = file.split(header.start, size, header.line)
    if size - header.start <= split_bytes:
        return [whole]
    splits: list[Split] = []
    start, line = header.start, header.line
    with file.open() as source:
        source.seek(start)
        at = start
        read_bytes = min(split_bytes, read_bytes)
        for block in read_blocks(source, whole, dialect, file.name, block_bytes=read_bytes):
            if on_block is not None:
                on_block(block)
            if at > start and at - start + len(block.data) > split_bytes:
                splits.append(file.split(start, at, line))
                start, line = at, block.line
            at += len(block.data)
    return [*splits, file.split(start, size, line)]


class CsvFile(NamedTuple):
    """One CSV file of a load, as uncompressed UTF-8.

    Attributes:
        splits: its ranges that tasks read; empty until it is split.
        candidates: column -> set of bits (see `lakeport.sources.csv.inference`), if its columns
            were inferred while it was split.
    """

    file: SourceFile
    header: CsvHeader
    layout: CsvLayout
    splits: Sequence[Split] = ()
    candidates: Mapping[str, int] | None = None

    def first_rows(self) -> list[tuple[int, list[str]]]:
        """Return the records in the first 64 KiB, with line numbers and without repeated headers.

        The list is empty if the first record is longer.
        """
        with self.file.open() as source:
            source.seek(self.header.start)
            data = source.read(SAMPLE_BYTES)
            is_whole = not source.read(1)
        columns, dialect, headers = self.layout
        if not is_whole:
            data = data[: find_record_end(data, dialect).offset]
        text = re.sub("(?m)^\ufeff+", "", data.decode("utf-8", "replace"))
        header = [*columns] if headers else None
        rows = read_numbered_rows(text, dialect)
        return [(self.header.line + line, row) for line, row in rows if row and row != header]

    def drop_columns(self, columns: Collection[str]) -> CsvFile:
        """Return the same file with these columns left out: their names become empty."""
        kept = tuple("" if name in columns else name for name in self.layout.columns)
        return self._replace(layout=self.layout._replace(columns=kept))


def detect_files(
    files: FileSet, plain: Sequence[SourceFile], declared: Sequence[str]
) -> list[CsvFile]:
    """Detect each file's dialect and header; drop empty files, SourceError if all are empty.

    Either all files have a header, or none has. `plain` are the files of the load as plain UTF-8.

    Raises:
        SourceError: all files are empty, or a header can't be read.
    """
    names = [name for name in declared if name not in files.folder_names]
    detect = partial(_detect_file, files.csv, names)
    found = [csv for csv in files.run_light(detect, plain) if csv.layout.columns]
    if not found:
        raise SourceError(
            f"file {plain[0].name!r} is empty" if len(plain) == 1 else "all files are empty",
            "a CSV file needs at least a header, or a row if `header` is false.",
        )
    if len({csv.layout.dialect.header for csv in found}) == 1:
        return found
    detect = partial(_detect_file, replace(files.csv, header=True), names)
    return [csv for csv in files.run_light(detect, plain) if csv.layout.columns]


def _detect_file(options: CsvOptions, declared: Sequence[str], file: SourceFile) -> list[CsvFile]:
    """Detect a file's dialect and header; return it in a list of one. Run inside tasks."""
    check_signature(file, texts=options.detect)
    dialect = replace(_read_dialect(options, declared, file), encoding=file.encoding)
    names = options.columns or declared
    if not dialect.header and options.header is None and not options.columns:
        header = read_header(file, dialect)
        if names and len(names) == len(header.columns):
            header = header._replace(columns=tuple(names))
        elif names:  # not all columns are declared, which takes a header
            dialect = replace(dialect, header=True)
    if dialect.header or options.header is not None or options.columns:
        header = read_header(file, dialect, () if dialect.header else names)
    csv = CsvFile(file, header, CsvLayout(header.columns, dialect, header.spellings))
    if dialect.header and options.detect and header.columns:
        return [_add_trailing_column(csv)]
    return [csv]


def _read_dialect(options: CsvOptions, declared: Sequence[str], file: SourceFile) -> CsvDialect:
    """Detect a file's dialect in its first 64 KiB; don't read it if the options set everything."""
    if options.with_defaults() == options:
        return CsvDialect.from_options(options)
    with file.open() as source:
        sample = source.read(SAMPLE_BYTES)
        is_whole = not source.read(1)
    return detect_dialect(sample, options, is_whole=is_whole, declared=declared)


def _add_trailing_column(csv: CsvFile) -> CsvFile:
    """Add an unnamed column if each sampled record, but not the header, ends with a delimiter."""
    columns = csv.layout.columns
    rows = [row for _, row in csv.first_rows()]
    width = len(columns) + 1
    name = f"column_{width}"
    has_trailing = all(len(row) == width and not row[-1] for row in rows)
    if len(columns) == 1 or not rows or not has_trailing or name in columns:
        return csv
    unnamed = (*csv.header.unnamed, (name, width))
    header = csv.header._replace(columns=(*columns, name), unnamed=unnamed)
    return csv._replace(header=header, layout=csv.layout._replace(columns=header.columns))
