"""The runs of a lake: read their reports, and samples of the records that they rejected.

A report is data: whoever may write beside the lake may have put any path into it. Only quarantine
files of the lake's own store are read.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from lakeport.config.load import load_target
from lakeport.errors import LakeportError, SourceError
from lakeport.html.facts import BadSample
from lakeport.html.text import truncate
from lakeport.lake.records import to_plain_values
from lakeport.lake.tables import open_lake, table_as_lake_error
from lakeport.schema.hints import format_command
from lakeport.writers.naming import QUARANTINE, replayed_key

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.model import Storage


_REPORTS = "_lakeport/reports"
_OF_FILES = "_lakeport/runs"
_THREADS = 16
_STAMP = len("/YYYYMMDD-HHMMSS")
_SUFFIX = ".json"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
_LAST = "last"
_SOUGHT = 1000  # reports of each kind among which a run is sought by its id

_REPLAY = "replay:"
_FILES = 32
_BYTES = 256 << 10
_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class LakeRun:
    """One load or `lakeport run` of a lake, parsed from the JSON report that it left.

    Attributes:
        name: its report's, such as `20240501-103000-1a2b3c4d`, which no other run of the lake has.
        run_id: the run's id, or the name from `--run-id`.
        started: when it began, UTC.
        seconds: how long it took.
        rows: rows that it landed.
        streams: names of the streams with rows or rejected records.
        ok: whether the run succeeded.
        error: the error, such as `SchemaConflict: ...`; None if the run succeeded.
        report: the whole report, as `LandingReport.to_dict` gave it, or `PipelineReport.to_dict`.
        file: the lake file of the run; empty for a single load.
        loads: load -> outcome, for a run of a lake file; without loads that were left out.
    """

    name: str
    run_id: str
    started: datetime
    seconds: float
    rows: int
    streams: tuple[str, ...]
    ok: bool
    error: str | None
    report: Mapping[str, Any] = field(repr=False, compare=False)
    file: str = ""
    loads: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """Engines of the run, such as `spark 4.2.0`, joined by commas; `-` if unknown."""
        found = [each["engine"] for each in self._reports if each.get("engine")]
        words = (f"{one.get('name', '')} {one.get('version', '')}".strip() for one in found)
        return ", ".join(dict.fromkeys(filter(None, words))) or "-"

    @property
    def undone(self) -> tuple[str, ...]:
        """URIs of the tables out of which the run's rows were taken again, by `table undo`."""
        return tuple(str(each["table"]) for each in self.report.get("undone", ()))

    @property
    def result(self) -> str:
        """`ok` or `failed`; with `undone`, or `partly undone` if some of its tables are not."""
        words = [] if self.ok else ["failed"]
        if self.undone:
            streams = [one for report in self._reports for one in report.get("streams", ())]
            landed = {one.get("table") for one in streams if one.get("rows")}
            words.append("undone" if landed <= {*self.undone} else "partly undone")
        return ", ".join(words) or "ok"

    @property
    def _reports(self) -> list[Mapping[str, Any]]:
        """The run's report, and those of the loads of a `lakeport run`; empty for one without."""
        loads = self.report.get("loads") or ()
        return [self.report, *((load or {}).get("report") or {} for load in loads)]

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcome -> number of loads that ended with it, for a run of a lake file."""
        return dict(Counter(self.loads.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with the engine and without the report."""
        facts = {**to_plain_values(self), "engine": self.engine, "undone": list(self.undone)}
        del facts["report"]
        return facts


def runs(
    to: Target | DestinationConfig | None = None, limit: int = 20, **keys: Unpack[StoreKeys]
) -> list[LakeRun]:
    """List a lake's newest runs, newest first, from the reports that runs leave there.

    Runs leave none with `manifest: false`, nor where the store refused to take it.

    Args:
        to: a folder, a URI, a config file or a config, as `land` takes it.
        limit: how many at most.
        keys: further keys of the config, such as `aws_endpoint`.

    Raises:
        ConfigError: the target is none.
        SourceError: it is no folder of this machine, or a table.
        DestinationError: the store refused.
    """
    storage, lake = open_lake(load_target(to, keys))
    found = list_runs(storage, lake, limit)
    if not found and (refused := table_as_lake_error(storage, lake)):
        raise refused
    return found


def list_runs(storage: Storage, lake: str, limit: int) -> list[LakeRun]:
    """List up to `limit` newest runs: each `lakeport run`, and each load outside of these.

    `lake` is the lake's key in the store, empty for the root.
    """
    of_files = _list_reports(storage, lake, _OF_FILES, limit)
    known = {own for run in of_files for own in _iterate_load_run_ids(run.report)}
    loads = [
        run for run in list_loads(storage, lake, limit + len(known)) if run.run_id not in known
    ]
    return sorted([*of_files, *loads], key=lambda run: run.started, reverse=True)[:limit]


def list_loads(storage: Storage, lake: str, limit: int) -> list[LakeRun]:
    """List up to `limit` newest loads of a lake, within runs of lake files or alone."""
    return _list_reports(storage, lake, _REPORTS, limit)


def mark_undone(storage: Storage, run_id: str, table: str) -> None:
    """Write into a run's newest reports that its rows were taken out of a table (its URI) again.

    A run of a lake file is marked with its load. The newest 1,000 reports of each kind are read.
    """
    note = {"table": table, "at": datetime.now(UTC).isoformat(timespec="seconds")}

    def add_note(data: bytes) -> bytes:
        report = json.loads(data)
        return json.dumps({**report, "undone": [*report.get("undone", ()), note]}).encode()

    for folder in (_REPORTS, _OF_FILES):
        for run in _list_reports(storage, "", folder, _SOUGHT):
            ids = _iterate_load_run_ids(run.report) if run.file else (run.run_id,)
            if run_id in ids and table not in run.undone:
                storage.rewrite(f"{folder}/{run.name}{_SUFFIX}", add_note)
                _unmark_replayed(storage, run, table)


def _unmark_replayed(storage: Storage, run: LakeRun, table: str) -> None:
    """Delete the marks of quarantined records that a replay had landed in a table (its URI)."""
    if not run.run_id.startswith(_REPLAY):
        return
    replayed = run.run_id.removeprefix(_REPLAY)
    for stream in {one["stream"] for one in run.report["streams"] if one["table"] == table}:
        storage.delete(replayed_key(replayed, stream))


def _list_reports(storage: Storage, lake: str, reports_folder: str, limit: int) -> list[LakeRun]:
    """Read up to `limit` newest reports in the lake's folder, or in the store's if it has none."""
    for folder in _list_report_folders(lake, reports_folder):
        # A name begins with the time, and the store lists by name.
        found = [item.key for item in storage.list(folder) if item.key.endswith(_SUFFIX)]
        if found:
            return _read_newest(storage, folder, found, limit)
    return []


def _iterate_load_run_ids(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the run ids of the loads in a `lakeport run` report; skip loads without one."""
    for load in report["loads"]:
        own = load.get("report") or load
        if own.get("run_id"):
            yield str(own["run_id"])


def read_run(storage: Storage, lake: str, name: str) -> LakeRun | None:
    """Read a run's report by name, or the newest for `last`; None if it is absent or damaged.

    A text that is no report's name, such as a path, is not looked for.
    """
    if name == _LAST:
        return next(iter(list_runs(storage, lake, 1)), None)
    if not _NAME.fullmatch(name):
        return None
    folders = (*_list_report_folders(lake, _REPORTS), *_list_report_folders(lake, _OF_FILES))
    found = (storage.get(f"{folder}/{name}{_SUFFIX}") for folder in folders)
    return next((run for data in found if (run := _parse_run(name, data)) is not None), None)


def _list_report_folders(lake: str, reports_folder: str) -> list[str]:
    """Return the keys of folders that may hold reports: the lake's, then the store root's."""
    return list(dict.fromkeys((f"{lake}/{reports_folder}".lstrip("/"), reports_folder)))


def _read_newest(storage: Storage, folder: str, keys: Sequence[str], limit: int) -> list[LakeRun]:
    """Read the `limit` newest reports with these sorted keys, newest first; skip damaged ones."""
    # Names order reports by second only: all reports of the last second are read.
    since = keys[-limit][: len(folder) + _STAMP] if len(keys) > limit else ""
    newest = [key for key in keys if key >= since]
    names = [key.removeprefix(f"{folder}/").removesuffix(_SUFFIX) for key in newest]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = filter(None, map(_parse_run, names, pool.map(storage.get, newest)))
        return sorted(found, key=lambda run: run.started, reverse=True)[:limit]


def _parse_run(name: str, data: bytes | None) -> LakeRun | None:
    """Parse the JSON report of a load or of a `lakeport run`; None if absent or damaged."""
    try:
        report = json.loads(data or b"")
        return LakeRun(
            name=name,
            run_id=str(report["run_id"]),
            started=datetime.fromisoformat(report["started"]).astimezone(UTC),
            seconds=float(report["seconds"]),
            rows=int(report["rows"]),
            ok=bool(report["ok"]),
            report=report,
            **(_parse_file_report(report) if "loads" in report else _parse_load_report(report)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_load_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `LakeRun` that only a single load's report can fill."""
    error = report["error"]
    return {
        "streams": tuple(str(stream["stream"]) for stream in report["streams"]),
        "error": None if error is None else f"{error['type']}: {error['message']}",
    }


def _parse_file_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `LakeRun` that only a `lakeport run` report can fill."""
    reports = {str(load["load"]): load for load in report["loads"] if load["outcome"] != "left out"}
    loads = {load: str(each["outcome"]) for load, each in reports.items()}
    failed = [load for load, outcome in loads.items() if outcome == "failed"]
    error = f"LoadsFailed: {len(failed)} of {len(loads)} loads failed: {', '.join(failed)}"
    if not failed:
        error = "" if report["ok"] else "it did not come to its end"
    streams = ((each.get("report") or {}).get("streams", ()) for each in reports.values())
    return {
        "streams": tuple(dict.fromkeys(str(one["stream"]) for each in streams for one in each)),
        "error": error or None,
        "file": str(report["file"]),
        "loads": loads,
    }


def find_run(storage: Storage, lake: str, name: str) -> LakeRun:
    """Find a run by id, report name or `last` (the newest); raise SourceError if there is none.

    An id is looked for among the newest 1,000 runs of lake files, then among as many loads.
    """
    found = read_run(storage, lake, name)
    if found is None:
        newest = (_list_reports(storage, lake, kind, _SOUGHT) for kind in (_OF_FILES, _REPORTS))
        found = next((run for runs in newest for run in runs if run.run_id == name), None)
    if found is None:
        known = [run.run_id for run in list_runs(storage, lake, 5)]
        raise SourceError(
            f"{storage.uri(lake)} has no report of a run {name!r}",
            f"the newest are {', '.join(known)}; "
            f"{format_command('runs', storage.uri(lake))} lists them."
            if known
            else "no run has left a report there: `manifest: true` has each leave one.",
        )
    return found


def read_bad_samples(
    storage: Storage, report: Mapping[str, Any], limit: int = 50
) -> list[BadSample]:
    """Read up to `limit` rejected records of a run, spread over streams, columns and reasons.

    Sorted by stream, column and reason, from the first 256 KB of at most 32 quarantine files. A
    file that is damaged, missing or unreadable is skipped.
    """
    uris = report.get("quarantine")
    found = (
        dict.fromkeys(_find_quarantine_key(storage, uri) for uri in uris)
        if isinstance(uris, list)
        else {}
    )
    keys = [key for key in found if key][:_FILES]
    with ThreadPoolExecutor(_THREADS) as pool:
        read = list(pool.map(lambda key: _read_head(storage, key), keys))
    seen: Counter[tuple[str, str, str]] = Counter()
    ranked: list[tuple[int, BadSample]] = []
    for sample in filter(
        None, (_parse_sample(line) for head in read for line in head.splitlines())
    ):
        ranked.append((seen[_get_sample_kind(sample)], sample))
        seen[_get_sample_kind(sample)] += 1
    ranked.sort(key=lambda one: one[0])  # the first of each kind, then the second ones
    return sorted((sample for _, sample in ranked[:limit]), key=_get_sample_kind)


def _get_sample_kind(sample: BadSample) -> tuple[str, str, str]:
    """Return the stream, column and reason of a sample."""
    return sample.stream, sample.column, sample.reason


def _find_quarantine_key(storage: Storage, uri: object) -> str:
    """Convert a quarantine file's URI to its key in this store; empty for any other URI."""
    start = f"{storage.uri().rstrip('/')}/"
    if not isinstance(uri, str) or not uri.startswith(start):
        return ""
    key = uri.removeprefix(start)
    apart = any(part in ("", ".", "..") for part in key.split("/"))
    inside = key.startswith(f"{QUARANTINE}/") and key.endswith(".jsonl") and not apart
    return key if inside else ""


def _read_head(storage: Storage, key: str) -> bytes:
    """Return the whole lines in a file's first 256 KB; empty if it can't be read."""
    try:
        with storage.open(key) as file:
            head = file.read(_BYTES)
    except (LakeportError, OSError):
        return b""
    return head if len(head) < _BYTES else head[: head.rfind(b"\n") + 1]


def _parse_sample(line: bytes) -> BadSample | None:
    """Parse a line of a quarantine file to a rejected record; None if it is damaged."""
    try:
        values = json.loads(line)
        raw = values.get("raw")
        if raw is None:
            raw = base64.b64decode(values["raw_base64"]).decode("utf-8", "backslashreplace")
        number, file = int(values["line"]), str(values.get("file", ""))
        place = [file, f"line {number}"] if number else [file]
        return BadSample(
            stream=str(values["stream"]),
            column=str(values["column"]),
            reason=str(values["reason"]),
            where=", ".join(filter(None, place)),
            record=truncate(str(raw), _CHARACTERS),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
