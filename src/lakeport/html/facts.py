"""Runs and bad records as pages and notebooks show them: frozen values.

Facts of a run are its report, checked: those of older versions lack keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from lakeport.model import EngineReport, Rejection, Span, StreamReport

MOST_POINTS = 60
"""Most points in the growth of a table."""


@dataclass(frozen=True, slots=True)
class BadSample:
    """One rejected record as text, with its stream, column, reason and place.

    Attributes:
        stream: its stream's name; empty for a line that is of none.
        column: dotted path of the column at fault; empty where the whole record is.
        where: its file, if the source had several, and its line, such as `b.csv, line 7`; may be
            empty.
        record: the record as text, at most 500 characters.
    """

    stream: str
    column: str
    reason: str
    where: str
    record: str


class RunFacts(msgspec.Struct, frozen=True):
    """A run's report with checked types; its fields are those of `lakeport.LandingReport`.

    `undone` is what `table undo` has added: each `table` (its URI), and when (`at`).
    """

    run_id: str
    started: datetime
    ok: bool = True
    target: str = ""
    seconds: float = 0.0
    rows: int = 0
    rejected: int = 0
    files: int = 0
    bytes: int = 0
    streams: list[StreamReport] = []
    quarantine: list[str] = []
    warnings: list[str] = []
    parser: str = ""
    engine: EngineReport = EngineReport()
    error: dict[str, str] | None = None
    command: list[str] | None = None
    reasons: list[Rejection] = []
    spans: list[Span] = []
    streams_left_out: int = 0
    pace: list[tuple[float, float, float]] = []
    reading_pace: list[tuple[float, float, float]] = []
    undone: list[dict[str, str]] = []


def parse_run_facts(report: Mapping[str, Any]) -> RunFacts | None:
    """Parse a run's report, with defaults for missing keys; return None if it is malformed.

    >>> parse_run_facts({"run_id": "a", "started": "2024-05-01T10:30:00+00:00"}).rows
    0
    >>> parse_run_facts({"run_id": 1, "started": "yesterday"})
    """
    try:
        return msgspec.convert(report, RunFacts)
    except msgspec.ValidationError:
        return None
