"""What a load tells: while it goes on (`Observer`), and at its end (`LandingReport`).

`LandingReport.to_json` writes one JSON object:

| key | value |
|---|---|
| `report` | version of this layout, 1 |
| `ok` | whether everything was landed |
| `run_id`, `target` | texts |
| `started`, `finished` | ISO 8601 in UTC; `seconds` between them |
| `rows`, `rejected`, `files`, `bytes` | sums over the streams; rows that were landed in this run |
| `streams` | list of objects with `stream`, `table` (URI), `rows`, `rejected` (bad records set |
| | aside), `dropped` (undeclared field -> records that held it), `files`, `bytes`, `batches`, |
| | `skipped_batches` (the same run had landed them before), `removed_files` (replaced by an |
| | overwrite or a merge), `removed_rows` (those in them; null where nothing tells), `merged` (of |
| | merges, `inserted`, `updated`, `deleted`, `unchanged` -> rows, as far as known), |
| | `first_version` and `last_version` (Delta; null for files), `seconds`, `warnings`, |
| | `notes` (lines about what was found out or chosen, such as a file's dialect), |
| | `columns` (column that was landed -> its type in words), `source_columns` (column of the |
| | source, before `sql` -> the type that it is read with; empty for frames and tables), |
| | `expectations` (list of objects with `name`, `otherwise`, `checked` and `failed` (rows), |
| | `detail`) |
| `stray_lines` | lines that are no messages of any stream |
| `quarantine` | URIs of the files with bad records |
| `state` | the last STATE that was emitted; null if none |
| `warnings` | sentences that concern no single stream |
| `parser` | what read Singer, JSON and CSV, if any: `native` or, without the kernel, `pyarrow` |
| `command` | the command line, as a list without secrets; null for a run that Python code began |
| `reasons` | bad records by reason: list of objects with `stream`, `column`, `reason`, `count` |
| `spans` | when what was done: list of objects with `stage`, `stream`, `start`, `end` (seconds |
| | since `started`), `tasks` (0 for the driver), `busy` (seconds of all of them) |
| `streams_left_out` | streams that are too many for `spans` |
| `pace` | what tasks had written by when: list of seconds, rows, bytes of files |
| `reading_pace` | what was read of a Singer stream by when: list of seconds, records, bytes |
| `engine` | object of what ran the tasks: `name` (`spark` or `threads`), Spark's `version`, |
| | `master` and `application` id, `jobs` and `tasks` |
| `error` | null, or an object with `type`, `message`, `hint` |
"""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lakeport.engine.base import EngineReport
from lakeport.errors import LakeportError
from lakeport.model import Landed
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.host.pace import Point
    from lakeport.loading.expect.result import ExpectationResult
    from lakeport.loading.quarantine import Rejection
    from lakeport.loading.timeline import Span
    from lakeport.model import Storage


class Observer(Protocol):
    """Who wants to know how a load goes on. Called from several threads."""

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """So much of a stream was read so far in this run: records and bytes, -1 if unknown."""

    def on_landed(self, landed: Landed) -> None:
        """A batch is durable and visible, or was landed by the same run before."""

    def on_state(self, state: bytes) -> None:
        """Everything before this STATE (its raw JSON value) is durable: it may go out.

        Raises:
            LakeportError: it can't be handed on.
        """

    def on_warning(self, text: str) -> None:
        """A sentence that the user has to read, although the load goes on."""

    def on_finished(self, report: LandingReport) -> None:
        """The load is over."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the report and `--json` tell it."""

    type: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an exception stands for; foreign words are left out, they quote data."""
        name = type(error).__name__
        if isinstance(error, LakeportError):
            return cls(name, error.message, error.hint)
        reason = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        return cls(name, f"unexpected {name}{_place(error)}{reason}")

    def scrubbed(self, secrets: Iterable[str]) -> Failure:
        """The same failure with these secrets masked."""
        known = tuple(secrets)
        return Failure(self.type, scrub(self.message, known), scrub(self.hint, known))


@dataclass(frozen=True, slots=True)
class StreamReport:
    """What was landed of one stream; sizes in bytes, versions None for files.

    `columns` are those that were landed -> their types in the table, in words such as
    `decimal(10,2)`; a column that has not had a value yet says so. `source_columns` are those of
    the source, before `sql`, with the types that they are read with.
    """

    stream: str
    table: str = ""
    rows: int = 0
    rejected: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    batches: int = 0
    skipped_batches: int = 0
    removed_files: int = 0
    first_version: int | None = None
    last_version: int | None = None
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    removed_rows: int | None = 0
    merged: Mapping[str, int] = field(default_factory=dict)
    expectations: tuple[ExpectationResult, ...] = ()
    source_columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def table_name(self) -> str:
        """What the table is called in its lake: the last part of its URI."""
        return self.table.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What a run landed. The module's docstring describes each value."""

    run_id: str
    target: str
    started: datetime
    finished: datetime
    seconds: float
    streams: tuple[StreamReport, ...] = ()
    stray_lines: int = 0
    quarantine: tuple[str, ...] = ()
    state: bytes | None = None
    warnings: tuple[str, ...] = ()
    error: Failure | None = None
    parser: str = ""
    command: tuple[str, ...] | None = None
    reasons: tuple[Rejection, ...] = ()
    spans: tuple[Span, ...] = ()
    streams_left_out: int = 0
    pace: tuple[Point, ...] = ()
    reading_pace: tuple[Point, ...] = ()
    engine: EngineReport = field(default_factory=EngineReport)

    @property
    def ok(self) -> bool:
        """Whether the run came to its end without an error."""
        return self.error is None

    @property
    def rows(self) -> int:
        """Rows that this run landed, over all streams."""
        return sum(stream.rows for stream in self.streams)

    @property
    def rejected(self) -> int:
        """Bad records that were set aside, stray lines included."""
        return sum(stream.rejected for stream in self.streams) + self.stray_lines

    @property
    def files(self) -> int:
        """Files that this run wrote, over all streams."""
        return sum(stream.files for stream in self.streams)

    @property
    def bytes(self) -> int:
        """Size of these files in bytes."""
        return sum(stream.bytes for stream in self.streams)

    def __repr__(self) -> str:
        """The run, where to, what came of it; `to_dict` has the rest."""
        failed = "" if self.error is None else f", {self.error.type}"
        return (
            f"LandingReport(run_id={self.run_id!r}, target={self.target!r}, "
            f"streams={len(self.streams)}, rows={self.rows}, rejected={self.rejected}{failed})"
        )

    def _repr_html_(self) -> str:
        """The run as notebooks show it: figures, what was landed, where the time went."""
        import msgspec

        from lakeport.html.document import notebook
        from lakeport.html.report import RunFacts
        from lakeport.html.run import run_part

        return notebook(run_part(msgspec.convert(self.to_dict(), RunFacts)))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, as the module's docstring describes them."""
        return {
            "report": 1,
            "ok": self.ok,
            "run_id": self.run_id,
            "target": self.target,
            "started": iso(self.started),
            "finished": iso(self.finished),
            "seconds": round(self.seconds, 3),
            "rows": self.rows,
            "rejected": self.rejected,
            "files": self.files,
            "bytes": self.bytes,
            "streams": [_stream(stream) for stream in self.streams],
            "stray_lines": self.stray_lines,
            "quarantine": list(self.quarantine),
            "state": None if self.state is None else json.loads(self.state),
            "warnings": list(self.warnings),
            "parser": self.parser,
            "engine": asdict(self.engine),
            "error": asdict(self.error) if self.error else None,
            "command": None if self.command is None else list(self.command),
            "reasons": [asdict(reason) for reason in self.reasons],
            "spans": [_span(span) for span in self.spans],
            "streams_left_out": self.streams_left_out,
            "pace": [[round(at, 3), *done] for at, *done in self.pace],
            "reading_pace": [[round(at, 3), *done] for at, *done in self.reading_pace],
        }

    def to_json(self) -> str:
        """The report as one JSON object on one line."""
        return json.dumps(self.to_dict())


def keep(report: LandingReport, storage: Storage) -> None:
    """Write a report beside the lake; that it can't be written fails no load."""
    stamp = report.started.strftime("%Y%m%d-%H%M%S")
    key = f"_lakeport/reports/{stamp}-{secrets.token_hex(4)}.json"
    with suppress(LakeportError):
        storage.put(key, report.to_json().encode() + b"\n")


def _stream(stream: StreamReport) -> dict[str, Any]:
    return {
        **asdict(stream),
        "warnings": list(stream.warnings),
        "notes": list(stream.notes),
        "expectations": [asdict(result) for result in stream.expectations],
        "seconds": round(stream.seconds, 3),
    }


def _span(span: Span) -> dict[str, Any]:
    moments = {name: round(getattr(span, name), 3) for name in ("start", "end", "busy")}
    return {**asdict(span), **moments}


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def iso(moment: datetime) -> str:
    """A moment as reports have it: ISO 8601 in UTC, in microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
