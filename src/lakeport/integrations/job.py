"""A load for an orchestrator: its tries share a run id, and the orchestrator can end it.

```
orchestrator's thread ─▶ waits ──▶ returns the report
                           │ an exception, or `end()`
lakeport-job thread   ─▶ land or run ─▶ ends as after Ctrl-C
```
Orchestrators end a task by an exception of their own in its thread, at any point of it. So the load
has another thread, and is asked to end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakeport import errors
from lakeport.config.keys import TargetKeys
from lakeport.config.lake import read_lake
from lakeport.config.load import load_target
from lakeport.loading.cancellation import Cancellation, EndRequested
from lakeport.loading.run import land
from lakeport.pipeline.run import choose_run_id, run_lake
from lakeport.scrub import mask_known

if TYPE_CHECKING:
    from lakeport.loading.report import LandingReport
    from lakeport.pipeline.report import PipelineReport

R = TypeVar("R")

_WAKE_SECONDS: Final = 1.0  # some orchestrators' exceptions come only when a wait ends
_END_SECONDS: Final = 9.0  # a load that is asked to end takes eight at most
_LONGEST: Final = 120  # characters; a load's name is added to it, and 200 are allowed
_PERMANENT: Final = (
    errors.ConfigError,
    errors.InputError,
    errors.PermissionRefused,
    errors.RunMismatch,
    errors.SchemaConflict,
)


class Job:
    """One load, or one run of a lake file, that its orchestrator can end and repeat.

    Args:
        names: what identifies the task's run in the orchestrator, the same in each try.
    """

    def __init__(self, *names: object) -> None:
        self.run_id = join_run_id(*names)
        self._cancellation = Cancellation()

    def land(
        self, source: Any, to: Any, secrets: Mapping[str, Any], options: Mapping[str, Any]
    ) -> LandingReport:
        """Land a source as `lakeport.land(source, to, **secrets, **options)` does.

        An empty `to` is a target whose keys are all in `secrets` and `options`. A load that appends
        without a bookmark gets the job's run id, unless the options have one.
        """
        keys = {name: options[name] for name in options.keys() & TargetKeys.__annotations__.keys()}
        target = load_target(to or {}, {**secrets, **keys})
        others = {name: value for name, value in options.items() if name not in keys}
        run_id = choose_run_id(source, target, self.run_id)
        return self._perform(
            partial(land, source, target, run_id=run_id, **{"progress": False, **others})
        )

    def run(
        self, file: str, secrets: Mapping[str, Any], options: Mapping[str, Any]
    ) -> PipelineReport:
        """Run a lake file as `lakeport.run(file, **options)` does, with secrets for its targets."""
        lake = read_lake(file)
        loads = {
            name: replace(load, target=load_target(load.target, secrets))
            for name, load in lake.loads.items()
        }
        given = {"run_id": self.run_id, **options}
        return self._perform(partial(run_lake, replace(lake, loads=loads), **given))

    def end(self) -> None:
        """Ask the load to end; the thread that waits for it then gets `EndRequested`."""
        self._cancellation.request_end()

    def _perform(self, work: Callable[[], R]) -> R:
        """Do the work in a thread, and wait; an exception here ends it before it is raised.

        A source that blocks is left alone after 9 seconds: its load commits nothing any more.
        """
        executor = ThreadPoolExecutor(1, "lakeport-job")
        with self._cancellation.activate():
            done = executor.submit(copy_context().run, work)
        executor.shutdown(wait=False)
        try:
            while not done.done():
                wait([done], _WAKE_SECONDS)
                self._cancellation.check()
        except EndRequested:
            wait([done], _END_SECONDS)
            if not done.done():
                raise
        except BaseException:
            self.end()
            wait([done], _END_SECONDS)
            raise
        return done.result()


def shorten(report: LandingReport | PipelineReport) -> dict[str, Any]:
    """Return a report without spans, as JSON values, with all known secrets masked."""
    short: dict[str, Any] = json.loads(mask_known(json.dumps(report.to_dict(whole=False))))
    return short


def join_run_id(*names: object) -> str:
    """Return a run id of these names, joined by `/`; a long one ends in a hash of the whole.

    >>> join_run_id("sales", "land", "scheduled__2026-11-27T00:00:00+00:00")
    'sales/land/scheduled__2026-11-27T00:00:00+00:00'
    >>> len(join_run_id("sales" * 99, "land"))
    120
    """
    text = "/".join(map(str, names))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 17]}-{digest}"


def may_retry(error: BaseException) -> bool:
    """Whether another try may succeed although nobody changed config, rows or permissions.

    Sources count: a file may come late, a tap's service may be down. Of several failed loads, one
    that may succeed is enough.

    >>> may_retry(errors.Unreachable("no answer")), may_retry(errors.ConfigError("no such key"))
    (True, False)
    """
    if isinstance(error, errors.LoadsFailed):
        failed = [load.error.type for load in error.report.failed if load.error is not None]
        kinds = [getattr(errors, name, Exception) for name in failed]
    else:
        kinds = [type(error)]
    return any(issubclass(k, errors.SourceError) or not issubclass(k, _PERMANENT) for k in kinds)
