"""Output of `lakeport run`: a line for each load while it runs, then a table, or JSON."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeport.cli.output import progress
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.formatting import format_value, pad, text_width
from lakeport.cli.pages import write_page
from lakeport.host.scratch import check_output_path, write_output
from lakeport.loading.progress import ProgressState, format_duration, format_line
from lakeport.loading.report import fan_out
from lakeport.pages.file import build_single_page_file
from lakeport.pages.lake import build_pipeline_plan_page, build_pipeline_run_page
from lakeport.pipeline.report import LoadReport, PipelineObserver, PipelineReport
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from lakeport.model import Landed
    from lakeport.pipeline.plan import PipelinePlan

_COLUMNS: Final = ("load", "rows", "rejected", "seconds", "outcome", "table")
_SPARE: Final = ("table", "seconds", "rejected")
_MOST: Final = 12  # running loads that are shown
_LONGEST: Final = 24  # characters of a running load's name


class ConsoleLoads(PipelineObserver):
    """Prints a `lakeport run`: running loads on a terminal, else a line for each ended load."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._running: dict[str, tuple[float, int]] = {}  # load -> start (monotonic), landed rows
        self._ended = self._failed = 0
        progress.set_lines(self.lines)

    def on_begun(self, load: str) -> None:
        """Start the load's line."""
        with self._lock:
            self._running[load] = time.monotonic(), 0

    def on_landed(self, load: str, landed: Landed) -> None:
        """Count a batch and add its rows to the load's progress line."""
        with self._lock:
            self._console.landed += 1
            if load in self._running:  # an interrupted load may still land batches
                began, rows = self._running[load]
                self._running[load] = began, rows + landed.rows

    def on_warning(self, load: str, text: str) -> None:
        """Print the warning with the load's name."""
        self._console.on_warning(f"{load}: {text}" if load else text)

    def on_ended(self, report: LoadReport) -> None:
        """Remove the load's progress line; without a terminal, print its outcome."""
        with self._lock:
            self._running.pop(report.load, None)
            self._ended += 1
            self._failed += report.outcome == "failed"
        if not self._console.interactive:
            self._console.say(_ended_line(report))

    def on_finished(self, report: PipelineReport) -> None:
        """Print a table of all loads, notes and totals; or that nothing was to resume."""
        self._console.close()
        told = [load for load in report.loads if load.outcome != "left out"]
        if not told and report.resumes:
            self._console.say(f"nothing to resume: run {report.resumes} has done all its loads")
            return
        if not self._console.is_brief:
            self._console.rows("", _COLUMNS, [_row(load) for load in told], _SPARE)
        for load in told:
            for note in _notes(load):
                self._console.say(f"  {format_value(load.load)}: {format_value(note)}", hanging=2)
        self._console.say(_closing_line(report))

    def lines(self, state: ProgressState, width: int) -> list[str]:
        """Return progress lines, one for each running load, 12 at most, then totals."""
        with self._lock:
            running = dict(self._running)
        if not running:
            return [f"{state.label} ..."]
        does = {each.load: each for each in state.activities}
        first = min(_LONGEST, max(map(text_width, running)))
        told = []
        for name, (began, rows) in list(running.items())[:_MOST]:
            label = pad(format_value(name, first), first)
            start = f"{label}  {format_duration(state.now - began):>5}  "
            landed = f"{pluralize(rows, 'row')} landed" if rows else ""
            room = width - text_width(start) - len(landed) - 2
            now = format_line(replace(does[name], name=""), state.now, room) if name in does else ""
            told.append(f"{start}{', '.join(filter(None, (landed, now)))}"[:width].rstrip())
        if (more := len(running) - _MOST) > 0:
            told.append(f"and {more} more")
        if self._ended:
            failed = f", {self._failed} failed" if self._failed else ""
            told.append(f"{pluralize(self._ended, 'load')} ended{failed}"[:width])
        return told


class JsonLoads(PipelineObserver):
    """Prints the report of a `lakeport run` as one JSON document."""

    def __init__(self, json: Json) -> None:
        self._json = json

    def on_landed(self, load: str, landed: Landed) -> None:
        """Count the batch."""
        self._json.on_landed(landed)

    def on_finished(self, report: PipelineReport) -> None:
        """Write the report; one of a failed run is written with its error later."""
        self._json.on_finished(report)


class _RunPageWriter(PipelineObserver):
    """Observer that writes the HTML page of a `lakeport run` to a file at its end."""

    def __init__(self, path: Path, output: Output) -> None:
        self._path, self._output = path, output

    def on_finished(self, report: PipelineReport) -> None:
        """Write the page; if that fails, print a warning, as rows are committed."""
        write_page(
            build_single_page_file(build_pipeline_run_page(report.to_dict())),
            self._path,
            self._output,
        )


def observer(output: Output, page: Path | None) -> PipelineObserver:
    """Return an observer that prints a run and writes its HTML page, if `page` is given."""
    printer = JsonLoads(output) if isinstance(output, Json) else ConsoleLoads(output)
    if page is None:
        return printer
    check_output_path(page)
    return fan_out(_RunPageWriter(page, output), printer)


def show_plan(output: Output, plan: PipelinePlan, page: Path | None) -> None:
    """Print a run's plan, steps first, then loads; if `page` is given, write it as HTML."""
    if page is not None:
        write_output(build_single_page_file(build_pipeline_plan_page(plan)).html, page)
    if not isinstance(output, Console):
        output.document(plan.to_dict())
        return
    output.close()
    output.say(f"nothing is written: a run would do {pluralize(len(plan.loads), 'load')}")
    for number, step in enumerate(plan.steps, 1):
        output.say(f"  {number}. {', '.join(map(format_value, step))}", hanging=3)
    for load in plan.loads:
        output.facts(load.load, load.in_words)


def _ended_line(report: LoadReport) -> str:
    """Return the line for a load that ended: outcome, rows, rejected records, duration.

    For one that was skipped, return the reason.
    """
    name = format_value(report.load)
    if report.outcome == "skipped":
        return f"{name}: skipped, {report.reason}"
    rejected = f"{report.rejected:,} rejected, " if report.rejected else ""
    rows = pluralize(report.rows, "row")
    return f"{name}: {report.outcome}, {rows}, {rejected}{report.seconds:.1f} s"


def _row(load: LoadReport) -> tuple[str, ...]:
    """Return a load's table cells, in the order of `_COLUMNS`; "-" if it did not start."""
    began = load.outcome not in ("skipped", "waiting")
    return (
        load.load,
        format_count(load.rows) if began else "-",
        format_count(load.rejected) if began else "-",
        f"{load.seconds:.1f}" if began else "-",
        load.outcome,
        ", ".join(load.tables) or "-",
    )


def _notes(load: LoadReport) -> list[str]:
    """Return a load's notes and warnings, each once, or why it was skipped; empty if not begun."""
    if load.outcome == "skipped":
        return [f"skipped: {load.reason}"]
    if load.landing is None:
        return []
    streams = [text for one in load.landing.streams for text in (*one.notes, *one.warnings)]
    return list(dict.fromkeys([*streams, *load.landing.warnings]))


def _closing_line(report: PipelineReport) -> str:
    """Return the closing line of a run: rows, loads, duration, run id and engines."""
    began = [load for load in report.loads if load.outcome != "left out"]
    well = sum(load.outcome == "landed" for load in began)
    loads = pluralize(well, "load") if well == len(began) else f"{well} of {len(began)} loads"
    rows = pluralize(report.rows, "row")
    engines = [load.landing.engine.info for load in report.loads if load.landing is not None]
    by = "".join(f", by {engine}" for engine in dict.fromkeys(engines) if engine)
    return (
        f"{rows} landed by {loads}, {report.seconds:.1f} s, run {format_value(report.run_id)}{by}"
    )
