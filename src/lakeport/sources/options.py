"""Read options of a source, and paths to records within JSON documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from lakeport.config.explain import closest_match
from lakeport.errors import ConfigError
from lakeport.sources.csv.dialect import CsvOptions

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.sources import FilesSource


ALL_SHEETS = "*"
"""Stands for all visible sheets of a workbook; Excel allows no sheet of that name."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a source; lakeport detects those that are not set, or takes defaults.

    Attributes:
        format: one of `sources.files.discovery.FORMATS`; by the files' names when empty.
        csv: the dialect of CSV files, as far as the user names it.
        schema: a JSON schema, which declares all columns; or column -> type name, which declares
            those columns and leaves the others to inference.
        stray_lines: whether a Singer line that is no JSON object fails the run or is skipped.
        records_path: of JSON, where in a document the records are: `data`, `result.items`, or a
            JSON pointer such as `/result/a.b`.
        infer_dates: of JSON, whether texts that are all ISO dates or times get those types.
        sheet: of Excel workbooks, the sheet's name, or `*` for all that show; the first that shows
            when empty.
        sheet_column: name of a column that gets the sheet's name; with `*` the sheets land in one
            table then.
    """

    format: str = ""
    csv: CsvOptions | None = None
    schema: Mapping[str, Any] | None = None
    stray_lines: Literal["fail", "skip"] = "fail"
    records_path: str = ""
    sheet: str = ""
    sheet_column: str = ""
    infer_dates: bool = False

    def merge_source(self, source: FilesSource) -> ReadOptions:
        """Return these options plus those of `source`; ConfigError if one is set twice."""
        from lakeport.sources.files.declared_columns import load_declaration

        described: dict[str, Any] = {
            "format": source.source_format,
            "csv": _parse_csv_options(source.csv) if source.csv else None,
            "schema": load_declaration(source.columns_schema),
            "records_path": source.records_path,
            "sheet": source.sheet,
            "sheet_column": source.sheet_column,
            "infer_dates": source.infer_dates,
        }
        for name, value in described.items():
            if value and getattr(self, name):
                raise ConfigError(
                    f"`{name}` is given twice: beside the source, and in its description",
                    "leave it out of one of them.",
                )
        return replace(self, **{name: value for name, value in described.items() if value})


def _parse_csv_options(given: Mapping[str, Any]) -> CsvOptions:
    """Return the CSV options that a mapping sets; ConfigError for an unknown key or bad value."""
    known = [field.name for field in fields(CsvOptions)]
    for name in given:
        if name not in known:
            close = closest_match(name, known)
            raise ConfigError(
                f"`csv` has no key {name!r}" + (f"; did you mean {close!r}?" if close else ""),
                f"its keys are {', '.join(known)}.",
            )
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    return CsvOptions(**values)


def max_record_mb(config: DestinationConfig) -> int:
    """Return a config's maximum size of a record in whole MiB, rounded down, at least 1."""
    return max(1, int(config.max_record_mb))


def parse_path(text: str) -> tuple[str, ...]:
    """Split a dotted path or a JSON pointer into names; ConfigError if malformed, () if empty.

    A JSON pointer begins with a slash, and its names may have dots: `/a.b/items`. In it, `~1` is a
    slash and `~0` a tilde. Malformed is a dotted path with an empty name, or any other tilde.

    >>> parse_path("result.items"), parse_path("/a.b/c~1d")
    (('result', 'items'), ('a.b', 'c/d'))
    """
    if text.startswith("/"):
        names = text[1:].split("/")
        if any(re.search("~(?![01])", name) for name in names):
            raise ConfigError(
                f"`records_path` is {text!r}, which is no JSON pointer",
                "in one, a tilde is written `~0`, and a slash within a name `~1`.",
            )
        return tuple(name.replace("~1", "/").replace("~0", "~") for name in names)
    names = text.split(".") if text else []
    if "" in names:
        raise ConfigError(
            f"`records_path` is {text!r}, in which a name is empty",
            "write names with dots between them, such as `result.items`; a name with a dot in it, "
            "as a JSON pointer: `/result/a.b`.",
        )
    return tuple(names)


def format_path(names: Sequence[str]) -> str:
    """Join names to a path for `parse_path`: dotted if possible, else a JSON pointer.

    >>> format_path(["result", "items"]), format_path(["a.b"])
    ('result.items', '/a.b')
    """
    if all(name and "." not in name and not name.startswith("/") for name in names):
        return ".".join(names)
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
