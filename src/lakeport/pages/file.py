"""Write pages into one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import quote

import msgspec

from lakeport.config.load import load_target
from lakeport.errors import LakeportError
from lakeport.host.scratch import check_output_path, write_output
from lakeport.html import document
from lakeport.html.document import Page, render_template
from lakeport.html.facts import RunFacts
from lakeport.html.run import render_plan_page, render_run_page
from lakeport.lake.runs import find_run
from lakeport.pages.lake import open_pages

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.pages.lake import LakePages

_LARGEST: Final = 8_000_000  # characters of the pages of a lake's tables
_RUNS_ROOM: Final = 2_000_000  # characters of the pages of its runs
_TABLES: Final = 50
_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class PageFile:
    """Result of `page`: the HTML document, its number of pages and how many were left out.

    Attributes:
        html: the document.
        pages: how many pages it has.
        left_out: how many tables, and of the newest runs how many, have none, as there are many.
    """

    html: str = field(repr=False)
    pages: int = 1
    left_out: int = 0


class _FilePages(list[Page]):
    """Pages of one HTML file, which link only to each other."""

    def add(self, builders: Iterable[Callable[[], Page]], max_characters: int) -> None:
        """Build and append pages up to `max_characters` in sum; skip those that fail."""
        for build in builders:
            with suppress(LakeportError):  # the lake's page says what is wrong with it
                page = build()
                max_characters -= len(page.body)
                if max_characters < 0:
                    return
                self.append(page)

    def href(self, path: str) -> str:
        """Return the link to a page of this file; empty if the file lacks it."""
        known = path == "/" or any(page.path == path for page in self)
        return f"#{quote(path)}" if known else ""


def page(
    to: Target | DestinationConfig | None = None,
    output: str | os.PathLike[str] = "page.html",
    *,
    run: str | None = None,
    mask: bool = False,
    **keys: Unpack[StoreKeys],
) -> PageFile:
    """Write one HTML file with the page of a lake, a table or a run.

    Args:
        to: a folder, a URI, a config file or a config, as `land` takes it; a lake or a table.
        output: the file.
        run: the page of a run: its id, or `last`.
        mask: whether values are left out: rows, bad records, minima and maxima.
        keys: further keys of the config, such as `aws_endpoint`.

    Raises:
        ConfigError: the target is none, or the file can't be written.
        SourceError: it is no folder of this machine, or there is no such run.
        DestinationError: the store refused.

    Example:
        >>> import lakeport
        >>> lakeport.page("./lake", "lake.html")  # doctest: +SKIP
    """
    check_output_path(Path(output))
    made = build_page_file(load_target(to, keys), run, masked=mask)
    write_output(made.html, Path(output))
    return made


def build_page_file(config: DestinationConfig, run: str | None, *, masked: bool) -> PageFile:
    """Build the HTML file of a lake or table; with `run`, of the run with that id or name."""
    pages = open_pages(config, masked=masked)
    if run is None:
        return build_lake_file(pages)
    return build_single_page_file(
        pages.build_run_page(find_run(pages.storage, pages.folder, run), _link_nowhere)
    )


def build_lake_file(pages: LakePages, max_characters: int = _LARGEST) -> PageFile:
    """Build the HTML file of a table; or of a lake, with its newest runs and changed tables."""
    if pages.is_table:
        return build_single_page_file(pages.build_table_page(""))
    tables, runs = pages.list_tables(), pages.list_runs()
    changed = sorted(tables, key=lambda t: t.last_change.timestamp() if t.last_change else 0)
    made = _FilePages()
    newest = changed[: -_TABLES - 1 : -1]
    made.add((partial(pages.build_table_page, table.name) for table in newest), max_characters)
    of_runs = (partial(pages.build_run_page, run, made.href) for run in runs[:_RUNS])
    made.add(of_runs, min(max_characters, _RUNS_ROOM))
    first = pages.build_lake_page(runs, made.href, tables)
    html = document.build_single_document(
        first.title, render_template("file.html", pages=[first, *made]), made.href
    )
    return PageFile(html, 1 + len(made), len(changed) + len(runs[:_RUNS]) - len(made))


def build_report_file(report: Mapping[str, Any]) -> PageFile:
    """Build the HTML file of one run from `LandingReport.to_dict()`, without its lake."""
    facts = msgspec.convert(report, RunFacts)
    return build_single_page_file(
        Page("/", f"Run {facts.run_id}", render_run_page(facts, (), _link_nowhere, {}))
    )


def build_plan_file(plan: Mapping[str, Any]) -> PageFile:
    """Build the file of a plan, as `LandingPlan.to_dict` gives it."""
    return build_single_page_file(Page("/", "Plan", render_plan_page(plan)))


def build_single_page_file(page: Page) -> PageFile:
    """Build a file of one page, without links to others."""
    return PageFile(document.build_single_document(page.title, page.body, _link_nowhere))


def _link_nowhere(path: str) -> str:
    """Return an empty link: the file has no other pages."""
    return ""
