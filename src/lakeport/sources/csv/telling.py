"""What the report says of how CSV files are written: one line, where that is not the plain way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeport.sources.csv.dialect import Dialect
from lakeport.sources.csv.formats.readings import Format
from lakeport.sources.csv.heads import CsvFile
from lakeport.sources.files.file_set import FileSet

__all__ = ["notes_of"]

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
) -> tuple[str, ...]:
    """What was found out of files that are not plain, and what columns stay text for want of it.

    Args:
        files: the load's.
        heads: how each is written.
        formats: how columns are written, and whether they have whole numbers.
        doubts: column -> the option that would settle what it is.
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
    return tuple(notes)


def _some(names: Sequence[str]) -> str:
    """
    >>> _some(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more files'
    """
    if len(names) == 1:
        return names[0]
    more = len(names) - 1
    return f"{names[0]} and {more} more file{'s' if more > 1 else ''}"
