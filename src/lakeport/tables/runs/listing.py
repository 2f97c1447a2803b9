"""The runs of a lake, by the reports that lie beside its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from lakeport.config.load import load_target
from lakeport.tables.lake import of_a_table, open_lake

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.model import Storage

__all__ = ["LakeRun", "list_runs", "run_named", "runs"]

_REPORTS = "_lakeport/reports"
_THREADS = 16
_STAMP = len("/YYYYMMDD-HHMMSS")
_SUFFIX = ".json"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
_LAST = "last"


@dataclass(frozen=True, slots=True)
class LakeRun:
    """One run, as its report tells.

    Attributes:
        name: its report's, such as `20240501-103000-1a2b3c4d`, which no other run of the lake has.
        run_id: its id, or the name that it was given.
        started: when it began, UTC.
        seconds: how long it took.
        rows: rows that it landed.
        streams: names of the streams that it landed something of, or set records aside of.
        ok: whether it came to its end.
        error: what it ended with, such as `SchemaConflict: ...`; None for a good one.
        report: the whole report, as `LandingReport.to_dict` gave it.
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

    def to_dict(self) -> dict[str, Any]:
        """The run as plain values, without the report."""
        facts = {**asdict(self), "started": self.started.isoformat(), "streams": [*self.streams]}
        del facts["report"]
        return facts


def runs(
    to: Target | DestinationConfig, limit: int = 20, **keys: Unpack[StoreKeys]
) -> list[LakeRun]:
    """List the newest runs that left a report in a lake, newest first.

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
    if not found and (refused := of_a_table(storage, lake)):
        raise refused
    return found


def list_runs(storage: Storage, lake: str, limit: int) -> list[LakeRun]:
    """The newest runs of a lake; see `runs`.

    Args:
        storage: where the lake is.
        lake: its key; empty when it is the storage's root.
        limit: how many at most.

    Raises:
        DestinationError: the store refused.
    """
    for folder in _folders(lake):
        # A name begins with the time, and the store lists by name.
        found = [item.key for item in storage.list(folder) if item.key.endswith(_SUFFIX)]
        if found:
            return _newest(storage, folder, found, limit)
    return []


def run_named(storage: Storage, lake: str, name: str) -> LakeRun | None:
    """Read one run that left a report in a lake.

    Args:
        storage: where the lake is.
        lake: its key; empty when it is the storage's root.
        name: the name of its report, see `LakeRun.name`; or `last`, for the newest one.

    Returns:
        The run; None where there is none. What no report is called, such as a path, is not looked
        for.

    Raises:
        DestinationError: the store refused.
    """
    if name == _LAST:
        return next(iter(list_runs(storage, lake, 1)), None)
    if not _NAME.fullmatch(name):
        return None
    found = (storage.get(f"{folder}/{name}{_SUFFIX}") for folder in _folders(lake))
    return next((run for data in found if (run := _run(name, data)) is not None), None)


def _folders(lake: str) -> list[str]:
    """Where the reports may be, the likeliest first."""
    return list(dict.fromkeys((f"{lake}/{_REPORTS}".lstrip("/"), _REPORTS)))


def _newest(storage: Storage, folder: str, keys: Sequence[str], limit: int) -> list[LakeRun]:
    # Those of one second have no order among them: all of the last one that is wanted are read.
    since = keys[-limit][: len(folder) + _STAMP] if len(keys) > limit else ""
    wanted = [key for key in keys if key >= since]
    names = [key.removeprefix(f"{folder}/").removesuffix(_SUFFIX) for key in wanted]
    with ThreadPoolExecutor(_THREADS) as pool:
        told = [run for run in map(_run, names, pool.map(storage.get, wanted)) if run is not None]
    return sorted(told, key=lambda run: run.started, reverse=True)[:limit]


def _run(name: str, data: bytes | None) -> LakeRun | None:
    """What a report tells; None for what is none."""
    try:
        report = json.loads(data or b"")
        error = report["error"]
        return LakeRun(
            name=name,
            run_id=str(report["run_id"]),
            started=datetime.fromisoformat(report["started"]).astimezone(UTC),
            seconds=float(report["seconds"]),
            rows=int(report["rows"]),
            streams=tuple(str(stream["stream"]) for stream in report["streams"]),
            ok=bool(report["ok"]),
            error=None if error is None else f"{error['type']}: {error['message']}",
            report=report,
        )
    except (ValueError, KeyError, TypeError):
        return None
