"""Which loads of the file a run is to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from lakeport.config.explain import no_such
from lakeport.errors import ConfigError
from lakeport.pipeline.places import table_of

if TYPE_CHECKING:
    from lakeport.config.lake import LakeFile, Load

_DONE = frozenset({"landed", "left out"})


def named(lake: LakeFile, only: Sequence[str], tag: str) -> dict[str, Load]:
    """The loads that are asked for, in the file's order; all, if nothing is said.

    Args:
        lake: the file.
        only: names, each taken alone, without the loads that it uses.
        tag: those that have it; empty for any.

    Raises:
        ConfigError: there is no such load, or none with that tag.
    """
    check_names(lake, only)
    wanted = {name: load for name, load in lake.loads.items() if not only or name in only}
    tagged = {name: load for name, load in wanted.items() if not tag or tag in load.tags}
    if tag and not tagged:
        known = sorted({tag for load in wanted.values() for tag in load.tags})
        raise ConfigError(
            f"no load has the tag {tag!r}",
            f"there are: {', '.join(known)}."
            if known
            else "`tags: [...]` of a load gives it some.",
        )
    return tagged


def check_names(lake: LakeFile, names: Sequence[str]) -> None:
    """See that the file has these loads.

    Raises:
        ConfigError: it lacks one; the nearest is told.
    """
    for name in names:
        if name not in lake.loads:
            raise no_such("load", name, lake.loads)


def check_refresh(lake: LakeFile, names: Collection[str]) -> None:
    """See that these loads can be read anew: each replaces its table, which then is its own.

    Raises:
        ConfigError: the file lacks one, or another load lands in its table, too.
    """
    check_names(lake, [*names])
    tables = {name: table_of(load) for name, load in lake.loads.items()} if names else {}
    for name in names:
        others = [other for other in tables if other != name and tables[other] == tables[name]]
        if tables[name] and others:
            raise ConfigError(
                f"a full refresh of load {name!r} would replace its table, in which "
                f"{', '.join(map(repr, others))} landed, too",
                "remove the table, and run the loads that share it: they begin anew then.",
            )


def unfinished(loads: Mapping[str, Load], before: Mapping[str, str]) -> dict[str, Load]:
    """Those loads that an earlier run did not bring to a good end.

    Args:
        loads: that are asked for.
        before: load -> its outcome in that run.
    """
    return {name: load for name, load in loads.items() if before.get(name) not in _DONE}
