"""Render templates into pages and documents: linked, self-contained, or for notebooks."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeport import units
from lakeport.html import text
from lakeport.html.text import build_tag, join_markup
from lakeport.version import __version__

_ICON = "data:image/svg+xml," + quote(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2563eb" '
    'd="M1 5q3.5-3 7 0t7 0v3q-3.5 3-7 0t-7 0zm0 6q3.5-3 7 0t7 0v3q-3.5 3-7 0t-7 0z"/></svg>'
)
Href = Callable[[str], str]
"""Returns the link to a page's path."""
Trail = Sequence[tuple[str, str]]
"""Names and paths from the lake to a page; the page itself has no path."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page's path, title and content, without the HTML around it.

    Attributes:
        path: such as `/`, `/table/silver/flights` or `/run/20240501-103000-1a2b3c4d`.
        body: the contents of `<main>`.
    """

    path: str
    title: str
    body: Markup


def render_template(template: str, **facts: Any) -> Markup:
    """Render a template, such as `lake.html`, with these variables."""
    return Markup(_environment().get_template(template).render(facts))  # noqa: S704 -- escapes


@cache
def read_asset(name: str) -> str:
    """Read a file that pages need: `theme.css`, `page.js` or `live.js`."""
    return files("lakeport.html").joinpath("assets", name).read_text("utf-8")


def build_cell(value: object, sort: object = None, class_: str | None = "n") -> Markup:
    """Build a right-aligned cell for a number, by which its column is sorted."""
    return build_tag("td", value, class_=class_, data_v=value if sort is None else sort)


@cache
def _environment() -> Environment:
    """Return the Jinja environment with lakeport's templates, filters and functions; cached."""
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
        file_size=text.format_file_size,
        moment=text.build_time_tag,
        duration=text.format_duration,
        iso=lambda at: "" if at is None else at.isoformat(),
        num=lambda value: "" if value is None else value,
        signed=text.format_signed,
        cut=text.truncate,
    )
    made.globals.update(cell=build_cell, counted=units.pluralize, share=text.format_share)
    return made


def build_linked_document(page: Page, trail: Trail, href: Href) -> str:
    """Build a page's HTML document for the web server: style and script are linked."""
    style = build_tag("link", rel="stylesheet", href=href("/assets/theme.css"))
    scripts = (href("/assets/page.js"), href("/assets/live.js"))
    script = join_markup(build_tag("script", src=each) for each in scripts)
    return _build_document(page, trail, href, style=style, script=script, policy="")


def build_single_document(title: str, body: Markup, href: Href) -> str:
    """Build an HTML document with style and script inline; its policy forbids all others."""
    css, code = read_asset("theme.css"), read_asset("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash_source(css)}'; "
        f"script-src 'sha256-{_hash_source(code)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    style = build_tag("style", Markup(css))  # noqa: S704 -- a file of ours
    script = build_tag("script", Markup(code))  # noqa: S704
    page = Page("/", title, body)
    return _build_document(page, [(title, "")], href, style=style, script=script, policy=policy)


def build_notebook_part(part: Markup) -> str:
    """Build the HTML for a notebook's cell, with the style that it needs."""
    style = build_tag("style", Markup(read_asset("theme.css")))  # noqa: S704 -- a file of ours
    return str(build_tag("div", style, part, class_="lakeport"))


def _build_document(page: Page, trail: Trail, href: Href, **parts: Any) -> str:
    """Render the HTML frame around a page; `parts` are its style, script and policy."""
    return render_template(
        "frame.html",
        title=f"{page.title} · lakeport",
        trail=trail,
        body=page.body,
        href=href,
        icon=_ICON,
        version=__version__,
        made=datetime.now(UTC),
        **parts,
    )


def _hash_source(text: str) -> str:
    """Return the base64 SHA-256 of an inline style or script, for the policy."""
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()
