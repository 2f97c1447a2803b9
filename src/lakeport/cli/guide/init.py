"""`lakeport init`: write a small folder to start from, which runs unchanged."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from lakeport.cli.options import internal_column_keys
from lakeport.cli.output.console import Console
from lakeport.cli.output.help import Guard
from lakeport.errors import ConfigError

_STARTS = "starts"
_RENAMED = ".txt"  # added to names of Python files, which are no modules of lakeport
_INTERNAL = re.compile("#internal#.*")  # replaced by a line about internal columns
_LAKE_FILES = ("files", "database", "tap")  # starts whose lake.yaml is for `lakeport run`


class Start(StrEnum):
    """Kinds of starter folders that `lakeport init` writes."""

    CSV = "csv"
    FILES = "files"
    DATABASE = "database"
    TAP = "tap"
    SINGER = "singer"
    MAGE = "mage"
    MELTANO = "meltano"
    STREAMING = "streaming"


def init(
    start: Annotated[
        Start,
        typer.Argument(
            metavar="csv|files|database|tap|singer|mage|meltano|streaming",
            help="The kind of data or tool that you have.",
        ),
    ] = Start.CSV,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="FOLDER",
            help="The folder to write; default: lakeport-KIND.",
            file_okay=False,
        ),
    ] = None,
    no_internal_columns: Annotated[
        bool,
        typer.Option(
            "--no-internal-columns", help="Write a config without lakeport's two columns."
        ),
    ] = False,
    internal_prefix: Annotated[
        str | None,
        typer.Option(
            "--internal-columns", metavar="PREFIX", help="Prefix of these columns in the config."
        ),
    ] = None,
) -> None:
    """Write a small folder to start from: a config, a sample and a README."""
    output = Console()
    with Guard(output):
        target = folder or Path(f"lakeport-{start}")
        internal = internal_column_keys(no_internal_columns, internal_prefix)
        if internal:  # raises an error if they are wrong
            from lakeport.config.load import load_target

            load_target({"destination": "local", "path": ".", **internal})
        written = _write(start, target, internal)
        output.facts(
            f"{target} was made",
            {str(path.relative_to(target)): about for path, about in written.items()},
        )
        typer.echo(f"\nNext: cd {target}, and see README.md")


def _internal_line(internal: Mapping[str, object], *, python: bool) -> str:
    """Return a config line (YAML or Python) on internal columns; a comment if no key is given.

    >>> _internal_line({"internal_columns_prefix": "a: b"}, python=False)
    'internal_columns_prefix: "a: b"  # of those that tell when a row was landed'
    >>> _internal_line({}, python=True)
    '# internal_columns=False,       # no _mage_created_at and _mage_updated_at'
    """
    key, value = next(iter(internal.items()), ("internal_columns", False))
    text = f"{key}={value!r}," if python else f"{key}: {json.dumps(value, ensure_ascii=False)}"
    about = "no _mage_created_at and _mage_updated_at"
    if internal:
        about = f"{'of those' if value else 'no columns'} that tell when a row was landed"
    return f"{text if internal else f'# {text}':<30}  # {about}"


def _write(start: Start, target: Path, internal: Mapping[str, object]) -> dict[Path, str]:
    """Write a starter folder; return a description of each file. ConfigError if one exists.

    Raises:
        ConfigError: a file exists already, or the folder can't be written.
    """
    source = files(__package__) / _STARTS / start
    texts = {target / name: text for name, text in _read_texts(source, "").items()}
    if start in _LAKE_FILES:
        from lakeport.config.lake.schema import lake_schema

        texts[target / "lake.schema.json"] = json.dumps(lake_schema(), indent=1) + "\n"
    for path in texts:
        if path.exists():
            raise ConfigError(f"{path} is there already", "name another folder with `--into`.")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            line = _internal_line(internal, python=path.suffix == ".py").replace("\\", r"\\")
            path.write_text(_INTERNAL.sub(line, text), encoding="utf-8")
            if path.suffix == ".sql":
                with closing(sqlite3.connect(path.with_suffix(".db"))) as database:
                    database.executescript(text)
    except OSError as error:
        raise ConfigError(
            f"{target} can't be written: {error.strerror}", "name another folder with `--into`."
        ) from error
    return {path: _describe(text) for path, text in texts.items()}


def _read_texts(folder: Traversable, prefix: str) -> dict[str, str]:
    """Return the text of each file below a package's folder, by its path after `prefix`."""
    found: dict[str, str] = {}
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            found |= _read_texts(each, f"{prefix}{each.name}/")
        else:
            found[prefix + each.name.removesuffix(_RENAMED)] = each.read_text("utf-8")
    return found


def _describe(text: str) -> str:
    """Return a file's comment or docstring in its first line; else "a sample"."""
    line = text.split("\n", 1)[0]
    return line.lstrip('#"- ').rstrip('"') if line.startswith(("#", '"""', "--")) else "a sample"
