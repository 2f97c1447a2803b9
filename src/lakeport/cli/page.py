"""`lakeport page`: what `lakeport ui` shows, as one HTML file; and the pages of loads and plans."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.formatting import shown
from lakeport.cli.tables import Invocation, lake_command
from lakeport.errors import ConfigError
from lakeport.host.scratch import check_output, write_output
from lakeport.loading.report import LandingReport, Observer, together
from lakeport.units import count, counted, size

if TYPE_CHECKING:
    from lakeport.loading.plan import LandingPlan
    from lakeport.pages.file import PageFile

Mask = Annotated[
    bool,
    typer.Option("--mask", help="Leave out values: rows, bad records, minima and maxima."),
]
PagePath = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Write an HTML page of it, too."),
]


_Place = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A lake or a table: a folder, a URI, a config file."),
]


@partial(lake_command, what=_Place)
def page(
    lake: Invocation,
    output_path: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file; `-` is stdout.")
    ] = "page.html",
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="The page of a run: its id, or `last`."),
    ] = None,
    mask: Mask = False,
) -> None:
    """Write a lake, a table or a run as one HTML file with pictures."""
    from lakeport.pages.file import file_of_lake, file_of_run
    from lakeport.pages.lake import open_pages

    pages = open_pages(lake.config, masked=mask)
    made = file_of_lake(pages) if run is None else file_of_run(pages, run)
    if output_path == "-":
        sys.stdout.write(made.html)
        return
    write_output(made.html, Path(output_path))
    _tell(lake.output, made, output_path)


def observed(output: Output, path: Path | None) -> Observer:
    """The output of a load, which leaves the page of its run in a file, if there is a path.

    Raises:
        ConfigError: nothing can be written there.
    """
    if path is None:
        return output
    check_output(path)
    return together(_Page(path, output), output)


def page_of_plan(plan: LandingPlan, path: Path) -> None:
    """Write the page of a plan.

    Raises:
        ConfigError: nothing can be written there.
    """
    from lakeport.pages.file import file_of_plan

    write_output(file_of_plan(plan.to_dict()).html, path)


class _Page(Observer):
    """Leaves the page of a load in a file."""

    def __init__(self, path: Path, output: Output) -> None:
        self._path, self._output = path, output

    def on_finished(self, report: LandingReport) -> None:
        """Write the page; what has landed has landed, if that fails."""
        from lakeport.pages.file import file_of_report

        try:
            write_output(file_of_report(report.to_dict()).html, self._path)
        except ConfigError as error:
            self._output.on_warning(error.message)


def _tell(output: Console | Json, made: PageFile, path: str) -> None:
    written = len(made.html.encode())
    if isinstance(output, Json):
        facts = {"pages": made.pages, "left_out": made.left_out}
        output.document({"page": path, "bytes": written, **facts})
        return
    what = f", {counted(made.pages, 'page')}" if made.pages > 1 else ""
    more = f"; {count(made.left_out)} have none, `lakeport ui` shows all" if made.left_out else ""
    output.say(f"{shown(path)}: {size(written)}{what}{more}")
