"""`lakeport warm`: start, list and stop warm sessions, which keep Spark between loads."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import SET_UP, Guard, command_help, make_group
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

warm = make_group("Keep Spark running between loads, so that small ones start at once.")

_ANSWER_SECONDS = 30.0
_END_SECONDS = 30.0
_COLUMNS = ("process", "suits", "up", "idle", "ends_after", "running", "served", "version")
_SPARE = ("version", "served", "up", "ends_after")


@warm.command(**command_help(SET_UP, "lakeport warm start --idle 30m --memory 4g"))
def start(
    idle: Annotated[
        str, typer.Option("--idle", metavar="TIME", help="End after this time without a run.")
    ] = "15m",
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Largest heap of the session's JVM.")
    ] = MEMORY,
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Start a warm session for this user, unless one with this shell's settings runs."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug, cut_off=("no warm session was started", "")):
        heap_mb({"spark.driver.memory": memory})
        seconds = _parse_idle(idle)
        running = find_session()
        if running is None:
            output.begin("starting a warm session")
            _cache_delta_jars(output)
        answer = _ask(running or start_session(seconds, memory), "status")
        if not answer:
            raise start_failure()
        output.facts(
            "a warm session was started" if running is None else "a warm session runs already",
            {
                "process": str(answer["process"]),
                "ends after": f"{format_duration(answer['idle'])} without a run",
                "memory": answer["memory"],
            },
        )


@warm.command(**command_help(SET_UP, "lakeport warm status"))
def status(json_out: JsonOut = False, debug: Debug = False) -> None:
    """List this user's warm sessions, and whether they suit this shell's settings."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        answers = [_ask(session, "status") for session in connect_sessions()]
        rows = [_session_row(answer) for answer in answers if answer]
        if rows or json_out:
            output.rows("", _COLUMNS, rows, _SPARE)
        else:
            output.facts("no warm session runs", {})


@warm.command(**command_help(SET_UP, "lakeport warm stop"))
def stop(json_out: JsonOut = False, debug: Debug = False) -> None:
    """End this user's warm sessions, once their current runs are done."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        ended, waiting = 0, 0
        for session in connect_sessions():
            answer = _ask(session, "stop")
            if answer.get("running"):
                waiting += 1
            elif answer:
                _await_end(answer["process"])
                ended += 1
        output.facts("warm sessions", {"ended": ended, "ending with their last run": waiting})


def _cache_delta_jars(output: Output) -> None:
    """Download Delta's jars, which a session needs at its start; warn if that fails."""
    from lakeport.engine.spark.jvm.jars import ensure_jars

    try:
        ensure_jars(["delta"])
    except MissingDependency as problem:
        output.warn(f"{problem.message}; the session has no Spark for Delta tables")


def _parse_idle(text: str) -> float:
    """Convert the text of `--idle` to seconds; raise ConfigError unless it is a time above 0."""
    from lakeport.config.values import parse_seconds

    try:
        found = float(parse_seconds(text))
    except ValueError as error:
        raise ConfigError(f"`--idle` is {text!r}: it {error}", "write it like 15m.") from None
    if found <= 0:
        raise ConfigError(f"`--idle` is {text!r}", "give a time above 0, such as 15m.")
    return found


def _session_row(answer: dict[str, Any]) -> tuple[object, ...]:
    """Return a session's table cells, in the order of `_COLUMNS`, from its status."""
    return (
        answer["process"],
        _compare_facts(answer["facts"]),
        format_duration(time.time() - answer["begun"]),
        format_duration(answer["idle_for"]),
        format_duration(answer["idle"]),
        answer["running"],
        answer["served"],
        answer["version"],
    )


def _compare_facts(session_facts: dict[str, str]) -> str:
    """Return "yes" if a session has this process's settings, else "no: " and those that differ."""
    try:
        here = process_facts()
    except WarmSessionUnavailable as reason:
        return f"no: {reason}"
    names = sorted(here.keys() | session_facts.keys())
    other = [name for name in names if here.get(name) != session_facts.get(name)]
    return f"no: another {', '.join(other)}" if other else "yes"


def _ask(session: Channel, command: str) -> dict[str, Any]:
    """Send a session a command, such as "status", and close it; return the answer, {} if none."""
    try:
        session.send({"do": command})
        return session.receive(_ANSWER_SECONDS)[0]
    except OSError:
        return {}
    finally:
        session.close()


def _await_end(process: int) -> None:
    """Wait until a process has ended, 30 seconds at most; `process` is its id."""
    end = time.monotonic() + _END_SECONDS
    while is_running(process) and time.monotonic() < end:
        time.sleep(0.02)
