"""`lakeport run`: run the loads of a lake file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Annotated

import typer

from lakeport.cli.options import Debug, JsonOut, LogFormatName, MetricsFile, RunId
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import Guard
from lakeport.cli.pages import PagePath
from lakeport.cli.telemetry import write_metrics

_AGAIN = "`lakeport run {file} --resume` does what it did not come to."


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The lake file, such as lake.yaml.")],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Run only this load, without those that it uses; repeat it for more.",
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="TAG", help="Run only the loads with this tag.")
    ] = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option(
            "--full-refresh",
            metavar="NAME",
            help="Have this load read its source from the beginning; repeat it for more.",
        ),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of loads to run at once; default: one for each core, 4 at most.",
        ),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what the run would do, and write nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Run only the loads that the file's last run left.")
    ] = False,
    run_id: RunId = None,
    page: PagePath = None,
    metrics_file: MetricsFile = None,
    log_format: LogFormatName = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Run the loads in a lake file, in order of their dependencies."""
    output: Output = Json() if json_out else Console()
    with (
        Guard(output, debug, again=_AGAIN.format(file=shlex.quote(file))) as guard,
        write_metrics(None if plan_only else metrics_file, output.warn) as reports,
    ):
        output.begin("running")
        from lakeport.cli.output.loads import observer, show_plan
        from lakeport.config.lake import read_lake
        from lakeport.pipeline.run import run_lake

        lake = read_lake(file)
        for load in lake.loads.values():
            guard.protect(load.target, file)
            guard.protect(load.source)
        if plan_only:
            from lakeport.pipeline.plan import plan_lake

            show_plan(output, plan_lake(lake, only=_split_names(only), tag=tag or ""), page)
            return
        report = run_lake(
            lake,
            only=_split_names(only),
            tag=tag or "",
            full_refresh=_split_names(full_refresh),
            parallel=parallel,
            resume=resume,
            run_id=run_id,
            observer=observer(output, page),
        )
        reports.append(report)


def _split_names(given: Iterable[str] | None) -> list[str]:
    """Split option values at commas; return all names."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]
