"""Render templates, and whole documents: linked, self-contained, or for notebooks."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeport import units
from lakeport.html import text
from lakeport.html.text import tag

_ICON = "data:image/svg+xml," + quote(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2563eb" '
    'd="M1 5q3.5-3 7 0t7 0v3q-3.5 3-7 0t-7 0zm0 6q3.5-3 7 0t7 0v3q-3.5 3-7 0t-7 0z"/></svg>'
)
Href = Callable[[str], str]
"""Turns a page's path into what a link to it says."""
Trail = Sequence[tuple[str, str]]
"""Where a page is: names and paths, from the lake on; no path for the page itself."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, without the frame around it.

    Attributes:
        path: such as `/`, `/table/silver/flights` or `/run/20240501-103000-1a2b3c4d`.
        title: names it among others.
        body: what is in its `<main>`.
    """

    path: str
    title: str
    body: Markup


def render(template: str, **facts: Any) -> Markup:
    """A template with facts in it.

    Args:
        template: its name, such as `lake.html`.
        facts: what it names.
    """
    return Markup(_environment().get_template(template).render(facts))  # noqa: S704 -- escapes


@cache
def asset(name: str) -> str:
    """The text of a file that pages need: `theme.css` or `page.js`."""
    return files("lakeport.html").joinpath("assets", name).read_text("utf-8")


def cell(value: object, sort: object = None, class_: str | None = "n") -> Markup:
    """A cell of a table that has a number: at the right, sorted by `sort`."""
    return text.tag("td", value, class_=class_, data_v=value if sort is None else sort)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("lakeport.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=units.format_count,
        size=units.format_size,
        file_size=text.file_size,
        moment=text.moment,
        duration=text.duration,
        iso=lambda at: "" if at is None else at.isoformat(),
        num=lambda value: "" if value is None else value,
        signed=text.signed,
        cut=text.cut,
    )
    made.globals.update(cell=cell, counted=units.pluralize, share=text.share)
    return made


def linked(page: Page, trail: Trail, href: Href) -> str:
    """Return the document of a page, which takes its style and its script from beside it.

    Args:
        page: what is in it.
        trail: where it is.
        href: gives the links, those of the files, too.
    """
    style = tag("link", rel="stylesheet", href=href("/assets/theme.css"))
    script = tag("script", src=href("/assets/page.js"))
    return _document(page, trail, href, style=style, script=script, policy="")


def alone(title: str, body: Markup, href: Href) -> str:
    """Return a document that needs nothing but itself, and may neither run nor load anything else.

    Args:
        title: names it among others.
        body: what is in its `<main>`.
        href: gives the links.
    """
    css, code = asset("theme.css"), asset("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(css)}'; "
        f"script-src 'sha256-{_digest(code)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    style = tag("style", Markup(css))  # noqa: S704 -- a file of ours
    script = tag("script", Markup(code))  # noqa: S704
    page = Page("/", title, body)
    return _document(page, [(title, "")], href, style=style, script=script, policy=policy)


def notebook(part: Markup) -> str:
    """A part for a notebook's cell, with the style that it needs."""
    style = tag("style", Markup(asset("theme.css")))  # noqa: S704 -- a file of ours
    return str(tag("div", style, part, class_="lakeport"))


def _document(page: Page, trail: Trail, href: Href, **parts: Any) -> str:
    return render(
        "frame.html",
        title=f"{page.title} · lakeport",
        trail=trail,
        body=page.body,
        href=href,
        icon=_ICON,
        version=version("lakeport"),
        made=datetime.now(UTC),
        **parts,
    )


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()
