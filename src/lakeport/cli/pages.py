"""`lakeport ui` and `lakeport page`, and `--page` of loads: serve or write HTML pages."""

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
from lakeport.cli.output.formatting import format_value
from lakeport.cli.signals import ENDED
from lakeport.cli.tables import Invocation, lake_command
from lakeport.errors import ConfigError
from lakeport.host.packages import missing_extra_error
from lakeport.host.scratch import check_output_path, write_output
from lakeport.loading.report import Failure, LandingReport, Observer, fan_out
from lakeport.pages.address import LOOPBACK, Address, has_display, open_browser, open_listener
from lakeport.scrub import mask_known, scrub
from lakeport.units import format_count, format_size, pluralize

if TYPE_CHECKING:
    from lakeport.pages.file import PageFile
    from lakeport.pages.serve import OnError

Mask = Annotated[
    bool,
    typer.Option("--mask", help="Show no values: no rows, bad records, minima and maxima."),
]
PagePath = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Also write an HTML page about the run or plan."),
]


_Place = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="A lake or a table: a folder, a URI, a config file."),
]


@partial(lake_command, name=_Place)
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
    """Write one HTML file with charts about a lake, a table or a run."""
    from lakeport.pages.file import build_page_file

    made = build_page_file(lake.config, run, masked=mask)
    if output_path == "-":
        sys.stdout.write(made.html)
        return
    write_output(made.html, Path(output_path))
    _print_file(lake.output, made, output_path)


def with_page(output: Output, path: Path | None) -> Observer:
    """Return an observer that prints a load and writes its HTML page, if a path is given."""
    if path is None:
        return output
    check_output_path(path)
    return fan_out(_LoadPageWriter(path, output), output)


class _LoadPageWriter(Observer):
    """Observer that writes a load's HTML page to a file when the load ends."""

    def __init__(self, path: Path, output: Output) -> None:
        self._path, self._output = path, output

    def on_finished(self, report: LandingReport) -> None:
        """Write the page; if that fails, print a warning, as rows are committed."""
        from lakeport.pages.file import build_report_file

        write_page(build_report_file(report.to_dict()), self._path, self._output)


def write_page(made: PageFile, path: Path, output: Output) -> None:
    """Write the HTML page of an ended run; print a warning if that fails, as rows are committed."""
    try:
        write_output(mask_known(made.html), path)
    except ConfigError as error:
        output.warn(error.message)


def _print_file(output: Output, made: PageFile, path: str) -> None:
    """Print a page file's path and size, and its numbers of pages and of tables without one."""
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
    output.say(f"{format_value(path)}: {format_size(written)}{what}{more}")


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
            help="The port; default: a free one.",
            show_default=False,
        ),
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="H", help="Network interface to serve on, such as 0.0.0.0 for all."
        ),
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
        app = build_site(pages, address, token, lake.config.secrets(), _error_printer(lake))
        browse = not no_open and sys.stdout.isatty() and has_display()
        with suppress(KeyboardInterrupt):  # the regular end
            _print_url(lake, address, token)
            with open_browser(address.url(token)) if browse else nullcontext():
                build_server(app).run(sockets=[listener])
    raise typer.Exit(ENDED)


def _print_url(lake: Invocation, address: Address, token: str) -> None:
    """Print the URL of the pages, with a warning if other machines can reach it."""
    url, output = address.url(token), lake.output
    output.close()
    if not address.is_local:
        output.warn(
            f"with `--host {address.host}`, others who have the token reach the pages, too, over "
            "plain HTTP: who is on the way can read both"
        )
    if isinstance(output, Json):
        output.document({"url": url, "port": address.port, "token": token})
    else:
        output.say(f"until Ctrl-C, {lake.name} is served at {url}")


def _error_printer(lake: Invocation) -> OnError:
    """Return a callback that prints a page's error with traceback; no-op without `--debug`."""
    secrets = lake.config.secrets()

    def print_error(error: BaseException) -> None:
        trace = scrub("".join(traceback.format_exception(error)), secrets)
        lake.output.failure(Failure.of(error).scrubbed(secrets), trace)

    return print_error if lake.debug else lambda error: None
