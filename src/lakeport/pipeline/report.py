"""What a run of a lake's file came to (`PipelineReport`), load by load.

`PipelineReport.to_json` writes one JSON object:

| key | value |
|---|---|
| `run` | version of this layout, 1 |
| `ok` | whether every load of the run ended well |
| `run_id`, `file` | texts: the run's name, and the file with its folder |
| `resumes` | the run that this one went on with; empty for none |
| `started`, `finished` | ISO 8601 in UTC, `finished` null while it runs; `seconds` between them |
| `rows`, `rejected` | sums over the loads |
| `loads` | list of objects with `load`, `outcome`, `reason` (why it was skipped), `run_id` (null |
| | where the load's table knows by itself what it has had), `seconds`, `rows`, `rejected`, |
| | `tables` (URIs), `uses` (the loads that it needs), `exit_code`, `error` (null, or `type`, |
| | `message`, `hint`), and `report`: |
| | what `lakeport land --json` tells, null for a load that did not get so far |
| `warnings` | sentences that concern no single load |
| `command` | the command line, as a list without secrets; null for a run that Python code began |

An `outcome` is `landed`, `failed`, `skipped` (a load that it uses did not end well), `interrupted`
(the run was asked to end meanwhile), `waiting` (it had not begun by then), or `left out` (not asked
for, or landed by the run that this one resumes).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from lakeport.loading.report import Failure, LandingReport, iso

LoadOutcome = Literal["landed", "failed", "skipped", "interrupted", "waiting", "left out"]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of one load; the module's docstring describes each value."""

    load: str
    outcome: LoadOutcome = "waiting"
    reason: str = ""
    run_id: str | None = None
    seconds: float = 0.0
    landing: LandingReport | None = None
    error: Failure | None = None
    exit_code: int = 0
    uses: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that it landed."""
        return self.landing.rows if self.landing else 0

    @property
    def rejected(self) -> int:
        """Records that it set aside."""
        return self.landing.rejected if self.landing else 0

    @property
    def tables(self) -> tuple[str, ...]:
        """URIs of the tables that it landed in."""
        streams = self.landing.streams if self.landing else ()
        return tuple(dict.fromkeys(stream.table for stream in streams if stream.table))

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """The same as plain values.

        Args:
            whole: with the load's own report.
        """
        return {
            "load": self.load,
            "outcome": self.outcome,
            "reason": self.reason,
            "run_id": self.run_id,
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
            "rejected": self.rejected,
            "tables": list(self.tables),
            "exit_code": self.exit_code,
            "uses": list(self.uses),
            "error": asdict(self.error) if self.error else None,
            "report": self.landing.to_dict() if whole and self.landing else None,
        }


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """What a run of a lake's file came to. The module's docstring describes each value."""

    run_id: str
    file: str
    started: datetime
    finished: datetime | None
    seconds: float
    loads: tuple[LoadReport, ...]
    resumes: str = ""
    warnings: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None

    @property
    def ok(self) -> bool:
        """Whether every load that the run was to do ended well."""
        return all(load.outcome in ("landed", "left out") for load in self.loads)

    @property
    def rows(self) -> int:
        """Rows that the run landed, over all loads."""
        return sum(load.rows for load in self.loads)

    @property
    def rejected(self) -> int:
        """Records that were set aside, over all loads."""
        return sum(load.rejected for load in self.loads)

    @property
    def failed(self) -> tuple[LoadReport, ...]:
        """The loads that failed."""
        return tuple(load for load in self.loads if load.outcome == "failed")

    @property
    def exit_code(self) -> int:
        """The failed loads' exit code where that is one, 1 where they differ, 0 for none."""
        codes = {load.exit_code for load in self.failed}
        return codes.pop() if len(codes) == 1 else min(len(codes), 1)

    def __getitem__(self, load: str) -> LoadReport:
        """The report of a load.

        Raises:
            KeyError: the file has no load of that name.
        """
        return {one.load: one for one in self.loads}[load]

    def __repr__(self) -> str:
        """The run, and how its loads ended; `to_dict` has the rest."""
        ends = ", ".join(f"{load.load}={load.outcome!r}" for load in self.loads)
        return f"PipelineReport(run_id={self.run_id!r}, rows={self.rows}, {ends})"

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """The report as plain values, as the module's docstring describes them.

        Args:
            whole: with the loads' own reports.
        """
        return {
            "run": 1,
            "ok": self.ok,
            "run_id": self.run_id,
            "file": self.file,
            "resumes": self.resumes,
            "started": iso(self.started),
            "finished": None if self.finished is None else iso(self.finished),
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
            "rejected": self.rejected,
            "loads": [load.to_dict(whole=whole) for load in self.loads],
            "warnings": list(self.warnings),
            "command": None if self.command is None else list(self.command),
        }

    def to_json(self) -> str:
        """The report as one JSON object on one line."""
        return json.dumps(self.to_dict())
