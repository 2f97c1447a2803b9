"""`lakeport ui`: the pages of a lake, served to the browser of who runs it."""

from __future__ import annotations

import secrets
import sys
import traceback
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import Debug, JsonOut, SetKeys
from lakeport.cli.output.console import Console, Json
from lakeport.cli.page import Mask
from lakeport.cli.signals import ENDED
from lakeport.cli.tables import Target, opened_lake
from lakeport.host.extras import missing
from lakeport.loading.report import Failure
from lakeport.pages.server.address import LOOPBACK, Address, listening
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.pages.server.serve import OnError


def ui(
    target: Target,
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
    set_keys: SetKeys = None,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Serve pages about a lake to your browser, until Ctrl-C."""
    with opened_lake(target, set_keys, json_out, debug) as (output, config):
        try:
            from lakeport.pages.server.browser import has_display, opened
            from lakeport.pages.server.serve import server, site
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            problem = f"pages are served by the package `{package}`, which is not installed"
            raise missing(problem, "ui") from None
        from lakeport.pages.lake import open_pages

        pages = open_pages(config, masked=mask)
        with listening(host, port) as (listener, address):
            token = secrets.token_urlsafe(32)
            app = site(pages, address, token, config.secrets(), _teller(output, config, debug))
            browse = not no_open and sys.stdout.isatty() and has_display()
            with suppress(KeyboardInterrupt):  # to be asked to end is how this ends
                _announce(output, target, address, token)
                with opened(address.url(token)) if browse else nullcontext():
                    server(app).run(sockets=[listener])
    raise typer.Exit(ENDED)


def _announce(output: Console | Json, target: str, address: Address, token: str) -> None:
    url = address.url(token)
    output.close()
    if not address.local:
        output.on_warning(
            f"with `--host {address.host}`, others who have the token reach the pages, too, over "
            "plain HTTP: who is on the way can read both"
        )
    if isinstance(output, Json):
        output.document({"url": url, "port": address.port, "token": token})
    else:
        output.say(f"until Ctrl-C, {target} is served at {url}")


def _teller(output: Console | Json, config: DestinationConfig, debug: bool) -> OnError:
    """What becomes of an error that ended a page, besides the words on that page."""

    def tell(error: BaseException) -> None:
        trace = scrub("".join(traceback.format_exception(error)), config.secrets())
        output.failure(Failure.of(error).scrubbed(config.secrets()), trace)

    return tell if debug else lambda error: None
