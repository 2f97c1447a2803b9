"""Where records that were set aside land: as the load of a lake's file does that set them aside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.files import parse_text, read_text
from lakeport.config.lake import read_lake
from lakeport.config.load import load_target
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target

__all__ = ["target_of"]

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def target_of(
    to: Target | DestinationConfig, stream: str, keys: Mapping[str, Any]
) -> DestinationConfig:
    """The config of a target; in a lake's file, that of the load that writes the stream's table.

    A load that merges by key would otherwise have its rows appended.

    Args:
        to: as for `load_target`.
        stream: the stream of the records.
        keys: keys that win.

    Raises:
        ConfigError: as for `load_target`; also where loads write the table in different ways.
    """
    found = _targets(to, stream)
    ways = {(each.mode, tuple(each.merge_keys or ())) for each in found}
    if len(ways) > 1 and not keys.get("mode"):
        raise ConfigError(
            f"loads of the file write table {stream!r} in different ways",
            "say how the records land, such as `--set mode=append`.",
        )
    return load_target(found[0] if found else to, keys)


def _targets(to: Target | DestinationConfig, stream: str) -> list[DestinationConfig]:
    """Those of the loads that write the table, if this is a lake's file."""
    if not isinstance(to, (str, os.PathLike)) or Path(to).suffix.lower() not in _SUFFIXES:
        return []
    if not Path(to).is_file() or "loads" not in parse_text(read_text(Path(to)), str(to)):
        return []
    targets = [load.target for load in read_lake(to).loads.values()]
    fixed = [each for each in targets if each.table_pattern == stream]
    return fixed or [each for each in targets if "{stream}" in (each.table_pattern or "{stream}")]
