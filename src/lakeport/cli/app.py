"""The program `lakeport`: its commands, and the handling of every error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer

from lakeport.cli.guide.init import init
from lakeport.cli.guide.pages import docs, explain
from lakeport.cli.jars import check, jars, version
from lakeport.cli.output import logs
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import (
    LAND,
    LOOK,
    SET_UP,
    Commands,
    Guard,
    Program,
    command_help,
    discard_stdout,
    resolve_annotations,
)
from lakeport.cli.pages import page, ui
from lakeport.cli.pipeline import run as run_lake
from lakeport.cli.quarantine import quarantine
from lakeport.cli.signals import raise_on_signals
from lakeport.cli.tables import runs, sql, state, table, tables
from lakeport.cli.target import target
from lakeport.cli.telemetry import export_telemetry
from lakeport.cli.warm import warm
from lakeport.errors import ConfigError, LakeportError, MissingDependency
from lakeport.host.packages import hide_pandas
from lakeport.host.process import forbid_core_dumps, record_command_line
from lakeport.version import __version__

NAME = "lakeport"
_FIRST = """\
lakeport lands files, Singer streams and frames in a data
lake.

Land:           lakeport land people.csv --to ./lake
See the plan:   lakeport plan people.csv --to ./lake
Look:           lakeport tables ./lake
                lakeport table preview ./lake/people
                lakeport runs ./lake --last
Check a store:  lakeport check --to s3://my-bucket/raw
Start a lake:   lakeport init

`lakeport --help` lists all commands; `lakeport land --help`
explains one."""

_WARM = (
    "With `--warm`, the load runs in a warm session, which is started if none runs "
    "(`lakeport warm`)."
)

app = Program(
    name=NAME,
    cls=Commands,
    help="Land Singer streams, files and frames in a data lake, on Spark.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
@resolve_annotations
def _lakeport(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Print the version for `--version`, or the first steps if no command is given."""
    if version:
        typer.echo(f"{NAME} {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(_FIRST)


def _land() -> Callable[..., None]:
    """Import the slow module of the command `land`, and return the command's function."""
    from lakeport.cli.land import land

    return land()


app.command(
    "land",
    help="Land files, Singer streams from stdin, or tables of databases, in a data lake.",
    **command_help(
        LAND,
        "lakeport land flights.csv.zip --to ./lake",
        "lakeport land 'in/*.csv' --to ./lake --table sales",
        "lakeport land a.jsonl --to s3://bucket/raw --format csv",
        "some-tap | lakeport land - --to lake.yaml",
        words=_WARM,
        late=_land,
    ),
)(lambda: None)
app.command(
    "run",
    **command_help(
        LAND,
        "lakeport run lake.yaml",
        "lakeport run lake.yaml --only flights --parallel 2",
        "lakeport run lake.yaml --resume",
    ),
)(run_lake)
app.command(
    "plan",
    help="Show what `land` would do, and write nothing.",
    **command_help(LAND, "lakeport plan flights.csv.zip --to ./lake", late=_land),
)(lambda: None)
app.command(
    "target",
    **command_help(
        LAND,
        "some-tap | lakeport target local --config lake.yaml",
        "lakeport target amazon_s3 --config c --test_connection",
    ),
)(target)
app.command(
    "tables",
    **command_help(LOOK, "lakeport tables ./lake", "lakeport tables s3://bucket/raw --json"),
)(tables)
app.command("runs", **command_help(LOOK, "lakeport runs ./lake", "lakeport runs lake.yaml --last"))(
    runs
)
app.command(
    "sql",
    **command_help(
        LOOK,
        "lakeport sql ./lake \\",
        '  "SELECT name, count(*) FROM orders',
        '   JOIN people USING (person) GROUP BY 1"',
    ),
)(sql)
app.command(
    "page",
    **command_help(
        LOOK, "lakeport page ./lake", "lakeport page s3://bucket/raw/orders -o orders.html"
    ),
)(page)
app.command("ui", **command_help(LOOK, "lakeport ui ./lake", "lakeport ui lake.yaml --port 8080"))(
    ui
)
app.add_typer(table, name="table")
app.add_typer(state, name="state")
app.add_typer(quarantine, name="quarantine")
app.command(
    "check",
    **command_help(SET_UP, "lakeport check --to s3://bucket/raw", "lakeport check --to lake.yaml"),
)(check)
app.command("jars", **command_help(SET_UP, "lakeport jars --for delta,s3"))(jars)
app.add_typer(warm, name="warm")
app.command("init", **command_help(SET_UP, "lakeport init", "lakeport init singer --into my-lake"))(
    init
)
app.command("explain", **command_help(SET_UP, "lakeport explain SchemaConflict"))(explain)
app.command("docs", **command_help(SET_UP, "lakeport docs", "lakeport docs sources"))(docs)
app.command("version", **command_help(SET_UP, "lakeport version --json"))(version)


def start(program: str, arguments: Sequence[str]) -> int:
    """Run `lakeport` or `target-lakeport`, print any error, and return the exit code."""
    commands = app
    if program != NAME:
        from lakeport.cli import singer  # imports all that a load needs

        commands = singer.app
    with hide_pandas():
        return run(commands, program, arguments)


def fail(arguments: Sequence[str], error: LakeportError) -> int:
    """Print an error, as JSON for `--json`, with traceback for `--debug`; return its exit code."""

    def raise_error(output: Output) -> int:
        raise error

    return run_guarded(arguments, raise_error)


def complete() -> int:
    """Print tab completions, as asked for by the shell's variables; return the exit code."""
    try:
        _build_command(app).main([], NAME)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program `lakeport`; return the exit code, as `run` does."""
    return run(app, NAME, arguments)


def run(program: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: this process's), print any error; return the exit code.

    Return the exit code: 0, or the error class's (see `lakeport.errors`), 130 when interrupted.
    """
    forbid_core_dumps()
    given = list(sys.argv[1:] if arguments is None else arguments)

    def body(output: Output) -> int:
        logs.check_variable()
        with export_telemetry(name, given, output.warn):
            return int(_invoke(program, name, given) or 0)

    with record_command_line(name, given):
        return run_guarded(given, body)


def run_guarded(arguments: Sequence[str], body: Callable[[Output], int]) -> int:
    """Run `body` and return its exit code; if it fails, print the error and return 1 to 143."""
    with logs.write_lines(arguments, sys.stderr):
        output: Output = Json() if "--json" in arguments else Console(sys.stderr)
        try:
            with raise_on_signals(), Guard(output, "--debug" in arguments):
                return body(output)
        except typer.Exit as stop:
            return stop.exit_code
        finally:
            _flush()


def _invoke(program: typer.Typer, name: str, arguments: list[str]) -> Any:
    """Parse a command line, run its command and return the result; ConfigError if it is wrong.

    It does not call the program, which would turn every interrupt into one silent exit code.
    """
    _check_typer()
    command = _build_command(program)
    try:
        with command.make_context(name, arguments) as context:
            return command.invoke(context)
    except typer.BadParameter.__base__ as error:  # type: ignore[misc]
        problem = _usage_error(error, name)
    raise problem


@cache
def _build_command(program: typer.Typer) -> Any:
    """Build a program's commands, once for all command lines of this process; return its group."""
    return typer.main.get_command(program)


def _check_typer() -> None:
    """Raise MissingDependency for a typer that misreads flags by the installed click."""
    if not _older(typer.__version__, (0, 16)):
        return
    from importlib.metadata import version as installed

    if not _older(click := installed("click"), (8, 2)):
        raise MissingDependency(
            f"typer {typer.__version__} misreads options with click {click}",
            "pip install 'click<8.2', or 'typer>=0.16'",
        )


def _older(found: str, than: tuple[int, int]) -> bool:
    """Whether a version's first two numbers are smaller than these."""
    return tuple(map(int, found.split(".")[:2])) < than


def _usage_error(error: Any, name: str) -> ConfigError:
    """Convert click's usage error to a ConfigError whose hint names `--help`."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else name
    problem = error.format_message().rstrip(".").replace("Value error, ", "")
    return ConfigError(problem, f"`{path} --help` lists what it takes.")


def _flush() -> None:
    """Flush stdout; if its reader has closed it, redirect it, or Python would fail on exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        discard_stdout()
