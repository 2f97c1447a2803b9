"""The one output, in two forms: lines, bars and tables for people; one JSON document for machines.

Nothing else in lakeport prints.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from lakeport import errors
from lakeport.cli.output import progress
from lakeport.cli.output.formatting import (
    REPORT_COLUMNS,
    REPORT_SPARE,
    cells,
    closing_line,
    column_lines,
    fitted,
    footnotes,
    is_list_of_objects,
    jsonable,
    landed_line,
    nearby,
    pairs,
    phrase,
    printable,
    report_row,
    shown,
    stacked,
    table_lines,
    terminal_width,
    with_options,
    wrapped,
)
from lakeport.loading.report import Failure, LandingReport, Observer
from lakeport.model import Landed
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from lakeport.loading.plan import LandingPlan, StreamPlan
    from lakeport.pipeline.report import PipelineReport

_WIDEST = 60
_LONGEST = 400
_LISTED = 100  # columns of a line that lists columns, where lines are of any length

StateSink = Callable[[bytes], None]
Remarks = Callable[[LandingReport], Sequence[str]]


class _Streams(Observer):
    """Where a command writes, and the loads that it observes: what both forms of output share.

    Args:
        out: where the result goes; default: standard output.
        err: where errors go, and warnings for people; default: standard error.
        states: takes each STATE that may go out; default: only the report has it.

    Attributes:
        landed: batches that landed so far.
        options: added to the commands about a table that texts name.
        remarks: what a command adds to the report of a load, for people.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        states: StateSink | None = None,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._states = states
        self._lock = threading.Lock()
        self._rows = 0
        self.landed = 0
        self.options = ""
        self.remarks: Remarks = lambda report: ()

    def on_state(self, state: bytes) -> None:
        """Hand the STATE on."""
        if self._states:
            self._states(state)

    def on_landed(self, landed: Landed) -> None:
        """Count the batch and its rows."""
        with self._lock:
            self.landed += 1
            self._rows += landed.rows

    def begin(self, label: str) -> None:
        """Show what goes on from now on, until there is a result; machines are shown nothing."""

    def close(self) -> None:
        """Show nothing more of what goes on."""


class Console(_Streams):
    """For people: what goes on and tables on a terminal, plain lines elsewhere."""

    @cached_property
    def _width(self) -> int:
        return terminal_width(self._out)

    @property
    def interactive(self) -> bool:
        """Whether it writes to a terminal."""
        return bool(self._width)

    def begin(self, label: str) -> None:
        """Show what goes on from now on, until something else is to be said for good."""
        progress.begin(label, self._out, self._err)

    def on_landed(self, landed: Landed) -> None:
        """Count the batch, and print it as a line where lines are kept."""
        super().on_landed(landed)
        with self._lock:
            if self._width:
                landings = pluralize(self.landed, "batch"), pluralize(self._rows, "row")
                progress.note(f"{landings[0]} landed, {landings[1]}")
            else:
                self.say(landed_line(landed))

    def on_warning(self, text: str) -> None:
        """Print a warning."""
        line = f"Warning: {shown(text)}"
        with self._lock:
            self._aside(line)

    def on_finished(self, report: LandingReport) -> None:
        """Print the report."""
        self.close()
        if report.streams:
            known = all(stream.table_name in ("", stream.stream) for stream in report.streams)
            # The last line has the target.
            told = REPORT_COLUMNS[: -1 if known and self._width else None]
            rows = [report_row(stream)[: len(told)] for stream in report.streams]
            self.rows("", told, rows, REPORT_SPARE)
        for stream in report.streams:
            if stream.skipped_batches and not stream.rows:
                continue
            for line in column_lines(stream, min(_LISTED, self._width or _LISTED)):
                self.say(line)
        for note in (*footnotes(report), *self.remarks(report)):
            self.say(f"  {note}", 2)
        self.say(closing_line(report))

    def facts(self, title: str, facts: Mapping[str, object]) -> None:
        """Print one pair on each line."""
        self.close()
        self.say(shown(title))
        plain = [
            (shown(name), self._typed(phrase(value)))
            for name, value in facts.items()
            if not is_list_of_objects(value)
        ]
        longest = max(map(cells, facts), default=0)
        for line in pairs(plain, self._width, indent=2, first=longest):
            self._write(line)
        for value in facts.values():
            if is_list_of_objects(value):
                columns = list(value[0])
                self.rows("", columns, [[item.get(key) for key in columns] for item in value])

    def rows(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        spare: Sequence[str] = (),
    ) -> None:
        """Print a table; on a terminal as much of it as fits, and what is missing."""
        self.close()
        if title:
            self.say(shown(title))
        names = [shown(column) for column in columns]
        told = [[_whole(value) for value in row] for row in rows]
        if self._width:
            self._table(names, told, spare)
            return
        for line in table_lines(names, told):
            self._write(line)

    def say(self, text: str, hanging: int = 0) -> None:
        """Print a sentence; where it takes several lines, those below are indented so far."""
        for line in wrapped(self._typed(text), self._width, hanging):
            self._write(line)

    def plan(self, plan: LandingPlan) -> None:
        """Print a plan, stream by stream."""
        self.close()
        does = {"append": "append to", "merge": "merge into"}.get(plan.mode, plan.mode)
        tables = f"{plan.file_type} tables in {shown(plan.target)}"
        self.say(f"nothing is written: a load would {does} {tables}")
        for stream in plan.streams:
            self.facts(stream.stream, _plan_facts(stream))
            columns = [(column.name, column.type, column.change) for column in stream.columns]
            told = 3 if any(change for _, _, change in columns) else 2
            names = ("column", "type", "change")[:told]
            self.rows("", names, [column[:told] for column in columns])
        self.say(f"engine: {shown(plan.engine)}")
        for warning in plan.warnings:
            self.on_warning(warning)

    def failure(self, failure: Failure, trace: str = "") -> None:
        """Print an error and its hint."""
        self.close()
        if trace:
            self._error(printable(trace.rstrip()))
        words = f"Error: {printable(failure.message)}"
        if failure.hint:
            words += f"\n\nHint: {printable(failure.hint)}"
        if terminal_width(self._err) and failure.type in errors.__all__:
            words += f"\n\nMore: `lakeport explain {failure.type}`"
        self._aside(words)

    def close(self) -> None:
        """Free the terminal."""
        progress.end()

    def _aside(self, text: str) -> None:
        width = terminal_width(self._err)
        self._error("\n".join(wrapped(self._typed(text, width), width)))

    def _typed(self, text: str, width: int | None = None) -> str:
        """Return a text with its commands and paths as the user types them in this folder."""
        text = with_options(text, self.options)
        return nearby(text) if (self._width if width is None else width) else text

    def _write(self, line: str) -> None:
        with progress.hide():
            self._out.write(f"{line}\n")
            self._out.flush()

    def _error(self, text: str) -> None:
        with progress.hide():
            self._err.write(f"{text}\n")
            self._err.flush()

    def _table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]
    ) -> None:
        kept, missing = fitted(columns, rows, self._width, spare)
        if not kept:
            for line in stacked(columns, rows, self._width):
                self._write(line)
            return
        header, *lines = table_lines(
            [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
        )
        for line in (header, "-" * max(map(cells, (header, *lines))), *lines):
            self._write(line)
        if missing:
            self.say(f"not shown: {', '.join(missing)} (a wider terminal, or --json)")


class Json(_Streams):
    """For machines: the result as one JSON document, an error as one on standard error."""

    _failed: LandingReport | PipelineReport | None = None

    def on_finished(self, report: LandingReport | PipelineReport) -> None:
        """Write the report; that of a failed load comes with its error, as one document."""
        if report.ok:
            self._text(report.to_json())
        else:
            self._failed = report

    def facts(self, title: str, facts: Mapping[str, object]) -> None:
        """Write an object."""
        self.document(facts)

    def rows(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        spare: Sequence[str] = (),
    ) -> None:
        """Write a list of objects."""
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        self.document(objects)

    def plan(self, plan: LandingPlan) -> None:
        """Write the plan."""
        self._text(plan.to_json())

    def document(self, value: object) -> None:
        """Write a value: the command's whole result."""
        self._text(json.dumps(jsonable(value)))

    def failure(self, failure: Failure, trace: str = "") -> None:
        """Write `{"error": {"type", "message", "hint"}}`, and `trace` in it if there is one.

        Of a load that had begun, the report with this error in it is the one document.
        """
        hint = with_options(failure.hint, self.options)
        error = {"type": failure.type, "message": failure.message, "hint": hint}
        if trace:
            error["trace"] = trace
        if self._failed is not None:
            self._text(json.dumps({**self._failed.to_dict(), "error": error}))
            return
        self._err.write(json.dumps({"error": error}) + "\n")
        self._err.flush()

    def _text(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


Output = Console | Json
"""Prints facts, rows, plans and failures: a command's result in one of both forms."""


def _whole(value: object) -> str:
    """A cell of a table: prose may be cut, what has no spaces is a number, an id or a name."""
    text = shown(value)
    return shown(text, _WIDEST if " " in text else _LONGEST)


def _plan_facts(stream: StreamPlan) -> dict[str, object]:
    state = "a new table"
    if stream.exists:
        state = f"version {stream.version}" if stream.version is not None else "exists"
    facts: dict[str, object] = {
        "table": stream.table,
        "now": state,
        "partitions": ", ".join(stream.partition_keys) or "none",
        "rows (estimate)": format_count(stream.rows),
        "files (estimate)": format_count(stream.files),
    }
    if stream.bad:
        facts["bad records"] = "; ".join([format_count(stream.bad), *stream.first_bad])
    if stream.notes:
        facts["notes"] = "; ".join(stream.notes)
    if stream.warnings:
        facts["warnings"] = "; ".join(stream.warnings)
    return facts
