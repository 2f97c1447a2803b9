"""Where records that were set aside land, and what is expected of them.

Of a lake's file, the load tells that has set them aside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.files import parse_text, read_text
from lakeport.config.lake import read_lake
from lakeport.config.load import load_target
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.expectations import Expectation
    from lakeport.config.keys import Target
    from lakeport.config.lake import Load
    from lakeport.loading.replay.set_aside import SetAside

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def wanted_of(
    to: Target | DestinationConfig,
    one: SetAside,
    expect: Sequence[Mapping[str, Any] | Expectation] | None,
    keys: Mapping[str, Any],
) -> tuple[DestinationConfig, Sequence[Mapping[str, Any] | Expectation], Load | None]:
    """How the records of a run land: the target's config, what is expected of each row, the load.

    In a lake's file, these are the load's that writes the stream's table: one that merges by key
    would otherwise have its rows appended.

    Args:
        to: as for `load_target`.
        one: the records.
        expect: what is expected in place of that; None for that.
        keys: keys that win.

    Raises:
        ConfigError: as for `load_target`; also where loads write the table in different ways, or
            nothing says what was expected of rows that were set aside for that.
    """
    found = _loads(to, one.stream)
    ways = {(each.target.mode, tuple(each.target.merge_keys or ())) for each in found}
    if len(ways) > 1 and not keys.get("mode"):
        raise ConfigError(
            f"loads of the file write table {one.stream!r} in different ways",
            "say how the records land, such as `--set mode=append`.",
        )
    target = load_target(found[0].target if found else to, keys)
    names = set(one.expectations)
    named = (load for load in found if names <= {each.title for each in load.expect})
    load = next(named, found[0] if found else None)
    if expect is not None:
        return target, expect, load
    if one.expectations and not found:
        raise ConfigError(
            f"run {one.run_id!r} has set rows of {one.stream!r} aside that did not meet "
            f"{', '.join(one.expectations)}, and nothing says what is expected of them now",
            "give `--expect` (`expect`) once more, or `--no-expect` (`expect=[]`) to land them as "
            "they are; a lake's file in the target's place says it, too.",
        )
    own = load.expect if load is not None else ()
    return target, [each for each in own if not (each.rows or each.fresh)], load


def _loads(to: Target | DestinationConfig, stream: str) -> list[Load]:
    """The loads that write the stream's table, if this is a lake's file."""
    if not isinstance(to, (str, os.PathLike)) or Path(to).suffix.lower() not in _SUFFIXES:
        return []
    if not Path(to).is_file() or "loads" not in parse_text(read_text(Path(to)), str(to)):
        return []
    loads = [*read_lake(to).loads.values()]
    fixed = [load for load in loads if load.target.table_pattern == stream]
    open_ = [load for load in loads if "{stream}" in (load.target.table_pattern or "{stream}")]
    return fixed or open_
