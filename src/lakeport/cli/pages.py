"""`lakeport ui` and `lakeport page`: pages about a lake, served or written; those of loads, too."""

from __future__ import annotations

import secrets
import sys
import traceback
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.output.console import Json, Output
from lakeport.cli.output.formatting import shown
from lakeport.cli.signals import ENDED
from lakeport.cli.tables import Invocation, lake_command
from lakeport.errors import ConfigError
from lakeport.host.packages import missing_extra_error
from lakeport.host.scratch import check_output_path, write_output
from lakeport.loading.report import Failure, LandingReport, Observer, fan_out
from lakeport.pages.address import LOOPBACK, Address, has_display, open_browser, open_listener
from lakeport.scrub import scrub
from lakeport.units import format_count, format_size, pluralize

if TYPE_CHECKING:
    from lakeport.pages.file import PageFile
    from lakeport.pages.serve import OnError

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
    from lakeport.pages.file import build_page_file

    made = build_page_file(lake.config, run, masked=mask)
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
    check_output_path(path)
    return fan_out(_LoadPage(path, output), output)


class _LoadPage(Observer):
    """Leaves the page of a load in a file."""

    def __init__(self, path: Path, output: Output) -> None:
        self._path, self._output = path, output

    def on_finished(self, report: LandingReport) -> None:
        """Write the page; what has landed has landed, if that fails."""
        from lakeport.pages.file import build_report_file

        leave_page(build_report_file(report.to_dict()), self._path, self._output)


def leave_page(made: PageFile, path: Path, output: Output) -> None:
    """Write the page of a run that has ended; a warning where it can't be written."""
    try:
        write_output(made.html, path)
    except ConfigError as error:
        output.on_warning(error.message)


def _tell(output: Output, made: PageFile, path: str) -> None:
    written = len(made.html.encode())
    if isinstance(output, Json):
        facts = {"pages": made.pages, "left_out": made.left_out}
        output.document({"page": path, "bytes": written, **facts})
        return
    what = f", {pluralize(made.pages, 'page')}" if made.pages > 1 else ""
    more = (
        f"; {format_count(made.left_out)} have none, `lakeport ui` shows all"
        if made.left_out
        else ""
    )
    output.say(f"{shown(path)}: {format_size(written)}{what}{more}")


@lake_command
def ui(
    lake: Invocation,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="The port; by default a free one.",
            show_default=False,
        ),
    ] = 0,
    host: Annotated[
        str,
        typer.Option("--host", metavar="H", help="Another interface, such as 0.0.0.0 for all."),
    ] = LOOPBACK,
    mask: Mask = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Don't open a browser.")] = False,
) -> None:
    """Serve pages about a lake to your browser, until Ctrl-C."""
    try:
        from lakeport.pages.serve import build_server, build_site
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        problem = f"pages are served by the package `{package}`, which is not installed"
        raise missing_extra_error(problem, "ui") from None
    from lakeport.pages.lake import open_pages

    pages = open_pages(lake.config, masked=mask)
    with open_listener(host, port) as (listener, address):
        token = secrets.token_urlsafe(32)
        app = build_site(pages, address, token, lake.config.secrets(), _teller(lake))
        browse = not no_open and sys.stdout.isatty() and has_display()
        with suppress(KeyboardInterrupt):  # to be asked to end is how this ends
            _announce(lake, address, token)
            with open_browser(address.url(token)) if browse else nullcontext():
                build_server(app).run(sockets=[listener])
    raise typer.Exit(ENDED)


def _announce(lake: Invocation, address: Address, token: str) -> None:
    url, output = address.url(token), lake.output
    output.close()
    if not address.local:
        output.on_warning(
            f"with `--host {address.host}`, others who have the token reach the pages, too, over "
            "plain HTTP: who is on the way can read both"
        )
    if isinstance(output, Json):
        output.document({"url": url, "port": address.port, "token": token})
    else:
        output.say(f"until Ctrl-C, {lake.name} is served at {url}")


def _teller(lake: Invocation) -> OnError:
    """Log an error that ended a page, or print its trace; the page itself has its words."""
    secrets = lake.config.secrets()

    def tell(error: BaseException) -> None:
        trace = scrub("".join(traceback.format_exception(error)), secrets)
        lake.output.failure(Failure.of(error).scrubbed(secrets), trace)

    return tell if lake.debug else lambda error: None
