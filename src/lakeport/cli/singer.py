"""`target-lakeport`: lakeport as a target of the Singer specification and of Meltano's SDK."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from email.message import Message
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata
from typing import Annotated, Any

import typer

from lakeport.cli.options import Debug, LogFormatName, RunId, internal_columns_note
from lakeport.cli.output.console import Console
from lakeport.cli.output.help import RUN_AGAIN, Guard, Program
from lakeport.config.load import load_target
from lakeport.config.singer import PREFIX, load_settings, settings_schema
from lakeport.loading import run as landing
from lakeport.sources.singer.state import StateOutput
from lakeport.version import __version__

NAME = "target-lakeport"
_CAPABILITIES = ("about", "activate-version", "batch", "hard-delete", "validate-records")


class Format(StrEnum):
    """Output formats of `target-lakeport --about`."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


app = Program(
    name=NAME, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.command()
def target(
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="JSON or YAML file with settings, or ENV for the environment; repeat it for more. "
            "Default: ENV.",
        ),
    ] = None,
    source: Annotated[
        str, typer.Option("--input", metavar="FILE", help="File of messages; default: stdin.")
    ] = "-",
    run_id: RunId = None,
    about: Annotated[
        bool, typer.Option("--about", help="Show this target's capabilities and settings.")
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="Format of `--about`.")] = Format.TEXT,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    log_format: LogFormatName = None,
    debug: Debug = False,
) -> None:
    """Land Singer messages; committed STATE goes to stdout, all text to stderr."""
    if version:
        _write(f"{NAME} v{_facts()['version']}")
    elif about:
        _write(_WRITERS[form](_facts()))
    else:
        _land(config or [], source, run_id, debug)


def _land(configs: list[str], source: str, run_id: str | None, debug: bool) -> None:
    """Land the Singer messages of a file, or of stdin for `-`; write STATE to stdout."""
    states = StateOutput(stream=sys.stdout.buffer)
    output = Console(sys.stderr, states=states.emit)
    with Guard(output, debug, again=RUN_AGAIN) as guard:
        output.begin("landing")
        found = load_target(load_settings(configs), {"run_id": run_id})
        guard.protect(found)
        output.remarks = partial(internal_columns_note, found, "internal_columns: false")
        landing.land(source, found, observer=output, source_format="singer")


def _facts() -> dict[str, Any]:
    """Return name, version, capabilities and settings for `--about`, keyed as by Meltano's SDK."""
    package: Any = Message()
    with suppress(PackageNotFoundError):  # the package may come in a zip
        package = metadata("lakeport")
    kinds = package.get_all("Classifier") or []
    pythons = [kind.rpartition(" :: ")[2] for kind in kinds if " Python :: 3." in kind]
    return {
        "name": NAME,
        "description": package.get("Summary", ""),
        "version": __version__,
        "supported_python_versions": pythons,
        "capabilities": list(_CAPABILITIES),
        "settings": settings_schema(),
    }


def _json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2)


def _text(facts: dict[str, Any]) -> str:
    """Return the facts for `--about` as lines of text, as Meltano's SDK prints them."""
    lines = [
        f"Name: {facts['name']}",
        f"Description: {facts['description']}",
        f"Version: {facts['version']}",
        f"Supported Python Versions: {', '.join(facts['supported_python_versions'])}",
        "Capabilities:",
        *(f"  - {each}" for each in facts["capabilities"]),
        "Settings:",
    ]
    for name, field in facts["settings"]["properties"].items():
        kinds = field["type"]
        lines += [
            f"  - Name: {name}",
            f"    Type: {kinds if isinstance(kinds, str) else ', '.join(kinds)}",
            f"    Environment Variable: {PREFIX}{name.upper()}",
            f"    Description: {field['description']}",
        ]
    return "\n".join(lines)


def _markdown(facts: dict[str, Any]) -> str:
    """Return the facts for `--about` as a Markdown page with a table of settings."""
    settings = facts["settings"]
    lines = [
        f"# `{facts['name']}`",
        "",
        facts["description"],
        "",
        "## Capabilities",
        "",
        *(f"- `{each}`" for each in facts["capabilities"]),
        "",
        "## Supported Python Versions",
        "",
        *(f"- {each}" for each in facts["supported_python_versions"]),
        "",
        "## Settings",
        "",
        "| Setting | Required | Default | Description |",
        "|:--------|:--------:|:-------:|:------------|",
    ]
    for name, field in settings["properties"].items():
        default = json.dumps(field["default"]) if "default" in field else "None"
        lines.append(
            f"| {name} | {name in settings['required']} | {default} | {field['description']} |"
        )
    return "\n".join(lines)


_WRITERS = {Format.TEXT: _text, Format.JSON: _json, Format.MARKDOWN: _markdown}


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
