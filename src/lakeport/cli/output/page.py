"""Pages of the documentation on a terminal, where nobody can follow a link to a file."""

from __future__ import annotations

import posixpath
import re

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown

_LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+)\.md(?:#[\w-]+)?\)")


class _Heading(Heading):
    """A heading that begins where the text does."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Page(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}  # noqa: RUF012  # as rich has it


def print_page(text: str, name: str) -> None:
    """Print a page, formatted.

    Args:
        text: its Markdown.
        name: what `lakeport docs` calls it.
    """
    Console().print(_Page(with_commands(text, name), hyperlinks=False))


def with_commands(text: str, name: str) -> str:
    """A page's text, in which links to others are the commands that show them.

    >>> with_commands("See [types](../types.md#dates).", "errors/SchemaConflict")
    'See types (`lakeport docs types`).'
    """

    def command(link: re.Match[str]) -> str:
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[2]))
        return f"{link[1]} (`lakeport docs {page}`)"

    return _LINK.sub(command, text)
