"""What a load asks of its table beside rows: properties, and columns to cluster by. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import ConfigError, SchemaConflict

if TYPE_CHECKING:
    from lakeport.writers.delta.state import TableState

__all__ = ["cluster_columns", "spelled", "table_settings"]

_FEATURE = "delta.feature."
_MAPPING = "delta.columnMapping."
_VERSIONS = ("delta.minReaderVersion", "delta.minWriterVersion")
_INDEXED = 32


def table_settings(
    state: TableState | None, asked: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """A table's properties after a load.

    Args:
        state: the table; None when there is none.
        asked: the properties that the load sets.
        defaults: a new table's.

    Raises:
        ConfigError: column mapping of a table that is there can't be changed by a load.
    """
    if state is None:
        return {**defaults, **asked}
    found = dict(state.properties)
    for name, value in asked.items():
        if found.get(name) == value or _has(state, name, value):
            continue
        if name.startswith(_MAPPING):
            raise ConfigError(
                f"`table_properties` can't set {name!r} of a table that is there already",
                "set it with ALTER TABLE, or land in a new table.",
            )
        found[name] = value
    return found


def cluster_columns(
    state: TableState | None, schema: pa.Schema, columns: Sequence[str], *, partitioned: bool
) -> tuple[str, ...]:
    """The columns by which a new table is to be clustered; none for a table that is there.

    Raises:
        ConfigError: a column is absent or of a type that can't be one, or the table has partitions.
        SchemaConflict: the table is clustered otherwise, or would lose such a column.
    """
    wanted = spelled(columns, schema, "cluster")
    if state is not None:
        _check_known(state.clustering, schema, wanted)
        return ()
    if wanted and partitioned:
        raise ConfigError(
            "a table with partition keys can't be clustered",
            "leave out `cluster_by`, or the partition keys of the stream.",
        )
    for name in wanted:
        type_ = schema.field(name).type
        if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_boolean(type_):
            raise ConfigError(
                f"column {name!r} is {type_}, by which no table can be clustered",
                "cluster by text, numbers, dates or times.",
            )
        if schema.names.index(name) >= _INDEXED:
            raise ConfigError(
                f"column {name!r} is behind the first {_INDEXED}, for which statistics are kept",
                "cluster by a column that comes earlier.",
            )
    return wanted


def spelled(names: Sequence[str], schema: pa.Schema, purpose: str) -> tuple[str, ...]:
    """Columns that a user names in any case, each once, as the schema spells them.

    Args:
        names: what the user gave.
        schema: of the table after the load.
        purpose: what they are for, a verb: "cluster".

    Raises:
        ConfigError: a column is absent.

    >>> spelled(["DAY", "day"], pa.schema([("Day", pa.date32())]), "partition")
    ('Day',)
    """
    spelling = {name.lower(): name for name in schema.names}
    absent = [name for name in names if name.lower() not in spelling]
    if absent:
        raise ConfigError(
            f"there is no column {absent[0]!r} to {purpose} by",
            f"the columns are {', '.join(schema.names)}.",
        )
    return tuple(dict.fromkeys(spelling[name.lower()] for name in names))


def _check_known(known: Sequence[str], schema: pa.Schema, wanted: Sequence[str]) -> None:
    if wanted and tuple(wanted) != tuple(known):
        now = f"clustered by ({', '.join(known)})" if known else "not clustered"
        raise SchemaConflict(
            f"the table is {now}, and `cluster_by` names ({', '.join(wanted)})",
            "leave out `cluster_by` to keep it so, change it with ALTER TABLE ... CLUSTER BY, or "
            "land in a new table.",
        )
    names = set(schema.names)  # a dot is part of a name, or leads to a member of an object
    lost = [name for name in known if not names & {name, name.partition(".")[0]}]
    if lost:
        raise SchemaConflict(
            f"the batch lacks {lost[0]!r}, by which the table is clustered",
            "add the column to the source, or land in another table.",
        )


def _has(state: TableState, name: str, value: str) -> bool:
    """Whether a property that turns into the table's protocol has done so."""
    if name in _VERSIONS:
        known = state.protocol.get(name.removeprefix("delta."), 0)
        return value.isdecimal() and int(value) <= int(known)
    return name.startswith(_FEATURE) and name.removeprefix(_FEATURE).lower() in {
        feature.lower() for feature in state.features
    }
