"""A run of a lake's file: its loads side by side, each once those that it uses have ended well.

```
file ─▶ which loads ─▶ one Spark ─▶ ready ─▶ land … land ─┬─ well ──▶ others are ready
                                                          └─ failed ▶ those that use it are skipped
```
A report of it is kept beside the lake from the first moment on: what a run that was killed has done
stands there, so that `resume` can go on with it.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.config.lake import read_lake
from lakeport.destinations import open_storage
from lakeport.errors import ConfigError, LoadsFailed
from lakeport.host.activity import carried
from lakeport.host.command import command_line, masked
from lakeport.host.cores import available_cores
from lakeport.loading.cancellation import Cancellation, waited_for
from lakeport.loading.progress import shown
from lakeport.pipeline import kept, notices, selection, session
from lakeport.pipeline.lineage.events import Events
from lakeport.pipeline.load import Ended, do, name_of_run
from lakeport.pipeline.observer import Together
from lakeport.pipeline.places import reached_by, table_of
from lakeport.pipeline.report import LoadReport, PipelineReport
from lakeport.pipeline.schedule import Schedule

if TYPE_CHECKING:
    import os

    from lakeport.config.lake import LakeFile, Load
    from lakeport.engine.base import Engine
    from lakeport.loading.progress import Hook
    from lakeport.model import Storage
    from lakeport.pipeline.observer import PipelineObserver

_MOST_AT_ONCE = 4  # more loads share the same cores, and each takes memory
_LOOK_SECONDS = 1.0  # Python may hear of a signal only when it wakes up
_END_SECONDS = 8.5  # for loads that are asked to end, which takes each eight at most


def run(
    path: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    tag: str = "",
    full_refresh: Collection[str] = (),
    parallel: int | None = None,
    resume: bool = False,
    observer: PipelineObserver | None = None,
    progress: bool | Hook | None = None,
) -> PipelineReport:
    """Do the loads of a lake's file, side by side, each once those that it uses have ended well.

    A load that fails does not stop the others; those that use it are skipped.

    Args:
        path: the file.
        only: names of loads to do, alone: not those that they use.
        tag: do the loads that have it.
        full_refresh: names of loads that forget what they have had, and read their source anew.
        parallel: how many loads run at once; default: one for each core, 4 at most.
        resume: do what the last run of the file left undone: what failed, was skipped, or had not
            ended when it was asked to end, or killed.
        observer: is told how the run goes on.
        progress: as for `lakeport.land`.

    Returns:
        What came of each load.

    Raises:
        ConfigError: the file, or what is asked for, is wrong; nothing was read or written.
        LoadsFailed: loads have failed; its `report` tells of all.

    Example:
        >>> report = lakeport.run("lake.yaml", tag="nightly")  # doctest: +SKIP
        >>> report["flights"].rows  # doctest: +SKIP
        336776
    """
    wanted = False if progress is None and observer is not None else progress
    with shown(wanted, "running"):
        return run_lake(
            read_lake(path),
            only=only,
            tag=tag,
            full_refresh=full_refresh,
            parallel=parallel,
            resume=resume,
            observer=observer,
        )


def run_lake(
    lake: LakeFile,
    *,
    only: Sequence[str] = (),
    tag: str = "",
    full_refresh: Collection[str] = (),
    parallel: int | None = None,
    resume: bool = False,
    observer: PipelineObserver | None = None,
) -> PipelineReport:
    """Do the loads of a file that was read; see `run`."""
    selection.check_refresh(lake, full_refresh)
    if parallel is not None and parallel < 1:
        raise ConfigError(f"`parallel` is {parallel}", "give how many loads run at once, from 1.")
    loads = selection.named(lake, only, tag)
    storage = _place_of_reports(lake)
    earlier = _last_run(lake, storage) if resume else None
    told = [] if observer is None else [observer]
    each = _Run(lake, loads, earlier, frozenset(full_refresh), storage, told)
    if resume and earlier is None:
        each.warn("`resume`: no run has left a report beside the lake so far; all loads are done.")
    return each.run(parallel or min(_MOST_AT_ONCE, available_cores()))


def _place_of_reports(lake: LakeFile) -> Storage | None:
    """The first target's store; None where it is to hold no reports."""
    target = next(iter(lake.loads.values())).target
    return open_storage(target) if target.manifest else None


def _file(lake: LakeFile) -> str:
    return str(Path(lake.path).resolve())


def _last_run(lake: LakeFile, storage: Storage | None) -> kept.Earlier | None:
    """What the file's last run has left; None where no run of any file has left anything.

    Raises:
        ConfigError: runs leave no reports, or those of other files have: after a move of the file,
            a run from the start would append again what has landed.
    """
    if storage is None:
        raise ConfigError(
            f"no run of {lake.path} has left a report to go on with",
            "leave `--resume` out. Runs leave reports with `manifest: true`, which is the default.",
        )
    found = kept.last_of(_file(lake), storage)
    if found is None and (other := kept.last_file(storage)):
        raise ConfigError(
            f"no run of {_file(lake)} has left a report in {storage.uri()} to go on with: the last "
            f"one there is of {other}",
            "if this file is new there, leave `--resume` out; if it was moved, that run's loads "
            "are known by the old path.",
        )
    return found


class _Run:
    """One run: its loads, and what became of each so far."""

    def __init__(
        self,
        lake: LakeFile,
        loads: Mapping[str, Load],
        earlier: kept.Earlier | None,
        full_refresh: frozenset[str],
        storage: Storage | None,
        observers: Sequence[PipelineObserver],
    ) -> None:
        self.lake = lake
        self.earlier = earlier or kept.Earlier("", {}, {})
        self.full_refresh = full_refresh
        self.storage = storage
        self.users = Together(observers)
        lineage = [] if lake.lineage is None else [Events(lake, lake.lineage, self.warn)]
        self.observer = Together([self.users, *lineage])
        self.started, self.begin = datetime.now(UTC), time.monotonic()
        self.name = f"{self.started:%Y%m%d-%H%M%S-%f}"[:-3] + secrets.token_hex(2)
        self.loads = selection.unfinished(loads, self.earlier.outcomes)
        self.reports = {
            name: LoadReport(name, "waiting", run_id=self._id_of(load), uses=load.depends)
            if name in self.loads
            else LoadReport(name, "left out", uses=load.depends)
            for name, load in lake.loads.items()
        }
        self.cancellations: dict[str, Cancellation] = {}
        self.running: dict[Future[Ended], str] = {}
        self.warnings: dict[str, None] = {}
        for text in lake.warnings:
            self.warn(text)
        self.error: BaseException | None = None

    def run(self, parallel: int) -> PipelineReport:
        """Do the loads, so many at once.

        Raises:
            LoadsFailed: some have failed.
            KeyboardInterrupt: the run was asked to end.
        """
        if not self.loads:
            return self._finish()
        self._keep()
        _make_importable({load.folder for load in self.loads.values() if load.python})
        threads = ThreadPoolExecutor(parallel, "lakeport-load")
        with (
            session.start(self.loads.values()) as engine,
            waited_for(threads, cancels=True) as executor,
        ):
            try:
                self._drive(executor, engine)
            except KeyboardInterrupt as interrupt:
                self._end(interrupt, engine)
                self._finish()
                raise
        report = self._finish()
        if report.failed:
            raise LoadsFailed(report) from self.error
        return report

    def _drive(self, executor: ThreadPoolExecutor, engine: Engine) -> None:
        """Begin each load when it can, and take down how it ends."""
        schedule = Schedule(
            {name: load.depends for name, load in self.loads.items()},
            {name: table_of(load) for name, load in self.loads.items()},
            {name: reached_by(load) for name, load in self.loads.items()},
        )
        while True:
            for name in schedule.ready():
                self._begin(executor, engine, name)
            if not self.running:
                return
            for done in wait(self.running, _LOOK_SECONDS, FIRST_COMPLETED).done:
                report = self._take(done)
                self._keep()
                well = report.outcome == "landed"
                for other, why in schedule.ended(report.load, well=well).items():
                    self._ended(replace(self.reports[other], outcome="skipped", reason=why))

    def _begin(self, executor: ThreadPoolExecutor, engine: Engine, name: str) -> None:
        stop = self.cancellations[name] = Cancellation()
        work = partial(
            do,
            self.loads[name],
            engine,
            self.reports[name].run_id,
            stop,
            self.observer,
            full_refresh=name in self.full_refresh,
        )
        self.running[executor.submit(carried(work))] = name

    def _take(self, done: Future[Ended]) -> LoadReport:
        del self.running[done]
        ended = done.result()
        self.error = self.error or ended.error
        self._ended(ended.report)
        return ended.report

    def _ended(self, report: LoadReport) -> None:
        self.reports[report.load] = report
        self.observer.on_ended(report)

    def _end(self, interrupt: KeyboardInterrupt, engine: Engine) -> None:
        """Have all loads end that run, and take down what became of them."""
        for done in [done for done in self.running if done.cancel()]:
            del self.cancellations[self.running.pop(done)]  # it had not begun
        for stop in self.cancellations.values():
            stop.ask()
        try:
            left = wait(self.running, _END_SECONDS).not_done
            if left:
                engine.stop(for_all=True)
        except KeyboardInterrupt:
            for stop in self.cancellations.values():
                stop.at_once = True
        for done in [done for done in self.running if done.done()]:
            self._take(done)
        for name in self.cancellations:
            if self.reports[name].outcome == "waiting":
                self._ended(replace(self.reports[name], outcome="interrupted"))
        if unknown := [text for stop in self.cancellations.values() if (text := stop.unknown())]:
            interrupt.add_note("; ".join(unknown))

    def _finish(self) -> PipelineReport:
        """Close the books, and tell."""
        finished = datetime.now(UTC)
        report = self._report(finished)
        if self.loads:
            for problem in notices.send(self.lake, report):
                self.warn(problem)
            report = self._report(finished)
            self._keep(report)
        self.observer.on_finished(report)
        return report

    def _report(self, finished: datetime | None) -> PipelineReport:
        command = command_line()
        known = {text for load in self.lake.loads.values() for text in load.target.secrets()}
        return PipelineReport(
            self.name,
            _file(self.lake),
            self.started,
            finished,
            time.monotonic() - self.begin,
            tuple(self.reports.values()),
            self.earlier.run_id,
            tuple(self.warnings),
            None if command is None else masked(command, known),
        )

    def _keep(self, report: PipelineReport | None = None) -> None:
        """Write down how far the run is; that it can't be written fails none."""
        if self.storage is None:
            return
        problem = kept.keep(report or self._report(None), self.storage)
        if problem:
            self.storage = None  # to try again takes as long again
            self.warn(problem)

    def warn(self, text: str) -> None:
        self.warnings[text] = None
        self.users.on_warning("", text)

    def _id_of(self, load: Load) -> str | None:
        return self.earlier.run_ids.get(load.name) or name_of_run(load, self.name)


def _make_importable(folders: Collection[str]) -> None:
    """Have Python find the modules that lie beside the file."""
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
