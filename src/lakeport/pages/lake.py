"""The pages of a target: its lake, each of its tables, each of its runs.

Reads logs, footers, manifests and reports; starts no Spark, and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from lakeport.errors import SourceError
from lakeport.html import document
from lakeport.html.document import asset
from lakeport.html.lake import Href, RunLine, lake_body
from lakeport.html.report import run_facts
from lakeport.html.run import LoadBox, loads_body, run_body
from lakeport.html.table import Preview, table_body
from lakeport.html.text import duration, tag
from lakeport.pages.page import Page
from lakeport.pages.preview import preview
from lakeport.tables.lake import of_a_table, open_lake
from lakeport.tables.overview import lake_facts, table_and_rows
from lakeport.tables.runs import list_loads, list_runs, run_named, samples
from lakeport.units import count, counted

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.html.facts import LakeFacts
    from lakeport.model import Storage
    from lakeport.pipeline.plan import LoadPlan, PipelinePlan
    from lakeport.tables.runs import LakeRun


_STATES: Final = {"landed": "ok", "failed": "failed", "interrupted": "failed"}


def page_of_lake_plan(plan: PipelinePlan) -> Page:
    """What a run of a lake's file would do."""
    totals = [("loads", count(len(plan.loads))), ("steps", count(len(plan.steps)))]
    loads = [_planned(load) for load in plan.loads]
    body = loads_body(f"Plan of {PurePath(plan.file).name}", plan.file, totals, loads)
    return Page("/", "Plan", body)


def _planned(load: LoadPlan) -> LoadBox:
    facts = {name: words for name, words in load.in_words.items() if name not in _AS_TABLE}
    words = ", ".join(filter(None, (load.mode, load.transform, load.runs)))
    columns = load.result or load.columns
    return LoadBox(load.load, load.uses, words, facts=list(facts.items()), columns=columns)


_AS_TABLE: Final = ("which gives", "columns")


def page_of_lake_run(
    report: Mapping[str, Any], path: str = "/", links: Mapping[str, str] | None = None
) -> Page:
    """The page of a run of a lake's file.

    Args:
        report: as `PipelineReport.to_dict` gives it.
        path: the page's.
        links: run of a load -> the link to its page.
    """
    loads = [load for load in report["loads"] if load["outcome"] != "left out"]
    totals = [
        ("loads", count(len(loads))),
        *((end, count(number)) for end, number in Counter(x["outcome"] for x in loads).items()),
        ("rows", count(report["rows"])),
        ("set aside", count(report["rejected"])),
        ("took", duration(report["seconds"])),
    ]
    boxes = [_ended(load, links or {}) for load in loads]
    title = f"Run {report['run_id']}"
    body = loads_body(title, report["file"], totals, boxes, report["warnings"])
    return Page(path, title, body)


def _ended(load: Mapping[str, Any], links: Mapping[str, str]) -> LoadBox:
    outcome = load["outcome"]
    own = str((load.get("report") or load)["run_id"] or "")
    landed = f"{outcome}, {counted(load['rows'], 'row')}, {duration(load['seconds'])}"
    facts = [
        ("outcome", outcome),
        ("why", load["reason"]),
        ("rows", count(load["rows"])),
        ("set aside", count(load["rejected"])),
        ("took", duration(load["seconds"])),
        ("tables", ", ".join(load["tables"])),
        ("run", tag("a", own, href=links[own]) if links.get(own) else own),
    ]
    streams = (load.get("report") or {}).get("streams", ())
    return LoadBox(
        load["load"],
        load.get("uses", ()),
        landed if outcome in _STATES else outcome,
        _STATES.get(outcome, ""),
        [(name, value) for name, value in facts if value],
        {name: type_ for stream in streams for name, type_ in stream["columns"].items()},
        [words for stream in streams for words in stream["warnings"]],
        load["error"],
    )


_ASSETS = {"theme.css": "text/css", "page.js": "text/javascript"}
_TABLE: Final = "/table/"
_RUN: Final = "/run/"
_RUNS = 200
_SAMPLES = 20


def open_pages(config: DestinationConfig, *, masked: bool = False) -> LakePages:
    """The pages of a target.

    Args:
        config: the target.
        masked: whether values of columns and records are left out.

    Raises:
        SourceError: it is no folder of this machine.
        DestinationError: the store refused.
    """
    return LakePages(*open_lake(config), masked)


def linked_to(path: str) -> str:
    """The link to a page that is served; empty where there is none."""
    return quote(path)


@dataclass(frozen=True)
class LakePages:
    """The pages of a lake, or of a single table; see `lakeport.pages.page.Pages`.

    Attributes:
        storage: where it is.
        folder: its key there.
        masked: whether values of columns and records are left out.
    """

    storage: Storage
    folder: str
    masked: bool = False

    def page(self, path: str, query: Mapping[str, str] | None = None) -> Page | None:
        """The page at a path, percent-decoded; None where there is none.

        Raises:
            LakeportError: it can't be told.
        """
        return self.made(path, linked_to)

    def document(self, page: Page) -> str:
        """The whole document of a page, with links to the style and the script."""
        return document.linked(page.title, self.trail(page), page.body, linked_to)

    def asset(self, name: str) -> tuple[str, bytes] | None:
        """Media type and contents of a file that documents link to."""
        kind = _ASSETS.get(name)
        return None if kind is None else (kind, asset(name).encode())

    def made(self, path: str, href: Href) -> Page | None:
        """The page at a path, with such links; see `page`."""
        if path == "/":
            return (
                self.of_table("") if self.is_table else self.of_lake(self.lake(), self.runs(), href)
            )
        if path.startswith(_TABLE) and _is_name(name := path.removeprefix(_TABLE)):
            return self.of_table(name)
        if path.startswith(_RUN):
            run = run_named(self.storage, self.folder, path.removeprefix(_RUN))
            return None if run is None else self.of_run(run, href)
        return None

    @property
    def is_table(self) -> bool:
        """Whether the target is no lake but a table."""
        return of_a_table(self.storage, self.folder) is not None

    def lake(self) -> LakeFacts:
        """What the lake holds."""
        return lake_facts(self.storage, self.folder)

    def runs(self) -> list[LakeRun]:
        """The newest runs, newest first."""
        return list_runs(self.storage, self.folder, _RUNS)

    def of_lake(self, lake: LakeFacts, runs: Sequence[LakeRun], href: Href) -> Page:
        """The lake's page."""
        pages = _pages(lake)
        lines = [_line(run, pages) for run in runs]
        return Page("/", "Lake", lake_body(lake, lines, datetime.now(UTC), href))

    def of_table(self, name: str) -> Page:
        """A table's page.

        Raises:
            SourceError: there is none.
        """
        folder = f"{self.folder}/{name}".strip("/")
        title = name or unquote(self.storage.uri(folder).rstrip("/").rpartition("/")[2])
        facts, rows = table_and_rows(self.storage, folder, title)
        first = Preview() if self.masked else preview(rows, facts.uri)
        body = table_body(facts, first, masked=self.masked)
        return Page(f"{_TABLE}{name}" if name else "/", title, body)

    def of_run(self, run: LakeRun, href: Href) -> Page:
        """A run's page.

        Raises:
            SourceError: its report says what no report says.
        """
        if run.file:
            return self._of_lake_run(run, href)
        facts = run_facts(run.report)
        if facts is None:
            raise _unreadable(run)
        pages = {each.table.rstrip("/"): self._table_page(each.table) for each in facts.streams}
        found = samples(self.storage, run.report, _SAMPLES)
        body = run_body(facts, found, href, pages, masked=self.masked)
        return Page(f"{_RUN}{run.name}", f"Run {run.run_id}", body)

    def _of_lake_run(self, run: LakeRun, href: Href) -> Page:
        loads = list_loads(self.storage, self.folder, _RUNS)
        links = {load.run_id: href(f"{_RUN}{load.name}") for load in loads}
        try:
            return page_of_lake_run(run.report, f"{_RUN}{run.name}", links)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _unreadable(run) from None

    def trail(self, page: Page) -> list[tuple[str, str]]:
        """The way to a page, from the lake on."""
        return [(page.title, "")] if page.path == "/" else [("Lake", "/"), (page.title, "")]

    def _table_page(self, uri: str) -> str:
        """The page of a table that a report names; empty where it is none of this lake."""
        above = self.storage.uri(self.folder).rstrip("/") + "/"
        name = uri.rstrip("/").removeprefix(above)
        return f"{_TABLE}{unquote(name)}" if uri.startswith(above) and name else ""


def _unreadable(run: LakeRun) -> SourceError:
    return SourceError(
        f"the report of run {run.run_id!r} can't be read: {run.name}.json",
        "others than lakeport have written it, or changed it.",
    )


def _pages(lake: LakeFacts) -> dict[str, str]:
    return {table.uri.rstrip("/"): f"{_TABLE}{table.name}" for table in lake.tables}


def _line(run: LakeRun, pages: Mapping[str, str]) -> RunLine:
    facts = run_facts(run.report)
    streams = facts.streams if facts else []
    uris = [each.table.rstrip("/") for each in streams]
    if run.file:
        uris = [uri.rstrip("/") for load in run.report["loads"] for uri in load.get("tables", ())]
    return RunLine(
        path=f"{_RUN}{run.name}" if facts else "",
        run_id=run.run_id,
        ok=run.ok,
        error=run.error or "",
        started=run.started,
        seconds=run.seconds,
        rows=run.rows,
        rejected=facts.rejected if facts else 0,
        loads=", ".join(f"{count(number)} {end}" for end, number in run.outcomes.items()),
        tables=[(unquote(uri.rpartition("/")[2]), pages.get(uri, "")) for uri in uris if uri],
    )


def _name(uri: str, page: str) -> str:
    """A table's name in this lake; of another one the last part of its URI."""
    return page.removeprefix(_TABLE) or unquote(uri.rpartition("/")[2])


def _is_name(name: str) -> bool:
    """Whether it can be a table's folder below the target, and nothing outside of it."""
    parts = name.split("/")
    return (
        all(part not in ("", ".", "..") for part in parts) and "\\" not in name and "\0" not in name
    )
