"""`lakeport warm`: the Spark that stays between loads."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.errors import Guard
from lakeport.cli.output.help import SET_UP, Commands, about, help_alone
from lakeport.engine.spark.settings import heap_mb
from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.warm import folder, identity
from lakeport.host.warm.channel import connect
from lakeport.host.warm.folder import Session
from lakeport.host.warm.start import MEMORY, begin

warm = typer.Typer(
    cls=Commands,
    callback=help_alone,
    help="Keep one Spark between loads, so that small ones need not wait for it to start.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

_ANSWER_SECONDS = 10.0
_END_SECONDS = 30.0
_COLUMNS = ("process", "suits", "up", "idle", "ends_after", "running", "served", "mb", "version")
_SPARE = ("version", "mb", "served", "up", "ends_after")


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
        running = folder.fitting()
        if running is None:
            output.begin("starting a warm session")
            _fetch_jars(output)
        session = running or begin(seconds, memory)
        output.facts(
            "a warm session runs already" if running else "a warm session was started",
            {
                "process": str(session.process),
                "ends after": f"{_shown(session.idle)} without a run",
                "memory": session.memory,
            },
        )


@warm.command(**about(SET_UP, "lakeport warm status"))
def status(json_out: JsonOut = False, debug: Debug = False) -> None:
    """Show the warm sessions of this user, and whether they suit this shell."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        rows = [_row(session) for session in folder.sessions()]
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
        folder.await_announced()  # one that a load has begun to start goes with the others
        for session in folder.sessions():
            told = _ask(session, "stop")
            busy = len(told.get("runs", ())) + told.get("lent", 0)
            if busy:
                waiting += 1
            else:
                _wait(session)
                ended += 1
        output.facts("warm sessions", {"ended": ended, "ending with their last run": waiting})


def _fetch_jars(output: Output) -> None:
    """Have Delta's jars in the cache: a session has those that were there when it started."""
    from lakeport.engine.spark.jvm.jars import ensure

    try:
        ensure(["delta"])
    except MissingDependency as problem:
        output.on_warning(f"{problem.message}; the session has no Spark for Delta tables")


def _seconds(text: str) -> float:
    from lakeport.config.values import seconds

    try:
        found = float(seconds(text))  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(f"`--idle` is {text!r}: it {error}", "write it like 15m.") from None
    if found <= 0:
        raise ConfigError(f"`--idle` is {text!r}", "give a time above 0, such as 15m.")
    return found


def _row(session: Session) -> tuple[object, ...]:
    told = _ask(session, "status")
    now = time.time()
    return (
        session.process,
        _suits(session),
        _shown(now - session.begun),
        _shown(told.get("idle_for", 0.0)),
        _shown(session.idle),
        len(told.get("runs", ())) or told.get("lent", 0),
        told.get("served"),
        _megabytes(session.process),
        session.version,
    )


def _suits(session: Session) -> str:
    """`yes`, or what differs between the session and this process."""
    try:
        here = identity.facts()
    except identity.Unfit as reason:
        return f"no: {reason}"
    names = sorted(here.keys() | session.facts.keys())
    other = [name for name in names if here.get(name) != session.facts.get(name)]
    return f"no: another {', '.join(other)}" if other else "yes"


def _ask(session: Session, what: str) -> dict[str, Any]:
    """What a session answers; nothing if it has just ended."""
    with suppress(OSError, ValueError):
        channel = connect(session.runs)
        try:
            channel.send({"do": what, "token": session.token})
            answer, _ = channel.receive(_ANSWER_SECONDS)
            return answer or {}
        finally:
            channel.close()
    return {}


def _wait(session: Session) -> None:
    end = time.monotonic() + _END_SECONDS
    while Session.read(session.folder) is not None and time.monotonic() < end:
        time.sleep(0.02)


def _shown(seconds: float) -> str:
    """A time for people.

    >>> _shown(42.3), _shown(900), _shown(7320)
    ('42s', '15m', '2h02m')
    """
    minutes = round(seconds) // 60
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return f"{minutes}m" if minutes else f"{seconds:.0f}s"


def _megabytes(process: int) -> int:
    """What the session's processes hold in memory, shared pages counted once."""
    found = 0
    with suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _descends(int(entry.name), process):
                with suppress(OSError):
                    found += _pss(entry)
    return found >> 10


def _descends(process: int, ancestor: int) -> bool:
    while process > 1 and process != ancestor:
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = int(stat.rpartition(")")[2].split()[1])
    return process == ancestor


def _pss(entry: Path) -> int:
    """Kibibytes."""
    for line in (entry / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
