"""`lakeport check`: would a load into this target get through?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import Debug, JsonOut, SetKeys, keys, refuse_secrets
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import Guard

if TYPE_CHECKING:
    from lakeport.loading.check import CheckReport

_FAILED = 5


def check(
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="A folder, a URI, or a config file.")
    ],
    json_out: JsonOut = False,
    set_keys: SetKeys = None,
    debug: Debug = False,
) -> None:
    """Test the connection: credentials, region, permission to write, conditional writes, clock."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug) as guard:
        output.begin(f"checking {to}")
        from lakeport.config.load import load_target
        from lakeport.loading.check import check as test_connection

        given = keys({}, set_keys, None)
        config = load_target(to, given)
        guard.protect(config)
        refuse_secrets(given, type(config))
        report = test_connection(config)
        if json_out:
            rows = [(item.status, item.name, item.detail, item.hint) for item in report.items]
            output.rows(report.target, ("status", "item", "found", "hint"), rows)
        else:
            output.close()
            _tell(report, Console())
        if not report.ok:
            raise typer.Exit(_FAILED)


def _tell(report: CheckReport, output: Console) -> None:
    """An item, and the whole hint below it, however long."""
    output.say(report.target)
    for item in report.items:
        output.say(f"{item.status:<8} {item.name}: {item.detail}", hanging=9)
        if item.hint:
            output.say(f"         Hint: {item.hint}")
