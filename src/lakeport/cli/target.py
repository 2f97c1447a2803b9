"""`lakeport target`: a Singer target with the flags, log lines and exit codes of Mage's targets."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from lakeport.cli.options import (
    Debug,
    EngineName,
    LogFormatName,
    RunId,
    SetKeys,
    SparkKeys,
    StatePath,
    collect_keys,
    refuse_secrets,
)
from lakeport.cli.output import logs
from lakeport.cli.output.help import RUN_AGAIN, Guard
from lakeport.mage.flags import Flags, config_template, load_flags_config, log_name, parse_switch
from lakeport.mage.observer import LogLines, MageObserver

_USAGE = 2
_SIGNALS = 128


def _check_switch(text: str) -> str:
    """Return a flag's value unchanged; raise BadParameter unless it means on or off."""
    try:
        parse_switch(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def target(
    name: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="The destination, such as `local`.")
    ],
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="YAML or JSON file with the destination's keys."
        ),
    ] = None,
    config_json: Annotated[
        str | None,
        typer.Option(
            "--config_json", metavar="JSON", help="The keys as JSON; wins over `--config`."
        ),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings", metavar="FILE", help="YAML file of a Mage block, without other configs."
        ),
    ] = None,
    catalog_json: Annotated[
        str | None,
        typer.Option(
            "--catalog_json",
            "--catalog",
            metavar="JSON",
            help="Singer catalog whose schemas replace the tap's.",
        ),
    ] = None,
    input_file_path: Annotated[
        str | None,
        typer.Option(
            "--input_file_path", metavar="FILE", help="File of Singer messages; default: stdin."
        ),
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
            callback=_check_switch,
            help="Log bare JSON lines to standard output.",
        ),
    ] = "0",
    run_id: RunId = None,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    engine: EngineName = None,
    log_format: LogFormatName = None,
    debug: Debug = False,
) -> None:
    """Land Singer messages from stdin like Mage's targets: STATE on stdout, logs on stderr."""
    begun = time.monotonic()
    flags = Flags(
        config=config,
        config_json=config_json,
        settings=settings,
        catalog_json=catalog_json,
        state=str(state) if state else None,
        input_file_path=input_file_path,
        log_to_stdout=parse_switch(log_to_stdout),
        show_templates=show_templates,
        test_connection=test_connection,
        debug=debug,
    )
    out: BinaryIO = (sys.stdout if flags.log_to_stdout else sys.stderr).buffer
    with ExitStack() as stack:
        if logs.is_on() and not flags.log_to_stdout:
            out = stack.enter_context(Path(os.devnull).open("wb"))
        lines = LogLines(name, out, bare=flags.log_to_stdout, debug=debug)
        observer = MageObserver(lines)
        guard = stack.enter_context(Guard(observer, debug, _exit_code, again=RUN_AGAIN))
        if not logs.is_on():
            stack.enter_context(lines.redirect_library_log())
        if flags.show_templates and not flags.test_connection:
            sys.stdout.write(json.dumps(config_template(name)))
            return
        lines.caller = log_name(name)
        given = collect_keys({"run_id": run_id, "engine": engine}, set_keys, spark)
        target_config = load_flags_config(name, flags, given)
        guard.protect(target_config)
        lines.protect(target_config.secrets())
        refuse_secrets(given, type(target_config))
        from lakeport.mage import running

        if flags.test_connection:
            running.test_connection(target_config, lines, start_seconds=begun)
        else:
            running.land(target_config, flags, observer)


def _exit_code(code: int) -> int:
    """Return Mage's exit code for lakeport's: 2 for config errors, 1 for others, signals' own."""
    return code if code <= _USAGE or code > _SIGNALS else 1
