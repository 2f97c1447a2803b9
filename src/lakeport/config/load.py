"""From what the user named to a destination's config: the only reader of the environment."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lakeport.config.base import (
    DestinationConfig,
    all_keys,
    canonical,
    config_class,
    parse_target_uri,
    target_hint,
)
from lakeport.config.files import expand, parse_text, read_text, read_with_mode, texts
from lakeport.config.mage.io_config import is_sink, sink_keys
from lakeport.errors import ConfigError

_STREAM = "{stream}"
_PATHS = ("path", "spool_dir", "google_application_credentials")
_PREFIX = "LAKEPORT_"
_CONFIGS = (".yaml", ".yml", ".json")


def target_values(target: Any, folder: Path) -> dict[str, Any]:
    """The keys that `target` stands for: its own, a config file's, or those of a folder or a URI.

    Args:
        target: its value, with variables replaced.
        folder: of the lake's file, from which relative paths go.

    Raises:
        ConfigError: it is none of these, or the config file is wrong.
    """
    if isinstance(target, Mapping):
        return placed(flat(target), folder)
    if not isinstance(target, str) or not target.strip():
        raise ConfigError(
            "`target` has to be keys, a config file, a folder or a URI",
            "such as `target: ./lake`, or `target: {destination: local, path: ./lake}`.",
        )
    if "://" in target:
        keys = parse_target_uri(target)
        if "table_uri" in keys:  # of a lake it is the folder of the tables
            keys["table_uri"] = f"{keys['table_uri'].rstrip('/')}/{_STREAM}"
        return keys
    path = folder / Path(target).expanduser()
    if not target.lower().endswith(_CONFIGS):
        return parse_target_uri(str(path), may_be_uri=False)
    name = f"config file {str(path)!r}"
    return placed(expand(flat(parse_text(read_text(path), name)), os.environ, name), path.parent)


def placed(keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Keys whose relative paths go from a folder."""
    found = dict(keys)
    for key in _PATHS:
        value = found.get(key)
        if isinstance(value, str) and value and not value.startswith(("file:", "~", "{")):
            found[key] = str(folder / value)
    return found


def load_target(
    to: str | os.PathLike[str] | Mapping[str, Any] | DestinationConfig,
    overrides: Mapping[str, Any] | None = None,
) -> DestinationConfig:
    """The config of a target.

    Args:
        to: a folder, a URI, a YAML or JSON config file, a mapping of keys, or a config.
        overrides: keys that win over those of `to`; null ones are absent. Keys that nothing names
            are taken from the environment as `LAKEPORT_` and the key in capitals.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    overrides = overrides or {}
    if isinstance(to, DestinationConfig):
        if not any(value is not None for value in overrides.values()):
            return to
        given = {name: getattr(to, name) for name in to.model_fields_set}
        values = {**given, "destination": to.destination}
        return build(values, overrides).with_warnings(*to.warnings)
    if isinstance(to, Mapping):
        with prefixed_errors("the config"):
            values = flat(to)
        return build(values, overrides)
    text = os.fspath(to)
    if not text.strip():
        raise ConfigError("the target is empty", target_hint())
    if is_config_file(text, isinstance(to, str)):
        return load_file(text, overrides)
    if "://" not in text and Path(text).expanduser().is_file():
        raise ConfigError(
            f"the target {text!r} is a file",
            "name a folder to land in, a URI, or a config file, whose name ends with "
            f"{', '.join(_CONFIGS)}.",
        )
    return build(parse_target_uri(text, may_be_uri=isinstance(to, str)), overrides)


def load_file(
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    destination: str = "",
) -> DestinationConfig:
    """The config that a YAML or JSON file holds, whatever the file is called.

    Args:
        path: the file.
        overrides: as for `load_target`.
        destination: the destination's name, where the file does not have to tell.

    Raises:
        ConfigError: naming what is wrong; also when the file names another destination, and when
            it holds secrets and others may write to it.
    """
    return load_files(
        [path],
        overrides,
        translate=partial(for_destination, destination),
        guarded=True,
    )


def load_files(
    paths: Sequence[str | os.PathLike[str]],
    overrides: Mapping[str, Any] | None = None,
    *,
    translate: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    guarded: bool = False,
) -> DestinationConfig:
    """The config that several YAML or JSON files hold together; later ones win, key by key.

    Args:
        paths: the files.
        overrides: as for `load_target`.
        translate: brings the keys of the files under lakeport's names; may refuse them.
        guarded: whether a file that holds secrets and that others may write to is refused. Else
            there is a warning: what a runner such as Meltano writes has the mode of its umask.

    Raises:
        ConfigError: naming what is wrong.
    """
    held: dict[Path, tuple[dict[str, Any], int]] = {}
    values: dict[str, Any] = {}
    for path in map(Path, paths):
        text, mode = read_with_mode(path)
        raw = parse_text(text, _called(path))
        with prefixed_errors(_called(path)):
            keys = raw if "loads" in raw else flat(raw)
        held[path] = keys, mode
        if "loads" in raw:  # a lake's file, of which the target is meant
            target = expand(raw.get("target"), os.environ, _called(path))
            with prefixed_errors(_called(path)):
                values |= target_values(target, path.absolute().parent)
        else:
            values |= expand(keys, os.environ, _called(path))
    with prefixed_errors(", ".join(map(_called, paths))):
        config = build(translate(values), overrides)
    for path, (keys, mode) in held.items():
        if any(secret in text for text in texts(keys) for secret in config.secrets()):
            config = config.with_warnings(*exposure(path, _called(path), mode, guarded=guarded))
    return config


def read_sink_interval(to: object) -> float | None:
    """Return after how many seconds one of Mage's streaming sinks lands; None for other targets.

    Args:
        to: a target; a sink's is a mapping or a config file with `connector_type`.

    Raises:
        ConfigError: the file can't be read, or the sink is none.
    """
    values = to
    if isinstance(to, (str, os.PathLike)) and is_config_file(os.fspath(to), isinstance(to, str)):
        values = parse_text(read_text(Path(to)), _called(to))
    if not isinstance(values, Mapping) or not is_sink(values):
        return None
    return sink_keys(values if values is to else expand(values, os.environ, _called(str(to))))[1]


def _called(path: str | os.PathLike[str]) -> str:
    """How errors call a config file."""
    return f"config file {os.fspath(path)!r}"


def is_config_file(text: str, guess: bool) -> bool:
    """Whether that text names a config file; one that is not there is never made a folder."""
    path = Path(text)
    if not text.lower().endswith(_CONFIGS) or "://" in text or path.is_dir():
        return False
    if guess and not path.exists():
        raise ConfigError(
            f"there is no config file {text!r}", "name a file that exists, or a folder to land in."
        )
    return path.is_file()


def exposure(path: Path, name: str, mode: int, *, guarded: bool) -> tuple[str, ...]:
    """Who else can reach a config file that holds secrets.

    Args:
        path: the file.
        name: how errors call it.
        mode: the file's mode.
        guarded: as for `load_files`.

    Raises:
        ConfigError: others may write to it, and it is guarded.
    """
    if not stat.S_ISREG(mode):
        return ()
    hint = (
        f"`chmod 600 {shlex.quote(str(path))}`, or keep the secrets in the environment and write "
        "${NAME}."
    )
    mode = stat.S_IMODE(mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"{name} holds secrets, and others may write to it ({mode:04o})"
        if guarded:
            raise ConfigError(problem, hint)
        return (f"{problem}: {hint}",)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return (f"{name} holds secrets, and others may read it ({mode:04o}): {hint}",)
    return ()


def build(
    values: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> DestinationConfig:
    """The config that keys make: those that win, those given, then the environment's.

    Args:
        values: the keys given, flat; those of a streaming sink count as its destination's.
        overrides: keys that win; null ones are absent.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    if is_sink(values):
        values, _ = sink_keys(values, all_keys())
    given, wanted = canonical(values), canonical(_named(overrides or {}))
    merged = joined(given, wanted)
    destination = merged.get("destination")
    if not isinstance(destination, str):
        raise ConfigError("the key `destination` is missing", target_hint())
    model = config_class(destination)
    for key in model.model_fields:
        value = os.environ.get(_PREFIX + key.upper())
        if value and key != "destination":
            merged.setdefault(key, value)
    return model(**merged)


def environment_keys(prefix: str, more: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
    """The keys that variables give: those named by a prefix and the key in capitals.

    Args:
        prefix: how the variables' names begin.
        more: keys that are known besides those of the destinations.

    Returns:
        The values, empty ones left out, and the names of variables that no key has.
    """
    known = all_keys().union(more)
    found, unknown = {}, []
    for name, value in os.environ.items():
        key = name.removeprefix(prefix).lower()
        if not name.startswith(prefix) or not value:
            continue
        if key in known:
            found[key] = value
        elif not key.startswith("_"):  # Meltano's own, such as the catalog that it chose
            unknown.append(name)
    return found, sorted(unknown)


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys under `config:` brought beside `destination:` and a block's `catalog`.

    Raises:
        ConfigError: keys stand in both places, one is no text, or `config` holds none.

    Example:
        >>> flat({"destination": "local", "config": {"path": "lake"}})
        {'destination': 'local', 'path': 'lake'}
    """
    outer = {key: value for key, value in _named(values).items() if key != "config"}
    inner = values.get("config")
    if inner is None:
        return outer
    if not isinstance(inner, Mapping):
        raise ConfigError(
            "`config` has to hold keys", "write the destination's keys below it, indented."
        )
    beside = sorted(outer.keys() - {"destination", "catalog"})
    if beside:
        raise ConfigError(
            f"{', '.join(f'`{key}`' for key in beside)} stands beside `config:`",
            "write all keys under `config:`, or all beside `destination:`.",
        )
    if "destination" in inner and "destination" in outer:
        raise ConfigError("`destination` is given twice", "give one of them.")
    return {**outer, **_named(inner)}


def for_destination(destination: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat keys with the destination that they have to be for; if empty, that they name.

    Raises:
        ConfigError: they name another one.
    """
    values = flat(values)
    found = values.get("destination", destination or None)
    if destination and found != destination:
        raise ConfigError(
            f"it is for the destination {found!r}, not for {destination!r}",
            "name the same destination, or leave it out.",
        )
    return {**values, "destination": found}


@contextmanager
def prefixed_errors(place: str) -> Iterator[None]:
    """Let errors begin with the place where the keys stand; as they are if that is empty."""
    try:
        yield
    except ConfigError as error:
        where = f"{place}: " if place else ""
        raise type(error)(f"{where}{error.message}", error.hint) from None


def _named(values: Mapping[Any, Any]) -> Mapping[str, Any]:
    """The same keys, all of them text."""
    for key in values:
        if not isinstance(key, str):
            raise ConfigError(
                f"the config has a key that is no text but of type {type(key).__name__}",
                "write its keys as strings, such as 'mode'.",
            )
    return values


def joined(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Keys, and those that win over them; settings of both are put together.

    Example:
        >>> joined({"mode": "append", "spark": {"a": "1"}}, {"spark": {"b": "2"}})
        {'mode': 'append', 'spark': {'a': '1', 'b': '2'}}
    """

    def both(one: object, other: object) -> object:
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            return {**one, **other}
        return other

    return {**given, **{key: both(given.get(key), value) for key, value in wanted.items()}}
