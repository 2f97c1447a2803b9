"""Plan the load of Excel workbooks: convert a sheet of each to CSV, infer types from cells."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from lakeport.errors import ConfigError, SourceError
from lakeport.host.packages import missing_extra_error
from lakeport.model import Batch
from lakeport.schema.types import Field
from lakeport.sources.csv.csv_plan import plan_csv
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.excel.cells import CellKind, infer_field_type, quote
from lakeport.sources.files.file_set import FileSet, run_in_process
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import UnpackLimits, detect_compression, open_stream
from lakeport.sources.options import ALL_SHEETS
from lakeport.units import pluralize

if TYPE_CHECKING:
    from lakeport.sources.excel.sheet import Row
    from lakeport.sources.options import ReadOptions
    from lakeport.sources.spool import SpoolLocation

_NULLS = CsvOptions().null_values
_MAX_TITLE_ROWS = 20  # rows that may be titles
_MAX_NAMED = 20  # sheets
_BODY_ROWS = 3  # rows below a header that have to be as wide as it is


class _CsvSheet(NamedTuple):
    """A workbook's sheet after its conversion to a CSV file.

    Attributes:
        number: index of its workbook among the load's files.
        title: the sheet's name.
        others: names of the workbook's sheets that are not landed.
        columns: name -> kinds of its cells; empty for an empty sheet.
        titles: how many rows above its header are left out.
    """

    number: int
    title: str
    others: tuple[str, ...]
    file: SourceFile
    columns: dict[str, set[CellKind]]
    warnings: tuple[str, ...]
    titles: int


def plan_excel(files: FileSet) -> list[Batch]:
    """Convert sheets of workbooks to CSV in the spool folder; plan a batch for each table.

    That is one batch, or for all sheets and without a column for their names, one for each name.

    Raises:
        ConfigError: several sheets would land in one table without a column for their names.
        InputError: a file is no workbook or has no such sheet, or the files don't go together.
        MissingDependency: `openpyxl` is not installed.
    """
    csv = files.csv.with_defaults()
    nulls = frozenset(csv.null_values if csv.null_values != _NULLS else ()) - {""}
    skip_rows = files.csv.skip_rows if files.csv.detect and csv.header else csv.skip_rows
    convert = partial(
        _convert_workbook,
        files.spool,
        files.limits,
        files.options,
        skip_rows,
        nulls,
        bool(csv.header),
    )
    numbered = list(enumerate(files.files))
    there = [item for item in numbered if files.is_visible_to_tasks(item[1])]
    here = [item for item in numbered if item not in there]
    found = sorted([*run_in_process(convert, here), *files.run(convert, there)], key=itemgetter(0))
    filled = [sheet for sheet in found if sheet.columns]
    if not filled:
        raise SourceError(
            f"no cell of {found[0].file.name!r} has a value"
            if len(found) == 1
            else "all sheets are empty",
            "`--sheet` names another sheet.",
        )
    streams: dict[str, list[_CsvSheet]] = {}
    apart = files.options.sheet == ALL_SHEETS and not files.options.sheet_column
    for sheet in filled:
        streams.setdefault(sheet.title if apart else "", []).append(sheet)
    names = _name_streams(files, list(streams))
    batches = [_plan_sheets(files, names[title], sheets) for title, sheets in streams.items()]
    notes = _note_other_sheets(files.options.sheet, found)
    batches[0] = replace(batches[0], notes=(*batches[0].notes, *notes))
    return batches


def _name_streams(files: FileSet, titles: list[str]) -> dict[str, str]:
    """Return sheet -> stream, for sheets that land apart; ConfigError if they share a table.

    A stream is called as its sheet where the table's name has a place for it, else as file and
    sheet. The empty title is that of rows of any sheet.
    """
    pattern = files.config.table_pattern
    if titles == [""] or (pattern is not None and "{stream}" not in pattern and len(titles) == 1):
        return dict.fromkeys(titles, files.stream)
    if pattern is None:
        return {title: f"{files.stream}_{title}" for title in titles}
    if "{stream}" in pattern:
        return {title: title for title in titles}
    raise ConfigError(
        f"sheets {titles[0]!r} and {titles[1]!r} would both land in table {pattern!r}",
        "`--sheet-column sheet` (`sheet_column`) adds a column with the sheet's name; or write "
        "`{stream}`, for the sheet's name, in `--table` (`table`).",
    )


def _note_other_sheets(wanted: str, sheets: Sequence[_CsvSheet]) -> Iterator[str]:
    """Yield notes of the sheets that are not landed, unless `wanted` names one sheet."""
    if wanted not in ("", ALL_SHEETS):
        return
    workbooks: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for sheet in sheets:
        if sheet.others:
            key = ("" if wanted else sheet.title, sheet.others)
            workbooks.setdefault(key, {})[sheet.file.name] = None
    for (title, others), names in workbooks.items():
        first, *more = names
        where = first + (f" and {pluralize(len(more), 'other workbook')}" if more else "")
        listed = ", ".join(others[:_MAX_NAMED]) + " and more" * (len(others) > _MAX_NAMED)
        yield (
            f"{where}: not landed are {listed}; `--sheet` (`sheet`) names a sheet"
            if wanted
            else f"{where}: sheet {title!r} is landed, and not {listed}; `--sheet` (`sheet`) names "
            "another, and '*' lands each in a table of its own"
        )
    empty = [f"{sheet.title!r} of {sheet.file.name}" for sheet in sheets if not sheet.columns]
    if empty and wanted:
        listed = ", ".join(empty[:_MAX_NAMED]) + " and more" * (len(empty) > _MAX_NAMED)
        yield f"sheets without a cell: {listed}"


def _plan_sheets(files: FileSet, stream: str, sheets: list[_CsvSheet]) -> Batch:
    """Plan the batch of a stream's sheets, which are CSV files now."""
    plan = plan_csv(_to_csv_files(files, stream, sheets))
    warnings = (text for sheet in sheets for text in sheet.warnings)
    notes = (
        f"{sheet.file.name}: {sheet.titles} row{'s' * (sheet.titles > 1)} above the header left out"
        for sheet in sheets
        if sheet.titles
    )
    if files.options.sheet_column:
        titles = {sheet.file.uri: f"{sheet.file.name}, sheet {sheet.title!r}" for sheet in sheets}
        plan = replace(plan, splits=tuple(replace(s, file=titles[s.uri]) for s in plan.splits))
    return replace(plan, warnings=(*plan.warnings, *warnings), notes=(*plan.notes, *notes))


def _to_csv_files(files: FileSet, stream: str, sheets: list[_CsvSheet]) -> FileSet:
    """Return a `FileSet` of converted CSV files; undeclared columns get types from their cells."""
    written = CsvOptions(detect=False, null_values=("",), infer_types=files.csv.infer_types)
    cells: dict[str, set[CellKind]] = {}
    for sheet in sheets:
        for name, kinds in sheet.columns.items():
            cells.setdefault(name, set()).update(kinds)
    known = {field.name for field in files.fields} | files.folder_names
    types = {name: infer_field_type(kinds) for name, kinds in cells.items() if name not in known}
    fields = tuple(Field(name, type_) for name, type_ in types.items() if type_ is not None)
    if files.declares_all or not files.csv.infer_types:
        fields = ()
    fields = (*files.fields, *fields)
    return files.with_files(stream, [sheet.file for sheet in sheets], written, fields)


def _convert_workbook(
    spool: SpoolLocation,
    limits: UnpackLimits,
    options: ReadOptions,
    skip_rows: int | None,
    nulls: frozenset[str],
    has_header: bool,
    numbered_file: tuple[int, SourceFile],
) -> list[_CsvSheet]:
    """Convert the chosen sheets of a workbook to CSV files in the spool. Runs in tasks.

    Args:
        skip_rows: rows to leave out; None to detect titles.
        nulls: texts that mean null.
    """
    try:
        from lakeport.sources.excel.sheet import choose_sheets, open_workbook, read_rows
    except ImportError:
        problem = "the source is an Excel workbook, and the package `openpyxl` is not installed"
        raise missing_extra_error(problem, "excel") from None
    number, file = numbered_file
    converted = []
    with (
        _open_workbook(file, spool, limits) as source,
        open_workbook(source, file.name, limits) as workbook,
    ):
        sheets, others = choose_sheets(workbook, file.name, options.sheet)
        for sheet in sheets:
            constant = options.sheet_column, sheet.title
            table, titles = _SheetColumns(nulls, has_header, constant), 0
            rows = read_rows(workbook, sheet, file.name)
            if skip_rows is None:
                titles, rows = _skip_titles(rows)
            at = spool.new_name(number, PurePosixPath(file.name).stem[-80:] + ".csv")
            with tempfile.TemporaryFile() as lines:
                for row in rows:
                    if row.number > (skip_rows or 0):
                        table.add(row, lines)
                lines.seek(0)
                with spool.create_file(at) as target:
                    size = sum(map(target.write, table.csv(lines)))
            storage = spool.storage
            uri, key = (at, "") if storage is None else (storage.uri(at), at)
            plain = replace(
                file, uri=uri, format="csv", bytes=size, storage=storage, key=key, member=""
            )
            warnings = tuple(table.warnings(file.name))
            columns = table.columns(file.name)
            converted.append(
                _CsvSheet(number, sheet.title, tuple(others), plain, columns, warnings, titles)
            )
    return converted


def _skip_titles(rows: Iterator[Row]) -> tuple[int, Iterator[Row]]:
    """Skip title rows above the header; return their count (0 if unsure), and the other rows.

    Titles have one cell each. The header below them has several cells, all different texts, and the
    next rows have several cells, too. Unless that is certain, no row is a title.
    """
    lead = list(islice(_read_to_header(rows), _MAX_TITLE_ROWS))
    titles = lead[:-1] if lead and len(lead[-1].cells) > 1 else []
    if not titles:
        return 0, chain(lead, rows)
    header, body = lead[-1], list(islice(rows, _BODY_ROWS))
    texts = {text for text, cell in header.cells.values() if cell is CellKind.TEXT}
    certain = len(texts) == len(header.cells) and body
    if certain and all(len(row.cells) > 1 for row in body):
        return len(titles), chain([header], body, rows)
    return 0, chain(lead, body, rows)


def _read_to_header(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows up to and including the first with several cells; leave the rest unread."""
    for row in rows:
        yield row
        if len(row.cells) > 1:
            return


@contextmanager
def _open_workbook(
    file: SourceFile, spool: SpoolLocation, limits: UnpackLimits
) -> Iterator[BinaryIO]:
    """Context manager that opens a workbook; a remote or compressed one is copied to disk."""
    with ExitStack() as opened:
        stored = opened.enter_context(file.open(limits))
        if file.storage is None and not file.member:
            packed = detect_compression(stored.read(8))
            stored.seek(0)
            if not packed:
                yield stored
                return
        folder = spool.folder if spool.storage is None else None
        copy = opened.enter_context(tempfile.TemporaryFile(dir=folder))
        plain = opened.enter_context(open_stream(stored, file.name, limits))
        shutil.copyfileobj(plain, copy, 1 << 20)
        yield cast(BinaryIO, copy)


@dataclass
class _SheetColumns:
    """Collects the columns of a sheet row by row, and writes the rows as CSV afterwards.

    Attributes:
        constant: name and text of a further column; empty for none.
        header: column -> name, by the first row.
        errors: column -> how many cells are errors.
    """

    nulls: frozenset[str]
    has_header: bool
    constant: tuple[str, str]
    header: dict[int, str] = field(default_factory=dict)
    first_row: int = 0
    cells: list[set[CellKind]] = field(default_factory=list)
    errors: dict[int, int] = field(default_factory=dict)

    def add(self, row: Row, json_file: Any) -> None:
        """Add a row: the first is the header, if there is one; write others to a file as JSON."""
        if not self.first_row:
            self.first_row = row.number
            if self.has_header:
                self.header = {n: " ".join(_unquote(t).split()) for n, (t, _) in row.cells.items()}
                self._widen(max(row.cells) + 1)
                return
        fields: list[tuple[int, str]] = []
        for place, (text, cell) in row.cells.items():
            if _unquote(text) in self.nulls:
                continue
            self._widen(place + 1)
            self.cells[place].add(cell)
            if cell is CellKind.ERROR:
                self.errors[place] = self.errors.get(place, 0) + 1
            fields.append((place, text))
        json_file.write(json.dumps((row.number, fields)).encode() + b"\n")

    def _widen(self, width: int) -> None:
        """Add columns until there are `width`."""
        while len(self.cells) < width:
            self.cells.append(set())

    def names(self) -> list[str]:
        """Return the columns' names: from the header, else `column_N`; empty if it has no cell."""
        return [
            self.header.get(n) or (f"column_{n + 1}" if cells else "")
            for n, cells in enumerate(self.cells)
        ]

    def columns(self, file_name: str) -> dict[str, set[CellKind]]:
        """Return column -> kinds of its cells; empty for an empty sheet.

        SourceError if the further column has the name of a column of the sheet.
        """
        found = {name: self.cells[n] for n, name in enumerate(self.names()) if name}
        further, sheet = self.constant
        if further.lower() in map(str.lower, found):
            raise SourceError(
                f"sheet {sheet!r} of file {file_name!r} has a column {further!r} of its own",
                "`--sheet-column` (`sheet_column`) takes another name.",
            )
        return {**found, further: {CellKind.TEXT}} if further and found else found

    def warnings(self, file_name: str) -> Iterator[str]:
        """Yield warnings about columns without a name, and about error cells such as #N/A."""
        for n, name in enumerate(self.names()):
            if self.header and name and not self.header.get(n):
                yield f"column {n + 1} of file {file_name!r} has no name: it is called {name!r}."
            if count := self.errors.get(n):
                cells = "1 cell holds an error" if count == 1 else f"{count:,} cells hold errors"
                yield f"column {name!r} of file {file_name!r}: {cells} such as #N/A; they are null."

    def csv(self, json_file: Any) -> Iterator[bytes]:
        """Yield the rows of the JSON file as CSV; blank lines keep the sheet's row numbers."""
        at = self.first_row if self.header else max(1, self.first_row - 1)
        yield b"\n" * (at - 1)
        names = self.names()
        kept = [n for n, name in enumerate(names) if name]
        head, value = (f",{quote(text)}" if self.constant[0] else "" for text in self.constant)
        yield (",".join(quote(names[n]) for n in kept) + head + "\n").encode()
        for line in json_file:
            at += 1
            number, fields = json.loads(line)
            texts = dict(fields)
            yield b"\n" * (number - at)
            yield (",".join(texts.get(n, "") for n in kept) + value + "\n").encode()
            at = number


def _unquote(field: str) -> str:
    """Return the text of a CSV field, without its quotes."""
    return field[1:-1].replace('""', '"') if field.startswith('"') else field
