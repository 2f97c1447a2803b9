"""Where something stands in a config file, as editors count."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakeport.config.mage.templates import restore, shown

_END_OF_LINE = re.compile(r"\r\n|\r|\n")  # not all that YAML takes for one: editors don't


class Place(NamedTuple):
    """A line and a column, from 1; a tab is one column."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, and what was parsed of it where its templates had to be hidden.

    Attributes:
        whole: the text as it is.
        hidden: the text with words in place of the templates; empty for none.
        templates: those, by the numbers in the words.
    """

    whole: str
    hidden: str = ""
    templates: Sequence[str] = ()

    @property
    def parsed(self) -> str:
        """The text that the parser gets."""
        return self.hidden or self.whole

    def place(self, index: int) -> Place:
        """The place of a character of `parsed` in the file."""
        at = shown(self.parsed, self.templates, index)
        line, start = 1, 0
        for end in _END_OF_LINE.finditer(self.whole, 0, at):
            line, start = line + 1, end.end()
        return Place(line, at - start + 1)


class Document:
    """The values of a file, and where each of them stands.

    Args:
        values: what the file holds.
        nodes: gives the parser's node of the whole, if there is one, and the text that it is of.
    """

    def __init__(self, values: dict[str, Any], nodes: Callable[[], tuple[Any, Text]]) -> None:
        self.values = values
        self._nodes = nodes
        self._found: tuple[Any, Text] | None = None

    def place(self, *path: str | int) -> Place:
        """Where a key stands, or an item of a list; where it is not there, what would hold it."""
        if self._found is None:
            self._found = self._nodes()
        node, text = self._found
        index = 0 if node is None else node.start_mark.index
        for part in path:
            found = _below(node, part, text.templates)
            if found is None:
                break
            index, node = found
        return text.place(index)


def _below(node: Any, part: str | int, templates: Sequence[str]) -> tuple[int, Any] | None:
    """Where a key or an item of a node begins, and the node of its value."""
    items = getattr(node, "value", None)
    if not isinstance(items, list):
        return None
    if node.id == "mapping":
        for key, value in items:
            if restore(key.value, templates) == part:
                return key.start_mark.index, value
    elif isinstance(part, int) and part < len(items):
        return items[part].start_mark.index, items[part]
    return None
