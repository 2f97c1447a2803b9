"""`lakeport warm`: the Spark that stays between loads."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import SET_UP, Guard, about, group
from lakeport.engine.spark.settings import heap_mb
from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.process import is_running
from lakeport.host.warm import (
    MEMORY,
    Channel,
    WarmSessionUnavailable,
    connect_sessions,
    find_session,
    process_facts,
    start_failure,
    start_session,
)
from lakeport.html.text import format_duration

warm = group("Keep one Spark between loads, so that small ones need not wait for it to start.")

_ANSWER_SECONDS = 30.0
_END_SECONDS = 30.0
_COLUMNS = ("process", "suits", "up", "idle", "ends_after", "running", "served", "version")
_SPARE = ("version", "served", "up", "ends_after")


@warm.command(**about(SET_UP, "lakeport warm start --idle 30m --memory 4g"))
def start(
    idle: Annotated[
        str, typer.Option("--idle", metavar="TIME", help="End after so long without a run.")
    ] = "15m",
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Largest heap of its JVM.")
    ] = MEMORY,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Start a warm session for this user, unless one runs that suits this shell."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug, cut_off=("no warm session was started", "")):
        heap_mb({"spark.driver.memory": memory})
        seconds = _seconds(idle)
        running = find_session()
        if running is None:
            output.begin("starting a warm session")
            _fetch_jars(output)
        told = _ask(running or start_session(seconds, memory), "status")
        if not told:
            raise start_failure()
        output.facts(
            "a warm session was started" if running is None else "a warm session runs already",
            {
                "process": str(told["process"]),
                "ends after": f"{format_duration(told['idle'])} without a run",
                "memory": told["memory"],
            },
        )


@warm.command(**about(SET_UP, "lakeport warm status"))
def status(json_out: JsonOut = False, debug: Debug = False) -> None:
    """Show the warm sessions of this user, and whether they suit this shell."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        rows = [_row(told) for session in connect_sessions() if (told := _ask(session, "status"))]
        if rows or json_out:
            output.rows("", _COLUMNS, rows, _SPARE)
        else:
            output.facts("no warm session runs", {})


@warm.command(**about(SET_UP, "lakeport warm stop"))
def stop(json_out: JsonOut = False, debug: Debug = False) -> None:
    """End the warm sessions of this user; runs under way go on to their end."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        ended, waiting = 0, 0
        for session in connect_sessions():
            told = _ask(session, "stop")
            if told.get("running"):
                waiting += 1
            elif told:
                _await_end(told["process"])
                ended += 1
        output.facts("warm sessions", {"ended": ended, "ending with their last run": waiting})


def _fetch_jars(output: Output) -> None:
    """Have Delta's jars in the cache: a session has those that were there when it started."""
    from lakeport.engine.spark.jvm.jars import ensure_jars

    try:
        ensure_jars(["delta"])
    except MissingDependency as problem:
        output.on_warning(f"{problem.message}; the session has no Spark for Delta tables")


def _seconds(text: str) -> float:
    from lakeport.config.values import parse_seconds

    try:
        found = float(parse_seconds(text))
    except ValueError as error:
        raise ConfigError(f"`--idle` is {text!r}: it {error}", "write it like 15m.") from None
    if found <= 0:
        raise ConfigError(f"`--idle` is {text!r}", "give a time above 0, such as 15m.")
    return found


def _row(told: dict[str, Any]) -> tuple[object, ...]:
    return (
        told["process"],
        _suits(told["facts"]),
        format_duration(time.time() - told["begun"]),
        format_duration(told["idle_for"]),
        format_duration(told["idle"]),
        told["running"],
        told["served"],
        told["version"],
    )


def _suits(theirs: dict[str, str]) -> str:
    """`yes`, or what differs between the session and this process."""
    try:
        here = process_facts()
    except WarmSessionUnavailable as reason:
        return f"no: {reason}"
    names = sorted(here.keys() | theirs.keys())
    other = [name for name in names if here.get(name) != theirs.get(name)]
    return f"no: another {', '.join(other)}" if other else "yes"


def _ask(session: Channel, what: str) -> dict[str, Any]:
    """What a session answers; nothing if it has just ended."""
    try:
        session.send({"do": what})
        return session.receive(_ANSWER_SECONDS)[0]
    except OSError:
        return {}
    finally:
        session.close()


def _await_end(process: int) -> None:
    end = time.monotonic() + _END_SECONDS
    while is_running(process) and time.monotonic() < end:
        time.sleep(0.02)
