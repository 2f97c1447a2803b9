"""What a config says of a source's columns, as far as that shows without the source."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lakeport.config.delete_when import DeleteCondition

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig


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
    condition = config.delete_when and DeleteCondition.parse(config.delete_when)
    keys = {key: getattr(config, key) for key in ("merge_keys", "partition_keys", "cluster_by")}
    keys["delete_column"] = [config.delete_column] if config.delete_column else []
    keys["delete_when"] = [condition.column] if condition else []
    for key, names in keys.items():
        for name in names:
            if name in gone:
                new = config.rename.get(name)
                raise ValueError(
                    f"`{key}` names {name!r}, which `drop` leaves out"
                    if new is None
                    else f"`{key}` names {name!r}, which `rename` calls {new!r}: name that"
                )
