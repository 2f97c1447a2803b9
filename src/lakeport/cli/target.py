"""`lakeport target`: a Singer target, messages in on stdin and STATE out on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lakeport.cli.console import Console
from lakeport.cli.guard import Guard
from lakeport.cli.options import (
    Debug,
    RunId,
    SetKeys,
    SparkKeys,
    StatePath,
    keys,
    refuse_secrets,
)

__all__ = ["target"]


def target(
    name: Annotated[str, typer.Argument(metavar="DESTINATION", help="Such as `local`.")],
    config_path: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The destination's keys, YAML or JSON."),
    ] = None,
    run_id: RunId = None,
    state: StatePath = None,
    set_keys: SetKeys = None,
    spark: SparkKeys = None,
    debug: Debug = False,
) -> None:
    """Land Singer messages from stdin; durable STATE goes to stdout, all words to stderr."""
    from lakeport.state import StateOutput

    sink = StateOutput(path=state) if state else StateOutput(stream=sys.stdout.buffer)
    output = Console(sys.stderr, states=sink.emit)
    with Guard(output, debug) as guard:
        from lakeport.config.load import config_class, load_file, load_target

        config_class(name)
        given = keys({"run_id": run_id}, set_keys, spark)
        if config_path:
            config = load_file(config_path, given, destination=name)
        else:
            config = load_target({"destination": name}, given)
        guard.protect(config)
        refuse_secrets(given, type(config))
        from lakeport import landing

        landing.land("-", config, observer=output, source_format="singer")
