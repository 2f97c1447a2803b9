"""`lakeport run --page`: the page of a plan, and of what a run has come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeport.cli.output.console import Console, Json
from lakeport.cli.output.loads import JsonLoads, Loads
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
    from lakeport.pages.loads import page_of_lake_plan

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
        from lakeport.pages.loads import page_of_lake_run

        try:
            write_page(alone(page_of_lake_run(report.to_dict())).html, self._path)
        except ConfigError as error:  # what has landed has landed
            self._output.on_warning("", error.message)
        self._output.on_finished(report)
