"""The runs of a lake, by the reports that lie beside its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

__all__ = ["LakeRun", "list_runs", "runs"]

_REPORTS = "_lakeport/reports"
_THREADS = 16
_STAMP = len("/YYYYMMDD-HHMMSS")


@dataclass(frozen=True, slots=True)
class LakeRun:
    """One run, as its report tells.

    Attributes:
        run_id: its id, or the name that it was given.
        started: when it began, UTC.
        seconds: how long it took.
        rows: rows that it landed.
        streams: names of the streams that it landed something of, or set records aside of.
        ok: whether it came to its end.
        error: what it ended with, such as `SchemaConflict: ...`; None for a good one.
        report: the whole report, as `LandingReport.to_dict` gave it.
    """

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
    folder = f"{lake}/{_REPORTS}".lstrip("/")
    # A name begins with the time, and the store lists by name.
    names = [item.key for item in storage.list(folder) if item.key.endswith(".json")]
    if not names and folder != _REPORTS:
        folder = _REPORTS
        names = [item.key for item in storage.list(_REPORTS) if item.key.endswith(".json")]
    # Those of one second have no order among them: all of the last one that is wanted are read.
    since = names[-limit][: len(folder) + _STAMP] if len(names) > limit else ""
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(storage.get, (name for name in names if name >= since))
        told = [run for data in found if (run := _run(data)) is not None]
    return sorted(told, key=lambda run: run.started, reverse=True)[:limit]


def _run(data: bytes | None) -> LakeRun | None:
    """What a report tells; None for what is none."""
    try:
        report = json.loads(data or b"")
        error = report["error"]
        return LakeRun(
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
