"""The one Spark that all loads of a run share."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lakeport.config.inputs import TablesSource
from lakeport.engine.base import Engine, SessionRequest
from lakeport.engine.choose import choose
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from lakeport.config.lake import Load


def start(loads: Collection[Load]) -> Engine:
    """Return an engine with all that the loads need, so that none has Spark start anew.

    It is the run's own, not a warm session's: that one has one command at a time.

    Raises:
        ConfigError: two loads ask for different Sparks, or for a warm session's.
        MissingDependency: there is no Java that Spark runs on.
    """
    needs: frozenset[str] = frozenset()
    first: Load | None = None
    engines = {load.target.engine for load in loads}
    for load in loads:
        first = first or load
        if load.target.warm == "require":
            raise ConfigError(
                f"load {load.name!r} asks for a warm session's Spark (`warm: require`), and the "
                "loads of a file share one of their own",
                "leave `warm` out, or land the source by `lakeport land`.",
            )
        if dict(load.target.spark) != dict(first.target.spark):
            raise ConfigError(
                f"loads {first.name!r} and {load.name!r} have different `spark` settings, and the "
                "loads of a file share one session",
                "give them once, under `target` or `defaults`.",
            )
        needs |= load.target.jars | _of_tables(load)
    name = "threads" if first and engines == {"threads"} else "spark"
    return choose(name, SessionRequest(needs, first.target.spark if first else {}))


def _of_tables(load: Load) -> frozenset[str]:
    """What Spark needs to read the tables that a load uses."""
    own = load.source.tables if isinstance(load.source, TablesSource) else {}
    used = {**load.tables, **own}
    return TablesSource(tables=used).jars if used else frozenset()
