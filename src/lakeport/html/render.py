"""Templates: facts in, markup out, escaped unless it is markup."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakeport import units
from lakeport.html import text


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
        count=units.count,
        size=units.size,
        file_size=text.file_size,
        moment=text.moment,
        duration=text.duration,
        iso=lambda at: "" if at is None else at.isoformat(),
        num=lambda value: "" if value is None else value,
        signed=text.signed,
        cut=text.cut,
    )
    made.globals.update(cell=cell, counted=units.counted, share=text.share)
    return made
