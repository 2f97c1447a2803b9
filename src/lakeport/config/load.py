"""Builds a destination's config from a path, URI, config file or mapping, and the environment.

No other module reads config keys from the environment.
"""

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
    canonical_keys,
    config_class,
    delta_destination,
    destination_names,
    parse_target_uri,
    target_hint,
)
from lakeport.config.files import collect_texts, expand, parse_text, read_text, read_text_and_mode
from lakeport.config.mage.io_config import is_sink, parse_sink
from lakeport.config.references import resolve_values
from lakeport.errors import ConfigError

_STREAM = "{stream}"
_PATHS = ("path", "spool_dir", "google_application_credentials")
_PREFIX = "LAKEPORT_"
_TO, _DESTINATION = f"{_PREFIX}TO", f"{_PREFIX}DESTINATION"
_CONFIGS = (".yaml", ".yml", ".json")


def read_target_keys(target: Any, folder: Path) -> dict[str, Any]:
    """Convert a lake file's `target` (mapping, config file, folder, URI) to config keys.

    Its variables are replaced already. Paths are relative to the lake file's folder; those of the
    environment's target, which counts for None, to the current one.

    Raises:
        ConfigError: it is none of these, or the config file is wrong.
    """
    if target is None and (target := environment_target()) is not None:
        folder = Path.cwd()
    if isinstance(target, Mapping):
        return resolve_paths(flatten_keys(target), folder)
    if not isinstance(target, str) or not target.strip():
        raise ConfigError(
            "`target` has to be keys, a config file, a folder or a URI",
            "such as `target: ./lake`, or `target: {destination: local, path: ./lake}`.",
        )
    if "://" in target:
        keys = parse_target_uri(target)
        if "table_uri" in keys:  # a lake's URI is the folder of its tables
            keys["table_uri"] = f"{keys['table_uri'].rstrip('/')}/{_STREAM}"
        return keys
    path = folder / Path(target).expanduser()
    if not target.lower().endswith(_CONFIGS):
        return parse_target_uri(str(path), may_be_uri=False)
    name = f"config file {str(path)!r}"
    keys = flatten_keys(parse_text(read_text(path), name))
    return resolve_paths(expand(keys, os.environ, name), path.parent)


def resolve_paths(keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return config keys with relative paths, such as `path`, joined to a folder."""
    found = dict(keys)
    for key in _PATHS:
        value = found.get(key)
        if isinstance(value, str) and value and not value.startswith(("file:", "~", "{")):
            found[key] = str(folder / value)
    return found


def environment_target() -> str | dict[str, str] | None:
    """Return the target that LAKEPORT_TO names, else LAKEPORT_DESTINATION as a key; else None."""
    if to := os.environ.get(_TO):
        return to
    destination = os.environ.get(_DESTINATION)
    return {"destination": destination} if destination else None


def missing_target_error() -> ConfigError:
    """Return the error for a target that is neither given nor in the environment."""
    return ConfigError(
        "no target is named", f"{target_hint()[:-1]}, as `to` (`--to`), or set {_TO}."
    )


def load_target(
    to: str | os.PathLike[str] | Mapping[str, Any] | DestinationConfig | None,
    overrides: Mapping[str, Any] | None = None,
) -> DestinationConfig:
    """Build the config of a target: a folder, a URI, a config file, a mapping or a config.

    Keys in `overrides` win; null ones are absent. Keys in neither come from the environment, as
    `LAKEPORT_` and the key in capitals. The target None is LAKEPORT_TO, or LAKEPORT_DESTINATION.

    Raises:
        ConfigError: it names what is wrong and what is valid.
    """
    overrides = overrides or {}
    if to is None:
        to = environment_target()
    if to is None:
        raise missing_target_error()
    if isinstance(to, DestinationConfig):
        if not any(value is not None for value in overrides.values()):
            return to
        given = {name: getattr(to, name) for name in to.model_fields_set}
        values = {**given, "destination": to.destination}
        return build_config(values, overrides).with_warnings(*to.warnings)
    if isinstance(to, Mapping):
        with prefix_errors("the config"):
            values = resolve_values(flatten_keys(to), "the config")
        return build_config(values, overrides)
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
    return build_config(parse_target_uri(text, may_be_uri=isinstance(to, str)), overrides)


def load_file(
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    destination: str = "",
) -> DestinationConfig:
    """Build the config in a YAML or JSON file, whose destination is `destination`, if given.

    Raises:
        ConfigError: it names what is wrong, such as another destination in the file, or a file
            with secrets that other users may write to.
    """
    return load_files(
        [path],
        overrides,
        translate=partial(for_destination, destination),
        refuse_writable=True,
    )


def load_files(
    paths: Sequence[str | os.PathLike[str]],
    overrides: Mapping[str, Any] | None = None,
    *,
    translate: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    refuse_writable: bool = False,
) -> DestinationConfig:
    """Build one config from several YAML or JSON files; later files win, key by key.

    Args:
        translate: renames the files' keys to lakeport's names; may refuse them.
        refuse_writable: whether to refuse a file with secrets that other users may write to,
            instead of a warning. Runners such as Meltano write files with the mode of their umask.

    Raises:
        ConfigError: it names what is wrong.
    """
    files: dict[Path, tuple[dict[str, Any], int]] = {}  # path -> its keys and its mode
    values: dict[str, Any] = {}
    for path in map(Path, paths):
        text, mode = read_text_and_mode(path)
        name = _file_label(path)
        raw = parse_text(text, name)
        with prefix_errors(name):
            keys = raw if "loads" in raw else flatten_keys(raw)
        files[path] = keys, mode
        if "loads" in raw:  # a lake's file: its target is meant
            target = expand(raw.get("target"), os.environ, name)
            with prefix_errors(name):
                values |= read_target_keys(target, path.absolute().parent)
        else:
            values |= expand(keys, os.environ, name)
    with prefix_errors(", ".join(map(_file_label, paths))):
        config = build_config(translate(values), overrides)
    secrets = config.secrets() if files else ()
    for path, (keys, mode) in files.items():
        if any(secret in text for text in collect_texts(keys) for secret in secrets):
            warnings = check_file_mode(
                path, _file_label(path), mode, refuse_writable=refuse_writable
            )
            config = config.with_warnings(*warnings)
    return config


def read_sink_interval(to: object) -> float | None:
    """Return the seconds between batches of a Mage streaming sink; None for other targets.

    A sink is a mapping or a config file with `connector_type`.

    Raises:
        ConfigError: the file can't be read, or there is no such sink.
    """
    to = environment_target() if to is None else to
    values = to
    if isinstance(to, (str, os.PathLike)) and is_config_file(os.fspath(to), isinstance(to, str)):
        values = parse_text(read_text(Path(to)), _file_label(to))
    if not isinstance(values, Mapping) or not is_sink(values):
        return None
    if values is not to:
        values = expand(values, os.environ, _file_label(str(to)))
    return parse_sink(values)[1]


def _file_label(path: str | os.PathLike[str]) -> str:
    """Return a config file's name in errors: `config file 'PATH'`."""
    return f"config file {os.fspath(path)!r}"


def is_config_file(text: str, must_exist: bool) -> bool:
    """Whether a text names an existing YAML or JSON file; `must_exist` raises if it is absent.

    Such a name would become a folder.
    """
    path = Path(text)
    if not text.lower().endswith(_CONFIGS) or "://" in text or path.is_dir():
        return False
    if must_exist and not path.exists():
        raise ConfigError(
            f"there is no config file {text!r}", "name a file that exists, or a folder to land in."
        )
    return path.is_file()


def check_file_mode(path: Path, name: str, mode: int, *, refuse_writable: bool) -> tuple[str, ...]:
    """Return a warning if other users may read or write a file with secrets; else ().

    Raises:
        ConfigError: others may write to it, and `refuse_writable` is set.
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
        if refuse_writable:
            raise ConfigError(problem, hint)
        return (f"{problem}: {hint}",)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return (f"{name} holds secrets, and others may read it ({mode:04o}): {hint}",)
    return ()


def build_config(
    values: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> DestinationConfig:
    """Build a config; `overrides` win over `values`, which win over environment variables.

    Null overrides are absent.

    Raises:
        ConfigError: it names what is wrong and what is valid.
    """
    if is_sink(values):
        values, _ = parse_sink(values, all_keys())
    merged = override_keys(
        canonical_keys(values),
        canonical_keys(resolve_values(_check_text_keys(overrides or {}), "an option")),
    )
    notes = []
    if merged.get("destination") is None:
        merged["destination"] = os.environ.get(_DESTINATION)
    if not merged["destination"]:
        merged["destination"], note = infer_destination({**values, **merged})
        notes.append(note)
    destination = merged["destination"]
    if not isinstance(destination, str):
        raise missing_destination_error()
    model = config_class(destination)
    names = {key: _PREFIX + key.upper() for key in model.model_fields if key not in merged}
    given = {name: os.environ[name] for name in names.values() if os.environ.get(name)}
    given = resolve_values(given, "the environment")
    found = {key: given[name] for key, name in names.items() if name in given}
    try:
        return model(**merged, **found).with_warnings(*notes)
    except ConfigError as error:
        wrong = {str(key) for path, *_ in error.problems for key in path[:1]}
        if variables := [names[key] for key in found if key in wrong]:
            error.hint += f" The environment sets {', '.join(variables)}."
        raise


def missing_destination_error() -> ConfigError:
    """Return the error for a config without `destination` and without keys that tell it."""
    return ConfigError("the key `destination` is missing", target_hint())


def infer_destination(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the one destination that has all of a config's keys, and a note that tells so.

    Keys of every destination don't count. Of S3's two, `file_type` decides, or else `mode`, which
    only Mage's Delta destination has.

    Raises:
        ConfigError: no destination has all of the keys, several have, or there are none.

    Example:
        >>> infer_destination({"bucket": "lake", "google_application_credentials": None})[0]
        'google_cloud_storage'
    """
    models = {name: config_class(name) for name in destination_names()}
    own = sorted((values.keys() & all_keys()) - DestinationConfig.model_fields.keys())
    if not own:
        raise missing_destination_error()
    found = [name for name, model in models.items() if model.model_fields.keys() >= {*own}]
    kind = str(values.get("file_type") or ("delta" if "mode" in values else "")).lower()
    for files, tables in [(name, delta_destination(name)) for name in found if kind]:
        if files != tables and tables in found:
            found.remove(files if kind == "delta" else tables)
    keys = ", ".join(f"`{key}`" for key in own)
    if len(found) == 1:
        return found[0], (
            f"the config has no `destination`: it is taken as `{found[0]}` for its keys {keys}"
        )
    names = found or list(models)
    raise ConfigError(
        f"the key `destination` is missing, and the keys {keys} are those of "
        + (" and ".join(f"`{name}`" for name in found) or "no single destination"),
        f"write the one that is meant: {' or '.join(f'`destination: {each}`' for each in names)}.",
    )


def environment_keys(
    prefix: str, other_keys: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the keys set by variables `<prefix>KEY`, and the variables of unknown keys.

    Known keys are those of the destinations, and `other_keys`.
    """
    known = all_keys().union(other_keys)
    found, unknown = {}, []
    for name, value in os.environ.items():
        key = name.removeprefix(prefix).lower()
        if not name.startswith(prefix) or not value:
            continue
        if key in known:
            found[key] = value
        elif not key.startswith("_"):  # Meltano's own, such as its catalog
            unknown.append(name)
    return found, sorted(unknown)


def flatten_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Move keys nested under `config:` to the top level; return other keys unchanged.

    Raises:
        ConfigError: keys stand in both places, a key is no text, or `config` holds no keys.

    Example:
        >>> flatten_keys({"destination": "local", "config": {"path": "lake"}})
        {'destination': 'local', 'path': 'lake'}
    """
    outer = {key: value for key, value in _check_text_keys(values).items() if key != "config"}
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
    return {**outer, **_check_text_keys(inner)}


def for_destination(destination: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten keys and set `destination` if absent; ConfigError if it is another one.

    Raises:
        ConfigError: the keys name another destination.
    """
    values = flatten_keys(values)
    found = values.get("destination", destination or None)
    if destination and found != destination:
        raise ConfigError(
            f"it is for the destination {found!r}, not for {destination!r}",
            "name the same destination, or leave it out.",
        )
    return {**values, "destination": found}


@contextmanager
def prefix_errors(place: str) -> Iterator[None]:
    """Context manager that puts `place: ` (nothing for "") before a ConfigError's message."""
    try:
        yield
    except ConfigError as error:
        where = f"{place}: " if place else ""
        raise type(error)(f"{where}{error.message}", error.hint) from None


def _check_text_keys(values: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return config keys unchanged; raise ConfigError if a key is not a string."""
    for key in values:
        if not isinstance(key, str):
            raise ConfigError(
                f"the config has a key that is no text but of type {type(key).__name__}",
                "write its keys as strings, such as 'mode'.",
            )
    return values


def override_keys(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given` updated by `overrides`; mappings such as `spark` are merged.

    Example:
        >>> override_keys({"mode": "append", "spark": {"a": "1"}}, {"spark": {"b": "2"}})
        {'mode': 'append', 'spark': {'a': '1', 'b': '2'}}
    """
    merged = {**given, **overrides}
    for key in given.keys() & overrides.keys():
        if isinstance(given[key], Mapping) and isinstance(overrides[key], Mapping):
            merged[key] = {**given[key], **overrides[key]}
    return merged
