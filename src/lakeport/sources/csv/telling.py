"""What the report says of how CSV files are written: one line, where that is not the plain way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from lakeport.schema.named import listed
from lakeport.sources.csv.detection import (
    contrast,
    may_be_grouped,
    numbered_rows,
    other_delimiter,
    why_text,
)
from lakeport.sources.csv.dialect import CsvOptions, Dialect
from lakeport.sources.csv.formats.readings import Format
from lakeport.sources.csv.heads import CsvFile
from lakeport.sources.files.file_set import FileSet

_DOUBTS = {
    "decimal": "{} may have a decimal comma or grouped digits: `--decimal` says which",
    "thousands": "{} may have grouped digits: `--thousands` or `--decimal` says so",
    "date_format": "{} has dates that begin with the day or the month: `--date-format` says which, "
    "such as %d/%m/%Y",
}


def notes_of(
    files: FileSet,
    heads: Sequence[CsvFile],
    formats: Iterable[tuple[Format, bool]],
    doubts: Mapping[str, str],
    texts: Collection[str],
    numbers: Collection[str],
) -> tuple[str, ...]:
    """What was found out of files that are not plain, and what columns stay text for want of it.

    Args:
        files: the load's.
        heads: how each is written.
        formats: how columns are written, and whether they have whole numbers.
        doubts: column -> the option that would settle what it is.
        texts: the columns that are text by their values.
        numbers: the columns that have numbers with a point.
    """
    plain = Dialect.of(files.csv)
    groups: dict[tuple[str, ...], list[str]] = {}
    for csv in heads:
        found = csv.form.dialect.differences(plain)
        groups.setdefault(found, []).append(csv.file.name)
    given = {
        "decimal": files.csv.decimal,
        "thousands": files.csv.thousands,
        "dates": files.csv.date_format,
    }
    words = [word for format_, whole in formats for word in format_.words(whole=whole)]
    said = tuple(dict.fromkeys(w for w in words if given[w.partition(" ")[0]] is None))
    if len(groups) == 1:
        groups = {(*found, *said): names for found, names in groups.items()}
    elif said:
        groups[said] = [csv.file.name for csv in heads]
    notes = [f"{_some(names)}: {', '.join(found)}" for found, names in groups.items() if found]
    notes += [
        f"column {_DOUBTS[option].format(repr(name))}; it stays text."
        for name, option in doubts.items()
    ]
    if files.csv.detect and files.csv.infer_types:
        notes += _hints(heads[0], texts, numbers, files.csv)
    return tuple(notes)


def _hints(
    csv: CsvFile, texts: Collection[str], numbers: Collection[str], options: CsvOptions
) -> Iterator[str]:
    """What may be meant otherwise than it is read, by the beginning of a file."""
    layout, dialect = csv.form
    block = csv.beginning()
    if dialect.delimiter == "," or options.decimal is not None or options.thousands is not None:
        numbers = ()  # a point is one
    if block is None or not (texts or numbers):
        return
    rows = numbered_rows(block.data.decode("utf-8", "replace"), dialect)
    rows = [(line, row) for line, row in rows if len(row) == len(layout)]
    lines = [*layout * dialect.header, *(cell for _, row in rows for cell in row)]
    if len(layout) == 1 and options.delimiter is None:
        other, width = other_delimiter(lines)
        if other:
            yield f"{csv.file.name}: one column; `--delimiter {other!r}` makes {width} of it."
    if not dialect.header and contrast([row for _, row in rows], 0):
        yield (
            f"{csv.file.name}: the first record looks like a header, and is landed as a row: "
            f"`--skip-rows {csv.head.line}` leaves it out."
        )
        return
    for n, name in enumerate(layout):
        if name in numbers and may_be_grouped([row[n] for _, row in rows if row[n]]):
            yield (
                f"column {name!r} is read with a decimal point; if points group its digits, "
                "`--thousands .` says so."
            )
    hints: dict[str, list[str]] = {}
    for n, name in enumerate(layout):
        if name in texts:
            cells = [(block.line + line, row[n]) for line, row in rows if row[n]]
            hints.setdefault(why_text(name, cells, options), []).append(name)
    for hint, (name, *others) in hints.items():
        if hint:
            like = f", like {listed(others)}" if others else ""
            yield f"column {name!r} {hint}; it stays text{like}."


def _some(names: Sequence[str]) -> str:
    """
    >>> _some(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more files'
    """
    if len(names) == 1:
        return names[0]
    more = len(names) - 1
    return f"{names[0]} and {more} more file{'s' if more > 1 else ''}"
