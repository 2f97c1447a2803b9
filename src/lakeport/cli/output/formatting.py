"""Formats values for people: numbers, sizes and tables; control characters are escaped.

```
a table that fits ─▶ all columns    too wide ─▶ fewer columns    no two fit ─▶ a line a value
```
"""

from __future__ import annotations

import base64
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TextIO, TypeGuard

from lakeport.loading.report import LandingReport
from lakeport.model import Landed, StreamReport
from lakeport.units import format_count, format_size, pluralize

_TABLE = re.compile(r"`lakeport table (?:(?! --to )[^`])+(?=`)")
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d*)?( .*)?")
_PIECE = re.compile(r"( *)((?:[^\s`]|`[^`\n]*`|`)+)")

_MOST_LINES = 4
_KEPT = "\0"  # in place of a space at which no line is broken
REPORT_COLUMNS = ("stream", "rows", "files", "size", "version", "seconds", "table")
REPORT_SPARE = ("table", "seconds", "version", "files", "size")
"""Columns of a report that are left out where the terminal is narrow, the first one first."""

_TIME_FACTS = frozenset(
    {"committed", "finished", "kept_until", "last_change", "started", "timestamp"}
)


def terminal_width(stream: TextIO) -> int:
    """Return a terminal's width in columns (COLUMNS, its own, else 80); 0 for no terminal."""
    if not stream.isatty():
        return 0
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def shorten_paths(text: str) -> str:
    """Return a text with paths below the working folder shortened to `./...`.

    >>> shorten_paths(f"there is no table in {os.getcwd()}/lake")
    'there is no table in ./lake'
    """
    try:
        here = os.getcwd().rstrip("/")  # noqa: PTH109  # a text is what it is compared with
    except OSError:  # it is gone
        return text
    return re.sub(rf"(?<![^\s'\"=,(]){re.escape(here)}/", "./", text) if here else text


def add_options(text: str, options: str) -> str:
    """Return a text with options added to each `lakeport table` command in it.

    >>> add_options("`lakeport table history s3://b/t` tells.", " --to prod.yaml")
    '`lakeport table history s3://b/t --to prod.yaml` tells.'
    """
    return _TABLE.sub(lambda found: found[0] + options, text) if options else text


def text_width(text: str) -> int:
    """Return the number of columns that a text takes on a terminal.

    >>> text_width("name"), text_width("名前"), text_width("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(char: str) -> int:
    """Return the number of columns that a character takes on a terminal: 0, 1 or 2."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad a text with spaces to a width, on the right, or on the left with `right`."""
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def wrap(text: str, width: int, hanging: int = 0) -> list[str]:
    """Wrap a text's lines to `width` columns (0: don't); text in backticks stays whole.

    Continuation lines keep their line's indentation and get `hanging` more columns.

    >>> wrap("the same command with `--run-id X` adds nothing", 24)
    ['the same command with', '`--run-id X` adds', 'nothing']
    """
    if not width:
        return [text]
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        lines += _wrap_line(line, width, indent, indent + " " * hanging)
    return lines


def _wrap_line(line: str, width: int, indent: str, following: str) -> Iterator[str]:
    """Wrap a line; indent its first part by `indent`, later parts by `following`."""
    current, empty = indent, True
    for space, word in _words(line, width - len(following)):
        if not empty and text_width(current) + len(space) + text_width(word) > width:
            yield current
            current, empty = following, True
        current, empty = f"{current}{'' if empty else space}{word}", False
    yield current


def _words(line: str, room: int) -> Iterator[tuple[str, str]]:
    """Yield (spaces, word) pairs; text in backticks is one word if it fits `room` columns.

    A command is one word in any case: if the terminal wraps it, it can still be copied whole.
    """
    for space, piece in _PIECE.findall(line):
        whole = text_width(piece) <= room or "`lakeport " in piece
        first, *others = [piece] if whole else piece.split()
        yield space, first
        for word in others:
            yield " ", word


def fit_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str] = ()
) -> tuple[list[int], list[str]]:
    """Return the indices of columns that fit a terminal, and the names of the others.

    Both are empty if no two columns fit. `spare` are left out first, in this order (default: wide
    ones), then columns from the right. The first column stays.

    >>> rows = [("flights", "336,776", "/data/lake/flights")]
    >>> fit_columns(("stream", "rows", "table"), rows, 20)
    ([0, 1], ['table'])
    >>> fit_columns(("stream", "rows", "table"), rows, 12)
    ([], [])
    """
    widths = [max(map(text_width, column)) for column in zip(columns, *rows, strict=True)]
    names = spare or [
        name
        for wide, name in sorted(zip(widths, columns, strict=True), reverse=True)
        if wide > width // 2
    ]
    order = [
        place for name in names for place, other in enumerate(columns) if place and name == other
    ]
    order += [place for place in range(len(columns) - 1, 0, -1) if place not in order]
    kept = list(range(len(columns)))
    for place in order:
        if _total(widths, kept) <= width:
            break
        kept.remove(place)
    if _total(widths, kept) > width or (len(kept) == 1 < len(columns)):
        return [], []
    return kept, [name for place, name in enumerate(columns) if place not in kept]


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    """Return the width of a row with these columns."""
    return sum(widths[place] for place in kept) + 2 * (len(kept) - 1)


def stack_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a table's rows as lines of column name and value, an empty line between rows.

    >>> print("\\n".join(stack_rows(("id", "note"), [("1", "a few words")], 12)))
    id    1
    note  a few
          words
    """
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield from format_pairs(list(zip(columns, row, strict=True)), width)


def format_pairs(
    facts: Sequence[tuple[str, str]], width: int, indent: int = 0, name_width: int = 0
) -> Iterator[str]:
    """Yield aligned lines of name and value, wrapped to `width` columns; 0: not wrapped."""
    name_width = max(name_width, *(text_width(name) for name, _ in facts), 0)
    start = indent + name_width + 2
    for name, value in facts:
        label = " " * indent + pad(name, name_width)
        lines = wrap(value, max(width - start, 1)) if width else [value]
        if width and any(text_width(line) > width - start for line in lines):
            yield label.rstrip()
            yield from wrap(f"{' ' * (indent + 2)}{value}", width)
            continue
        for place, line in enumerate(lines):
            yield f"{pad(label if place == 0 else '', start)}{line}".rstrip()


def format_time(value: datetime) -> str:
    """Format a time to the second, in UTC.

    Example:
        >>> format_time(datetime.fromisoformat("2024-03-04T16:30:45.123+01:00"))
        '2024-03-04 15:30:45Z'
    """
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def format_value(value: object, longest: int = 0) -> str:
    r"""Format a value as one line; escape control characters, cut it to `longest` (0: don't).

    Example:
        >>> format_value("a\x1b[2J\nb"), format_value(None), format_value("abcdef", 4)
        ('a\\x1b[2J\\nb', 'null', 'abc…')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = _iso(value) if isinstance(value, (date, datetime)) else str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"{text[: longest - 1]}…" if 0 < longest < len(text) else text


def escape_controls(text: str) -> str:
    r"""Escape control characters in a text, except for line breaks.

    Example:
        >>> escape_controls("no table in a\x1b[2J\n\nHint: b")
        'no table in a\\x1b[2J\n\nHint: b'
    """
    return "\n".join(map(format_value, text.split("\n")))


def _iso(value: date) -> str:
    """Format a date or time as ISO 8601 with a space in place of the T.

    >>> _iso(datetime(2024, 3, 4, 15, 30, tzinfo=UTC))
    '2024-03-04 15:30:00Z'
    """
    return value.isoformat().replace("T", " ").replace("+00:00", "Z")


def format_words(value: object) -> str:
    """Format a list with commas, a mapping as `key=value` pairs, an int as 12,000.

    Example:
        >>> format_words(["a", "b"]), format_words({"a": 1}), format_words([]), format_words(12000)
        ('a, b', 'a=1', 'none', '12,000')
    """
    if isinstance(value, Mapping):
        value = [f"{key}={format_value(item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(item) for item in value) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return format_value(value)


def is_list_of_objects(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    """Whether a value is a list of mappings, which is printed as a table."""
    return bool(value) and isinstance(value, list) and all(isinstance(v, Mapping) for v in value)


def format_facts(facts: Mapping[str, object]) -> dict[str, object]:
    """Return facts with byte counts and times formatted for people; others are unchanged.

    Example:
        >>> format_facts({"bytes": 1200, "last_change": "2024-03-04T15:30:45.123000+00:00"})
        {'bytes': '1.2 KB', 'last_change': '2024-03-04 15:30:45Z'}
    """
    found: dict[str, object] = {}
    for name, value in facts.items():
        if "bytes" in name and isinstance(value, int):
            found[name] = format_size(value)
        elif name in _TIME_FACTS and isinstance(value, str):
            found[name] = format_time(datetime.fromisoformat(value))
        else:
            found[name] = value
    return found


def to_jsonable(value: object) -> object:
    """Convert a value to JSON types: bytes to Base64; NaN, dates and others to text.

    Example:
        >>> to_jsonable({"a": float("nan"), "b": b"x", "c": [date(2024, 3, 4)]})
        {'a': 'nan', 'b': 'eA==', 'c': ['2024-03-04']}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_jsonable(item) for item in value]
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def batch_line(landed: Landed) -> str:
    """Return a line about a batch: rows, files, bytes, version, or why it was skipped.

    Example:
        >>> batch_line(Landed("flights", "/lake/flights", 0, 9, ("a",), 1200, version=3))
        'flights: batch 1 landed, 9 rows, 1 file, 1.2 KB, version 3'
    """
    start = f"{format_value(landed.stream)}: batch {landed.sequence + 1}"
    if landed.skipped:
        why = landed.notes[0] if landed.notes else "this run had landed it before"
        return f"{start} skipped, {why}"
    rows, files = pluralize(landed.rows, "row"), pluralize(len(landed.files), "file")
    version = f", version {landed.version}" if landed.version is not None else ""
    return f"{start} landed, {rows}, {files}, {format_size(landed.bytes)}{version}"


def report_row(stream: StreamReport) -> tuple[str, ...]:
    """Return a stream's cells in the report's table, in the order of `REPORT_COLUMNS`."""
    versions = "-"
    if stream.first_version is not None:
        first, last = stream.first_version, stream.last_version
        versions = str(first) if first == last else f"{first}-{last}"
    return (
        format_value(stream.stream),
        format_count(stream.rows),
        format_count(stream.files),
        format_size(stream.bytes),
        versions,
        f"{stream.seconds:.1f}",
        format_value(stream.table),
    )


def summary_line(report: LandingReport, *, brief: bool = False) -> str:
    """Return the closing line of a load: rows, target, duration, run id and engine.

    `brief`: with the stream, or the number of streams, as no table above names them.

    Example:
        >>> now = datetime.fromisoformat("2024-03-04T15:30:45+00:00")
        >>> summary_line(LandingReport("r1", "/lake", now, now, 0.4))
        '0 rows landed in /lake, 0.4 s, run r1'
    """
    landed, run = pluralize(report.rows, "row"), f"run {format_value(report.run_id)}"
    if brief and report.streams:
        names = [format_value(stream.stream) for stream in report.streams]
        landed += f" of {names[0] if len(names) == 1 else pluralize(len(names), 'stream')}"
    by = f", {report.engine}" if report.engine.name else ""
    if report.ok:
        return (
            f"{landed} landed in {format_value(report.target)}, {report.seconds:.1f} s, {run}{by}"
        )
    return f"{landed} landed before the error, {run}{by}"


def column_lines(stream: StreamReport, width: int) -> list[str]:
    """Return lines that list a stream's columns and types, four at most, then "and N more".

    Names are not cut: those that don't fit in `width` characters are left out.

    Example:
        >>> columns = {"id": "integer", "name": "string", "born": "date", "city": "string"}
        >>> column_lines(StreamReport("people", columns=columns), 34)
        ['  people: id integer, name string,', '    born date, city string']
    """
    told = [f"{format_value(name)} {type_}" for name, type_ in stream.columns.items()]
    fit = [each.replace(" ", _KEPT) for each in told if len(each) + 5 <= width]
    lines = wrap(f"  {format_value(stream.stream)}: {', '.join(fit)}", width, hanging=2)
    kept = [line.replace(_KEPT, " ") for line in lines[:_MOST_LINES]]
    left = len(told) - len(fit) + sum(len(line.split()) for line in lines[_MOST_LINES:])
    more = [f"    and {left} more"] if left else []
    return [*kept, *more] if told else []


def report_notes(report: LandingReport, *, brief: bool = False) -> list[str]:
    """Return lines about bad records, dropped fields, skipped batches, merges and warnings.

    `brief`: without what merges and overwrites did.
    """
    notes = []
    for stream in report.streams:
        name = format_value(stream.stream)
        if stream.rejected:
            notes.append(f"{name}: {pluralize(stream.rejected, 'bad record')} set aside")
        for field, number in stream.dropped.items():
            records = pluralize(number, "record")
            notes.append(f"{name}: undeclared field {format_value(field)} dropped from {records}")
        if stream.skipped_batches:
            batches = pluralize(stream.skipped_batches, "batch")
            notes.append(f"{name}: {batches} skipped, landed before")
        if stream.merged and not brief:
            (first, rows), *others = stream.merged.items()
            told = [f"{pluralize(rows, 'row')} {first}"]
            told += [
                f"{format_count(rows)} {what}" for what, rows in others if rows or what != "deleted"
            ]
            notes.append(f"{name}: {', '.join(told)}")
        elif stream.removed_files and not brief:
            files = pluralize(stream.removed_files, "file")
            known = f" ({pluralize(stream.removed_rows, 'row')})" if stream.removed_rows else ""
            notes.append(f"{name}: {files} replaced{known}")
        of = f"{name}: " if len(report.streams) > 1 else ""
        notes += [f"{of}{format_value(note)}" for note in stream.notes]
        notes += [f"{name}: {format_value(warning)}" for warning in stream.warnings]
    if report.stray_lines:
        verb = "belongs" if report.stray_lines == 1 else "belong"
        notes.append(f"{pluralize(report.stray_lines, 'line')} {verb} to no stream")
    notes += [f"bad records are in {format_value(uri)}" for uri in report.quarantine]
    notes += [format_value(warning) for warning in report.warnings]
    return notes


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as aligned lines, header first; columns of numbers are right-aligned.

    Example:
        >>> table_lines(("stream", "rows"), [("flights", "336,776"), ("airports", "1,458")])
        ['stream       rows', 'flights   336,776', 'airports    1,458']
    """
    texts = [list(columns), *(list(row) for row in rows)]
    widths = [max(text_width(row[i]) for row in texts) for i in range(len(columns))]
    right = [are_numbers(row[i] for row in texts[1:]) for i in range(len(columns))]
    return [
        "  ".join(
            pad(text, width, right=left)
            for text, width, left in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    ]


def are_numbers(texts: Iterable[str]) -> bool:
    """Whether all cells are numbers, sizes or unknown (`-`, `?`, `null`), and one is known."""
    found = [text for text in texts if text not in ("-", "?", "null")]
    return bool(found) and all(map(_NUMBER.fullmatch, found))
