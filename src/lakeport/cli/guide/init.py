"""`lakeport init`: a small folder to start from, which runs as it is."""

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

from lakeport.cli.options import internal_keys
from lakeport.cli.output.console import Console
from lakeport.cli.output.help import Guard
from lakeport.errors import ConfigError

_STARTS = "starts"
_RENAMED = ".txt"  # behind the name of what must not be taken for a module of lakeport's
_INTERNAL = re.compile("#internal#.*")  # what stands for what is said of internal columns
_LAKE_FILES = ("files", "database", "tap")  # kinds whose lake.yaml is for `lakeport run`


class Start(StrEnum):
    """What a folder to start from is for."""

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
            metavar="csv|files|database|tap|singer|mage|meltano|streaming", help="What you have."
        ),
    ] = Start.CSV,
    folder: Annotated[
        Path | None,
        typer.Option("--into", metavar="FOLDER", help="Default: lakeport-KIND.", file_okay=False),
    ] = None,
    no_internal_columns: Annotated[
        bool,
        typer.Option(
            "--no-internal-columns", help="Have the config leave out lakeport's two columns."
        ),
    ] = False,
    internal_prefix: Annotated[
        str | None,
        typer.Option("--internal-columns", metavar="PREFIX", help="Have it name them otherwise."),
    ] = None,
) -> None:
    """Write a small folder to start from: a config, a sample and a README."""
    output = Console()
    with Guard(output):
        target = folder or Path(f"lakeport-{start}")
        said = internal_keys(no_internal_columns, internal_prefix)
        if said:  # a config that may not have them says so
            from lakeport.config.load import load_target

            load_target({"destination": "local", "path": ".", **said})
        written = _write(start, target, said)
        output.facts(
            f"{target} was made",
            {str(path.relative_to(target)): about for path, about in written.items()},
        )
        typer.echo(f"\nNext: cd {target}, and see README.md")


def _line(said: Mapping[str, object], *, python: bool) -> str:
    """What is said, in YAML or among a call's arguments; a comment where that is nothing.

    >>> _line({"internal_columns_prefix": "a: b"}, python=False)
    'internal_columns_prefix: "a: b"  # of those that tell when a row was landed'
    >>> _line({}, python=True)
    '# internal_columns=False,       # no _mage_created_at and _mage_updated_at'
    """
    key, value = next(iter(said.items()), ("internal_columns", False))
    text = f"{key}={value!r}," if python else f"{key}: {json.dumps(value, ensure_ascii=False)}"
    about = "no _mage_created_at and _mage_updated_at"
    if said:
        about = f"{'of those' if value else 'no columns'} that tell when a row was landed"
    return f"{text if said else f'# {text}':<30}  # {about}"


def _write(start: Start, target: Path, said: Mapping[str, object]) -> dict[Path, str]:
    """Write the folder's files; name -> what it is.

    Raises:
        ConfigError: one of them is there already, or the folder can't be written.
    """
    source = files(__package__) / _STARTS / start
    wanted = {target / name: text for name, text in _texts(source, "").items()}
    if start in _LAKE_FILES:
        from lakeport.config.lake.schema import lake_schema

        wanted[target / "lake.schema.json"] = json.dumps(lake_schema(), indent=1) + "\n"
    for path in wanted:
        if path.exists():
            raise ConfigError(f"{path} is there already", "name another folder with `--into`.")
    try:
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            line = _line(said, python=path.suffix == ".py").replace("\\", r"\\")
            path.write_text(_INTERNAL.sub(line, text), encoding="utf-8")
            if path.suffix == ".sql":
                with closing(sqlite3.connect(path.with_suffix(".db"))) as database:
                    database.executescript(text)
    except OSError as error:
        raise ConfigError(
            f"{target} can't be written: {error.strerror}", "name another folder with `--into`."
        ) from error
    return {path: _first_line(text) for path, text in wanted.items()}


def _texts(folder: Traversable, above: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            found |= _texts(each, f"{above}{each.name}/")
        else:
            found[above + each.name.removesuffix(_RENAMED)] = each.read_text("utf-8")
    return found


def _first_line(text: str) -> str:
    """What a file says of itself in its first line, if it does."""
    line = text.split("\n", 1)[0]
    return line.lstrip('#"- ').rstrip('"') if line.startswith(("#", '"""', "--")) else "a sample"
