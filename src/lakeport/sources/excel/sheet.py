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
def open_sheet(
    source: BinaryIO, file_name: str, sheet_name: str, limits: UnpackLimits
) -> Iterator[Iterator[Row]]:
    """Context manager: yield the rows of a sheet; an empty name means the first visible sheet.

    Raises:
        SourceError: the file is no workbook, or has no such sheet; while iterating, if the sheet
            is damaged, or has a formula without its result.
    """
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
        found = _choose_sheet(workbook, file_name, sheet_name)
        yield _read_rows(workbook, found, file_name)


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


def _choose_sheet(workbook: Any, file_name: str, sheet_name: str) -> Any:
    """Return a sheet by name, for an empty name the first visible one; SourceError if missing."""
    sheets = workbook.worksheets
    for sheet in sheets:
        if sheet.title == sheet_name or (not sheet_name and sheet.sheet_state == "visible"):
            return sheet
    if sheets and not sheet_name:
        return sheets[0]
    there = ", ".join(
        repr(sheet.title) + " (hidden)" * (sheet.sheet_state != "visible") for sheet in sheets
    )
    raise SourceError(
        f"file {file_name!r} has no sheet {sheet_name!r}"
        if sheet_name
        else f"file {file_name!r} has no sheet",
        f"it has {there}." if there else "charts have no rows.",
    )


def _read_rows(workbook: Any, sheet: Any, file_name: str) -> Iterator[Row]:
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
