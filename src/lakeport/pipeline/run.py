"""Run the loads of a lake file side by side, in order of their dependencies.

```
file ─▶ which loads ─▶ one Spark ─▶ ready ─▶ land … land ─┬─ well ──▶ others are ready
                                                          └─ failed ▶ those that use it are skipped
```
A report of the run is saved beside the lake from the start, so that `resume` can continue a run
that was killed.
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
from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.destinations import open_storage
from lakeport.engine.base import SessionRequest
from lakeport.engine.threads import choose_engine
from lakeport.errors import ConfigError, LakeportError, LoadsFailed
from lakeport.host.activity import attribute_to_load, bind_activity
from lakeport.host.packages import missing_extra_error
from lakeport.host.process import available_cores, command_line, mask_command_line
from lakeport.loading.cancellation import Cancellation, wait_unless_interrupted
from lakeport.loading.progress import show_progress
from lakeport.loading.report import Failure, Observer, fan_out
from lakeport.loading.run import land
from lakeport.loading.transform.function import import_transform
from lakeport.model import Mode
from lakeport.pipeline.report import (
    EarlierRun,
    LoadReport,
    PipelineObserver,
    PipelineReport,
    read_earlier_runs,
    save_run_report,
    send_notices,
    table_uri,
)
from lakeport.pipeline.telemetry import watch_run
from lakeport.sources.tables import DeltaTable
from lakeport.sources.target import open_folder_storage
from lakeport.storage.base import CloudStorage

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.config.lake import LakeFile, Lineage, Load
    from lakeport.engine.base import Engine
    from lakeport.loading.progress import Hook
    from lakeport.loading.report import LandingReport
    from lakeport.model import Landed, Storage

_DONE = frozenset({"landed", "left out"})

_MOST_LOADS_AT_ONCE = 4  # more loads would share the same cores, and each takes memory
_WAKE_SECONDS = 1.0  # Python may see a signal only when a wait ends
_END_SECONDS = 8.5  # that loads have to end, which takes each of them eight at most


class Schedule:
    """Decides which loads may begin, by dependencies, shared tables and store settings.

    Args:
        needs: load -> the loads that it uses, without cycles, in the order of the file. A used load
            that is no key has ended well before.
        tables: load -> its table. Two loads of one table never run at once; empty: no such limit.
        store_settings: load -> store -> Spark's settings for the store. Spark has one set for each
            store, so that loads with different settings never run at once.

    Example:
        >>> schedule = Schedule({"flights": [], "airports": [], "delays": ["flights"]})
        >>> schedule.take_ready()
        ['flights', 'airports']
        >>> schedule.mark_ended("flights", succeeded=False)
        {'delays': 'needs flights, which failed'}
        >>> schedule.take_ready()
        []
    """

    def __init__(
        self,
        needs: Mapping[str, Sequence[str]],
        tables: Mapping[str, str] | None = None,
        store_settings: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._waiting = {
            name: {used for used in uses if used in needs} for name, uses in needs.items()
        }
        self._tables = tables or {}
        self._store_settings = store_settings or {}
        self._running: set[str] = set()

    def take_ready(self) -> list[str]:
        """Return the loads that can begin now, in the file's order; mark them as running."""
        found = []
        for name in [name for name, uses in self._waiting.items() if not uses]:
            if not any(self._conflict(name, other) for other in self._running):
                del self._waiting[name]
                self._running.add(name)
                found.append(name)
        return found

    def _conflict(self, one: str, other: str) -> bool:
        """Whether two loads can't run at once: same table, or different settings of a store."""
        table = self._tables.get(one)
        if table and table == self._tables.get(other):
            return True
        mine = self._store_settings.get(one, {})
        others = self._store_settings.get(other, {})
        return any(mine[store] != others[store] for store in mine.keys() & others.keys())

    def mark_ended(self, name: str, *, succeeded: bool) -> dict[str, str]:
        """Record a load's end; if it failed, return the loads to skip, each with its reason."""
        self._running.discard(name)
        if succeeded:
            for uses in self._waiting.values():
                uses.discard(name)
            return {}
        return self._skip_dependents(name, "failed")

    def _skip_dependents(self, name: str, outcome: str) -> dict[str, str]:
        """Drop the loads that depend on a load, also indirectly; return each with its reason."""
        found: dict[str, str] = {}
        for other in [other for other, uses in self._waiting.items() if name in uses]:
            if other in self._waiting:
                del self._waiting[other]
                found[other] = f"needs {name}, which {outcome}"
                found |= self._skip_dependents(other, "was skipped")
        return found


class LoadObserver(Observer):
    """Passes one load's events to the run's observer with the load's name; keeps its report.

    `report` is the load's report once it has ended; None before.
    """

    def __init__(self, load: str, run: PipelineObserver) -> None:
        self._load = load
        self._run = run
        self.report: LandingReport | None = None

    def on_progress(self, stream: str, records: int, size: int) -> None:
        """Pass the event on."""
        self._run.on_progress(self._load, stream, records, size)

    def on_landed(self, landed: Landed) -> None:
        """Pass the event on."""
        self._run.on_landed(self._load, landed)

    def on_warning(self, text: str) -> None:
        """Pass the event on."""
        self._run.on_warning(self._load, text)

    def on_finished(self, report: LandingReport) -> None:
        """Keep the report."""
        self.report = report


def choose_run_id(source: object, target: DestinationConfig, run_id: str) -> str | None:
    """Return the run ID by which a load can be repeated safely; None if it needs none.

    It is the target's own, or else `run_id`. A load needs none if the table has a bookmark of the
    source, or if its mode does not append.
    """
    if target.run_id is not None:
        return target.run_id
    return None if _has_bookmark(source) or target.mode is not Mode.APPEND else run_id


def _has_bookmark(source: object) -> bool:
    """Whether a source is read incrementally, by a bookmark in its table."""
    if isinstance(source, FilesSource):
        return source.new_only
    if isinstance(source, DatabaseSource):
        return bool(source.cursor)
    return source.incremental if isinstance(source, TablesSource) else isinstance(source, TapSource)


def run_load(
    load: Load,
    engine: Engine,
    run_id: str | None,
    cancellation: Cancellation,
    observer: PipelineObserver,
    *,
    full_refresh: bool = False,
) -> tuple[LoadReport, BaseException | None]:
    """Run a load; return its report and the error that ended it, or None; never raise.

    `full_refresh`: read all of the source again, whatever bookmarks the table has of it.
    """
    own, begin = LoadObserver(load.name, observer), time.monotonic()
    error: BaseException | None = None
    with attribute_to_load(load.name), cancellation.activate():
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
                python=import_transform(load),
                views=_read_views(load, engine),
                expect=load.expect,
                full_refresh=full_refresh,
            )
        except BaseException as caught:
            error = caught
    seconds = time.monotonic() - begin
    report = LoadReport(
        load.name, "landed", "", run_id, seconds, landing=own.report, uses=load.depends
    )
    return (report, None) if error is None else (_failed_report(report, load, error), error)


def _failed_report(report: LoadReport, load: Load, error: BaseException) -> LoadReport:
    """Return the report with the error, secrets masked; or as interrupted for an interrupt."""
    if isinstance(error, KeyboardInterrupt):
        return replace(report, outcome="interrupted")
    failure = Failure.of(error).scrubbed((*load.target.secrets(), *load.source.secrets()))
    code = error.exit_code if isinstance(error, LakeportError) else 1
    return replace(report, outcome="failed", error=failure, exit_code=code)


def _read_views(load: Load, engine: Engine) -> dict[str, DataFrame]:
    """Read tables that `sql` names, by name, at their newest versions; not the source's."""
    own = load.source.tables if isinstance(load.source, TablesSource) else {}
    return {
        name: DeltaTable(place, load.target, engine).read_all()
        for name, place in load.tables.items()
        if name not in own
    }


def select_loads(lake: LakeFile, only: Sequence[str], tag: str) -> dict[str, Load]:
    """Return the file's loads in `only` that have `tag`; an empty one selects all.

    Loads that they use are not added. ConfigError for an unknown name, and for a tag of no load.
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
    """Raise ConfigError, with the closest name, for a name that is no load of the file."""
    for name in names:
        if name not in lake.loads:
            raise unknown_name_error("load", name, lake.loads)


def check_refresh(lake: LakeFile, names: Collection[str]) -> None:
    """Raise ConfigError if a load is unknown, or shares its table with another load.

    A full refresh replaces the table. ConfigError, too, for an unknown name.
    """
    _check_names(lake, [*names])
    tables = {name: table_uri(load) for name, load in lake.loads.items()} if names else {}
    for name in names:
        others = [other for other in tables if other != name and tables[other] == tables[name]]
        if tables[name] and others:
            raise ConfigError(
                f"a full refresh of load {name!r} would replace its table, in which "
                f"{', '.join(map(repr, others))} landed, too",
                "remove the table, and run the loads that share it: they begin anew then.",
            )


def storage_settings(load: Load) -> dict[str, object]:
    """Return settings by host of the cloud stores that Spark may reach for a load."""
    config = load.target
    storages = [open_storage(config)] if config.connector_jars() else []
    for uri in _tables_read(load).values():
        with suppress(LakeportError):  # the load itself will say so
            storages += [found] if (found := open_folder_storage(config, f"{uri}/")) else []
    return {
        urlsplit(storage.hadoop_uri()).hostname or "": storage.settings
        for storage in storages
        if isinstance(storage, CloudStorage)
    }


def choose_run_engine(loads: Collection[Load]) -> Engine:
    """Return one engine for all loads; ConfigError if they need different Spark sessions.

    It never is a warm session's, which runs one command at a time.

    Raises:
        ConfigError: loads have different `spark` settings, or require a warm session.
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
        if used := _tables_read(load):
            needs |= TablesSource(tables=used).jars
    name = "threads" if first and engines == {"threads"} else "spark"
    return choose_engine(name, SessionRequest(needs, first.target.spark if first else {}))


def _tables_read(load: Load) -> dict[str, str]:
    """Return name in `sql` -> URI of the tables that a load reads."""
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
    run_id: str | None = None,
    observer: PipelineObserver | None = None,
    progress: bool | Hook | None = None,
) -> PipelineReport:
    """Run a lake file's loads in parallel, in order of their dependencies; return the report.

    A load that fails does not stop the others; those that use it are skipped.

    Args:
        path: the file.
        only: names of loads to run, without those that they use.
        tag: run only loads with this tag.
        full_refresh: names of loads that forget what they have read, and read all of their source.
        parallel: how many loads run at once; default: one for each core, 4 at most.
        resume: run what the last run of the file left undone: loads that failed, were skipped, or
            had not ended when the run was interrupted or killed.
        run_id: name of the run: repeating a run with its name adds nothing twice. Each load that
            needs one has the run id `RUN_ID/LOAD`.
        observer: hears how the run goes on.
        progress: as for `lakeport.land`.

    Returns:
        The report of all loads.

    Raises:
        ConfigError: the file or an argument is wrong; nothing was read or written.
        LoadsFailed: loads have failed; its `report` has all loads.

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
            run_id=run_id,
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
    run_id: str | None = None,
    observer: PipelineObserver | None = None,
) -> PipelineReport:
    """Run the loads of a parsed lake file, as `run` does; return the report."""
    check_refresh(lake, full_refresh)
    if parallel is not None and parallel < 1:
        raise ConfigError(f"`parallel` is {parallel}", "give how many loads run at once, from 1.")
    loads = select_loads(lake, only, tag)
    target = next(iter(lake.loads.values())).target  # the first one's store keeps the reports
    storage = open_storage(target) if target.manifest else None
    earlier = _find_last_run(lake, storage) if resume else None
    pipeline = _PipelineRun(
        lake, loads, earlier, frozenset(full_refresh), storage, run_id, observer
    )
    if resume and earlier is None:
        pipeline.warn(
            "`resume`: no run has left a report beside the lake so far; all loads are done."
        )
    return pipeline.run(parallel or min(_MOST_LOADS_AT_ONCE, available_cores()))


def _resolve_path(lake: LakeFile) -> str:
    """Return the absolute path of a lake file, by which runs know it."""
    return str(Path(lake.path).resolve())


def _find_last_run(lake: LakeFile, storage: Storage | None) -> EarlierRun | None:
    """Return the lake file's newest saved run, to resume; None if no run was saved.

    Raises:
        ConfigError: runs leave no reports; or only other files' runs did: if the file was moved, a
            run from the start would append again what has landed.
    """
    if storage is None:
        raise ConfigError(
            f"no run of {lake.path} has left a report to go on with",
            "leave `--resume` out. Runs leave reports with `manifest: true`, which is the default.",
        )
    file, newest = _resolve_path(lake), None
    for earlier in read_earlier_runs(storage):
        if earlier.file == file:
            return earlier
        newest = newest or earlier
    if newest is not None:
        raise ConfigError(
            f"no run of {file} has left a report in {storage.uri()} to go on with: "
            f"the last one there is of {newest.file}",
            "if this file is new there, leave `--resume` out; if it was moved, that run's loads "
            "are known by the old path.",
        )
    return None


class _PipelineRun:
    """One run of a lake file: runs the loads in threads, and collects their reports."""

    def __init__(
        self,
        lake: LakeFile,
        loads: Mapping[str, Load],
        earlier: EarlierRun | None,
        full_refresh: frozenset[str],
        storage: Storage | None,
        run_id: str | None,
        observer: PipelineObserver | None,
    ) -> None:
        self.lake = lake
        self.earlier = earlier or EarlierRun("", "", {}, {})
        self.full_refresh = full_refresh
        self.storage = storage
        self.users = fan_out(observer)
        lineage = None if lake.lineage is None else _open_lineage(lake, lake.lineage, self.warn)
        self.observer = fan_out(self.users, lineage)
        self.started, self.begin = datetime.now(UTC), time.monotonic()
        self.name = f"{self.started:%Y%m%d-%H%M%S-%f}"[:-3] + secrets.token_hex(2)
        self.run_id = run_id or self.name
        self.cancellation = Cancellation.of_this_thread()
        before = self.earlier.outcomes
        self.loads = {n: load for n, load in loads.items() if before.get(n) not in _DONE}
        self.reports = {
            name: LoadReport(name, "waiting", run_id=self._choose_run_id(load), uses=load.depends)
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
        """Run the loads, at most `parallel` at once; return the report, or raise LoadsFailed.

        After a KeyboardInterrupt, loads that ran have ended, and the report is saved.
        """
        if not self.loads:
            return self._finish()
        with watch_run(self.name, _resolve_path(self.lake), self.loads) as watch:
            self.users, self.observer = fan_out(self.users, watch), fan_out(self.observer, watch)
            for text in self.warnings:
                watch.on_warning("", text)
            return self._run(parallel)

    def _run(self, parallel: int) -> PipelineReport:
        """Run the loads, as `run` does."""
        self._save_report()
        # Tasks import the functions' modules, which lie beside the file.
        folders = {load.folder for load in self.loads.values() if load.python}
        sys.path[:0] = folders.difference(sys.path)
        threads = ThreadPoolExecutor(parallel, "lakeport-load")
        with (
            choose_run_engine(self.loads.values()) as engine,
            wait_unless_interrupted(threads, cancel_pending=True) as executor,
        ):
            try:
                self._run_loads(executor, engine)
            except KeyboardInterrupt as interrupt:
                self._end_running(interrupt, engine)
                self._finish()
                raise
        report = self._finish()
        if report.failed:
            raise LoadsFailed(report) from self.error
        return report

    def _run_loads(self, executor: ThreadPoolExecutor, engine: Engine) -> None:
        """Start loads as they become ready and record their ends, until all are done."""
        schedule = Schedule(
            {name: load.depends for name, load in self.loads.items()},
            {name: table_uri(load) for name, load in self.loads.items()},
            {name: storage_settings(load) for name, load in self.loads.items()},
        )
        while True:
            self.cancellation.check()
            for name in schedule.take_ready():
                self._begin_load(executor, engine, name)
            if not self.running:
                return
            for done in wait(self.running, _WAKE_SECONDS, FIRST_COMPLETED).done:
                report = self._take_result(done)
                self._save_report()
                succeeded = report.outcome == "landed"
                for other, why in schedule.mark_ended(report.load, succeeded=succeeded).items():
                    self._record_end(replace(self.reports[other], outcome="skipped", reason=why))

    def _begin_load(self, executor: ThreadPoolExecutor, engine: Engine, name: str) -> None:
        """Start a load in the executor, with a cancellation of its own."""
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
        self.running[executor.submit(bind_activity(work))] = name

    def _take_result(self, done: Future[Any]) -> LoadReport:
        """Record the result of a load's finished future; return the load's report."""
        del self.running[done]
        report: LoadReport
        report, error = done.result()
        self.error = self.error or error
        self._record_end(report)
        return report

    def _record_end(self, report: LoadReport) -> None:
        """Keep the report of a load that has ended, and tell the observers."""
        self.reports[report.load] = report
        self.observer.on_ended(report)

    def _end_running(self, interrupt: KeyboardInterrupt, engine: Engine) -> None:
        """Cancel the running loads, wait 8.5 seconds at most, and record how they ended.

        Stops the engine if loads are left by then, and adds unknown commits to `interrupt`.
        """
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
            self._take_result(done)
        for name in self.cancellations:
            if self.reports[name].outcome == "waiting":
                self._record_end(replace(self.reports[name], outcome="interrupted"))
        if unknown := [
            text for stop in self.cancellations.values() if (text := stop.unknown_commits())
        ]:
            interrupt.add_note("; ".join(unknown))

    def _finish(self) -> PipelineReport:
        """Send notices, save the report, tell the observers, and return the report."""
        finished = datetime.now(UTC)
        report = self._build_report(finished)
        if self.loads:
            for problem in send_notices(self.lake, report):
                self.warn(problem)
            report = self._build_report(finished)
            self._save_report(report)
        self.observer.on_finished(report)
        return report

    def _build_report(self, finished: datetime | None) -> PipelineReport:
        """Return the report so far; `finished` is None while the run goes on."""
        command = command_line()
        known = {text for load in self.lake.loads.values() for text in load.target.secrets()}
        return PipelineReport(
            self.run_id,
            _resolve_path(self.lake),
            self.started,
            finished,
            time.monotonic() - self.begin,
            tuple(self.reports.values()),
            self.earlier.run_id,
            tuple(self.warnings),
            None if command is None else mask_command_line(command, known),
        )

    def _save_report(self, report: PipelineReport | None = None) -> None:
        """Save the report, by default of the run so far; if that fails, warn and save no more."""
        if self.storage is None:
            return
        problem = save_run_report(report or self._build_report(None), self.storage, self.name)
        if problem:
            self.storage = None  # to try again takes as long again
            self.warn(problem)

    def warn(self, text: str) -> None:
        """Add a warning to the report, and tell the user's observers."""
        self.warnings[text] = None
        self.users.on_warning("", text)

    def _choose_run_id(self, load: Load) -> str | None:
        """Return a load's run id, that of the resumed run if it had one; None for none."""
        own = choose_run_id(load.source, load.target, f"{self.run_id}/{load.name}")
        return self.earlier.run_ids.get(load.name) or own


def _open_lineage(
    lake: LakeFile, lineage: Lineage, warn: Callable[[str], None]
) -> PipelineObserver:
    """Return the observer that sends lineage events; MissingDependency without OpenLineage."""
    try:
        from lakeport.pipeline.lineage import LineageObserver
    except ImportError:
        problem = "lineage is sent by the package `openlineage-python`, which is not installed"
        raise missing_extra_error(problem, "lineage") from None
    return LineageObserver(lake, lineage, warn)
