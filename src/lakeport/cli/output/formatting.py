"""Values as people read them: numbers, sizes, tables, and text that can't drive a terminal.

```
fits ─▶ as it is    too wide ─▶ fewer columns, and which    two don't fit ─▶ a line a value
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

_MOMENTS = frozenset({"finished", "last_change", "started", "timestamp"})


def terminal_width(stream: TextIO) -> int:
    """The columns of the terminal that a stream writes to; 0 where it is none."""
    if not stream.isatty():
        return 0
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def nearby(text: str) -> str:
    """A text with the paths below the working folder as someone who is there types them.

    >>> nearby(f"there is no table in {os.getcwd()}/lake")
    'there is no table in ./lake'
    """
    try:
        here = os.getcwd().rstrip("/")  # noqa: PTH109  # a text is what it is compared with
    except OSError:  # it is gone
        return text
    return re.sub(rf"(?<![^\s'\"=,(]){re.escape(here)}/", "./", text) if here else text


def with_options(text: str, options: str) -> str:
    """Add options to each command about a table that a text names; return the text.

    >>> with_options("`lakeport table history s3://b/t` tells.", " --to prod.yaml")
    '`lakeport table history s3://b/t --to prod.yaml` tells.'
    """
    return _TABLE.sub(lambda found: found[0] + options, text) if options else text


def cells(text: str) -> int:
    """The columns that a text takes.

    >>> cells("name"), cells("名前"), cells("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text with spaces to a width, on its left where it is to stand to the right."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def wrapped(text: str, width: int, hanging: int = 0) -> list[str]:
    """A text's lines, broken between words; what stands in backticks stays whole if it can.

    Args:
        text: one line or several, each with an indentation of its own.
        width: the columns there are; 0 for as many as are needed.
        hanging: how much further the lines that follow a broken one are indented.

    >>> wrapped("the same command with `--run-id X` adds nothing", 24)
    ['the same command with', '`--run-id X` adds', 'nothing']
    """
    if not width:
        return [text]
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        lines += _broken(line, width, indent, indent + " " * hanging)
    return lines


def _broken(line: str, width: int, indent: str, following: str) -> Iterator[str]:
    current, empty = indent, True
    for space, word in _words(line, width - len(following)):
        if not empty and cells(current) + len(space) + cells(word) > width:
            yield current
            current, empty = following, True
        current, empty = f"{current}{'' if empty else space}{word}", False
    yield current


def _words(line: str, room: int) -> Iterator[tuple[str, str]]:
    """Words, with the spaces before each; those in backticks as one if there is room for it.

    A command is one in any case: a terminal breaks it, and what is copied from there is whole.
    """
    for space, piece in _PIECE.findall(line):
        whole = cells(piece) <= room or "`lakeport " in piece
        first, *others = [piece] if whole else piece.split()
        yield space, first
        for word in others:
            yield " ", word


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str] = ()
) -> tuple[list[int], list[str]]:
    """Which columns of a table to show side by side.

    Args:
        columns: their names.
        rows: their cells.
        width: the columns of the terminal.
        spare: the columns to leave out first, in this order; wide ones if none is named. Then
            those on the right go. The first one stays.

    Returns:
        The columns' numbers, and the names of those that are left out; no number at all where not
        even two fit.

    >>> rows = [("flights", "336,776", "/data/lake/flights")]
    >>> fitted(("stream", "rows", "table"), rows, 20)
    ([0, 1], ['table'])
    >>> fitted(("stream", "rows", "table"), rows, 12)
    ([], [])
    """
    widths = [max(map(cells, column)) for column in zip(columns, *rows, strict=True)]
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
    return sum(widths[place] for place in kept) + 2 * (len(kept) - 1)


def stacked(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """A table as blocks of lines with a name and a value.

    >>> print("\\n".join(stacked(("id", "note"), [("1", "a few words")], 12)))
    id    1
    note  a few
          words
    """
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield from pairs(list(zip(columns, row, strict=True)), width)


def pairs(
    facts: Sequence[tuple[str, str]], width: int, indent: int = 0, first: int = 0
) -> Iterator[str]:
    """Names and values, a line each; a value that is too long goes on below itself.

    Args:
        facts: the names and values.
        width: the columns of the terminal; 0 for as many as are needed.
        indent: spaces before the names.
        first: how wide the names are at least.
    """
    first = max(first, *(cells(name) for name, _ in facts), 0)
    start = indent + first + 2
    for name, value in facts:
        label = " " * indent + padded(name, first)
        lines = wrapped(value, max(width - start, 1)) if width else [value]
        if width and any(cells(line) > width - start for line in lines):
            yield label.rstrip()
            yield from wrapped(f"{' ' * (indent + 2)}{value}", width)
            continue
        for place, line in enumerate(lines):
            yield f"{padded(label if place == 0 else '', start)}{line}".rstrip()


def moment(value: datetime) -> str:
    """A moment to the second, in UTC.

    Example:
        >>> moment(datetime.fromisoformat("2024-03-04T16:30:45.123+01:00"))
        '2024-03-04 15:30:45Z'
    """
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def shown(value: object, longest: int = 0) -> str:
    r"""A value as one line of text, control characters escaped, cut to `longest` characters.

    Example:
        >>> shown("a\x1b[2J\nb"), shown(None), shown("abcdef", 4)
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


def printable(text: str) -> str:
    r"""A text of several lines, control characters within them escaped.

    Example:
        >>> printable("no table in a\x1b[2J\n\nHint: b")
        'no table in a\\x1b[2J\n\nHint: b'
    """
    return "\n".join(map(shown, text.split("\n")))


def _iso(value: date) -> str:
    """A date or a moment as ISO 8601 has it, spaced for people.

    >>> _iso(datetime(2024, 3, 4, 15, 30, tzinfo=UTC))
    '2024-03-04 15:30:00Z'
    """
    return value.isoformat().replace("T", " ").replace("+00:00", "Z")


def phrase(value: object) -> str:
    """A value in words: a list with commas, a mapping as pairs, whole numbers with thousands.

    Example:
        >>> phrase(["a", "b"]), phrase({"a": 1}), phrase([]), phrase(12000)
        ('a, b', 'a=1', 'none', '12,000')
    """
    if isinstance(value, Mapping):
        value = [f"{key}={shown(item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return shown(value)


def is_list_of_objects(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    """Whether a value is a list of mappings, to show as a table."""
    return bool(value) and isinstance(value, list) and all(isinstance(v, Mapping) for v in value)


def readable(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts as people read them: sizes with their unit, moments to the second.

    Example:
        >>> readable({"bytes": 1200, "last_change": "2024-03-04T15:30:45.123000+00:00"})
        {'bytes': '1.2 KB', 'last_change': '2024-03-04 15:30:45Z'}
    """
    found: dict[str, object] = {}
    for name, value in facts.items():
        if "bytes" in name and isinstance(value, int):
            found[name] = format_size(value)
        elif name in _MOMENTS and isinstance(value, str):
            found[name] = moment(datetime.fromisoformat(value))
        else:
            found[name] = value
    return found


def jsonable(value: object) -> object:
    """A value as JSON can hold it: bytes in Base64, what JSON lacks as text.

    Example:
        >>> jsonable({"a": float("nan"), "b": b"x", "c": [date(2024, 3, 4)]})
        {'a': 'nan', 'b': 'eA==', 'c': ['2024-03-04']}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def landed_line(landed: Landed) -> str:
    """One landed batch as one line.

    Example:
        >>> landed_line(Landed("flights", "/lake/flights", 0, 9, ("a",), 1200, version=3))
        'flights: batch 1 landed, 9 rows, 1 file, 1.2 KB, version 3'
    """
    start = f"{shown(landed.stream)}: batch {landed.sequence + 1}"
    if landed.skipped:
        why = landed.notes[0] if landed.notes else "this run had landed it before"
        return f"{start} skipped, {why}"
    rows, files = pluralize(landed.rows, "row"), pluralize(len(landed.files), "file")
    version = f", version {landed.version}" if landed.version is not None else ""
    return f"{start} landed, {rows}, {files}, {format_size(landed.bytes)}{version}"


def report_row(stream: StreamReport) -> tuple[str, ...]:
    """One stream's cells under `REPORT_COLUMNS`."""
    versions = "-"
    if stream.first_version is not None:
        first, last = stream.first_version, stream.last_version
        versions = str(first) if first == last else f"{first}-{last}"
    return (
        shown(stream.stream),
        format_count(stream.rows),
        format_count(stream.files),
        format_size(stream.bytes),
        versions,
        f"{stream.seconds:.1f}",
        shown(stream.table),
    )


def closing_line(report: LandingReport) -> str:
    """What a run came to, as one line.

    Example:
        >>> now = datetime.fromisoformat("2024-03-04T15:30:45+00:00")
        >>> closing_line(LandingReport("r1", "/lake", now, now, 0.4))
        '0 rows landed in /lake, 0.4 s, run r1'
    """
    landed, run = pluralize(report.rows, "row"), f"run {shown(report.run_id)}"
    by = f", {report.engine}" if report.engine.name else ""
    if report.ok:
        return f"{landed} landed in {shown(report.target)}, {report.seconds:.1f} s, {run}{by}"
    return f"{landed} landed before the error, {run}{by}"


def column_lines(stream: StreamReport, width: int) -> list[str]:
    """The columns that a stream landed, with their types, on as many lines as anyone reads.

    No name is cut: what has no room is left out, and counted.

    Args:
        stream: the stream.
        width: characters of a line.

    Example:
        >>> columns = {"id": "integer", "name": "string", "born": "date", "city": "string"}
        >>> column_lines(StreamReport("people", columns=columns), 34)
        ['  people: id integer, name string,', '    born date, city string']
    """
    told = [f"{shown(name)} {type_}" for name, type_ in stream.columns.items()]
    fit = [each.replace(" ", _KEPT) for each in told if len(each) + 5 <= width]
    lines = wrapped(f"  {shown(stream.stream)}: {', '.join(fit)}", width, hanging=2)
    kept = [line.replace(_KEPT, " ") for line in lines[:_MOST_LINES]]
    left = len(told) - len(fit) + sum(len(line.split()) for line in lines[_MOST_LINES:])
    more = [f"    and {left} more"] if left else []
    return [*kept, *more] if told else []


def footnotes(report: LandingReport) -> list[str]:
    """Everything about a run that its table has no column for."""
    notes = []
    for stream in report.streams:
        name = shown(stream.stream)
        if stream.rejected:
            notes.append(f"{name}: {pluralize(stream.rejected, 'bad record')} set aside")
        for field, number in stream.dropped.items():
            records = pluralize(number, "record")
            notes.append(f"{name}: undeclared field {shown(field)} dropped from {records}")
        if stream.skipped_batches:
            batches = pluralize(stream.skipped_batches, "batch")
            notes.append(f"{name}: {batches} skipped, landed before")
        if stream.merged:
            (first, rows), *others = stream.merged.items()
            told = [f"{pluralize(rows, 'row')} {first}"]
            told += [
                f"{format_count(rows)} {what}" for what, rows in others if rows or what != "deleted"
            ]
            notes.append(f"{name}: {', '.join(told)}")
        elif stream.removed_files:
            files = pluralize(stream.removed_files, "file")
            known = f" ({pluralize(stream.removed_rows, 'row')})" if stream.removed_rows else ""
            notes.append(f"{name}: {files} replaced{known}")
        notes += [shown(note) for note in stream.notes]
        notes += [f"{name}: {shown(warning)}" for warning in stream.warnings]
    if report.stray_lines:
        verb = "belongs" if report.stray_lines == 1 else "belong"
        notes.append(f"{pluralize(report.stray_lines, 'line')} {verb} to no stream")
    notes += [f"bad records are in {shown(uri)}" for uri in report.quarantine]
    notes += [shown(warning) for warning in report.warnings]
    return notes


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as aligned lines; columns of numbers to the right.

    Example:
        >>> table_lines(("stream", "rows"), [("flights", "336,776"), ("airports", "1,458")])
        ['stream       rows', 'flights   336,776', 'airports    1,458']
    """
    texts = [list(columns), *(list(row) for row in rows)]
    widths = [max(cells(row[i]) for row in texts) for i in range(len(columns))]
    right = [numeric(row[i] for row in texts[1:]) for i in range(len(columns))]
    return [
        "  ".join(
            padded(text, width, right=left)
            for text, width, left in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in texts
    ]


def numeric(texts: Iterable[str]) -> bool:
    """Whether all these cells are numbers, sizes included."""
    found = [text for text in texts if text not in ("-", "?", "null")]
    return bool(found) and all(map(_NUMBER.fullmatch, found))
