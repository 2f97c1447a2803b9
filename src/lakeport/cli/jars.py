"""`lakeport check`, `jars` and `version`: check and prepare what loads need."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import TYPE_CHECKING, Annotated

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.help import Guard
from lakeport.cli.tables import Invocation, lake_command
from lakeport.engine.spark.jvm.java import find_java
from lakeport.errors import ConfigError, DestinationError, MissingDependency
from lakeport.host.process import available_cores
from lakeport.native import parser
from lakeport.units import format_count, format_size, pluralize
from lakeport.version import __version__

if TYPE_CHECKING:
    from lakeport.loading.check import CheckReport

_NEEDS = {"delta": "delta", "s3": "s3a", "azure": "azure", "gcs": "gcs"}
"""Word of `--for` -> name of its jars in `spark.jvm.jars`."""
_PACKAGES = ("pyspark", "pyarrow")


@lake_command
def check(lake: Invocation) -> None:
    """Test the connection: credentials, region, permission to write, conditional writes, clock."""
    from lakeport.loading.check import check as test_connection

    report, output = test_connection(lake.config), lake.output
    if isinstance(output, Json):
        rows = [(item.status, item.name, item.detail, item.hint) for item in report.items]
        output.rows(report.target, ("status", "item", "found", "hint"), rows)
    else:
        output.close()
        _print_report(report, output)
    if not report.ok:
        raise typer.Exit(DestinationError.exit_code)


def _print_report(report: CheckReport, output: Console) -> None:
    """Print the items of a connection test, each with its hint below it."""
    output.say(report.target)
    for item in report.items:
        output.say(f"{item.status:<8} {item.name}: {item.detail}", hanging=9)
        if item.hint:
            output.say(f"         Hint: {item.hint}")


def jars(
    needs: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="A,B",
            help="Stores and tables to get jars for: delta, s3, azure, gcs, all.",
        ),
    ] = "delta",
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Download the jars that Spark needs to the cache, for machines without a network."""
    output = Json() if json_out else Console()
    with Guard(output, debug, cut_off=("no jar was kept", "")):
        output.begin("fetching jars")
        from lakeport.engine.spark.jvm.jars import ensure_jars, missing_jars

        wanted = _parse_needs(needs)
        fetched = missing_jars(wanted)
        rows = [(path.name, path.stat().st_size, str(path)) for path in ensure_jars(wanted)]
        if isinstance(output, Json):
            output.rows("", ("jar", "bytes", "path"), rows)
            return
        *pinned, _ = rows
        summary = f"all {len(pinned)} jars are there"
        if fetched:
            downloaded = format_size(sum(jar.size for jar in fetched))
            summary = f"{pluralize(len(fetched), 'jar')} fetched, {downloaded}"
            if more := len(pinned) - len(fetched):
                summary += f"; {format_count(more)} more {'was' if more == 1 else 'were'} there"
        shown = [(name, format_size(taken), path) for name, taken, path in rows]
        output.rows(summary, ("jar", "size", "path"), shown, ("path",))


def _java() -> str:
    """Return the version and path of the Java for Spark, or the error if there is none."""
    try:
        found = find_java()
    except MissingDependency as problem:
        return problem.message
    return f"{found.full_version} ({found.path})"


def _engine(version: str) -> str:
    """Return the default engine, from LAKEPORT_ENGINE or Spark, as `lakeport version` shows it."""
    named = os.environ.get("LAKEPORT_ENGINE") or "spark"
    if named == "spark":
        return f"Spark {version}, local[{available_cores()}]"
    told = "threads of this process" if named == "threads" else f"none, there is no {named!r}"
    return f"{told} (LAKEPORT_ENGINE)"


def _parse_needs(given: str) -> list[str]:
    """Convert the value of `--for` to jar names in `spark.jvm.jars`; ConfigError for others."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*_NEEDS, "all")]
    if unknown or not names:
        words = ", ".join(map(repr, unknown)) or "nothing"
        raise ConfigError(f"`--for` names {words}", f"it takes {', '.join(_NEEDS)} and all.")
    return list(_NEEDS.values()) if "all" in names else [_NEEDS[name] for name in names]


def version(json_out: JsonOut = False) -> None:
    """Show the versions of lakeport, its packages, Python and Java."""
    output: Output = Json() if json_out else Console()
    with Guard(output):
        facts: dict[str, object] = {"lakeport": __version__}
        for name in _PACKAGES:
            try:
                facts[name] = installed(name)
            except PackageNotFoundError:
                facts[name] = "not installed"
        facts["python"] = platform.python_version()
        facts["java"] = _java()
        facts["engine"] = _engine(str(facts["pyspark"]))
        facts["parser"] = parser()
        output.facts("lakeport", facts)
