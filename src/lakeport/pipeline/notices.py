"""Notices of a run: a webhook is sent what failed, and which tables are older than they may be.

The body is one JSON object:

| key | value |
|---|---|
| `text` | the whole as one sentence; chat services such as Slack show it |
| `event` | `failure` or `freshness` |
| `run_id`, `file` | texts, as in the run's report |
| `loads` | list of objects with `load` and `tables` (URIs); of a failure, `outcome`, `reason` and |
| | `error` as in the run's report; else `reason`: what was not fresh |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lakeport.errors import LakeportError
from lakeport.pipeline.places import table_of
from lakeport.tables import Table

if TYPE_CHECKING:
    from lakeport.config.lake import LakeFile, Load
    from lakeport.loading.expect.result import ExpectationResult
    from lakeport.pipeline.report import LoadReport, PipelineReport

_SECONDS: Final = 5.0
_LOOKED_AT: Final = 50  # versions, for the newest one that brought rows


def send(lake: LakeFile, report: PipelineReport) -> list[str]:
    """Send the notices of a run; none if all is well.

    Returns:
        What could not be sent or found out, for the user: that fails no run.
    """
    if lake.notices is None:
        return []
    problems: list[str] = []
    failure, stale = lake.notices.failure, lake.notices.freshness
    for urls, body in (
        (failure, _failure(report) if failure else {}),
        (stale, _freshness(lake, report, problems) if stale else {}),
    ):
        for url in urls if body else ():
            problems += _posted(url.get_secret_value(), body)
    return problems


def _failure(report: PipelineReport) -> dict[str, Any]:
    """The body of a notice of failures; empty where there is none."""
    bad = [load for load in report.loads if load.outcome in ("failed", "skipped")]
    names = ", ".join(load.load for load in report.failed)
    loads = [
        {
            "load": load.load,
            "tables": list(load.tables),
            "outcome": load.outcome,
            "reason": load.reason,
            "error": asdict(load.error) if load.error else None,
        }
        for load in bad
    ]
    of = f"{len(report.failed)} of {len(report.loads)} loads failed"
    return _body("failure", f"{of}: {names}", report, loads) if report.failed else {}


def _freshness(lake: LakeFile, report: PipelineReport, problems: list[str]) -> dict[str, Any]:
    """The body of a notice of tables that are not fresh; empty where there is none."""
    loads = []
    for one in report.loads:
        load = lake.loads[one.load]
        limits = [each.fresh.within for each in load.expect if each.fresh is not None]
        if not limits or one.outcome == "left out":
            continue
        told = _told(load, one)
        unmet = [result.in_words for result in told if result.failed]
        reasons = unmet if told else _old(load, one, min(limits), problems)
        if reasons:
            why = "; ".join(reasons)
            loads.append({"load": one.load, "tables": list(one.tables), "reason": why})
    names = ", ".join(str(load["load"]) for load in loads)
    return _body("freshness", f"not fresh: {names}", report, loads) if loads else {}


def _body(
    event: str, text: str, report: PipelineReport, loads: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    file = report.file.replace("\\", "/").rpartition("/")[2]
    return {
        "text": f"lakeport, {file}: {text}",
        "event": event,
        "run_id": report.run_id,
        "file": report.file,
        "loads": list(loads),
    }


def _told(load: Load, report: LoadReport) -> list[ExpectationResult]:
    """What this run has found of the `fresh` expectations."""
    wanted = {one.title for one in load.expect if one.fresh is not None}
    streams = report.landing.streams if report.landing else ()
    results = [result for stream in streams for result in stream.expectations]
    return [one for one in results if one.name in wanted]


def _old(load: Load, report: LoadReport, within: float, problems: list[str]) -> list[str]:
    """Those tables of a load to which no row has come for longer than that, in seconds.

    It is asked where a run that failed has checked nothing.
    """
    if load.target.file_type != "delta":
        return []  # no log tells when rows came
    found = []
    now = datetime.now(UTC)
    for uri in report.tables or ((table,) if (table := table_of(load)) else ()):
        try:
            newest = next(_with_rows(Table(uri, load.target)), None)
        except LakeportError as error:
            problems.append(f"how old {uri} is can't be told: {error.message}")
            continue
        if newest is not None and now - newest > timedelta(seconds=within):
            found.append(f"no rows have come to {uri} since {newest:%Y-%m-%d %H:%M:%S}Z")
    return found


def _with_rows(table: Table) -> Iterator[datetime]:
    """When rows have come to a table, the newest first."""
    for entry in table.history(_LOOKED_AT):
        if entry.files_added and entry.timestamp is not None:
            yield entry.timestamp


def _posted(url: str, body: Mapping[str, Any]) -> list[str]:
    """Send a body; what went wrong, if anything. Of the URL, only the host is told."""
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json"}
    try:
        request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # the user's own
        with urlopen(request, timeout=_SECONDS):  # noqa: S310
            return []
    except Exception as error:  # whatever the endpoint does, the run is over
        status = getattr(error, "code", None)
        why = f"it answered {status}" if status else type(error).__name__
        return [f"the notice to {urlsplit(url).hostname} could not be sent: {why}"]
