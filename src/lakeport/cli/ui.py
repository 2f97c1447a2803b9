"""`lakeport ui`: the pages of a lake, served to the browser of who runs it."""

from __future__ import annotations

import secrets
import sys
import traceback
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.output.console import Json
from lakeport.cli.page import Mask
from lakeport.cli.signals import ENDED
from lakeport.cli.tables import Invocation, lake_command
from lakeport.host.extras import missing
from lakeport.loading.report import Failure
from lakeport.pages.address import LOOPBACK, Address, has_display, listening, opened
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.pages.serve import OnError


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
        from lakeport.pages.serve import server, site
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        problem = f"pages are served by the package `{package}`, which is not installed"
        raise missing(problem, "ui") from None
    from lakeport.pages.lake import open_pages

    pages = open_pages(lake.config, masked=mask)
    with listening(host, port) as (listener, address):
        token = secrets.token_urlsafe(32)
        app = site(pages, address, token, lake.config.secrets(), _teller(lake))
        browse = not no_open and sys.stdout.isatty() and has_display()
        with suppress(KeyboardInterrupt):  # to be asked to end is how this ends
            _announce(lake, address, token)
            with opened(address.url(token)) if browse else nullcontext():
                server(app).run(sockets=[listener])
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
    """What becomes of an error that ended a page, besides the words on that page."""
    secrets = lake.config.secrets()

    def tell(error: BaseException) -> None:
        trace = scrub("".join(traceback.format_exception(error)), secrets)
        lake.output.failure(Failure.of(error).scrubbed(secrets), trace)

    return tell if lake.debug else lambda error: None
