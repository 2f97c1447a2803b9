"""What a user says of a source beyond its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lakeport.sources.csv.options import CsvOptions

__all__ = ["ReadOptions"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a source, where it does not show by itself.

    Attributes:
        format: one of `sources.files.discovery.FORMATS`; by the files' names when empty.
        csv: how CSV files are written.
        schema: a JSON schema, which declares all columns; or column -> type name, which declares
            those columns and leaves the others to inference.
        stray_lines: whether a Singer line that is no JSON object fails the run or is skipped.
        records_path: of JSON, where in a document the records are: `data`, `result.items`, or a
            JSON pointer such as `/result/a.b`.
        sheet: of Excel workbooks, the sheet's name; the first that shows when empty.
    """

    format: str = ""
    csv: CsvOptions | None = None
    schema: Mapping[str, Any] | None = None
    stray_lines: Literal["fail", "skip"] = "fail"
    records_path: str = ""
    sheet: str = ""
