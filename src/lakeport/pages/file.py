"""Write pages into one HTML file that needs nothing but itself."""

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
from lakeport.host.scratch import check_output, write_output
from lakeport.html import document
from lakeport.html.document import Page, render
from lakeport.html.facts import RunFacts
from lakeport.html.run import plan_body, run_body
from lakeport.pages.lake import open_pages
from lakeport.tables.runs import find_run

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.pages.lake import LakePages

_LARGEST: Final = 8_000_000  # characters of the pages of a lake's tables
_RUNS_ROOM: Final = 2_000_000  # of those of its runs
_TABLES: Final = 50
_RUNS: Final = 20


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of pages.

    Attributes:
        html: the document.
        pages: how many pages it has.
        left_out: how many tables, and of the newest runs how many, have none, as there are many.
    """

    html: str = field(repr=False)
    pages: int = 1
    left_out: int = 0


class _Made(list[Page]):
    """Pages of a file; links lead to those that it has."""

    def add(self, makers: Iterable[Callable[[], Page]], room: int) -> None:
        """Add pages until one has more characters than there is room for."""
        for make in makers:
            with suppress(LakeportError):  # the lake's page says what is wrong with it
                page = make()
                room -= len(page.body)
                if room < 0:
                    return
                self.append(page)

    def href(self, path: str) -> str:
        known = path == "/" or any(page.path == path for page in self)
        return f"#{quote(path)}" if known else ""


def page(
    to: Target | DestinationConfig,
    output: str | os.PathLike[str] = "page.html",
    *,
    run: str | None = None,
    mask: bool = False,
    **keys: Unpack[StoreKeys],
) -> PageFile:
    """Write a lake, a table or a run as one HTML file with pictures.

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
    check_output(Path(output))
    made = file_of(load_target(to, keys), run, masked=mask)
    write_output(made.html, Path(output))
    return made


def file_of(config: DestinationConfig, run: str | None, *, masked: bool) -> PageFile:
    """Return the file of a lake or a table, or of the run of that id or name; see `page`."""
    pages = open_pages(config, masked=masked)
    if run is None:
        return file_of_lake(pages)
    return alone(pages.of_run(find_run(pages.storage, pages.folder, run), _nowhere))


def file_of_lake(pages: LakePages, largest: int = _LARGEST) -> PageFile:
    """A lake with its tables, those that changed last first, and its newest runs; or one table.

    Args:
        pages: the lake's.
        largest: characters of the pages of its tables; others are left out.

    Raises:
        LakeportError: the lake can't be told.
    """
    if pages.is_table:
        return alone(pages.of_table(""))
    tables, runs = pages.tables(), pages.runs()
    changed = sorted(tables, key=lambda t: t.last_change.timestamp() if t.last_change else 0)
    made = _Made()
    newest = changed[: -_TABLES - 1 : -1]
    made.add((partial(pages.of_table, table.name) for table in newest), largest)
    of_runs = (partial(pages.of_run, run, made.href) for run in runs[:_RUNS])
    made.add(of_runs, min(largest, _RUNS_ROOM))
    first = pages.of_lake(runs, made.href, tables)
    html = document.alone(first.title, render("file.html", pages=[first, *made]), made.href)
    return PageFile(html, 1 + len(made), len(changed) + len(runs[:_RUNS]) - len(made))


def file_of_report(report: Mapping[str, Any]) -> PageFile:
    """A run by its report alone, as `LandingReport.to_dict` gives it."""
    facts = msgspec.convert(report, RunFacts)
    return alone(Page("/", f"Run {facts.run_id}", run_body(facts, (), _nowhere, {})))


def file_of_plan(plan: Mapping[str, Any]) -> PageFile:
    """A plan, as `LandingPlan.to_dict` gives it."""
    return alone(Page("/", "Plan", plan_body(plan)))


def alone(page: Page) -> PageFile:
    """A file of one page, whose links lead nowhere else."""
    return PageFile(document.alone(page.title, page.body, _nowhere))


def _nowhere(path: str) -> str:
    """The link to a page that is not in the file."""
    return ""
