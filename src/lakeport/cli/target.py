"""`lakeport target`: a Singer target with the flags, log lines and exit codes of Mage's."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from lakeport.cli.options import (
    Debug,
    EngineName,
    RunId,
    SetKeys,
    SparkKeys,
    StatePath,
    keys,
    refuse_secrets,
)
from lakeport.cli.output.help import RUN_AGAIN, Guard
from lakeport.mage.flags import Flags, caller, config_of, on_or_off, template
from lakeport.mage.observer import LogLines, MageObserver

_USAGE = 2
_SIGNALS = 128


def _switch(text: str) -> str:
    """Refuse what is neither on nor off."""
    try:
        on_or_off(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def target(
    name: Annotated[str, typer.Argument(metavar="DESTINATION", help="Such as `local`.")],
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="The destination's keys, YAML or JSON."),
    ] = None,
    config_json: Annotated[
        str | None,
        typer.Option("--config_json", metavar="JSON", help="The keys; wins over `--config`."),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings", metavar="FILE", help="A block's YAML, where no other config is given."
        ),
    ] = None,
    catalog_json: Annotated[
        str | None,
        typer.Option(
            "--catalog_json", "--catalog", metavar="JSON", help="Schemas that win over the tap's."
        ),
    ] = None,
    input_file_path: Annotated[
        str | None,
        typer.Option("--input_file_path", metavar="FILE", help="Singer lines; default: stdin."),
    ] = None,
    state: StatePath = None,
    test_connection: Annotated[
        bool, typer.Option("--test_connection", help="Test the connection, and land nothing.")
    ] = False,
    show_templates: Annotated[
        bool, typer.Option("--show_templates", help="Print the config's keys, and land nothing.")
    ] = False,
    log_to_stdout: Annotated[
        str,
        typer.Option(
            "--log_to_stdout",
            metavar="1|0",
            callback=_switch,
            help="Log bare JSON lines to standard output.",
        ),
    ] = "0",
    run_id: RunId = None,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    engine: EngineName = None,
    debug: Debug = False,
) -> None:
    """Land Singer messages from stdin as Mage's targets do: STATE on stdout, logs on stderr."""
    begun = time.monotonic()
    flags = Flags(
        config=config,
        config_json=config_json,
        settings=settings,
        catalog_json=catalog_json,
        state=str(state) if state else None,
        input_file_path=input_file_path,
        log_to_stdout=on_or_off(log_to_stdout),
        show_templates=show_templates,
        test_connection=test_connection,
        debug=debug,
    )
    out = sys.stdout if flags.log_to_stdout else sys.stderr
    lines = LogLines(name, out.buffer, bare=flags.log_to_stdout, debug=debug)
    observer = MageObserver(lines)
    with Guard(observer, debug, _exit_code, again=RUN_AGAIN) as guard, lines.library():
        if flags.show_templates and not flags.test_connection:
            sys.stdout.write(json.dumps(template(name)))
            return
        lines.caller = caller(name)
        given = keys({"run_id": run_id, "engine": engine}, set_keys, spark)
        made = config_of(name, flags, given)
        guard.protect(made)
        lines.protect(made.secrets())
        refuse_secrets(given, type(made))
        from lakeport.mage import running

        if flags.test_connection:
            running.test_connection(made, lines, since=begun)
        else:
            running.land(made, flags, observer)


def _exit_code(code: int) -> int:
    """Mage's codes: 2 for the command line and the config, 1 for all else; signals have theirs."""
    return code if code <= _USAGE or code > _SIGNALS else 1
