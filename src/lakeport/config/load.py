"""From what the user named to a destination's config: the only reader of the environment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from lakeport.config.common import DestinationConfig, canonical
from lakeport.config.explain import no_such
from lakeport.config.files import expand, parse_text, read_text, texts
from lakeport.config.streaming_sink import Buffer, is_sink, sink_keys
from lakeport.errors import ConfigError

__all__ = [
    "config_class",
    "destinations",
    "environment_keys",
    "load_file",
    "load_files",
    "load_sink",
    "load_target",
    "load_values",
    "names_sink",
]

_DESTINATIONS = {
    "local": "lakeport.config.local:LocalConfig",
    "amazon_s3": "lakeport.config.amazon_s3:AmazonS3Config",
    "delta_lake_azure": "lakeport.config.delta_lake_azure:DeltaLakeAzureConfig",
    "delta_lake_s3": "lakeport.config.delta_lake_s3:DeltaLakeS3Config",
    "google_cloud_storage": "lakeport.config.google_cloud_storage:GoogleCloudStorageConfig",
}
_SCHEMES = {
    "abfs": "delta_lake_azure",
    "abfss": "delta_lake_azure",
    "file": "local",
    "gs": "google_cloud_storage",
    "s3": "amazon_s3",
}
_PREFIX = "LAKEPORT_"
_SUFFIXES = (".yaml", ".yml", ".json")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def load_target(
    to: str | os.PathLike[str] | Mapping[str, Any] | DestinationConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> DestinationConfig:
    """The config of a target.

    Args:
        to: a folder, a URI, a YAML or JSON config file, a mapping of keys, or a config.
        overrides: keys that win over those of `to`; null ones are absent. Keys that nothing names
            are taken from the environment as `LAKEPORT_` and the key in capitals.
        environ: the environment; default: the process's.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    environ = os.environ if environ is None else environ
    overrides = overrides or {}
    if isinstance(to, DestinationConfig):
        if not any(value is not None for value in overrides.values()):
            return to
        given = {name: getattr(to, name) for name in to.model_fields_set}
        values = {**given, "destination": to.destination}
        return _build(values, overrides, environ).warned(*to.warnings)
    if isinstance(to, Mapping):
        return _build(_flat(dict(to), "the config"), overrides, environ)
    text = os.fspath(to)
    if not text.strip():
        raise ConfigError("the target is empty", _hint())
    if _is_config_file(text, isinstance(to, str)):
        return load_file(text, overrides, environ=environ)
    return _build(_uri_values(text, isinstance(to, str)), overrides, environ)


def load_file(
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    destination: str = "",
    variables: Mapping[str, Any] | None = None,
) -> DestinationConfig:
    """The config that a YAML or JSON file holds, whatever the file is called.

    Args:
        path: the file.
        overrides: as for `load_target`.
        environ: as for `load_target`.
        destination: the destination's name, where the file does not have to tell.
        variables: the run's variables, for templates such as `{{ variables('x') }}`.

    Raises:
        ConfigError: naming what is wrong; also when the file names another destination, and when
            it holds secrets and others may write to it.
    """
    environ = os.environ if environ is None else environ
    return load_files(
        [path],
        overrides,
        environ=environ,
        translate=partial(_for, destination),
        variables=variables,
        guarded=True,
    )


def load_files(
    paths: Sequence[str | os.PathLike[str]],
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    translate: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    variables: Mapping[str, Any] | None = None,
    guarded: bool = False,
) -> DestinationConfig:
    """The config that several YAML or JSON files hold together; later ones win, key by key.

    Args:
        paths: the files.
        overrides: as for `load_target`.
        environ: as for `load_target`.
        translate: brings the keys of the files under lakeport's names; may refuse them.
        variables: as for `load_file`.
        guarded: whether a file that holds secrets and that others may write to is refused. Else
            there is a warning: what a runner such as Meltano writes has the mode of its umask.

    Raises:
        ConfigError: naming what is wrong.
    """
    environ = os.environ if environ is None else environ
    name = ", ".join(f"config file {os.fspath(path)!r}" for path in paths)
    held: list[tuple[Path, dict[str, Any]]] = []
    values: dict[str, Any] = {}
    for path in map(Path, paths):
        each = f"config file {str(path)!r}"
        raw = _flat(parse_text(read_text(path), each), each)
        values |= expand(raw, environ, each, variables=variables)
        held.append((path, raw))
    try:
        config = _build(translate(values), overrides or {}, environ)
    except ConfigError as error:
        where = f"{name}: " if name else ""
        raise type(error)(f"{where}{error.message}", error.hint) from None
    for path, raw in held:
        if not texts(raw).isdisjoint(config.secrets()):
            config = config.warned(*_exposure(path, f"config file {str(path)!r}", guarded))
    return config


def environment_keys(
    prefix: str, environ: Mapping[str, str], more: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """The keys that variables give: those named by a prefix and the key in capitals.

    Args:
        prefix: how the variables' names begin.
        environ: the environment.
        more: keys that are known besides those of the destinations.

    Returns:
        The values, empty ones left out, and the names of variables that no key has.
    """
    known = {key for name in _DESTINATIONS for key in config_class(name).model_fields}
    known.update(more)
    found, unknown = {}, []
    for name, value in environ.items():
        key = name.removeprefix(prefix).lower()
        if not name.startswith(prefix) or not value:
            continue
        if key in known:
            found[key] = value
        elif not key.startswith("_"):  # Meltano's own, such as the catalog that it chose
            unknown.append(name)
    return found, sorted(unknown)


def destinations() -> tuple[str, ...]:
    """Names of the destinations that a config can be for."""
    return tuple(_DESTINATIONS)


def names_sink(to: object) -> bool:
    """Whether a target is the config of one of Mage's streaming sinks, or a file that holds one.

    Raises:
        ConfigError: the file can't be read.
    """
    if isinstance(to, Mapping):
        return is_sink(to)
    if not isinstance(to, (str, os.PathLike)) or not _is_config_file(
        os.fspath(to), isinstance(to, str)
    ):
        return False
    return is_sink(parse_text(read_text(Path(to)), f"config file {os.fspath(to)!r}"))


def load_sink(
    to: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> tuple[DestinationConfig, Buffer]:
    """The config of Mage's streaming sinks (`connector_type`), and when their buffer is landed.

    Args:
        to: a YAML or JSON file, or a mapping of keys.
        overrides: as for `load_target`.
        environ: as for `load_target`.
        variables: the run's variables, for templates such as `{{ variables('x') }}`.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    environ = os.environ if environ is None else environ
    if isinstance(to, Mapping):
        values: Mapping[str, Any] = to
    else:
        name = f"config file {os.fspath(to)!r}"
        raw = parse_text(read_text(Path(to)), name)
        values = expand(raw, environ, name, variables=variables)
    keys, buffer = sink_keys(values, _all_keys())
    return _build(keys, overrides or {}, environ), buffer


def load_values(
    values: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    name: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    destination: str = "",
) -> DestinationConfig:
    """The config in a mapping of keys, flat or with `config:`, for a destination that is known.

    Args:
        values: the keys.
        overrides: as for `load_target`.
        name: how errors call the place where the keys stand; empty for none.
        environ: as for `load_target`.
        destination: the destination's name, where the keys do not have to tell.

    Raises:
        ConfigError: naming what is wrong; also when the keys name another destination.
    """
    environ = os.environ if environ is None else environ
    try:
        return _build(_for(destination, _flat(dict(values), name)), overrides or {}, environ)
    except ConfigError as error:
        place = f"{name}: " if name else ""
        raise type(error)(f"{place}{error.message}", error.hint) from None


def config_class(destination: str) -> type[DestinationConfig]:
    """The config class of a destination.

    Raises:
        ConfigError: there is no destination of that name; the error lists those that exist.
    """
    if destination not in _DESTINATIONS:
        raise no_such("destination", destination, _DESTINATIONS)
    module, _, name = _DESTINATIONS[destination].partition(":")
    found: type[DestinationConfig] = getattr(import_module(module), name)
    return found


def _for(destination: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with the destination that they have to be for, or that they name if that is empty."""
    found = values.get("destination", destination or None)
    if destination and found != destination:
        raise ConfigError(
            f"it is for the destination {found!r}, not for {destination!r}",
            "name the same destination, or leave it out.",
        )
    return {**values, "destination": found}


def _build(
    values: Mapping[str, Any], overrides: Mapping[str, Any], environ: Mapping[str, str]
) -> DestinationConfig:
    if is_sink(values):
        values, _ = sink_keys(values, _all_keys())
    given, wanted = canonical(values), canonical(overrides)
    merged = {**given, **{key: _joined(given.get(key), value) for key, value in wanted.items()}}
    destination = merged.get("destination")
    if not isinstance(destination, str):
        raise ConfigError("the key `destination` is missing", _hint())
    model = config_class(destination)
    for key in model.model_fields:
        value = environ.get(_PREFIX + key.upper())
        if value and key != "destination":
            merged.setdefault(key, value)
    return model(**merged)


def _all_keys() -> frozenset[str]:
    return frozenset(key for name in _DESTINATIONS for key in config_class(name).model_fields)


def _joined(given: object, wanted: object) -> object:
    """What is wanted; settings are added to those given."""
    if isinstance(given, Mapping) and isinstance(wanted, Mapping):
        return {**given, **wanted}
    return wanted


def _flat(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Keys under `config:` brought beside `destination:` and a block's `catalog`."""
    inner = values.get("config")
    if inner is None:
        return {key: value for key, value in values.items() if key != "config"}
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{name}: `config` has to hold keys")
    beside = sorted(values.keys() - {"config", "destination", "catalog"})
    if beside:
        raise ConfigError(
            f"{name}: {', '.join(f'`{key}`' for key in beside)} stands beside `config:`",
            "write all keys under `config:`, or all beside `destination:`.",
        )
    if "destination" in inner and "destination" in values:
        raise ConfigError(f"{name}: `destination` is given twice", "give one of them.")
    return {**{key: value for key, value in values.items() if key != "config"}, **inner}


def _is_config_file(text: str, guess: bool) -> bool:
    """Whether that text names a config file; one that is not there is never made a folder."""
    path = Path(text)
    if not text.lower().endswith(_SUFFIXES) or "://" in text or path.is_dir():
        return False
    if guess and not path.exists():
        raise ConfigError(
            f"there is no config file {text!r}", "name a file that exists, or a folder to land in."
        )
    return path.is_file()


def _uri_values(text: str, may_be_uri: bool) -> dict[str, Any]:
    match = _SCHEME.match(text) if may_be_uri else None
    scheme = match[1].lower() if match else "file"
    if scheme not in _SCHEMES:
        known = ", ".join(sorted(f"{name}://" for name in _SCHEMES))
        raise ConfigError(
            f"no destination takes the target {scheme}:…", f"give a folder, or a URI of: {known}."
        )
    name = _SCHEMES[scheme]
    return {"destination": name, **config_class(name).uri_keys(text)}


def _exposure(path: Path, name: str, guarded: bool) -> tuple[str, ...]:
    """Who else can reach a config file that holds secrets."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return ()
    hint = f"chmod 600 {path}, or keep the secrets in the environment and write ${{NAME}}."
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"{name} holds secrets, and others may write to it ({mode:04o})"
        if guarded:
            raise ConfigError(problem, hint)
        return (f"{problem}: {hint}",)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        return (f"{name} holds secrets, and others may read it ({mode:04o}): {hint}",)
    return ()


def _hint() -> str:
    names = ", ".join(sorted(_DESTINATIONS))
    return f"give a folder, a URI, a config file, or keys with `destination:` ({names})."
