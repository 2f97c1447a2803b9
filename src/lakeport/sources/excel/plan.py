"""Plan the load of Excel workbooks: a sheet of each becomes CSV, types come from its cells."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from lakeport.errors import SourceError
from lakeport.host.packages import missing_extra_error
from lakeport.model import Batch
from lakeport.schema.types import Field
from lakeport.sources.csv.csv_plan import plan_csv
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.excel.cells import Cell, quoted, type_of
from lakeport.sources.files.file_set import FileSet, run_in_process
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import UnpackLimits, compression_of, open_stream

if TYPE_CHECKING:
    from lakeport.sources.excel.sheet import Row
    from lakeport.sources.spool import SpoolLocation

_NULLS = CsvOptions().null_values
_MOST = 20  # rows that may be titles
_BODY = 3  # rows below a header that have to be as wide as it is


class _Converted(NamedTuple):
    """A sheet that has become CSV.

    Attributes:
        number: which of the files it is.
        file: the CSV; without columns if the sheet is empty.
        columns: name -> what its cells are.
        warnings: what its user has to know.
        titles: how many rows above its header are left out.
    """

    number: int
    file: SourceFile
    columns: dict[str, set[Cell]]
    warnings: tuple[str, ...]
    titles: int


def plan_excel(files: FileSet) -> Batch:
    """Turn a sheet of each workbook into CSV, and tell types by all cells of a column.

    Raises:
        InputError: a file is no workbook or has no such sheet, or the files don't go together.
        MissingDependency: `openpyxl` is not installed.
    """
    csv = files.csv.with_defaults()
    nulls = frozenset(csv.null_values if csv.null_values != _NULLS else ()) - {""}
    skip_rows = files.csv.skip_rows if files.csv.detect and csv.header else csv.skip_rows
    convert = partial(
        _convert,
        files.spool,
        files.limits,
        files.options.sheet,
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
    plan = plan_csv(_as_csv(files, filled))
    warnings = (text for sheet in filled for text in sheet.warnings)
    notes = (
        f"{sheet.file.name}: {sheet.titles} row{'s' * (sheet.titles > 1)} above the header left out"
        for sheet in filled
        if sheet.titles
    )
    return replace(plan, warnings=(*plan.warnings, *warnings), notes=(*plan.notes, *notes))


def _as_csv(files: FileSet, sheets: list[_Converted]) -> FileSet:
    """The converted files, with the types that their cells tell for what is not declared."""
    written = CsvOptions(detect=False, null_values=("",), infer_types=files.csv.infer_types)
    cells: dict[str, set[Cell]] = {}
    for sheet in sheets:
        for name, of in sheet.columns.items():
            cells.setdefault(name, set()).update(of)
    known = {field.name for field in files.fields} | files.folder_names
    told = {name: type_of(of) for name, of in cells.items() if name not in known}
    fields = tuple(Field(name, type_) for name, type_ in told.items() if type_ is not None)
    if files.declares_all or not files.csv.infer_types:
        fields = ()
    return files.with_files([sheet.file for sheet in sheets], written, (*files.fields, *fields))


def _convert(
    spool: SpoolLocation,
    limits: UnpackLimits,
    sheet: str,
    skip_rows: int | None,
    nulls: frozenset[str],
    header: bool,
    item: tuple[int, SourceFile],
) -> list[_Converted]:
    """Turn a workbook's sheet into CSV. Run inside tasks."""
    try:
        from lakeport.sources.excel.sheet import open_sheet
    except ImportError:
        problem = "the source is an Excel workbook, and the package `openpyxl` is not installed"
        raise missing_extra_error(problem, "excel") from None
    number, file = item
    at = spool.new_name(number, PurePosixPath(file.name).stem[-80:] + ".csv")
    with (
        _workbook(file, spool, limits) as source,
        open_sheet(source, file.name, sheet, limits) as rows,
        tempfile.TemporaryFile() as lines,
    ):
        table, titles = _Table(nulls, header), 0
        if skip_rows is None:
            titles, rows = _below_titles(rows)
        for row in rows:
            if row.number > (skip_rows or 0):
                table.add(row, lines)
        lines.seek(0)
        with spool.create_file(at) as target:
            size = sum(map(target.write, table.csv(lines)))
    storage = spool.storage
    uri, key = (at, "") if storage is None else (storage.uri(at), at)
    plain = replace(file, uri=uri, format="csv", bytes=size, storage=storage, key=key, member="")
    columns = {name: table.cells[n] for n, name in enumerate(table.names()) if name}
    return [_Converted(number, plain, columns, tuple(table.warnings(file.name)), titles)]


def _below_titles(rows: Iterator[Row]) -> tuple[int, Iterator[Row]]:
    """How many rows above the header are titles, and the rows from there on.

    Titles have one cell each. The header below them has several, all of them different texts, and
    so has every one of the next rows several; where that is not certain, no row is a title.
    """
    lead = list(islice(_single(rows), _MOST))
    titles = lead[:-1] if lead and len(lead[-1].cells) > 1 else []
    if not titles:
        return 0, chain(lead, rows)
    header, body = lead[-1], list(islice(rows, _BODY))
    texts = {text for text, cell in header.cells.values() if cell is Cell.TEXT}
    certain = len(texts) == len(header.cells) and body
    if certain and all(len(row.cells) > 1 for row in body):
        return len(titles), chain([header], body, rows)
    return 0, chain(lead, body, rows)


def _single(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows up to the first one with several cells."""
    for row in rows:
        yield row
        if len(row.cells) > 1:
            return


@contextmanager
def _workbook(file: SourceFile, spool: SpoolLocation, limits: UnpackLimits) -> Iterator[BinaryIO]:
    """A workbook on this machine's disk."""
    with ExitStack() as opened:
        stored = opened.enter_context(file.open(limits))
        if file.storage is None and not file.member:
            packed = compression_of(stored.read(8))
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
class _Table:
    """What is known of a sheet while its rows go by; its lines are written once all are known.

    Attributes:
        nulls: texts that mean null.
        has_header: whether the first row names the columns.
        header: the cells of that row.
        first: the first row's number.
        cells: for each column what its cells are.
        errors: column -> how many are errors.
    """

    nulls: frozenset[str]
    has_header: bool
    header: dict[int, str] = field(default_factory=dict)
    first: int = 0
    cells: list[set[Cell]] = field(default_factory=list)
    errors: dict[int, int] = field(default_factory=dict)

    def add(self, row: Row, lines: Any) -> None:
        """Take a row, and keep its line."""
        if not self.first:
            self.first = row.number
            if self.has_header:
                self.header = {n: " ".join(_text(t).split()) for n, (t, _) in row.cells.items()}
                self._widen(max(row.cells) + 1)
                return
        fields: list[tuple[int, str]] = []
        for place, (text, cell) in row.cells.items():
            if _text(text) in self.nulls:
                continue
            self._widen(place + 1)
            self.cells[place].add(cell)
            if cell is Cell.ERROR:
                self.errors[place] = self.errors.get(place, 0) + 1
            fields.append((place, text))
        lines.write(json.dumps((row.number, fields)).encode() + b"\n")

    def _widen(self, width: int) -> None:
        while len(self.cells) < width:
            self.cells.append(set())

    def names(self) -> list[str]:
        """The columns' names; empty for one that has neither a name nor a cell."""
        return [
            self.header.get(n) or (f"column_{n + 1}" if cells else "")
            for n, cells in enumerate(self.cells)
        ]

    def warnings(self, file: str) -> Iterator[str]:
        """What a user has to know of the columns."""
        for n, name in enumerate(self.names()):
            if self.header and name and not self.header.get(n):
                yield f"column {n + 1} of file {file!r} has no name: it is called {name!r}."
            if count := self.errors.get(n):
                cells = "1 cell holds an error" if count == 1 else f"{count:,} cells hold errors"
                yield f"column {name!r} of file {file!r}: {cells} such as #N/A; they are null."

    def csv(self, lines: Any) -> Iterator[bytes]:
        """The CSV, with each row in the line of its number, unless texts have line breaks."""
        at = self.first if self.header else max(1, self.first - 1)
        yield b"\n" * (at - 1)
        names = self.names()
        kept = [n for n, name in enumerate(names) if name]
        yield (",".join(quoted(names[n]) for n in kept) + "\n").encode()
        for line in lines:
            at += 1
            number, fields = json.loads(line)
            texts = dict(fields)
            yield b"\n" * (number - at)
            yield (",".join(texts.get(n, "") for n in kept) + "\n").encode()
            at = number


def _text(field: str) -> str:
    """What a field of CSV says."""
    return field[1:-1].replace('""', '"') if field.startswith('"') else field
