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
        format: csv, tsv, json, jsonl, parquet or singer; by the files' names when empty.
        csv: how CSV files are written.
        schema: a JSON schema, which declares all columns; or column -> type name, which declares
            those columns and leaves the others to inference.
        stray_lines: whether a Singer line that is no JSON object fails the run or is skipped.
    """

    format: str = ""
    csv: CsvOptions | None = None
    schema: Mapping[str, Any] | None = None
    stray_lines: Literal["fail", "skip"] = "fail"
