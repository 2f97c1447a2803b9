"""Which files of a table are small, and which of them would be merged. Pure.

OPTIMIZE merges the files of one partition that are smaller than the target, smallest first, as
long as they fit into one file of the target's size: Delta's own way to pack them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.engine.spark.sql import quoted
from lakeport.schema.sparktypes import spark_json
from lakeport.writers.delta.log.actions import parse_value
from lakeport.writers.delta.log.reader import Contents
from lakeport.writers.delta.schema import physical_names

SMALL_FILE_BYTES = 32 << 20
"""Below this a data file counts as small."""
MANY_SMALL_FILES = 20
"""So many small files in one partition are a pile."""

_TARGET = 256 << 20
_SIZE = re.compile(r"\s*(\d+)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Group:
    """The files of one partition, or of a table without partitions.

    Attributes:
        values: partition column -> its value as the log spells it.
        sizes: the files' sizes in bytes.
    """

    values: Values
    sizes: tuple[int, ...]

    @property
    def small(self) -> int:
        """How many of the files are small."""
        return sum(size < SMALL_FILE_BYTES for size in self.sizes)


def target_bytes(properties: Mapping[str, str]) -> int:
    """The size that a table's data files are to have.

    >>> target_bytes({}), target_bytes({"delta.targetFileSize": "128mb"})
    (268435456, 134217728)
    """
    match = _SIZE.fullmatch(properties.get("delta.targetFileSize", ""))
    return int(match[1]) * _UNITS[match[2].lower()] if match else _TARGET


def groups(contents: Contents) -> list[Group]:
    """A table's files by partition; two spellings of one value are one partition."""
    columns = _columns(contents)
    found: dict[tuple[Any, ...], tuple[Values, list[int]]] = {}
    for file in contents.files:
        values = file.partition
        key = tuple(parse_value(values.get(name), type_) for name, (_, type_) in columns.items())
        named = {logical: values.get(name) for name, (logical, _) in columns.items()}
        found.setdefault(key, (named, []))[1].append(file.bytes)
    return [Group(values, tuple(sizes)) for values, sizes in found.values()]


def packed(sizes: Iterable[int], target: int) -> list[tuple[int, ...]]:
    """The files that are merged, one tuple for each new file.

    >>> packed([5, 1, 4, 30, 7], target=10)
    [(1, 4, 5)]
    """
    bins: list[list[int]] = [[]]
    for size in sorted(size for size in sizes if size < target):
        if sum(bins[-1]) + size > target:
            bins.append([])
        bins[-1].append(size)
    return [tuple(found) for found in bins if len(found) > 1]


def crowded(contents: Contents, touched: Iterable[Values]) -> list[Group]:
    """The partitions that hold a pile of small files, of those that were written to.

    Args:
        contents: what the table holds now.
        touched: partition values as the log has them, by the columns' names in data files.
    """
    columns = _columns(contents)

    def typed(values: Values, names: Iterable[str]) -> tuple[Any, ...]:
        kinds = (type_ for _, type_ in columns.values())
        return tuple(parse_value(values.get(n), k) for n, k in zip(names, kinds, strict=True))

    wanted = {typed(values, columns) for values in touched}
    logical = [name for name, _ in columns.values()]
    return [
        group
        for group in groups(contents)
        if group.small >= MANY_SMALL_FILES and typed(group.values, logical) in wanted
    ]


def condition(partitions: Sequence[Group], schema: pa.Schema) -> str:
    """A condition on partition columns that holds for these partitions only.

    Values are written as hexadecimal UTF-8, so that no value can be anything but a value.

    >>> condition([Group({"p": "a'b"}, ()), Group({"p": None}, ())], pa.schema([("p", "string")]))
    "(`p` <=> CAST(X'612762' AS STRING)) OR (`p` IS NULL)"
    """
    return " OR ".join(
        "(" + " AND ".join(_equals(n, v, schema.field(n).type) for n, v in g.values.items()) + ")"
        for g in partitions
    )


def _equals(name: str, value: str | None, type_: pa.DataType) -> str:
    column = quoted(name)
    if value is None or value == "":
        return f"{column} IS NULL"
    text = f"CAST(X'{value.encode().hex()}' AS STRING)"
    if not pa.types.is_string(type_) and not pa.types.is_large_string(type_):
        kind = json.loads(spark_json(pa.schema([(name, type_)])))["fields"][0]["type"]
        text = f"CAST({text} AS {kind})"
    return f"{column} <=> {text}"


def _columns(contents: Contents) -> dict[str, tuple[str, pa.DataType]]:
    """Partition column's name in the log -> its own name and type."""
    state = contents.state
    schema = state.partition_schema
    names = physical_names(state.schema_json, state.partition_columns)
    return {names[name]: (name, schema.field(name).type) for name in state.partition_columns}
