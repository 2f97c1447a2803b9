"""Text and tables that fit a terminal: by leaving out whole columns, never by cutting a value.

```
fits ─▶ as it is    too wide ─▶ fewer columns, and which    two don't fit ─▶ a line a value
```
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TextIO

_TABLE = re.compile(r"`lakeport table (?:(?! --to )[^`])+(?=`)")
_PIECE = re.compile(r"( *)((?:[^\s`]|`[^`\n]*`|`)+)")


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
