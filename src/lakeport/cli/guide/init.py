"""`lakeport init`: a small folder to start from, which runs as it is."""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from lakeport.cli.output.console import Console
from lakeport.cli.output.errors import Guard
from lakeport.errors import ConfigError

__all__ = ["Start", "init"]

_STARTS = "starts"
_RENAMED = ".txt"  # behind the name of what must not be taken for a module of lakeport's
_INTERNAL = "#internal#"


class Start(StrEnum):
    """What a folder to start from is for."""

    CSV = "csv"
    SINGER = "singer"
    MAGE = "mage"
    MELTANO = "meltano"
    STREAMING = "streaming"


def init(
    start: Annotated[
        Start, typer.Argument(metavar="csv|singer|mage|meltano|streaming", help="What you have.")
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
        written = _write(start, target, _told(no_internal_columns, internal_prefix))
        output.facts(
            f"{target} was made",
            {str(path.relative_to(target)): about for path, about in written.items()},
        )
        typer.echo(f"\nNext: cd {target}, and see README.md")


def _told(left_out: bool, prefix: str | None) -> str:
    """What the config says of the internal columns."""
    if left_out and prefix is not None:
        raise ConfigError(
            "`--no-internal-columns` and `--internal-columns` exclude each other", "give one."
        )
    if left_out:
        return "internal_columns: false         # no columns that tell when a row was landed\n"
    if prefix is not None:
        return f"internal_columns_prefix: {prefix}    # of those that tell when a row was landed\n"
    return "# internal_columns: false       # no _mage_created_at and _mage_updated_at\n"


def _write(start: Start, target: Path, internal: str) -> dict[Path, str]:
    """Write the folder's files; name -> what it is.

    Raises:
        ConfigError: one of them is there already, or the folder can't be written.
    """
    source = files(__package__) / _STARTS / start
    wanted = {target / name: text for name, text in _texts(source, "").items()}
    for path in wanted:
        if path.exists():
            raise ConfigError(f"{path} is there already", "name another folder with `--into`.")
    try:
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_filled(text, internal), encoding="utf-8")
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


def _filled(text: str, internal: str) -> str:
    """The text with what is said of internal columns in its place, as far in as that is."""
    lines = []
    for line in text.splitlines(keepends=True):
        before, marker, _ = line.partition(_INTERNAL)
        lines.append(before + internal if marker else line)
    return "".join(lines)


def _first_line(text: str) -> str:
    """What a file says of itself in its first line, if it does."""
    line = text.split("\n", 1)[0]
    return line.lstrip('#" ').rstrip('"') if line.startswith(("#", '"""')) else "a sample"
