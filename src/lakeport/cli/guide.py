"""What helps to begin and to go on: folders to start from, and the pages of the documentation."""

from __future__ import annotations

import difflib
import json
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from lakeport import errors
from lakeport.cli.options import internal_keys
from lakeport.cli.output.console import Console
from lakeport.cli.output.help import Guard
from lakeport.errors import ConfigError, LakeportError

_STARTS = "starts"
_RENAMED = ".txt"  # behind the name of what must not be taken for a module of lakeport's
_INTERNAL = "#internal#"
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
        said = _checked(internal_keys(no_internal_columns, internal_prefix))
        written = _write(start, target, said)
        output.facts(
            f"{target} was made",
            {str(path.relative_to(target)): about for path, about in written.items()},
        )
        typer.echo(f"\nNext: cd {target}, and see README.md")


def _checked(given: Mapping[str, object]) -> dict[str, object]:
    """The keys that are given, if a config may have them.

    Raises:
        ConfigError: it may not.
    """
    said = {key: value for key, value in given.items() if value is not None}
    if said:
        from lakeport.config.load import load_target

        load_target({"destination": "local", "path": ".", **said})
    return said


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
            line = _line(said, python=path.suffix == ".py")
            path.write_text(_filled(text, line), encoding="utf-8")
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


def _filled(text: str, internal: str) -> str:
    """The text with what is said of internal columns in its place, as far in as that is."""
    lines = []
    for line in text.splitlines(keepends=True):
        before, marker, _ = line.partition(_INTERNAL)
        lines.append(f"{before}{internal}\n" if marker else line)
    return "".join(lines)


def _first_line(text: str) -> str:
    """What a file says of itself in its first line, if it does."""
    line = text.split("\n", 1)[0]
    return line.lstrip('#"- ').rstrip('"') if line.startswith(("#", '"""', "--")) else "a sample"


_HERE = Path(errors.__file__).parent
_ELSEWHERE = ("adr/", "benchmarks/", "errors/")  # for developers; what `explain` shows
_PAGES = "`lakeport docs PAGE` shows one of these, `lakeport explain CODE` that of an error"
_CODES = "or give an exit code from 1 to 7 (130: interrupted, 143: terminated)."
_PLACES = (_HERE / "docs", _HERE.parents[1] / "docs")  # of an installed package, of a checkout


def docs(
    page: Annotated[
        str, typer.Argument(metavar="PAGE", help="Such as sources; without it: the list.")
    ] = "",
    where: Annotated[bool, typer.Option("--path", help="Print the file's path.")] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of a lake's file, for editors."),
    ] = False,
) -> None:
    """Show a page of the documentation."""
    output = Console()
    with Guard(output):
        if schema:
            from lakeport.config.lake.schema import lake_schema

            typer.echo(json.dumps(lake_schema(), indent=1))
            return
        known = pages()
        if not page:
            listed = [each for each in known.items() if not each[0].startswith(_ELSEWHERE)]
            output.facts(_PAGES, {name: _title(path) for name, path in listed})
            return
        name = _named(page.removesuffix(".md"), list(known))
        found = known[name]
        if where:
            typer.echo(found)
        else:
            _show(found.read_text("utf-8"), name)


def explain(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE", help="An error's name or an exit code; without it: the list."
        ),
    ] = "",
) -> None:
    """Tell what an error means, what is behind it, and what to do."""
    output = Console()
    with Guard(output):
        classes = _classes()
        if not code:
            listed = sorted(classes.items(), key=lambda each: each[1].exit_code)
            rows = [(name, each.exit_code, _about(name)) for name, each in listed]
            output.rows("", ("error", "exit code", "about"), rows)
            return
        found = [each for each in classes.values() if code == str(each.exit_code)]
        named = {name.lower(): each for name, each in classes.items()}.get(code.lower())
        if named is None and not found:
            raise _unknown("error", code, list(classes), _CODES)
        wanted = [named] if named is not None else found
        known = pages()
        names = [f"errors/{each.__name__}" for each in wanted]
        _show("\n".join(known[name].read_text("utf-8") for name in names), names[0])


def pages() -> dict[str, Path]:
    """The pages that come with lakeport, by their names: paths without the suffix.

    Raises:
        ConfigError: they are not there.
    """
    folder = next((place for place in _PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        raise ConfigError(
            "the documentation was not installed", "install lakeport from its wheel, or again."
        )
    found = sorted(folder.rglob("*.md"))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def _classes() -> dict[str, type[LakeportError]]:
    found = (getattr(errors, name) for name in errors.__all__)
    return {
        each.__name__: each
        for each in found
        if isinstance(each, type) and issubclass(each, LakeportError)
    }


def _about(error: str) -> str:
    return _title(pages()[f"errors/{error}"]).partition(": ")[2]


def _named(name: str, known: list[str]) -> str:
    """The page that is meant: by its whole name, or by the last part alone.

    Raises:
        ConfigError: there is none, or several are called so.
    """
    if name in known:
        return name
    last = name.rpartition("/")[2].lower()
    found = [each for each in known if each.rpartition("/")[2].lower() == last]
    if len(found) != 1:
        raise _unknown("page", name, found or known, "`lakeport docs` lists all.")
    return found[0]


def _unknown(what: str, name: str, known: list[str], otherwise: str) -> ConfigError:
    near = difflib.get_close_matches(name, known, 3, 0.5)
    lower = {each.lower(): each for each in known}
    near = near or [lower[each] for each in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]
    listed = ", ".join(near) if near else ", ".join(known)
    return ConfigError(f"there is no {what} {name!r}", f"there are {listed}; {otherwise}")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as page:
        return page.readline().lstrip("# ").strip()


def _show(text: str, name: str) -> None:
    """Print a page: formatted on a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        typer.echo(text.rstrip("\n"))
        return
    from lakeport.cli.output.page import print_page

    print_page(text, name)
