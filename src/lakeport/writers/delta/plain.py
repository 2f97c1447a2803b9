"""Which tables are plain: nothing but files, columns and partitions is to be looked after. Pure.

What is listed here is known to need no more. A feature, property or type that is not, goes to
delta-spark.
"""

from __future__ import annotations

from typing import Any, Final

from lakeport.writers.delta.log.checkpoint import (
    CLEANS_LOG,
    FILE_RETENTION,
    LOG_RETENTION,
    duration,
)
from lakeport.writers.delta.plan import DEFAULT_PROPERTIES, DeltaPlan
from lakeport.writers.delta.state import TableState

_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_DURATIONS = frozenset({FILE_RETENTION, LOG_RETENTION})
_PROPERTIES = frozenset({*DEFAULT_PROPERTIES, *_DURATIONS, CLEANS_LOG, "delta.appendOnly"})
_NEWEST: Final = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
}  # newer ones are unknown
_NUMBERS = ("long", "integer", "short", "byte", "double", "float")
_TYPES = frozenset({"string", "binary", "boolean", "date", "timestamp", *_NUMBERS})


def plain(state: TableState) -> bool:
    """Whether a table has no feature and no property that delta-spark had to look after."""
    listed = [name for name in state.properties if name.startswith("delta.")]
    return (
        all(int(state.protocol.get(name, 0)) <= most for name, most in _NEWEST.items())
        and state.features <= _FEATURES
        and _PROPERTIES.issuperset(listed)
        and all(duration(state.properties[name]) is not None for name in _DURATIONS & {*listed})
        and not state.mapped
        and not state.needs_spark
    )


def leaves_plain(plan: DeltaPlan) -> bool:
    """Whether a plan leaves a plain table, and comes from none or one."""
    base = plan.base
    if plan.cluster_by or plan.needs_spark or plan.evolution.widened:
        return False
    if base is None:
        return _PROPERTIES.issuperset(plan.properties) and _common(plan.schema_json)
    same = base.schema_json == plan.schema_json
    return (
        plain(base) and base.properties == plan.properties and (same or _common(plan.schema_json))
    )


def _common(type_: Any) -> bool:
    """Whether a schema has none but types that every version of the protocol knows."""
    if isinstance(type_, str):
        return type_ in _TYPES or type_.startswith("decimal(")
    inner = [field["type"] for field in type_.get("fields", ())]
    inner += [type_[part] for part in ("elementType", "keyType", "valueType") if part in type_]
    return all(map(_common, inner))
