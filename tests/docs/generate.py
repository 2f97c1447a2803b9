"""Writes the tables of the pages that the code knows best: keys, options, errors.

`python -m tests.docs.generate` brings the pages up to date, and draws the picture of the packages.
A test compares both. A page holds such a part between `<!-- generated: NAME -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from lakeport import errors
from lakeport.cli.app import app
from lakeport.cli.singer import app as target_app
from lakeport.config.base import DestinationConfig
from lakeport.config.destinations.azure import DeltaLakeAzureConfig
from lakeport.config.destinations.gcs import GoogleCloudStorageConfig
from lakeport.config.destinations.local import LocalConfig
from lakeport.config.destinations.s3 import AmazonS3Config, DeltaLakeS3Config
from lakeport.config.lake import Lineage, Notices
from lakeport.config.lake.read import KINDS, LOAD_KEYS, TOP_KEYS
from lakeport.sources.files.discovery import FORMATS
from tests.docs.architecture import PICTURE, package_imports, picture
from tests.docs.pages import pages

CONFIGS: Mapping[str, type[DestinationConfig]] = {
    "local": LocalConfig,
    "amazon_s3": AmazonS3Config,
    "google_cloud_storage": GoogleCloudStorageConfig,
    "delta_lake_s3": DeltaLakeS3Config,
    "delta_lake_azure": DeltaLakeAzureConfig,
}
_PART = re.compile(r"(<!-- generated: (?P<name>[\w: -]+) -->\n).*?(<!-- end -->)", re.S)
_VALUES = {
    "max_bad_records": "a count (`10`) or a share (`0.01`, `1%`)",
}
_DEFAULTS = {"min_file_size_mb": "`32`, at most `target_file_size_mb`"}


def main() -> None:
    """Rewrite what is out of date."""
    for page in pages():
        text = page.read_text("utf-8")
        new = rendered(text)
        if new != text:
            page.write_text(new, "utf-8")
            print(f"wrote {page}")
    PICTURE.write_text(picture(package_imports()), "utf-8")


def rendered(text: str) -> str:
    """A page's text with its generated parts as the code has them now."""
    return _PART.sub(lambda found: f"{found[1]}{part(found['name'])}{found[3]}", text)


def part(name: str) -> str:
    """One generated part, such as `keys local` or `command land`."""
    kind, _, argument = name.partition(" ")
    return _MAKERS[kind](argument)


def common_keys(_: str) -> str:
    """The keys that every destination has."""
    return _key_table(DestinationConfig, _common())


def own_keys(destination: str) -> str:
    """The keys that only this destination has, or that differ there."""
    config = CONFIGS[destination]
    own = [name for name in config.model_fields if name not in _common()]
    return _key_table(
        config, sorted(own, key=lambda name: not config.model_fields[name].is_required())
    )


def all_keys(destination: str) -> str:
    """Every key of a destination in short: the meanings of the shared ones are on one page."""
    config = CONFIGS[destination]
    rows = [
        (f"`{name}`", values(name, field), default(name, field))
        for name, field in config.model_fields.items()
        if name != "destination" and name in _common()
    ]
    return _table(("key", "values", "default"), rows)


def lake_keys(part: str) -> str:
    """The keys of a part of a lake's file."""
    texts = {"file": TOP_KEYS, "load": LOAD_KEYS}.get(part)
    if texts is None:
        fields = {**KINDS, "lineage": Lineage, "notices": Notices}[part].model_fields
        texts = {field.alias or name: field.description or "" for name, field in fields.items()}
    return _table(("key", "meaning"), [(f"`{key}`", text) for key, text in texts.items()])


def features(_: str) -> str:
    """What a lake's file can read and write, by the registries that decide it."""

    def names(values: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    modes = DestinationConfig.model_fields["mode"].annotation
    written = {
        f"`{name}`": names(words_of(config.model_fields["file_type"].annotation))
        for name, config in CONFIGS.items()
    }
    rows = [
        ("kinds of sources in a lake's file", names(f"`{kind}`" for kind in KINDS)),
        ("formats of files to read", names(f"`{format_}`" for format_ in FORMATS.values())),
        *((f"formats to write to {name}", formats) for name, formats in written.items()),
        ("modes", names(words_of(modes))),
    ]
    return _table(("lakeport has", "these"), rows)


def error_tree(_: str) -> str:
    """The tree of errors, as their module draws it."""
    tree = (errors.__doc__ or "").split("```")[1].strip("\n")
    return f"```\n{tree}\n```\n"


def error_table(_: str) -> str:
    """Every error with its exit code."""
    rows = []
    for name in sorted(errors.__all__, key=_depth_first().index):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.LakeportError):
            meaning = (kind.__doc__ or "").splitlines()[0].rstrip(".")
            again = "yes" if kind.retriable else ""
            rows.append((f"`{name}`", str(kind.exit_code), again, meaning))
    return _table(("error", "exit code", "retriable", "meaning"), rows)


def command_options(path: str) -> str:
    """Arguments and options of one command."""
    command: Any = typer.main.get_command(app)
    for word in path.split():
        command = command.commands[word]
    return _options(command)


def program_options(_: str) -> str:
    """Options of `target-lakeport`."""
    return _options(typer.main.get_command(target_app))


def _options(command: Any) -> str:
    params = [each for each in command.get_params(typer.Context(command)) if each.name != "help"]
    rows = [_option(each) for each in params if not getattr(each, "hidden", False)]
    return _table(("option", "meaning", "default"), [row for row in rows if row])


def command_list(_: str) -> str:
    """Every command with its first sentence."""
    root: Any = typer.main.get_command(app)
    rows = [(f"`lakeport {path}`", help_) for path, help_ in _commands(root, "")]
    return _table(("command", "does"), rows)


def command_paths() -> list[str]:
    """The commands, such as `land` and `table show`."""
    root: Any = typer.main.get_command(app)
    return [path for path, _ in _commands(root, "")]


def values(name: str, field: FieldInfo) -> str:
    """The values that a key takes, in words."""
    if name in _VALUES:
        return _VALUES[name]
    bounds = (m for m in _metadata(field) if isinstance(m, (Ge, Gt)))
    least = next(bounds, None)
    words = ", ".join(dict.fromkeys(words_of(field.annotation)))
    if isinstance(least, Ge):
        words += f", {least.ge:g} or more"  # type: ignore[str-format]
    elif least is not None:
        words += f", above {least.gt:g}"  # type: ignore[str-format]
    return words


def default(name: str, field: FieldInfo) -> str:
    """A key's default, in words."""
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    if field.is_required():
        return "**required**"
    value = None if field.default_factory else field.default
    if value is None or value == "" or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _metadata(field: FieldInfo) -> Iterator[Any]:
    for item in (*field.metadata, *_nested(field.annotation)):
        yield item
        yield from getattr(item, "metadata", ())


def _nested(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Annotated:
        yield from get_args(annotation)[1:]
    for inner in get_args(annotation):
        if get_origin(inner) is not None:
            yield from _nested(inner)


def words_of(annotation: Any) -> Iterator[str]:
    """Yield the values that a type allows, in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from words_of(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            if inner is not type(None):
                yield from words_of(inner)
    elif origin is Literal:
        yield from (f"`{value}`" for value in get_args(annotation))
    elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        yield from (f"`{value.value}`" for value in annotation)
    elif origin is tuple:
        yield "names: a list, or with commas between"
    elif origin is not None:
        yield "a mapping"
    elif annotation is bool:
        yield "`true`, `false`"
    elif annotation in (int, float):
        yield "a number" if annotation is float else "a whole number"
    else:
        yield "a secret text" if annotation is SecretStr else "text"


def _common() -> list[str]:
    """Keys that mean the same everywhere."""
    shared = []
    for name, field in DestinationConfig.model_fields.items():
        same = all(
            config.model_fields[name].description == field.description
            and config.model_fields[name].default == field.default
            for config in CONFIGS.values()
        )
        if same and name != "destination":
            shared.append(name)
    return shared


def _key_table(config: type[DestinationConfig], names: Iterable[str]) -> str:
    rows = []
    for name in names:
        if name == "destination":
            continue
        field = config.model_fields[name]
        meaning = (field.description or "").rstrip(".") + "."
        row = (f"`{name}`", meaning, values(name, field), default(name, field))
        rows.append((*row, f"`LAKEPORT_{name.upper()}`"))
    return _table(("key", "meaning", "values", "default", "environment"), rows)


def _depth_first() -> list[str]:
    found: list[str] = []

    def walk(kind: type) -> None:
        found.append(kind.__name__)
        for each in kind.__subclasses__():
            if each.__name__ in errors.__all__:
                walk(each)

    walk(errors.LakeportError)
    return [*found, *(name for name in errors.__all__ if name not in found)]


def _option(each: Any) -> tuple[str, str, str] | None:
    if "--help" in each.opts:
        return None
    named = each.opts[0].startswith("-")
    label = each.metavar or each.name.upper()
    flag = getattr(each, "is_flag", False)
    text = f"`{each.opts[0]}`" if flag else f"`{each.opts[0]} {label}`" if named else f"`{label}`"
    has_default = each.default not in (None, False, ()) and not callable(each.default)
    shown = "**required**" if each.required else ""
    if has_default and named:
        shown = f"`{each.default}`"
    return text.replace("|", "\\|"), (each.help or "").replace("|", "\\|"), shown


def _commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, each in command.commands.items():
        inner = f"{path} {name}".strip()
        if hasattr(each, "commands"):
            yield from _commands(each, inner)
        else:
            yield inner, (each.help or "").strip().splitlines()[0]


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_MAKERS: Mapping[str, Callable[[str], str]] = {
    "common-keys": common_keys,
    "own-keys": own_keys,
    "shared-keys": all_keys,
    "lake-keys": lake_keys,
    "features": features,
    "error-tree": error_tree,
    "error-table": error_table,
    "command": command_options,
    "commands": command_list,
    "program": program_options,
}

if __name__ == "__main__":
    main()
