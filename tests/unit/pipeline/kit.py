"""A lake's file without a file, and a `land` whose every step a test decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeport.config.base import DestinationConfig
from lakeport.config.lake import LakeFile, Load
from lakeport.config.load import load_target
from lakeport.config.sources import FilesSource
from lakeport.loading.report import LandingReport
from lakeport.model import Landed, StreamReport

Step = Callable[[Any], None]


def target(folder: Path, **keys: Any) -> DestinationConfig:
    return load_target(folder, {"file_type": "delta", **keys})


def load_of(name: str, folder: Path, **given: Any) -> Load:
    """A load of files; `depends` and `tags` as the file would give them, the rest is config."""
    own = {key: tuple(given.pop(key, ())) for key in ("depends", "tags")}
    source = given.pop("source", None) or FilesSource(files=f"{name}.csv")
    return Load(
        name=name,
        source=source,
        target=target(folder, **{"table": name, **given}),
        line=1,
        **own,
    )


def lake_of(folder: Path, **loads: Mapping[str, Any]) -> LakeFile:
    """A file with these loads, in their order, whose lake is a folder below."""
    made = {name: load_of(name, folder / "lake", **given) for name, given in loads.items()}
    return LakeFile(folder / "lake.yaml", made)


@dataclass
class Lander:
    """Stands in for `lakeport.land`: every load lands a row, unless it has a step of its own.

    Attributes:
        steps: load -> what happens in it; takes the keyword arguments of `land`.
        calls: keyword arguments of `land`, in the order of the calls, with the load's name.
        most: how many ran at once at most.
        tables: load -> the table that it says it has landed in, by default one below `/lake`.
    """

    steps: dict[str, Step] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    most: int = 0
    tables: dict[str, str] = field(default_factory=dict)
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, source: Any, to: DestinationConfig, **given: Any) -> LandingReport:
        name = str(to.table)
        with self._lock:
            self.calls.append((name, given))
            self._running += 1
            self.most = max(self.most, self._running)
        began, table = datetime.now(UTC), self.tables.get(name, f"/lake/{name}")
        rows = 0
        try:
            self.steps.get(name, lambda _: None)(given)
            rows = 1
            given["observer"].on_landed(Landed(name, table, 0, 1, ("a",), 10))
        finally:
            stream = StreamReport(name, table, rows=rows, columns={"id": "integer"})
            streams = (stream,) if rows else ()
            report = LandingReport(given["run_id"] or "x", "/lake", began, began, 0.0, streams)
            given["observer"].on_finished(report)
            with self._lock:
                self._running -= 1
        return report

    @property
    def names(self) -> list[str]:
        """The loads, in the order in which they began."""
        return [name for name, _ in self.calls]


def failing(error: BaseException) -> Step:
    def step(given: Any) -> None:
        raise error

    return step
