"""`lakeport docs` and `lakeport explain`: show the documentation that comes with lakeport."""

from __future__ import annotations

import difflib
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeport import errors
from lakeport.cli.output.console import Console
from lakeport.cli.output.help import Guard
from lakeport.errors import ConfigError, LakeportError

_LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+)\.md(?:#[\w-]+)?\)")
_HERE = Path(errors.__file__).parent
_ELSEWHERE = ("adr/", "architecture", "benchmarks/", "errors/")
"""Pages for developers, and those that `explain` shows."""
_PAGES = "`lakeport docs PAGE` shows one of these, `lakeport explain CODE` that of an error"
_CODES = "or give an exit code from 1 to 7 (130: interrupted, 143: terminated)."
_PLACES = (_HERE / "docs", _HERE.parents[1] / "docs")  # of an installed package, of a checkout


def docs(
    page: Annotated[
        str, typer.Argument(metavar="PAGE", help="The page, such as sources; default: list all.")
    ] = "",
    where: Annotated[bool, typer.Option("--path", help="Print the file's path.")] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of lake files, for editors."),
    ] = False,
) -> None:
    """Show a page of the documentation."""
    output = Console()
    with Guard(output):
        if schema:
            from lakeport.config.lake.schema import lake_schema

            typer.echo(json.dumps(lake_schema(), indent=1))
            return
        known = pages()
        if not page:
            listed = [each for each in known.items() if not each[0].startswith(_ELSEWHERE)]
            output.facts(_PAGES, {name: _title(path) for name, path in listed})
            return
        name = _find_page(page.removesuffix(".md"), list(known))
        found = known[name]
        if where:
            typer.echo(found)
        else:
            _show(found.read_text("utf-8"), name)


def explain(
    code: Annotated[
        str,
        typer.Argument(metavar="CODE", help="An error's name or an exit code; default: list all."),
    ] = "",
) -> None:
    """Explain an error: what it means, its causes, and what to do."""
    output = Console()
    with Guard(output):
        classes = _error_classes()
        if not code:
            listed = sorted(classes.items(), key=lambda each: each[1].exit_code)
            rows = [(name, each.exit_code, _error_title(name)) for name, each in listed]
            output.rows("", ("error", "exit code", "about"), rows)
            return
        found = [each for each in classes.values() if code == str(each.exit_code)]
        named = {name.lower(): each for name, each in classes.items()}.get(code.lower())
        if named is None and not found:
            raise _unknown_error("error", code, list(classes), _CODES)
        wanted = [named] if named is not None else found
        known = pages()
        names = [f"errors/{each.__name__}" for each in wanted]
        _show("\n".join(known[name].read_text("utf-8") for name in names), names[0])


def pages() -> dict[str, Path]:
    """Return the documentation's Markdown files, by path without suffix.

    Raises:
        ConfigError: the documentation is not installed.
    """
    folder = next((place for place in _PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        raise ConfigError(
            "the documentation was not installed", "install lakeport from its wheel, or again."
        )
    found = sorted(folder.rglob("*.md"), key=lambda path: path.with_suffix("").parts)
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def _error_classes() -> dict[str, type[LakeportError]]:
    """Return the public error classes by name."""
    found = (getattr(errors, name) for name in errors.__all__)
    return {
        each.__name__: each
        for each in found
        if isinstance(each, type) and issubclass(each, LakeportError)
    }


def _error_title(error: str) -> str:
    """Return the title of an error's page, without the error's name."""
    return _title(pages()[f"errors/{error}"]).partition(": ")[2]


def _find_page(name: str, known: list[str]) -> str:
    """Find a page by its full name or last part; ConfigError unless exactly one matches."""
    if name in known:
        return name
    last = name.rpartition("/")[2].lower()
    found = [each for each in known if each.rpartition("/")[2].lower() == last]
    if len(found) != 1:
        raise _unknown_error("page", name, found or known, "`lakeport docs` lists all.")
    return found[0]


def _unknown_error(kind: str, name: str, known: list[str], advice: str) -> ConfigError:
    """Return a ConfigError for an unknown name; its hint lists three similar ones, or all."""
    lower = {each.lower(): each for each in known}
    near = [lower[each] for each in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]
    listed = ", ".join(near) if near else ", ".join(known)
    return ConfigError(f"there is no {kind} {name!r}", f"there are {listed}; {advice}")


def _title(path: Path) -> str:
    """Return the heading in a page's first line."""
    with path.open(encoding="utf-8") as page:
        return page.readline().lstrip("# ").strip()


def _show(text: str, name: str) -> None:
    """Print a page: formatted on a terminal, as Markdown text elsewhere."""
    if sys.stdout.isatty():
        print_markdown(text, name)
    else:
        typer.echo(text.rstrip("\n"))


def print_markdown(text: str, name: str) -> None:
    """Print Markdown, formatted; links to pages become `lakeport docs` commands."""
    from rich.console import Console as Terminal
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        """A heading that is aligned to the left."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            self.text.justify = "left"
            yield self.text

    class Page(Markdown):
        """Markdown with left-aligned headings."""

        elements = {**Markdown.elements, "heading_open": LeftHeading}  # noqa: RUF012

    Terminal().print(Page(replace_links(text, name), hyperlinks=False))


def replace_links(text: str, name: str) -> str:
    """Replace links to other pages by `lakeport docs` commands; `name` is the page's own.

    >>> replace_links("See [types](../types.md#dates).", "errors/SchemaConflict")
    'See types (`lakeport docs types`).'
    """

    def command(link: re.Match[str]) -> str:
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[2]))
        return f"{link[1]} (`lakeport docs {page}`)"

    return _LINK.sub(command, text)
