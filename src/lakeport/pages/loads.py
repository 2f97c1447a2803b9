"""Pages of a lake's file: of what a run would do, and of what one has come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from lakeport.html.loads import LoadBox, loads_body
from lakeport.html.text import duration, tag
from lakeport.pages.page import Page
from lakeport.units import count, counted

if TYPE_CHECKING:
    from lakeport.pipeline.plan import LoadPlan, PipelinePlan

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
