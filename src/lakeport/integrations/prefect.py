"""Prefect tasks that land a source or run a lake file, and the block for their secrets.

```
@flow
def nightly():
    target = LakeportTarget.load("lake")
    land.with_options(retries=3)("in/*.csv", target, table="orders")
```
docs/orchestrators.md tells more.
"""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger, task
from prefect.blocks.core import Block
from prefect.blocks.fields import SecretDict
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run, task_run
from prefect.utilities.hashing import hash_objects
from pydantic import Field

from lakeport.integrations.job import Job, may_retry, shorten
from lakeport.loading.report import LandingReport
from lakeport.pipeline.report import PipelineReport


class LakeportTarget(Block):
    """A target of loads, and secret keys of its store, in a Prefect block."""

    _block_type_name = "Lakeport Target"
    _block_type_slug = "lakeport-target"

    to: str = Field(default="", description="A folder, a URI or a config file.")
    secrets: SecretDict = Field(
        default_factory=lambda: SecretDict({}), description="Keys of lakeport's config."
    )


def _retries(task: Any, run: Any, state: Any) -> bool:
    """Whether Prefect may retry a failed load: not after errors that no retry mends."""
    return may_retry(state.result(raise_on_failure=False))


@task(name="lakeport-land", cache_policy=NO_CACHE, retry_condition_fn=_retries)
def land(source: Any, to: Any, **options: Any) -> dict[str, Any]:
    """Land a source by `lakeport.land`; return its report without spans.

    A run of a flow that is retried adds nothing twice: the run id is that of the flow's run, with a
    hash of the arguments.

    Args:
        source: as `lakeport.land` takes it.
        to: a `LakeportTarget`, or a target as `lakeport.land` takes it.
        options: further arguments of `lakeport.land`, such as `table`, `mode` or `expect`.

    Raises:
        LakeportError: the load failed; Prefect retries it only if that may help.
    """
    place, secrets = _split_target(to)
    return _log(_make_job(source, place, options).land(source, place, secrets, options))


@task(name="lakeport-run", cache_policy=NO_CACHE, retry_condition_fn=_retries)
def run(lake_file: str, target: LakeportTarget | None = None, **options: Any) -> dict[str, Any]:
    """Run the loads of a lake file by `lakeport.run`; return its report without spans.

    Args:
        lake_file: path of the lake file.
        target: a `LakeportTarget` with keys for the targets of its loads.
        options: further arguments of `lakeport.run`, such as `only` or `tag`.

    Raises:
        LakeportError: loads failed; Prefect retries the run only if that may help.
    """
    secrets = _split_target(target)[1]
    return _log(_make_job(lake_file, options).run(lake_file, secrets, options))


def _split_target(to: Any) -> tuple[Any, dict[str, Any]]:
    """Return a target's place and its secret keys; a place without keys if it is no block."""
    return (to.to, to.secrets.get_secret_value()) if isinstance(to, LakeportTarget) else (to, {})


def _make_job(*arguments: Any) -> Job:
    """Return the task's job, named after the flow's run and a hash of the arguments.

    Prefect gives a task another id in each try of its flow. Arguments without a hash, such as a
    generator, and a task outside of a flow, have the task's id.
    """
    digest = hash_objects(*arguments) if flow_run.id else None
    return Job(flow_run.id, task_run.task_name, digest) if digest else Job(task_run.id)


def _log(report: LandingReport | PipelineReport) -> dict[str, Any]:
    """Log a load's warnings and its sums; return its report without spans."""
    logger = get_run_logger()
    for text in report.warnings:
        logger.warning("%s", text)
    logger.info("%r", report)
    return shorten(report)
