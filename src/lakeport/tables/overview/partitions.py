"""The partitions of a Delta table, by names in which two spellings of a value are one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from lakeport.html.facts import FileFacts, PartitionFacts
from lakeport.tables.overview.leaves import Leaf
from lakeport.tables.overview.values import UNREADABLE, reader, spelled
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES

Values = Mapping[str, str | None]


class PartitionNames:
    """Names partitions as `column=value`, with `/` between.

    Args:
        columns: the partition columns.
    """

    def __init__(self, columns: Sequence[Leaf]) -> None:
        self._columns = {leaf.path[0]: leaf for leaf in columns}
        self._known: dict[tuple[str | None, ...], str] = {}

    def name(self, values: Values | None) -> str:
        """The name of one partition; empty for a table without partitions.

        Args:
            values: column in the data files -> value as the log spells it.
        """
        told = values or {}
        if told.keys() != self._columns.keys():  # of a time when the table had other columns
            return "/".join(f"{name}={text or 'null'}" for name, text in told.items())
        key = tuple(told[name] for name in self._columns)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._spell(key)
        return known

    def _spell(self, key: Iterable[str | None]) -> str:
        parts = []
        for text, leaf in zip(key, self._columns.values(), strict=True):
            value, read = text or "null", reader(leaf.type)
            if text and read is not None:
                with suppress(*UNREADABLE):
                    value = spelled(read(text), leaf.type)
            parts.append(f"{leaf.name}={value}")
        return "/".join(parts)


def partition_facts(
    files: Sequence[tuple[str, int, int | None]],
) -> tuple[list[FileFacts], list[PartitionFacts]]:
    """The files with their partitions, and the partitions, by name.

    Args:
        files: name of the partition, size and rows of each; a table without partitions has files
            with empty names only.
    """
    groups: dict[str, list[tuple[int, int | None]]] = {}
    for name, size, rows in files:
        groups.setdefault(name, []).append((size, rows))
    partitioned = sorted(groups) if groups.keys() - {""} else []
    places = {name: place for place, name in enumerate(partitioned)}
    told = [FileFacts(size, places.get(name, -1)) for name, size, _ in files]
    return told, [_partition(name, groups[name]) for name in partitioned]


def _partition(name: str, files: Sequence[tuple[int, int | None]]) -> PartitionFacts:
    rows = [count for _, count in files]
    return PartitionFacts(
        name=name,
        files=len(files),
        bytes=sum(size for size, _ in files),
        rows=None if None in rows else sum(count or 0 for count in rows),
        small_files=sum(size < SMALL_FILE_BYTES for size, _ in files),
    )
