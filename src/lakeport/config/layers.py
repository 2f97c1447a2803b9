"""Keys from files, options and the environment -> one destination's config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakeport.config.base import DestinationConfig, all_keys, canonical, config_class, what_to_name
from lakeport.config.mage.io_config import is_sink, sink_keys
from lakeport.errors import ConfigError

_PREFIX = "LAKEPORT_"


def build(
    values: Mapping[str, Any], overrides: Mapping[str, Any] | None, environ: Mapping[str, str]
) -> DestinationConfig:
    """The config that keys make: those that win, those given, then the environment's.

    Args:
        values: the keys given, flat; those of a streaming sink count as its destination's.
        overrides: keys that win; null ones are absent.
        environ: the environment, asked for `LAKEPORT_` and the key in capitals.

    Raises:
        ConfigError: naming what is wrong and what is valid.
    """
    if is_sink(values):
        values, _ = sink_keys(values, all_keys())
    given, wanted = canonical(values), canonical(_named(overrides or {}))
    merged = joined(given, wanted)
    destination = merged.get("destination")
    if not isinstance(destination, str):
        raise ConfigError("the key `destination` is missing", what_to_name())
    model = config_class(destination)
    for key in model.model_fields:
        value = environ.get(_PREFIX + key.upper())
        if value and key != "destination":
            merged.setdefault(key, value)
    return model(**merged)


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
    known = all_keys().union(more)
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
    """Keys with the destination that they have to be for, or that they name if that is empty.

    Raises:
        ConfigError: they name another one.
    """
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
