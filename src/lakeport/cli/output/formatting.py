"""Values as people read them: numbers, sizes, tables, and text that can't drive a terminal."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TypeGuard

from lakeport.cli.output.fitting import cells, padded
from lakeport.loading.report import LandingReport, StreamReport
from lakeport.model import Landed
from lakeport.units import count, counted, size

_MOST_LINES = 4
REPORT_COLUMNS = ("stream", "rows", "files", "size", "version", "seconds", "table")
REPORT_SPARE = ("table", "seconds", "version", "files", "size")
"""Those that a narrow terminal can do without, in this order."""

_MOMENTS = frozenset({"finished", "last_change", "started", "timestamp"})


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
            found[name] = size(value)
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
    rows, files = counted(landed.rows, "row"), counted(len(landed.files), "file")
    version = f", version {landed.version}" if landed.version is not None else ""
    return f"{start} landed, {rows}, {files}, {size(landed.bytes)}{version}"


def report_row(stream: StreamReport) -> tuple[str, ...]:
    """One stream's cells under `REPORT_COLUMNS`."""
    versions = "-"
    if stream.first_version is not None:
        first, last = stream.first_version, stream.last_version
        versions = str(first) if first == last else f"{first}-{last}"
    return (
        shown(stream.stream),
        count(stream.rows),
        count(stream.files),
        size(stream.bytes),
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
    landed, run = counted(report.rows, "row"), f"run {shown(report.run_id)}"
    by = f", {report.engine}" if report.engine.tasks else ""
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
    lines, taken = [f"  {shown(stream.stream)}:"], 0
    cells = [f"{shown(name)} {type_}" for name, type_ in stream.columns.items()]
    for number, cell in enumerate(cells, 1):
        text = cell + ("," if number < len(cells) else "")
        if len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += f" {text}"
        elif len(lines) == _MOST_LINES or len(text) + 4 > width:
            break
        else:
            lines.append(f"    {text}")
        taken = number
    if taken == len(cells):
        return lines if cells else []
    more = f"and {len(cells) - taken} more"
    if len(lines[-1]) + 1 + len(more) <= width:
        return [*lines[:-1], f"{lines[-1]} {more}"]
    return [*lines, f"    {more}"]


def footnotes(report: LandingReport) -> list[str]:
    """Everything about a run that its table has no column for."""
    notes = []
    for stream in report.streams:
        name = shown(stream.stream)
        if stream.rejected:
            notes.append(f"{name}: {counted(stream.rejected, 'bad record')} set aside")
        for field, number in stream.dropped.items():
            records = counted(number, "record")
            notes.append(f"{name}: undeclared field {shown(field)} dropped from {records}")
        if stream.skipped_batches:
            batches = counted(stream.skipped_batches, "batch")
            notes.append(f"{name}: {batches} skipped, landed before")
        if stream.merged:
            (first, rows), *others = stream.merged.items()
            told = [f"{counted(rows, 'row')} {first}"]
            told += [f"{count(rows)} {what}" for what, rows in others if rows or what != "deleted"]
            notes.append(f"{name}: {', '.join(told)}")
        elif stream.removed_files:
            files = counted(stream.removed_files, "file")
            known = f" ({counted(stream.removed_rows, 'row')})" if stream.removed_rows else ""
            notes.append(f"{name}: {files} replaced{known}")
        notes += [shown(note) for note in stream.notes]
        notes += [f"{name}: {shown(warning)}" for warning in stream.warnings]
    if report.stray_lines:
        verb = "belongs" if report.stray_lines == 1 else "belong"
        notes.append(f"{counted(report.stray_lines, 'line')} {verb} to no stream")
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
    return bool(found) and all(text.lstrip("-")[:1].isdigit() and _plain(text) for text in found)


def _plain(text: str) -> bool:
    number = text.split(" ")[0].replace(",", "").replace(".", "", 1).lstrip("-")
    return number.isdigit()
