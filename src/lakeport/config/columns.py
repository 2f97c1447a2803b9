"""What a config says of a source's columns, as far as that shows without the source."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

__all__ = ["check_columns"]


def check_columns(config: DestinationConfig) -> None:
    """See that `columns`, `rename` and `drop` go together, and with the keys of the table.

    Raises:
        ValueError: they don't; a sentence that says which column is at fault.
    """
    for key, names in (("columns", config.columns), ("rename", config.rename)):
        both = sorted(set(config.drop) & names.keys())
        if both:
            raise ValueError(f"`drop` leaves out {both[0]!r}, which `{key}` names")
    empty = [old for old, new in config.rename.items() if not new.strip()]
    if empty:
        raise ValueError(f"`rename` gives {empty[0]!r} an empty name")
    taken = Counter(new.lower() for new in config.rename.values())
    twice = [old for old, new in config.rename.items() if taken[new.lower()] > 1]
    if twice:
        raise ValueError(f"`rename` gives {twice[0]!r} and {twice[1]!r} the same name")
    gone = (set(config.drop) | config.rename.keys()) - {*config.rename.values()}
    for key in ("merge_keys", "partition_keys", "cluster_by"):
        for name in getattr(config, key):
            if name in gone:
                new = config.rename.get(name)
                raise ValueError(
                    f"`{key}` names {name!r}, which `drop` leaves out"
                    if new is None
                    else f"`{key}` names {name!r}, which `rename` calls {new!r}: name that"
                )
