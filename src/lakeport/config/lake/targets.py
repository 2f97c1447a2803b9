"""From the keys of a file, its defaults and a load to the load's destination."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeport.config.base import OTHER_NAMES, DestinationConfig, canonical
from lakeport.config.classes import all_keys
from lakeport.config.lake.mistakes import Mistakes
from lakeport.config.layers import build, joined
from lakeport.config.mage.streaming_sink import SINK_KEYS, is_sink, sink_keys
from lakeport.errors import ConfigError

_STREAM = "{stream}"
_NAMED = re.compile(r"`([a-z_]+)")


def shared_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same keys under lakeport's own names, those of a streaming sink among them."""
    if is_sink(values):
        values, _ = sink_keys({"prefix": "-", **values}, all_keys())
    return canonical(values)


def own_keys() -> frozenset[str]:
    """Every key that a destination may have, by any of its names."""
    return all_keys() | OTHER_NAMES.keys() | SINK_KEYS | {"config", "_streams"}


@dataclass
class Targets:
    """What the loads of a file share of their destinations.

    Attributes:
        target: the keys of `target`.
        defaults: the keys of `defaults`.
        raw: path in the file -> the keys that stand there, as they are called there.
        environ: the environment.
        mistakes: gets what is wrong.
        many: whether the file has several loads.
    """

    target: Mapping[str, Any]
    defaults: Mapping[str, Any]
    raw: dict[tuple[str, ...], Mapping[str, Any]]
    environ: Mapping[str, str]
    mistakes: Mistakes
    many: bool
    _shared: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._shared = joined(self.target, self.defaults)

    def of(
        self, name: str, own: Mapping[str, Any], *, of_streams: bool
    ) -> DestinationConfig | None:
        """A load's destination; None where something is wrong with it.

        Args:
            name: the load's.
            own: its keys, under lakeport's names.
            of_streams: whether its tables are called like its streams, as a tap's.
        """
        origins = [("loads", name), ("defaults",), ("target",)]
        keys = joined(self._shared, own)
        if not of_streams:
            keys |= self._table(name, own, keys)
        try:
            return build(keys, None, self.environ)
        except ConfigError as error:
            for below, text, hint in error.problems:
                named = [*map(str, below[:1]), *_NAMED.findall(text)]
                path = self._standing(named[0] if below else "", origins)
                if not below:
                    own_names = [self._standing(key, origins[:1]) for key in named]
                    path = next(filter(None, own_names), ("loads", name))
                self.mistakes.add(path or ("target",), text, hint)
            if not error.problems:
                self.mistakes.add(("target",), error.message, error.hint)
        return None

    def _table(self, name: str, own: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
        """The key that names the load's table: like the load, unless it says otherwise."""
        found: dict[str, Any] = {}
        pattern = own.get("table") or self._shared.get("table") or name
        if "table" not in own and isinstance(pattern, str):
            self._check_pattern("table", pattern)
            found["table"] = pattern.replace(_STREAM, name)
        uri = keys.get("table_uri")
        if isinstance(uri, str) and "table_uri" not in own:
            self._check_pattern("table_uri", uri)
            found["table_uri"] = uri.replace(_STREAM, str(own.get("table") or name))
        return found

    def _check_pattern(self, key: str, pattern: str) -> None:
        """Refuse one table for all loads."""
        if self.many and key in self._shared and _STREAM not in pattern:
            path = self._standing(key, [("defaults",), ("target",)])
            self.mistakes.add(
                path or ("target",),
                f"`{key}` names one table, and several loads would land in it",
                f"write {_STREAM} in it, for the loads' names; or name the loads' tables.",
            )

    def _standing(self, key: str, origins: list[tuple[str, ...]]) -> tuple[str | int, ...] | None:
        """Where a key stands, by whatever name; None if it is nowhere."""
        for origin in origins:
            for nested, keys in self.raw.items():
                if nested[: len(origin)] != origin or not isinstance(keys, Mapping):
                    continue
                for written in keys:
                    if OTHER_NAMES.get(written, written) == key:
                        return (*nested, written)
        return None
