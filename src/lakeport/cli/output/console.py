"""Output of a command: text and tables for people, or one JSON document. Nothing else prints."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from lakeport import errors
from lakeport.cli.output import logs, progress
from lakeport.cli.output.formatting import (
    REPORT_COLUMNS,
    REPORT_SPARE,
    add_options,
    batch_line,
    column_lines,
    escape_controls,
    fit_columns,
    format_pairs,
    format_value,
    format_words,
    is_list_of_objects,
    report_notes,
    report_row,
    shorten_paths,
    stack_rows,
    summary_line,
    table_lines,
    terminal_width,
    text_width,
    to_jsonable,
    wrap,
)
from lakeport.loading.report import Failure, LandingReport, Observer
from lakeport.loading.telemetry import log_event
from lakeport.model import Landed
from lakeport.scrub import mask_known
from lakeport.units import format_count, pluralize

if TYPE_CHECKING:
    from lakeport.loading.plan import LandingPlan, StreamPlan
    from lakeport.pipeline.report import PipelineReport

_WIDEST = 60  # characters of a table's cell with spaces
_LONGEST = 400  # characters of a table's cell without spaces
_LISTED = 100  # width of a list of columns, if the output is no terminal

StateSink = Callable[[bytes], None]
Remarks = Callable[[LandingReport], Sequence[str]]


class _Nowhere(io.StringIO):
    """A text stream that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


class _OutputBase(Observer):
    """Base class of `Console` and `Json`: their streams, and counts of batches and rows.

    Args:
        states: receives each committed STATE; default: only the report has it.

    Attributes:
        landed: number of batches landed so far.
        options: options to add to `lakeport table` commands in texts.
        remarks: makes a command's notes below the report of a load, for people.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        states: StateSink | None = None,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        if logs.is_on():  # standard error has the log's lines alone, which say the same
            self._err = _Nowhere()
            self._out = self._err if self._out is sys.stderr else self._out
        self._states = states
        self._lock = threading.Lock()
        self._rows = 0
        self._warned: set[str] = set()  # texts of warnings that were printed
        self.landed = 0
        self.options = ""
        self.shows_values = False
        self.remarks: Remarks = lambda report: ()

    def on_state(self, state: bytes) -> None:
        """Pass a committed STATE to `states`."""
        if self._states:
            self._states(state)

    def on_landed(self, landed: Landed) -> None:
        """Count a landed batch and its rows."""
        with self._lock:
            self.landed += 1
            self._rows += landed.rows

    def warn(self, text: str) -> None:
        """Print and log a warning of the command itself; loads log their own."""
        log_event(logging.WARNING, "warning", text)
        self.on_warning(text)

    def begin(self, label: str) -> None:
        """Show progress until there is a result; JSON output shows none."""

    def close(self) -> None:
        """Stop showing progress."""


class Console(_OutputBase):
    """Prints results for people: progress and tables on a terminal, plain lines elsewhere.

    Where no terminal shows it, as under an orchestrator, a load is one line at its end, with what
    needs attention above.
    """

    @cached_property
    def _width(self) -> int:
        """Width of the terminal in columns; 0 if the output is no terminal."""
        return terminal_width(self._out)

    @property
    def interactive(self) -> bool:
        """Whether the output is a terminal."""
        return bool(self._width)

    @property
    def is_brief(self) -> bool:
        """Whether loads are one line: there is no terminal, and `LAKEPORT_VERBOSE` is not on."""
        return progress.is_brief(self._out, self._err)

    def begin(self, label: str) -> None:
        """Show progress until something is printed."""
        progress.begin(label, self._out, self._err)

    def on_landed(self, landed: Landed) -> None:
        """Count a batch; print a line about it, or on a terminal show the totals."""
        super().on_landed(landed)
        with self._lock:
            if self._width:
                landings = pluralize(self.landed, "batch"), pluralize(self._rows, "row")
                progress.note(f"{landings[0]} landed, {landings[1]}")
            elif not self.is_brief:
                self.say(batch_line(landed))

    def on_warning(self, text: str) -> None:
        """Print a warning."""
        line = f"Warning: {format_value(text)}"
        with self._lock:
            self._warned.add(text)
            self._print_message(line)

    def on_finished(self, report: LandingReport) -> None:
        """Print a load's report: streams, columns, notes and a closing line."""
        self.close()
        if self.is_brief:
            left = [text for text in report.warnings if text not in self._warned]
            for note in report_notes(replace(report, warnings=tuple(left)), brief=True):
                self.say(note)
            self.say(summary_line(report, brief=True))
            return
        if report.streams:
            known = all(stream.table_name in ("", stream.stream) for stream in report.streams)
            # The last line has the target.
            columns = REPORT_COLUMNS[: -1 if known and self._width else None]
            rows = [report_row(stream)[: len(columns)] for stream in report.streams]
            self.rows("", columns, rows, REPORT_SPARE)
        for stream in report.streams:
            if stream.skipped_batches and not stream.rows:
                continue
            for line in column_lines(stream, min(_LISTED, self._width or _LISTED)):
                self.say(line)
        for note in (*report_notes(report), *self.remarks(report)):
            self.say(f"  {note}", 2)
        self.say(summary_line(report))

    def facts(self, title: str, facts: Mapping[str, object]) -> None:
        """Print a title and a line for each name and value; print lists of mappings as tables."""
        self.close()
        self.say(format_value(title))
        plain = [
            (format_value(name), self._shorten(format_words(value)))
            for name, value in facts.items()
            if not is_list_of_objects(value)
        ]
        longest = max(map(text_width, facts), default=0)
        for line in format_pairs(plain, self._width, indent=2, name_width=longest):
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
        """Print a table; on a terminal, leave out columns that don't fit, and name them."""
        self.close()
        if title:
            self.say(format_value(title))
        names = [format_value(column) for column in columns]
        cells = [[_cell_text(value) for value in row] for row in rows]
        if self._width:
            self._table(names, cells, spare)
            return
        for line in table_lines(names, cells):
            self._write(line)

    def say(self, text: str, hanging: int = 0) -> None:
        """Print a text, wrapped to a terminal; continuation lines are indented by `hanging`."""
        for line in wrap(self._shorten(text), self._width, hanging):
            self._write(line)

    def plan(self, plan: LandingPlan) -> None:
        """Print a load's plan, stream by stream; nothing is written to the lake."""
        self.close()
        does = {"append": "append to", "merge": "merge into"}.get(plan.mode, plan.mode)
        tables = f"{plan.file_type} tables in {format_value(plan.target)}"
        self.say(f"nothing is written: a load would {does} {tables}")
        for stream in plan.streams:
            self.facts(stream.stream, _plan_facts(stream))
            columns = [(column.name, column.type, column.change) for column in stream.columns]
            count = 3 if any(change for _, _, change in columns) else 2
            names = ("column", "type", "change")[:count]
            self.rows("", names, [column[:count] for column in columns])
        self.say(f"engine: {format_value(plan.engine)}")
        for warning in plan.warnings:
            self.on_warning(warning)

    def failure(self, failure: Failure, trace: str = "", value: str = "") -> None:
        """Print an error, hint and traceback to stderr; on a terminal, also `lakeport explain`.

        `value` is the text at fault, which a terminal shows, and elsewhere `shows_values`.
        """
        self.close()
        if trace:
            self._error(escape_controls(trace.rstrip()))
        words = f"Error: {escape_controls(failure.message)}"
        if value and (self.shows_values or terminal_width(self._err)):
            words += f"\n\nThe text: {value!r}"
        if failure.hint:
            words += f"\n\nHint: {escape_controls(failure.hint)}"
        if terminal_width(self._err) and failure.type in errors.__all__:
            words += f"\n\nMore: `lakeport explain {failure.type}`"
        self._print_message(words)

    def close(self) -> None:
        """Stop showing progress."""
        progress.end()

    def _print_message(self, text: str) -> None:
        """Print a warning or an error to `err`, wrapped to its terminal."""
        width = terminal_width(self._err)
        self._error("\n".join(wrap(self._shorten(text, width), width)))

    def _shorten(self, text: str, width: int | None = None) -> str:
        """Add `options` to a text's `lakeport table` commands; shorten paths on a terminal."""
        text = add_options(text, self.options)
        return shorten_paths(text) if (self._width if width is None else width) else text

    def _write(self, line: str) -> None:
        """Write a line to stdout; hide the progress meanwhile."""
        with progress.hide():
            self._out.write(f"{line}\n")
            self._out.flush()

    def _error(self, text: str) -> None:
        """Write text to stderr; hide the progress meanwhile."""
        with progress.hide():
            self._err.write(f"{text}\n")
            self._err.flush()

    def _table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]
    ) -> None:
        """Print a table on a terminal: the columns that fit, or a line for each cell."""
        kept, missing = fit_columns(columns, rows, self._width, spare)
        if not kept:
            for line in stack_rows(columns, rows, self._width):
                self._write(line)
            return
        header, *lines = table_lines(
            [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
        )
        for line in (header, "-" * max(map(text_width, (header, *lines))), *lines):
            self._write(line)
        if missing:
            self.say(f"not shown: {', '.join(missing)} (a wider terminal, or --json)")


class Json(_OutputBase):
    """Prints one JSON document: the result to stdout, or an error to stderr."""

    _failed: LandingReport | PipelineReport | None = None

    def on_finished(self, report: LandingReport | PipelineReport) -> None:
        """Print the report of a successful load; keep a failed one's for `failure`."""
        if report.ok:
            self._text(mask_known(report.to_json()))
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
        """Print rows as a JSON list of objects; title and `spare` have no effect."""
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        self.document(objects)

    def plan(self, plan: LandingPlan) -> None:
        """Write the plan."""
        self._text(mask_known(plan.to_json()))

    def document(self, value: object) -> None:
        """Write a value: the command's whole result."""
        self._text(json.dumps(to_jsonable(value)))

    def failure(self, failure: Failure, trace: str = "", value: str = "") -> None:
        """Write `{"error": {"type", "message", "hint", "trace"}}` to standard error.

        For a failed load, write its report with this error to standard output instead. `value` is
        left out: documents and logs hold no value of a record.
        """
        hint = add_options(failure.hint, self.options)
        error = {"type": failure.type, "message": failure.message, "hint": hint}
        if trace:
            error["trace"] = trace
        if self._failed is not None:
            self._text(mask_known(json.dumps({**self._failed.to_dict(), "error": error})))
            return
        self._err.write(json.dumps({"error": error}) + "\n")
        self._err.flush()

    def _text(self, text: str) -> None:
        """Write text to `out` and flush it."""
        self._out.write(f"{text}\n")
        self._out.flush()


Output = Console | Json
"""Prints facts, rows, plans and failures, as text or as JSON."""


def _cell_text(value: object) -> str:
    """Return a table's cell, cut to 60 characters if it has spaces, else to 400."""
    text = format_value(value)
    return format_value(text, _WIDEST if " " in text else _LONGEST)


def _plan_facts(stream: StreamPlan) -> dict[str, object]:
    """Return the facts of a planned stream: table, estimates, bad records, notes."""
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
