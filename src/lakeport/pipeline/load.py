"""One load of the file: one `lakeport.land`, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.files import FilesSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.errors import LakeportError
from lakeport.host.activity import whole
from lakeport.loading.report import Failure
from lakeport.loading.run import land
from lakeport.loading.transform.function import function_named
from lakeport.model import Mode
from lakeport.pipeline.observer import OfLoad
from lakeport.pipeline.report import LoadReport
from lakeport.sources.tables.delta import DeltaTable

if TYPE_CHECKING:
    from lakeport.config.inputs.base import Input
    from lakeport.config.lake import Load
    from lakeport.engine.base import Engine
    from lakeport.loading.cancellation import Cancellation
    from lakeport.pipeline.observer import PipelineObserver


@dataclass(frozen=True, slots=True)
class Ended:
    """How a load ended: in words, and the error that it ended with, if any."""

    report: LoadReport
    error: BaseException | None = None


def name_of_run(load: Load, run: str) -> str | None:
    """The `run_id` by which a load that is begun anew knows what it has landed.

    None where it needs none: the table remembers, or to land the rows again changes nothing.
    """
    if load.target.run_id is not None:
        return load.target.run_id
    once = _remembers(load.source) or load.target.mode is not Mode.APPEND
    return None if once else f"{run}/{load.name}"


def _remembers(source: Input) -> bool:
    """Whether the table knows how far the source has been read."""
    if isinstance(source, FilesSource):
        return source.new_only
    if isinstance(source, DatabaseSource):
        return bool(source.cursor)
    return source.incremental if isinstance(source, TablesSource) else True


def do(
    load: Load,
    engine: Engine,
    run_id: str | None,
    cancellation: Cancellation,
    observer: PipelineObserver,
    *,
    full_refresh: bool = False,
) -> Ended:
    """Do a load. Never raises: what it ended with comes back.

    Args:
        load: what to do.
        engine: Spark.
        run_id: see `name_of_run`.
        cancellation: has it end.
        observer: is told how it goes on.
        full_refresh: forget what the table remembers of its source, and read that anew.
    """
    own, begin = OfLoad(load.name, observer), time.monotonic()
    error: BaseException | None = None
    with whole(load.name), cancellation.used():
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
                **_further(load, full_refresh),
                **_views(load, engine),
            )
        except BaseException as caught:
            error = caught
    seconds = time.monotonic() - begin
    report = LoadReport(
        load.name, "landed", "", run_id, seconds, landing=own.report, uses=load.depends
    )
    return Ended(report) if error is None else Ended(_failed(report, load, error), error)


def _failed(report: LoadReport, load: Load, error: BaseException) -> LoadReport:
    if isinstance(error, KeyboardInterrupt):
        return replace(report, outcome="interrupted")
    failure = Failure.of(error).scrubbed((*load.target.secrets(), *load.source.secrets()))
    code = error.exit_code if isinstance(error, LakeportError) else 1
    return replace(report, outcome="failed", error=failure, exit_code=code)


def _further(load: Load, full_refresh: bool) -> dict[str, Any]:
    """What only some loads have."""
    given = {
        "sql": load.sql,
        "python": function_of(load),
        "expect": load.expect,
        "full_refresh": full_refresh,
    }
    return {name: value for name, value in given.items() if value}


def function_of(load: Load) -> str | Callable[[Any], Any]:
    """What `python` of a load names; empty for none.

    Raises:
        ConfigError: it is not there.
    """
    return load.python and function_named(load.python, Path(load.folder))


def _views(load: Load, engine: Engine) -> dict[str, Any]:
    """The other tables that `sql` names, each at its newest version."""
    own = load.source.tables if isinstance(load.source, TablesSource) else {}
    found = {
        name: DeltaTable(place, load.target, engine).whole()
        for name, place in load.tables.items()
        if name not in own
    }
    return {"views": found} if found else {}
