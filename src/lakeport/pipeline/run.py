"""Run the loads of a lake file side by side, in order of their dependencies.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakeport.config.explain import unknown_name_error
from lakeport.config.lake import read_lake
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource
from lakeport.destinations import open_storage
from lakeport.engine.base import SessionRequest
from lakeport.engine.threads import choose_engine
from lakeport.errors import ConfigError, LakeportError, LoadsFailed
from lakeport.host.activity import carried, whole
from lakeport.host.packages import missing
from lakeport.host.process import available_cores, command_line, masked
from lakeport.loading.cancellation import Cancellation, wait_unless_interrupted
from lakeport.loading.progress import show_progress
from lakeport.loading.report import Failure, Observer, fan_out
from lakeport.loading.run import land
from lakeport.loading.transform.function import import_function
from lakeport.model import Mode
from lakeport.pipeline.report import (
    Earlier,
    LoadReport,
    PipelineObserver,
    PipelineReport,
    keep,
    last_file,
    last_of,
    send_notices,
    table_of,
)
from lakeport.sources.tables import DeltaTable
from lakeport.sources.target import open_folder_storage
from lakeport.storage.base import CloudStorage

if TYPE_CHECKING:
    import os

    from lakeport.config.lake import LakeFile, Lineage, Load
    from lakeport.config.sources import ConfigPart
    from lakeport.engine.base import DataFrame, Engine
    from lakeport.loading.progress import Hook
    from lakeport.loading.report import LandingReport
    from lakeport.model import Landed, Storage

_DONE = frozenset({"landed", "left out"})

_MOST_AT_ONCE = 4  # more loads share the same cores, and each takes memory
_LOOK_SECONDS = 1.0  # Python may hear of a signal only when it wakes up
_END_SECONDS = 8.5  # for loads that are asked to end, which takes each eight at most


class Schedule:
    """The order of loads that need each other.

    Args:
        needs: load -> the loads that it uses, without cycles; in the file's order, which those keep
            that can begin together. What is no key itself is taken to be there.
        tables: load -> its table, in which no two of them run at once; empty, or none: any may.
        reached: load -> store -> how Spark reaches it. Its file systems know one way to each store,
            so that loads which have others take turns.

    Example:
        >>> schedule = Schedule({"flights": [], "airports": [], "delays": ["flights"]})
        >>> schedule.ready()
        ['flights', 'airports']
        >>> schedule.ended("flights", well=False)
        {'delays': 'needs flights, which failed'}
        >>> schedule.ready()
        []
    """

    def __init__(
        self,
        needs: Mapping[str, Sequence[str]],
        tables: Mapping[str, str] | None = None,
        reached: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._waiting = {
            name: {used for used in uses if used in needs} for name, uses in needs.items()
        }
        self._tables = tables or {}
        self._reached = reached or {}
        self._running: set[str] = set()

    def ready(self) -> list[str]:
        """Those that can begin now; each is told once."""
        found = []
        for name in [name for name, uses in self._waiting.items() if not uses]:
            if not any(self._clash(name, other) for other in self._running):
                del self._waiting[name]
                self._running.add(name)
                found.append(name)
        return found

    def _clash(self, one: str, other: str) -> bool:
        """Whether two loads can't run at once."""
        table = self._tables.get(one)
        if table and table == self._tables.get(other):
            return True
        mine, others = self._reached.get(one, {}), self._reached.get(other, {})
        return any(mine[store] != others[store] for store in mine.keys() & others.keys())

    def ended(self, name: str, *, well: bool) -> dict[str, str]:
        """Take down that a load has ended.

        Returns:
            Those that will never begin for that, and why.
        """
        self._running.discard(name)
        if well:
            for uses in self._waiting.values():
                uses.discard(name)
            return {}
        return self._skipped(name, "failed")

    def _skipped(self, name: str, became: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for other in [other for other, uses in self._waiting.items() if name in uses]:
            if other in self._waiting:
                del self._waiting[other]
                found[other] = f"needs {name}, which {became}"
                found |= self._skipped(other, "was skipped")
        return found


class LoadObserver(Observer):
    """The observer of one load: hands on what it hears, with the load's name.

    Args:
        load: its name.
        run: who observes the run.

    Attributes:
        report: the load's, once it has ended.
    """

    def __init__(self, load: str, run: PipelineObserver) -> None:
        self._load = load
        self._run = run
        self.report: LandingReport | None = None

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Hand it on."""
        self._run.on_progress(self._load, stream, records, size)

    def on_landed(self, landed: Landed) -> None:
        """Hand it on."""
        self._run.on_landed(self._load, landed)

    def on_warning(self, text: str) -> None:
        """Hand it on."""
        self._run.on_warning(self._load, text)

    def on_finished(self, report: LandingReport) -> None:
        """Keep it."""
        self.report = report


def name_of_run(load: Load, run: str) -> str | None:
    """The `run_id` by which a load that is begun anew knows what it has landed.

    None where it needs none: the table remembers, or to land the rows again changes nothing.
    """
    if load.target.run_id is not None:
        return load.target.run_id
    once = _remembers(load.source) or load.target.mode is not Mode.APPEND
    return None if once else f"{run}/{load.name}"


def _remembers(source: ConfigPart) -> bool:
    """Whether the table knows how far the source has been read."""
    if isinstance(source, FilesSource):
        return source.new_only
    if isinstance(source, DatabaseSource):
        return bool(source.cursor)
    return source.incremental if isinstance(source, TablesSource) else True


def run_load(
    load: Load,
    engine: Engine,
    run_id: str | None,
    cancellation: Cancellation,
    observer: PipelineObserver,
    *,
    full_refresh: bool = False,
) -> tuple[LoadReport, BaseException | None]:
    """Run a load; return its report and the error that ended it, which is never raised.

    Args:
        load: what to do.
        engine: Spark.
        run_id: see `name_of_run`.
        cancellation: has it end.
        observer: is told how it goes on.
        full_refresh: forget what the table remembers of its source, and read that anew.
    """
    own, begin = LoadObserver(load.name, observer), time.monotonic()
    error: BaseException | None = None
    with whole(load.name), cancellation.activate():
        try:
            cancellation.check()
            observer.on_begun(load.name)
            load.check()
            land(
                load.source,
                load.target,
                observer=own,
                run_id=run_id,
                warm="off",
                sql=load.sql,
                python=function_of(load),
                views=_views(load, engine),
                expect=load.expect,
                full_refresh=full_refresh,
            )
        except BaseException as caught:
            error = caught
    seconds = time.monotonic() - begin
    report = LoadReport(
        load.name, "landed", "", run_id, seconds, landing=own.report, uses=load.depends
    )
    return (report, None) if error is None else (_failed(report, load, error), error)


def _failed(report: LoadReport, load: Load, error: BaseException) -> LoadReport:
    if isinstance(error, KeyboardInterrupt):
        return replace(report, outcome="interrupted")
    failure = Failure.of(error).scrubbed((*load.target.secrets(), *load.source.secrets()))
    code = error.exit_code if isinstance(error, LakeportError) else 1
    return replace(report, outcome="failed", error=failure, exit_code=code)


def function_of(load: Load) -> str | Callable[[Any], Any]:
    """What `python` of a load names; empty for none.

    Raises:
        ConfigError: it is not there.
    """
    return load.python and import_function(load.python, Path(load.folder))


def _views(load: Load, engine: Engine) -> dict[str, DataFrame]:
    """Return the other tables that `sql` names, each at its newest version."""
    own = load.source.tables if isinstance(load.source, TablesSource) else {}
    return {
        name: DeltaTable(place, load.target, engine).whole()
        for name, place in load.tables.items()
        if name not in own
    }


def select_loads(lake: LakeFile, only: Sequence[str], tag: str) -> dict[str, Load]:
    """The loads that are asked for, in the file's order; all, if nothing is said.

    Args:
        lake: the file.
        only: names, each taken alone, without the loads that it uses.
        tag: those that have it; empty for any.

    Raises:
        ConfigError: there is no such load, or none with that tag.
    """
    _check_names(lake, only)
    wanted = {name: load for name, load in lake.loads.items() if not only or name in only}
    tagged = {name: load for name, load in wanted.items() if not tag or tag in load.tags}
    if tag and not tagged:
        known = sorted({tag for load in wanted.values() for tag in load.tags})
        raise ConfigError(
            f"no load has the tag {tag!r}",
            f"there are: {', '.join(known)}."
            if known
            else "`tags: [...]` of a load gives it some.",
        )
    return tagged


def _check_names(lake: LakeFile, names: Sequence[str]) -> None:
    """See that the file has these loads.

    Raises:
        ConfigError: it lacks one; the nearest is told.
    """
    for name in names:
        if name not in lake.loads:
            raise unknown_name_error("load", name, lake.loads)


def check_refresh(lake: LakeFile, names: Collection[str]) -> None:
    """See that these loads can be read anew: each replaces its table, which then is its own.

    Raises:
        ConfigError: the file lacks one, or another load lands in its table, too.
    """
    _check_names(lake, [*names])
    tables = {name: table_of(load) for name, load in lake.loads.items()} if names else {}
    for name in names:
        others = [other for other in tables if other != name and tables[other] == tables[name]]
        if tables[name] and others:
            raise ConfigError(
                f"a full refresh of load {name!r} would replace its table, in which "
                f"{', '.join(map(repr, others))} landed, too",
                "remove the table, and run the loads that share it: they begin anew then.",
            )


def reached_by(load: Load) -> dict[str, object]:
    """The stores that Spark may reach for a load, such as a bucket or an account, each with how."""
    config = load.target
    storages = [open_storage(config)] if config.connector_jars() else []
    for uri in _tables_of(load).values():
        with suppress(LakeportError):  # the load itself will say so
            storages += [found] if (found := open_folder_storage(config, f"{uri}/")) else []
    return {
        urlsplit(storage.hadoop_uri()).hostname or "": storage.settings
        for storage in storages
        if isinstance(storage, CloudStorage)
    }


def start_engine(loads: Collection[Load]) -> Engine:
    """Return an engine with all that the loads need, so that none has Spark start anew.

    It is the run's own, not a warm session's: that one has one command at a time.

    Raises:
        ConfigError: two loads ask for different Sparks, or for a warm session's.
        MissingDependency: there is no Java that Spark runs on.
    """
    needs: frozenset[str] = frozenset()
    first: Load | None = None
    engines = {load.target.engine for load in loads}
    for load in loads:
        first = first or load
        if load.target.warm == "require":
            raise ConfigError(
                f"load {load.name!r} asks for a warm session's Spark (`warm: require`), and the "
                "loads of a file share one of their own",
                "leave `warm` out, or land the source by `lakeport land`.",
            )
        if dict(load.target.spark) != dict(first.target.spark):
            raise ConfigError(
                f"loads {first.name!r} and {load.name!r} have different `spark` settings, and the "
                "loads of a file share one session",
                "give them once, under `target` or `defaults`.",
            )
        needs |= load.target.jars
        if used := _tables_of(load):
            needs |= TablesSource(tables=used).jars
    name = "threads" if first and engines == {"threads"} else "spark"
    return choose_engine(name, SessionRequest(needs, first.target.spark if first else {}))


def _tables_of(load: Load) -> dict[str, str]:
    """Return the tables that a load reads, by the names that `sql` has for them."""
    own = load.source.tables if isinstance(load.source, TablesSource) else {}
    return {**load.tables, **own}


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
    """Run the loads of a lake file side by side, each once those that it uses have ended well.

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
    with show_progress(wanted, "running"):
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
    """Run the loads of a lake file that was read; see `run`."""
    check_refresh(lake, full_refresh)
    if parallel is not None and parallel < 1:
        raise ConfigError(f"`parallel` is {parallel}", "give how many loads run at once, from 1.")
    loads = select_loads(lake, only, tag)
    target = next(iter(lake.loads.values())).target  # the first one's store keeps the reports
    storage = open_storage(target) if target.manifest else None
    earlier = _last_run(lake, storage) if resume else None
    told = [] if observer is None else [observer]
    each = _PipelineRun(lake, loads, earlier, frozenset(full_refresh), storage, told)
    if resume and earlier is None:
        each.warn("`resume`: no run has left a report beside the lake so far; all loads are done.")
    return each.run(parallel or min(_MOST_AT_ONCE, available_cores()))


def _file(lake: LakeFile) -> str:
    return str(Path(lake.path).resolve())


def _last_run(lake: LakeFile, storage: Storage | None) -> Earlier | None:
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
    found = last_of(_file(lake), storage)
    if found is None and (other := last_file(storage)):
        raise ConfigError(
            f"no run of {_file(lake)} has left a report in {storage.uri()} to go on with: the last "
            f"one there is of {other}",
            "if this file is new there, leave `--resume` out; if it was moved, that run's loads "
            "are known by the old path.",
        )
    return found


class _PipelineRun:
    """One run: its loads, and what became of each so far."""

    def __init__(
        self,
        lake: LakeFile,
        loads: Mapping[str, Load],
        earlier: Earlier | None,
        full_refresh: frozenset[str],
        storage: Storage | None,
        observers: Sequence[PipelineObserver],
    ) -> None:
        self.lake = lake
        self.earlier = earlier or Earlier("", {}, {})
        self.full_refresh = full_refresh
        self.storage = storage
        self.users = fan_out(*observers)
        lineage = [] if lake.lineage is None else [_lineage(lake, lake.lineage, self.warn)]
        self.observer = fan_out(self.users, *lineage)
        self.started, self.begin = datetime.now(UTC), time.monotonic()
        self.name = f"{self.started:%Y%m%d-%H%M%S-%f}"[:-3] + secrets.token_hex(2)
        before = self.earlier.outcomes
        self.loads = {n: load for n, load in loads.items() if before.get(n) not in _DONE}
        self.reports = {
            name: LoadReport(name, "waiting", run_id=self._id_of(load), uses=load.depends)
            if name in self.loads
            else LoadReport(name, "left out", uses=load.depends)
            for name, load in lake.loads.items()
        }
        self.cancellations: dict[str, Cancellation] = {}
        self.running: dict[Future[Any], str] = {}
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
        # Tasks import the functions' modules, which lie beside the file.
        folders = {load.folder for load in self.loads.values() if load.python}
        sys.path[:0] = folders.difference(sys.path)
        threads = ThreadPoolExecutor(parallel, "lakeport-load")
        with (
            start_engine(self.loads.values()) as engine,
            wait_unless_interrupted(threads, cancels=True) as executor,
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
            run_load,
            self.loads[name],
            engine,
            self.reports[name].run_id,
            stop,
            self.observer,
            full_refresh=name in self.full_refresh,
        )
        self.running[executor.submit(carried(work))] = name

    def _take(self, done: Future[Any]) -> LoadReport:
        del self.running[done]
        report: LoadReport
        report, error = done.result()
        self.error = self.error or error
        self._ended(report)
        return report

    def _ended(self, report: LoadReport) -> None:
        self.reports[report.load] = report
        self.observer.on_ended(report)

    def _end(self, interrupt: KeyboardInterrupt, engine: Engine) -> None:
        """Have all loads end that run, and take down what became of them."""
        for done in [done for done in self.running if done.cancel()]:
            del self.cancellations[self.running.pop(done)]  # it had not begun
        for stop in self.cancellations.values():
            stop.request_end()
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
        if unknown := [
            text for stop in self.cancellations.values() if (text := stop.unknown_commits())
        ]:
            interrupt.add_note("; ".join(unknown))

    def _finish(self) -> PipelineReport:
        """Close the books, and tell."""
        finished = datetime.now(UTC)
        report = self._report(finished)
        if self.loads:
            for problem in send_notices(self.lake, report):
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
        problem = keep(report or self._report(None), self.storage)
        if problem:
            self.storage = None  # to try again takes as long again
            self.warn(problem)

    def warn(self, text: str) -> None:
        self.warnings[text] = None
        self.users.on_warning("", text)

    def _id_of(self, load: Load) -> str | None:
        return self.earlier.run_ids.get(load.name) or name_of_run(load, self.name)


def _lineage(lake: LakeFile, lineage: Lineage, warn: Callable[[str], None]) -> PipelineObserver:
    """Return the observer that sends a run's lineage.

    Raises:
        MissingDependency: OpenLineage's client is not installed.
    """
    try:
        from lakeport.pipeline.lineage import Events
    except ImportError:
        problem = "lineage is sent by the package `openlineage-python`, which is not installed"
        raise missing(problem, "lineage") from None
    return Events(lake, lineage, warn)
