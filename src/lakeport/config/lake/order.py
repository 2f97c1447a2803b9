"""Which loads use which, and in what order they are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from lakeport.config.base import DestinationConfig
from lakeport.config.lake.mistakes import Mistakes
from lakeport.model import Mode

_PLACE = ("path", "bucket", "account_name", "table_uri", "object_key_path", "aws_endpoint")


def _place(target: DestinationConfig) -> tuple[object, ...]:
    """What tells whether two loads land in the same table."""
    return (
        *(str(getattr(target, key, None)) for key in _PLACE),
        (target.table_pattern or "").strip("/"),
    )


@dataclass(frozen=True)
class Tables:
    """The tables that the loads of a file write.

    Attributes:
        targets: load -> where it lands.
        of_streams: loads that write a table for each stream.
    """

    targets: Mapping[str, DestinationConfig]
    of_streams: frozenset[str]

    def named(self, name: str) -> tuple[str, ...]:
        """The loads that write a table: by a load's name, `load.stream`, or the table's own name.

        Names are Spark's, which knows no case, unless two differ by it alone.
        """
        load = name.partition(".")[0]
        if load in self.targets and load in self.of_streams:
            return (load,)
        found = [name] if name in self.targets else self._like(name)
        places = {_place(self.targets[each]) for each in found}
        return tuple(each for each, at in self.targets.items() if _place(at) in places)

    def _like(self, name: str) -> list[str]:
        lower = name.casefold()
        loads = [each for each in self.targets if each.casefold() == lower]
        if len(loads) == 1:
            return loads
        return [
            each
            for each, target in self.targets.items()
            if each not in self.of_streams and target.table is not None and target.table == name
        ]

    def place(self, name: str) -> str:
        """The URI of a table that some load writes."""
        load = self.named(name)[0]
        target, stream = self.targets[load], name.partition(".")[2]
        table = target.table_pattern or "{stream}"
        if load in self.of_streams:
            table = table.replace("{stream}", stream)
        return target.storage().uri(target.folder_of(table.strip("/")))


def in_order(depends: Mapping[str, Sequence[str]], mistakes: Mistakes) -> tuple[str, ...]:
    """The loads, each behind those that it uses, else as in the file.

    Args:
        depends: load -> those that it uses.
        mistakes: gets each cycle, with the lines of its loads.
    """
    uses = {name: dict.fromkeys(used) for name, used in depends.items()}
    begun: set[str] = set()
    while True:
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for name in uses:
            sorter.add(name)
        for name, used in uses.items():
            sorter.add(name, *used)
        try:
            return tuple(sorter.static_order())
        except CycleError as error:
            ring = _from_first(error.args[1][:0:-1], begun, mistakes)  # each uses the next
        lines = [mistakes.document.place("loads", name).line for name in ring]
        path = " -> ".join(f"{name} (line {line})" for name, line in zip(ring, lines, strict=True))
        mistakes.add(
            ("loads", ring[0]),
            f"it uses itself: {path}",
            "a load can't come before itself: have one of them not use the next.",
        )
        begun.add(ring[0])
        del uses[ring[0]][ring[1]]  # there may be others


def _from_first(cycle: Sequence[str], begun: Collection[str], mistakes: Mistakes) -> list[str]:
    """A cycle from the load on that is the first in the file, of those with no cycle yet."""
    order = sorted(
        range(len(cycle)),
        key=lambda at: (cycle[at] in begun, mistakes.document.place("loads", cycle[at])),
    )
    first = order[0]
    return [*cycle[first:], *cycle[: first + 1]]


def refuse_shared_overwrites(tables: Tables, mistakes: Mistakes) -> None:
    """Refuse two loads of one table of which one would remove the other's rows."""
    first: dict[tuple[object, ...], str] = {}
    for name, target in tables.targets.items():
        if name in tables.of_streams:
            continue
        other = first.setdefault(_place(target), name)
        if other == name:
            continue
        modes = {target.mode, tables.targets[other].mode}
        if Mode.OVERWRITE in modes:
            line = mistakes.document.place("loads", other).line
            mistakes.add(
                ("loads", name),
                f"it lands in the table of load {other!r} (line {line}), and one of both "
                "overwrites it",
                "name another `table`; loads that append or merge may share one.",
            )
