"""What a run's report says, checked: reports are data, and those of older versions lack keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class ErrorFacts(msgspec.Struct, frozen=True):
    """What a failed run ended with."""

    type: str
    message: str
    hint: str = ""


class ExpectationFacts(msgspec.Struct, frozen=True):
    """What came of an expectation; see `lakeport.ExpectationResult`."""

    name: str
    otherwise: str = ""
    checked: int = 0
    failed: int = 0
    detail: str = ""


class StreamFacts(msgspec.Struct, frozen=True):
    """One stream of a run; see `lakeport.StreamReport`."""

    stream: str
    table: str = ""
    rows: int = 0
    rejected: int = 0
    dropped: dict[str, int] = {}
    files: int = 0
    bytes: int = 0
    skipped_batches: int = 0
    removed_files: int = 0
    removed_rows: int | None = 0
    merged: dict[str, int] = {}
    first_version: int | None = None
    last_version: int | None = None
    seconds: float = 0.0
    warnings: list[str] = []
    notes: list[str] = []
    columns: dict[str, str] = {}
    expectations: list[ExpectationFacts] = []


class ReasonFacts(msgspec.Struct, frozen=True):
    """Why so many records were set aside; see `lakeport.Rejection`."""

    reason: str
    stream: str = ""
    column: str = ""
    count: int = 0


class SpanFacts(msgspec.Struct, frozen=True):
    """When what was done, in seconds since the run's start; see `lakeport.Span`."""

    stage: str
    start: float
    end: float
    stream: str = ""
    busy: float = 0.0


class EngineFacts(msgspec.Struct, frozen=True):
    """What ran a run's tasks; see `lakeport.EngineReport`."""

    name: str = ""
    version: str = ""
    master: str = ""
    application: str = ""
    jobs: int = 0
    tasks: int = 0


class RunFacts(msgspec.Struct, frozen=True):
    """A run; see `lakeport.LandingReport`."""

    run_id: str
    started: datetime
    ok: bool = True
    target: str = ""
    seconds: float = 0.0
    rows: int = 0
    rejected: int = 0
    files: int = 0
    bytes: int = 0
    streams: list[StreamFacts] = []
    quarantine: list[str] = []
    warnings: list[str] = []
    parser: str = ""
    engine: EngineFacts = EngineFacts()
    error: ErrorFacts | None = None
    command: list[str] | None = None
    reasons: list[ReasonFacts] = []
    spans: list[SpanFacts] = []
    streams_left_out: int = 0
    pace: list[tuple[float, float, float]] = []
    reading_pace: list[tuple[float, float, float]] = []


def run_facts(report: Mapping[str, Any]) -> RunFacts | None:
    """What a report says; None for what is no report.

    Args:
        report: as `LandingReport.to_dict` gives it.

    >>> run_facts({"run_id": "a", "started": "2024-05-01T10:30:00+00:00"}).rows
    0
    >>> run_facts({"run_id": 1, "started": "yesterday"})
    """
    try:
        return msgspec.convert(report, RunFacts)
    except msgspec.ValidationError:
        return None
