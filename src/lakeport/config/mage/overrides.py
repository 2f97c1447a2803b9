"""Mage's `_streams`: settings for every stream of a run, folded into the config's own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeport.config.explain import nearest
from lakeport.errors import ConfigError

_KEYS = {"columns": "constant_columns", "partition_keys": "partition_keys"}


def fold_streams(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys without `_streams`: its `columns` are `constant_columns`, its keys stand behind yours.

    The mapping that was given is left as it is.

    Raises:
        ConfigError: `_streams` holds anything else.

    Example:
        >>> fold_streams({"partition_keys": ["a"], "_streams": {"partition_keys": ["b"]}})
        {'partition_keys': ['a', 'b']}
    """
    folded = {name: value for name, value in values.items() if name != "_streams"}
    streams = values.get("_streams")
    if streams is None:
        return folded
    if not isinstance(streams, Mapping):
        raise ConfigError(
            "`_streams` has to hold `columns` and `partition_keys`",
            "write them below it, indented, or leave `_streams` out.",
        )
    for name, value in streams.items():
        if name not in _KEYS:
            close = nearest(str(name), _KEYS)
            raise ConfigError(
                f"`_streams`: there is no key {name!r}"
                + (f"; did you mean `{close}`?" if close else ""),
                "it takes `columns` and `partition_keys`, which are for every stream.",
            )
        if value is None:
            continue
        given = folded.get(_KEYS[name])
        if name == "partition_keys":
            folded[name] = [*_names(given), *_names(value)]
        elif isinstance(given, Mapping) and isinstance(value, Mapping):
            folded[_KEYS[name]] = {**given, **value}
        else:
            folded[_KEYS[name]] = value
    return folded


def _names(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [name.strip() for name in value.split(",")]
    if not isinstance(value, list | tuple):
        raise ConfigError(
            f"`partition_keys` is {value!r}, which is no list", "write it like `[day, country]`."
        )
    return list(value)
