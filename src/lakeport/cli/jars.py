"""`lakeport jars` and `lakeport version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Annotated

import typer

from lakeport.cli.options import Debug, JsonOut
from lakeport.cli.output.console import Console, Json, Output
from lakeport.cli.output.errors import Guard
from lakeport.native import parser

__all__ = ["jars", "version"]

_NAMES = {"s3": "s3a"}
_PACKAGES = ("lakeport", "pyspark", "delta-spark", "pyarrow")


def jars(
    needs: Annotated[
        str, typer.Option("--for", metavar="A,B", help="Of: delta, s3, azure.")
    ] = "delta",
    json_out: JsonOut = False,
    debug: Debug = False,
) -> None:
    """Fetch the jars that Spark needs into the cache, for machines without a network."""
    output: Output = Json() if json_out else Console()
    with Guard(output, debug):
        output.begin("fetching jars")
        from lakeport.spark.jvm.jars import ensure

        names = [name.strip() for name in needs.split(",") if name.strip()]
        found = ensure([_NAMES.get(name, name) for name in names])
        rows = [(path.name, path.stat().st_size, str(path)) for path in found]
        output.rows("", ("jar", "bytes", "path"), rows)


def version(json_out: JsonOut = False) -> None:
    """Show the versions of lakeport and of what it runs on."""
    output: Output = Json() if json_out else Console()
    with Guard(output):
        facts: dict[str, object] = {}
        for name in _PACKAGES:
            try:
                facts[name] = installed(name)
            except PackageNotFoundError:
                facts[name] = "not installed"
        facts["python"] = platform.python_version()
        facts["parser"] = parser()
        output.facts("lakeport", facts)
