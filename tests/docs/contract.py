"""The contract with users' scripts: exit codes, JSON documents, config keys, commands and options.

`docs/contract.txt` lists it, one entry a line. Its first part is what the last release had. Below
each further heading are entries that came (`+`) or went (`-`) since; the heading is the line of the
changelog that tells users of them. `python -m tests.docs.contract "LINE"` adds such a part;
`--release` makes one list of all, for a release.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import typing
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.testing import CliRunner

import lakeport
from lakeport import errors
from lakeport.cli.app import app
from lakeport.cli.singer import app as target_app
from lakeport.config.lake import Lineage, Notices
from lakeport.config.lake.read import KINDS, LOAD_KEYS, TOP_KEYS
from tests.docs.generate import CONFIGS, command_paths, default, values

CONTRACT = Path("docs/contract.txt")
CHANGELOG = Path("CHANGELOG.md")
_HEADING = "## "
_RELEASED = "# What the last release had"


def main(arguments: Sequence[str]) -> None:
    """Write what came and went below the changelog's line; `--release` makes one list of it."""
    now = set(current())
    if arguments == ["--release"] or not CONTRACT.exists():
        CONTRACT.write_text("\n".join([_RELEASED, *sorted(now), ""]), "utf-8")
        return
    told = recorded(CONTRACT.read_text("utf-8"))
    changes = [
        *(f"+ {one}" for one in sorted(now - told)),
        *(f"- {one}" for one in sorted(told - now)),
    ]
    if changes and not (arguments and arguments[0] in CHANGELOG.read_text("utf-8")):
        sys.exit("\n".join([*changes, "Hint: give the words of the changelog that tell of these."]))
    if changes:
        with CONTRACT.open("a", encoding="utf-8") as file:
            file.write("\n".join(["", _HEADING + arguments[0], *changes, ""]))


def recorded(text: str) -> set[str]:
    """Return the entries that a contract's text leaves: the released ones, and later changes."""
    entries = set[str]()
    for line in text.splitlines():
        sign, _, entry = line.partition(" ")
        if sign == "-":
            entries.remove(entry)
        elif line and not line.startswith("#"):
            entries.add(entry if sign == "+" else line)
    return entries


def headings(text: str) -> list[str]:
    """Return the lines of the changelog that a contract's text names."""
    return [line.removeprefix(_HEADING) for line in text.splitlines() if line.startswith(_HEADING)]


def current() -> Iterator[str]:
    """Yield the entries as the code has them."""
    yield from _exit_codes()
    yield from _keys()
    yield from _options()
    yield from _documents()


def _exit_codes() -> Iterator[str]:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.LakeportError):
            yield f"exit {kind.exit_code} {name}{', retriable' if kind.retriable else ''}"


def _keys() -> Iterator[str]:
    for destination, config in CONFIGS.items():
        for name, field in config.model_fields.items():
            takes = f"{values(name, field)} (default {default(name, field)})"
            yield f"key {destination}.{name}: {takes.replace('`', '').replace('*', '')}"
    yield from (f"key lake file: {key}" for key in TOP_KEYS)
    yield from (f"key lake file, load: {key}" for key in LOAD_KEYS)
    for part, model in {**KINDS, "lineage": Lineage, "notices": Notices}.items():
        for name, field in model.model_fields.items():
            yield f"key lake file, {part}: {field.alias or name}"


def _options() -> Iterator[str]:
    programs = {"target-lakeport": typer.main.get_command(target_app)}
    root: Any = typer.main.get_command(app)
    for path in command_paths():
        command = root
        for word in path.split():
            command = command.commands[word]
        programs[f"lakeport {path}"] = command
    for path, command in programs.items():
        for each in command.get_params(typer.Context(command)):
            if not getattr(each, "hidden", False):
                named = ", ".join((*each.opts, *each.secondary_opts))
                yield f"command {path}: {named if each.opts[0].startswith('-') else each.metavar}"


def _documents() -> Iterator[str]:
    """Yield each value of the JSON documents: of public classes, and of `check`."""
    kinds = {name: _PUBLIC[name] for name in lakeport.__all__ if hasattr(_PUBLIC[name], "to_dict")}
    documents = {name: _sample(kind).to_dict() for name, kind in kinds.items()}
    with tempfile.TemporaryDirectory() as folder:
        checked = CliRunner().invoke(app, ["check", "--to", folder, "--json"])
    documents["lakeport check"] = json.loads(checked.stdout)
    for name, document in documents.items():
        others = [(other, facts) for other, facts in documents.items() if other != name]
        yield from (f"json {name}{value}" for value in _paths("", document, others))


def _paths(path: str, value: Any, others: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Yield the path of each value in a JSON document, with its type or the document that it is."""
    name = next((other for other, facts in others if facts == value), "")
    if name:
        yield f"{path}: {name}"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths(f"{path}.{key}", inner, others)
    elif isinstance(value, list | tuple) and value:
        yield from (p for inner in value for p in _paths(f"{path}[]", inner, others))
    else:
        kinds = {
            bool: "boolean",
            int: "number",
            float: "number",
            str: "text",
            NoneType: "null",
            list: "list",
        }
        yield f"{path}: {kinds[type(value)]}"


def _sample(kind: Any) -> Any:
    """Return a value of a type, with one element in each list and each mapping."""
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, localns=_PUBLIC)  # none of its fields, such as `bytes`
        return kind(**{f.name: _sample(hints[f.name]) for f in dataclasses.fields(kind) if f.init})
    if kind in _SAMPLES:
        return _SAMPLES[kind]
    if origin in (Union, UnionType):
        return _sample(next(each for each in inner if each is not NoneType))
    if origin is Literal:
        return inner[0]
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_sample(each) for each in inner)
    if origin is not None and issubclass(origin, Mapping):
        return {"NAME": _sample(inner[1])}
    if origin is not None and issubclass(origin, Sequence):
        return (_sample(inner[0]),)
    raise TypeError(f"no sample of {kind}")


_PUBLIC = {name: getattr(lakeport, name) for name in lakeport.__all__}
_SAMPLES: Mapping[Any, Any] = {
    str: "",
    int: 1,
    float: 1.0,
    bool: True,
    bytes: b"{}",
    typing.Any: "",
    datetime: datetime(2024, 1, 1, tzinfo=UTC),
}

if __name__ == "__main__":
    main(sys.argv[1:])
