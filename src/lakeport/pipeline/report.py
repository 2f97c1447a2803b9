"""Reports of a lake file's runs (`PipelineReport`), the files that keep them, and notices.

docs/running.md lists the keys of a report, and of a notice's body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from lakeport.destinations import open_storage
from lakeport.errors import LakeportError
from lakeport.lake.table import Table
from lakeport.loading.report import Failure, LandingReport, plain_value
from lakeport.scrub import mask_known
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.lake import LakeFile, Load
from lakeport.model import ExpectationResult, Landed, Storage

LoadOutcome = Literal["landed", "failed", "skipped", "interrupted", "waiting", "left out"]
"""`skipped`: a load that it uses did not end well; `interrupted`: with the run, while it ran;
`waiting`: it had not begun; `left out`: not selected, or landed by the resumed run."""

_POST_SECONDS: Final = 5.0
_MOST_VERSIONS: Final = 50  # versions of a table that are searched for the newest one with new rows

_FOLDER = "_lakeport/runs"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Report of one load of a run; docs/running.md describes each value."""

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
        """Rows that the load landed."""
        return self.landing.rows if self.landing else 0

    @property
    def rejected(self) -> int:
        """Records that the load rejected."""
        return self.landing.rejected if self.landing else 0

    @property
    def tables(self) -> tuple[str, ...]:
        """URIs of the tables in which the load landed rows."""
        streams = self.landing.streams if self.landing else ()
        return tuple(dict.fromkeys(stream.table for stream in streams if stream.table))

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the report as a dict of JSON values; `whole` adds the load's own report."""
        names = "load outcome reason run_id seconds rows rejected tables exit_code uses"
        return {
            **{name: plain_value(getattr(self, name)) for name in names.split()},
            "error": asdict(self.error) if self.error else None,
            "report": self.landing.to_dict() if whole and self.landing else None,
        }


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """Report of a run of a lake file. docs/running.md describes each value."""

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
        """Whether every selected load ended well."""
        return all(load.outcome in ("landed", "left out") for load in self.loads)

    @property
    def rows(self) -> int:
        """Rows that the run landed, over all loads."""
        return sum(load.rows for load in self.loads)

    @property
    def rejected(self) -> int:
        """Records that were rejected, over all loads."""
        return sum(load.rejected for load in self.loads)

    @property
    def failed(self) -> tuple[LoadReport, ...]:
        """The loads that failed."""
        return tuple(load for load in self.loads if load.outcome == "failed")

    @property
    def exit_code(self) -> int:
        """The exit code that all failed loads have; 1 where they differ, 0 where none failed."""
        codes = {load.exit_code for load in self.failed}
        return codes.pop() if len(codes) == 1 else min(len(codes), 1)

    def __getitem__(self, load: str) -> LoadReport:
        """Return the report of a load by its name; KeyError for an unknown name."""
        return {one.load: one for one in self.loads}[load]

    def __repr__(self) -> str:
        """Return the run, its rows and each load's outcome in one line."""
        ends = ", ".join(f"{load.load}={load.outcome!r}" for load in self.loads)
        return f"PipelineReport(run_id={self.run_id!r}, rows={self.rows}, {ends})"

    def to_dict(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the report as a dict of JSON values; `whole` adds the loads' own reports."""
        names = (
            "ok run_id file resumes started finished seconds rows rejected loads warnings command"
        )
        facts = {name: plain_value(getattr(self, name)) for name in names.split()}
        return {"run": 1, **facts, "loads": [load.to_dict(whole=whole) for load in self.loads]}

    def to_json(self) -> str:
        """Return the report as one JSON object on one line."""
        return json.dumps(self.to_dict())


class PipelineObserver(Protocol):
    """Observer of a run of a lake file; its methods are called from several threads.

    A class that derives from it ignores the events for which it has no method.
    """

    def on_begun(self, load: str) -> None:
        """Hear that a load begins."""
        return

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        """Hear how many records and bytes of a stream were read so far; -1 if unknown."""
        return

    def on_landed(self, load: str, landed: Landed) -> None:
        """Hear of a batch that is durable and visible, or that the same run had landed before."""
        return

    def on_warning(self, load: str, text: str) -> None:
        """Hear a sentence that the user should read; `load` is empty where it concerns none."""
        return

    def on_ended(self, report: LoadReport) -> None:
        """Hear that a load has ended, well or not, or will not begin."""
        return

    def on_finished(self, report: PipelineReport) -> None:
        """Hear that the run is over, with its report."""
        return


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run of a lake file, read from its saved report.

    Attributes:
        outcomes: load -> its outcome; `waiting`, too, where the run was killed meanwhile.
        run_ids: load -> the `run_id` by which it landed, for loads that had one.
    """

    run_id: str
    file: str
    outcomes: Mapping[str, str]
    run_ids: Mapping[str, str]


def save_run_report(report: PipelineReport, storage: Storage, name: str) -> str:
    """Save a run's report as `name`, replacing its last state; return the store's error, or "".

    While the run goes on, the loads' own reports are left out, as it is saved after each load.
    """
    document = json.dumps(report.to_dict(whole=report.finished is not None))
    try:
        storage.put(f"{_FOLDER}/{name}{_SUFFIX}", mask_known(document).encode() + b"\n")
    except LakeportError as error:
        return f"the run's report can't be kept, by which `--resume` would go on: {error.message}"
    return ""


def read_earlier_runs(storage: Storage) -> Iterator[EarlierRun]:
    """Yield the saved runs of all lake files, newest first; skip reports that can't be parsed."""
    # A name begins with the time, and the store lists by name.
    keys = [item.key for item in storage.list(_FOLDER) if item.key.endswith(_SUFFIX)]
    for key in reversed(keys):
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # it is no report of ours
            found = json.loads(storage.get(key) or b"")
            loads = found["loads"]
            yield EarlierRun(
                found["run_id"],
                found["file"],
                {each["load"]: each["outcome"] for each in loads},
                {each["load"]: each["run_id"] for each in loads if each["run_id"]},
            )


def table_uri(load: Load) -> str:
    """Return the URI of a load's table; empty where each stream has a table of its own."""
    config = load.target
    pattern = config.table_pattern
    if pattern is None or "{stream}" in pattern:
        return ""
    return open_storage(config).uri(config.table_folder_name(table_name(pattern, load.name)))


def send_notices(lake: LakeFile, report: PipelineReport) -> list[str]:
    """Post notices of failed loads and stale tables, if wanted; return problems, never raise."""
    if lake.notices is None:
        return []
    problems: list[str] = []
    failure, stale = lake.notices.failure, lake.notices.freshness
    for urls, body in (
        (failure, _failure_notice(report) if failure else {}),
        (stale, _freshness_notice(lake, report, problems) if stale else {}),
    ):
        for url in urls if body else ():
            problems += _post_notice(url.get_secret_value(), body)
    return problems


def _failure_notice(report: PipelineReport) -> dict[str, Any]:
    """Build the notice of failed loads; empty if none failed."""
    keys = ("load", "tables", "outcome", "reason", "error")
    bad = [load for load in report.loads if load.outcome in ("failed", "skipped")]
    each = [load.to_dict(whole=False) for load in bad]
    loads = [{key: facts[key] for key in keys} for facts in each]
    names = ", ".join(load.load for load in report.failed)
    of = f"{len(report.failed)} of {len(report.loads)} loads failed"
    return _notice_body("failure", f"{of}: {names}", report, loads) if report.failed else {}


def _freshness_notice(
    lake: LakeFile, report: PipelineReport, problems: list[str]
) -> dict[str, Any]:
    """Build the notice of stale tables, or {}; add unreadable tables to `problems`."""
    loads = []
    for one in report.loads:
        load = lake.loads[one.load]
        limits = [each.fresh.within for each in load.expect if each.fresh is not None]
        if not limits or one.outcome == "left out":
            continue
        results = _freshness_results(load, one)
        violations = [result.in_words for result in results if result.failed]
        reasons = violations if results else _stale_tables(load, one, min(limits), problems)
        if reasons:
            why = "; ".join(reasons)
            loads.append({"load": one.load, "tables": list(one.tables), "reason": why})
    names = ", ".join(str(load["load"]) for load in loads)
    return _notice_body("freshness", f"not fresh: {names}", report, loads) if loads else {}


def _notice_body(
    event: str, text: str, report: PipelineReport, loads: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Build the JSON body of a `failure` or `freshness` notice about some loads of a run."""
    file = report.file.replace("\\", "/").rpartition("/")[2]
    return {
        "text": f"lakeport, {file}: {text}",
        "event": event,
        "run_id": report.run_id,
        "file": report.file,
        "loads": list(loads),
    }


def _freshness_results(load: Load, report: LoadReport) -> list[ExpectationResult]:
    """Return this run's results of a load's `fresh` expectations; empty if not checked."""
    titles = {one.title for one in load.expect if one.fresh is not None}
    streams = report.landing.streams if report.landing else ()
    results = [result for stream in streams for result in stream.expectations]
    return [one for one in results if one.name in titles]


def _stale_tables(
    load: Load, report: LoadReport, max_age_seconds: float, problems: list[str]
) -> list[str]:
    """Describe each Delta table of a load without new files for `max_age_seconds`.

    Looks at the newest 50 versions. Adds a problem for each unreadable table.
    """
    if load.target.file_type != "delta":
        return []  # no log tells when rows came
    found = []
    now = datetime.now(UTC)
    for uri in report.tables or ((table,) if (table := table_uri(load)) else ()):
        try:
            history = Table(uri, load.target).history(_MOST_VERSIONS)
        except LakeportError as error:
            problems.append(f"how old {uri} is can't be told: {error.message}")
            continue
        times = (entry.timestamp for entry in history if entry.files_added)
        newest = next(filter(None, times), None)
        if newest is not None and now - newest > timedelta(seconds=max_age_seconds):
            found.append(f"no rows have come to {uri} since {newest:%Y-%m-%d %H:%M:%S}Z")
    return found


def _post_notice(url: str, body: Mapping[str, Any]) -> list[str]:
    """Post a notice as JSON within 5 seconds; return the problem, if any, as a list."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json"}
    try:
        request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # the user's own
        with urlopen(request, timeout=_POST_SECONDS):  # noqa: S310
            return []
    except Exception as error:  # whatever the endpoint does, the run is over
        if isinstance(error, HTTPError):
            error.close()  # an HTTPError is also the response
        status = getattr(error, "code", None)
        why = f"it answered {status}" if status else type(error).__name__
        return [f"the notice to {urlsplit(url).hostname} could not be sent: {why}"]
