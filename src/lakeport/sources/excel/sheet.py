"""Read the rows of one sheet of a workbook, one after another; `openpyxl` parses the XML."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

from openpyxl import load_workbook
from openpyxl.utils.datetime import WINDOWS_EPOCH
from openpyxl.utils.escape import unescape
from openpyxl.worksheet._reader import (
    DATA_TAG,
    FORMULA_TAG,
    ROW_TAG,
    VALUE_TAG,
    WorkSheetParser,
)
from openpyxl.xml.functions import iterparse

from lakeport.errors import LakeportError, SourceError
from lakeport.sources.excel.cells import CellKind, format_cell
from lakeport.sources.input.decompression import UnpackLimits, check_archive
from lakeport.sources.options import ALL_SHEETS

_OLE_MAGIC = b"\xd0\xcf\x11\xe0"  # what files of Excel 97, and encrypted ones, begin with
_MAX_ROWS = 1 << 20
_WARNINGS_LOCK = threading.Lock()  # warnings are filtered for the whole process


class Row(NamedTuple):
    """A sheet's row with at least one cell: its number, from 1, and its cells.

    Attributes:
        cells: column, from 0 -> the cell as a field of CSV, and its kind.
    """

    number: int
    cells: dict[int, tuple[str, CellKind]]


@contextmanager
def open_workbook(source: BinaryIO, file_name: str, limits: UnpackLimits) -> Iterator[Any]:
    """Context manager: yield a workbook of `openpyxl`; SourceError if the file is none."""
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what openpyxl leaves out, such as print areas
        if source.read(len(_OLE_MAGIC)) == _OLE_MAGIC:
            raise SourceError(
                f"file {file_name!r} is a workbook with a password, or one of Excel 97 to 2003",
                "save it as .xlsx without a password.",
            )
        with _explain_errors(file_name):
            check_archive(source, file_name, limits)
            workbook = load_workbook(source, read_only=True, data_only=True, keep_links=False)
        yield workbook


@contextmanager
def _explain_errors(file_name: str) -> Iterator[None]:
    """Context manager: turn any error of openpyxl into a SourceError that names the file."""
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:  # what openpyxl meets in damaged files it does not foresee
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SourceError(
            f"file {file_name!r} can't be read as an Excel workbook: {reason}",
            "check that the file is there, whole, and .xlsx indeed.",
        ) from error


def choose_sheets(workbook: Any, file_name: str, sheet_name: str) -> tuple[list[Any], list[str]]:
    """Return the sheets to land, and names of others with a cell; SourceError if none is found.

    Args:
        sheet_name: a sheet's name, which leaves no others to tell of; `*` for all visible sheets,
            empty for the first visible one.
    """
    sheets = workbook.worksheets
    by_rule = sheet_name in ("", ALL_SHEETS)
    chosen = [sheet for sheet in sheets if sheet.title == sheet_name]
    if by_rule:
        visible = [sheet for sheet in sheets if sheet.sheet_state == "visible"] or sheets
        chosen = visible if sheet_name else visible[:1]
    if not chosen:
        raise SourceError(
            f"file {file_name!r} has no sheet" + ("" if by_rule else f" {sheet_name!r}"),
            f"it has {', '.join(map(_describe, sheets))}." if sheets else "charts have no rows.",
        )
    others = [s for s in sheets if by_rule and s not in chosen and _has_row(workbook, s, file_name)]
    return chosen, [*map(_describe, others)]


def _describe(sheet: Any) -> str:
    """Return a sheet's name in quotes, and whether it is hidden."""
    hidden = "" if sheet.sheet_state == "visible" else " (hidden)"
    return f"{sheet.title!r}{hidden}"


def _has_row(workbook: Any, sheet: Any, file_name: str) -> bool:
    """Whether a sheet has a cell with a value; also True if its first rows can't be read."""
    try:
        return next(read_rows(workbook, sheet, file_name), None) is not None
    except SourceError:
        return True


def read_rows(workbook: Any, sheet: Any, file_name: str) -> Iterator[Row]:
    """Yield a sheet's rows except empty ones; SourceError for damage or an uncomputed formula."""
    with _explain_errors(file_name), sheet._get_source() as source:
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=workbook.epoch,
            date_formats=workbook._date_formats,
            timedelta_formats=workbook._timedelta_formats,
        )
        last = 0
        for _, element in iterparse(source):
            if element.tag == DATA_TAG:
                return
            if element.tag != ROW_TAG:
                continue
            _check_formulas(element, sheet.title, file_name)
            number, cells = parser.parse_row(element)
            if workbook.epoch == WINDOWS_EPOCH:
                _check_leap_day(element, cells, sheet.title, file_name)
            element.clear()
            if not last < number <= _MAX_ROWS:
                raise ValueError(f"row {number} stands behind row {last}")
            last = number
            if row := _format_cells(cells):
                yield Row(number, row)


def _check_leap_day(row: Any, cells: list[dict[str, Any]], sheet_name: str, file_name: str) -> None:
    """Raise SourceError if a cell holds 1900-02-29, Excel's day 60, which did not exist."""
    for cell, stored in zip(cells, row, strict=True):
        if not isinstance(cell["value"], datetime) or stored.get("t", "n") != "n":
            continue
        value = stored.find(VALUE_TAG)
        if value is not None and value.text and 60 <= float(value.text) < 61:
            raise SourceError(
                f"cell {stored.get('r')} of sheet {sheet_name!r} of file {file_name!r} holds "
                "1900-02-29, a day that Excel has and no calendar",
                "correct the cell, or format it as a number or as text.",
            )


def _check_formulas(row: Any, sheet_name: str, file_name: str) -> None:
    """Raise SourceError if a formula in an XML row has no stored result."""
    if next(row.iter(FORMULA_TAG), None) is None:
        return
    for cell in row:
        value = cell.find(VALUE_TAG)
        has_result = value is not None and (value.text or cell.get("t") == "str")
        if cell.find(FORMULA_TAG) is not None and not has_result:
            raise SourceError(
                f"cell {cell.get('r')} of sheet {sheet_name!r} of file {file_name!r} holds "
                "a formula without its result",
                "the program that wrote the file did not compute it: open the workbook in Excel "
                "or LibreOffice and save it.",
            )


def _format_cells(cells: list[dict[str, Any]]) -> dict[int, tuple[str, CellKind]]:
    """Format a row's cells, except empty ones; return 0-based column -> CSV field and kind."""
    found = {}
    for cell in cells:
        value = cell["value"]
        if isinstance(value, str) and "_x" in value:
            value = _unescape(value)
        field = format_cell(value, cell["data_type"])
        if field is not None:
            found[cell["column"] - 1] = field
    return found


def _unescape(text: str) -> str:
    """Decode Excel's escapes of characters that XML can't have, such as `_x000D_`."""
    plain: str = unescape(text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
