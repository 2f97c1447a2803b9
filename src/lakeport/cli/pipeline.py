"""The command `lakeport run`, and the page of its plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.help import Guard
from lakeport.cli.output.loads import JsonLoads, Loads, show_plan
from lakeport.cli.page import PagePath
from lakeport.errors import ConfigError
from lakeport.pages.written import check_path, write_page

if TYPE_CHECKING:
    from lakeport.model import Landed
    from lakeport.pipeline.plan import PipelinePlan
    from lakeport.pipeline.report import LoadReport, PipelineReport


def write_plan(plan: PipelinePlan, path: Path) -> None:
    """Write the page of a plan.

    Raises:
        ConfigError: nothing can be written there.
    """
    from lakeport.pages.file import alone
    from lakeport.pages.lake import page_of_lake_plan

    write_page(alone(page_of_lake_plan(plan)).html, path)


def observed_run(output: Console | Json, path: Path | None) -> JsonLoads | Loads | _Paged:
    """The output of a run, which leaves its page in a file, if there is a path.

    Raises:
        ConfigError: nothing can be written there.
    """
    shown = JsonLoads(output) if isinstance(output, Json) else Loads(output)
    if path is None:
        return shown
    check_path(path)
    return _Paged(shown, path)


class _Paged:
    """An output of a run that leaves its page."""

    def __init__(self, output: JsonLoads | Loads, path: Path) -> None:
        self._output, self._path = output, path

    def on_begun(self, load: str) -> None:
        self._output.on_begun(load)

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        self._output.on_progress(load, stream, records, size)

    def on_landed(self, load: str, landed: Landed) -> None:
        self._output.on_landed(load, landed)

    def on_warning(self, load: str, text: str) -> None:
        self._output.on_warning(load, text)

    def on_ended(self, report: LoadReport) -> None:
        self._output.on_ended(report)

    def on_finished(self, report: PipelineReport) -> None:
        from lakeport.pages.file import alone
        from lakeport.pages.lake import page_of_lake_run

        try:
            write_page(alone(page_of_lake_run(report.to_dict())).html, self._path)
        except ConfigError as error:  # what has landed has landed
            self._output.on_warning("", error.message)
        self._output.on_finished(report)


_AGAIN = "`lakeport run {file} --resume` does what it did not come to."


def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The lake's file, such as lake.yaml.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Do this load alone, without those that it uses; repeat it for more.",
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="TAG", help="Do the loads with this tag.")
    ] = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option(
            "--full-refresh",
            metavar="NAME",
            help="Have this load read its source anew, from the beginning; repeat it for more.",
        ),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Loads at a time; default: one for each core, 4 at most."
        ),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what would be done, and write nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do only what the last run of the file left undone.")
    ] = False,
    page: PagePath = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Do the loads of a lake's file, each once those that it uses are done."""
    output: Console | Json = Json() if json_out else Console()
    with Guard(output, debug, again=_AGAIN.format(file=shlex.quote(file))) as guard:
        output.begin("running")
        from lakeport.config.lake import read_lake
        from lakeport.pipeline.run import run_lake

        lake = read_lake(file)
        for load in lake.loads.values():
            guard.protect(load.target, file)
            guard.protect(load.source)
        if plan_only:
            from lakeport.pipeline.plan import plan_lake

            found = plan_lake(lake, only=_names(only), tag=tag or "")
            if page is not None:
                write_plan(found, page)
            show_plan(output, found)
            return
        run_lake(
            lake,
            only=_names(only),
            tag=tag or "",
            full_refresh=_names(full_refresh),
            parallel=parallel,
            resume=resume,
            observer=observed_run(output, page),
        )


def _names(given: Iterable[str] | None) -> list[str]:
    """Names, of which one option may hold several with commas."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]
