"""Decide whether a table is plain, so that lakeport can commit to it without delta-spark. Pure.

A plain table has only features, properties and types that are listed here, which are known to need
nothing but files, columns and partitions. Any other table is left to delta-spark.

Table features are named in the table's protocol. A reader that lacks one of the reader features
refuses the whole table; a writer feature only stops other writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeport.delta_log.checkpoint import CLEANS_LOG, FILE_RETENTION, LOG_RETENTION, parse_duration
from lakeport.delta_log.state import TableState
from lakeport.writers.delta.plan import DEFAULT_PROPERTIES, DeltaPlan

_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_DURATIONS = frozenset({FILE_RETENTION, LOG_RETENTION})
_PROPERTIES = frozenset({*DEFAULT_PROPERTIES, *_DURATIONS, CLEANS_LOG, "delta.appendOnly"})
# Values other than the defaults turn on a table feature.
_BRING_FEATURES = ("delta.checkpointPolicy", "delta.enableDeletionVectors")
_NEWEST: Final = {"minReaderVersion": 3, "minWriterVersion": 7}
"""Newest protocol versions known."""
_NUMBERS = ("long", "integer", "short", "byte", "double", "float")
_TYPES = frozenset({"string", "binary", "boolean", "date", "timestamp", *_NUMBERS})

# delta-rs, Polars: what 1.6 (as Arrow) and 2.1 refuse or misread; a test checks it. DuckDB: tried
# with its Delta extension 1.4. Athena: its user guide, which names column mapping, timestamps
# without zone and deletion vectors as supported. Trino: its connector's feature list.
LACKING_READERS: Mapping[str, tuple[str, ...]] = {
    "catalogManaged": ("Athena", "delta-rs", "Polars", "Trino"),
    "columnMapping": ("delta-rs", "Polars"),
    "deletionVectors": ("delta-rs",),
    "timestampNtz": (),
    "typeWidening": ("Athena", "delta-rs", "Polars"),
    "typeWidening-preview": ("Athena", "delta-rs", "Polars"),
    "v2Checkpoint": ("Athena", "delta-rs", "Polars"),
    "vacuumProtocolCheck": ("delta-rs", "Polars"),
    "variantType": ("Athena", "Trino"),
    "variantType-preview": ("Athena", "Trino"),
}
"""Reader feature -> programs that can't read a table with it."""

_MAPPED_BY_VERSION: Final = ("delta-rs (reads nulls)", "Polars")
"""Programs that can't read a table with column mapping by its reader version, 2."""

_WRITERS: Mapping[str, tuple[str, ...]] = {
    "clustering": ("delta-rs", "Trino"),
    "rowTracking": ("delta-rs", "Trino"),
    "identityColumns": ("delta-rs", "Trino"),
}


def is_plain(state: TableState) -> bool:
    """Whether lakeport can commit to a table without delta-spark: it has only known features."""
    listed = [name for name in state.properties if name.startswith("delta.")]
    return (
        all(int(state.protocol.get(name, 0)) <= most for name, most in _NEWEST.items())
        and state.features <= _FEATURES
        and _PROPERTIES.issuperset(listed)
        and all(
            parse_duration(state.properties[name]) is not None for name in _DURATIONS & {*listed}
        )
        and not state.mapped
        and not state.needs_spark
    )


def leaves_plain(plan: DeltaPlan) -> bool:
    """Whether a table can be committed to without delta-spark, before a plan and after it."""
    base = plan.base
    if plan.cluster_by or plan.needs_spark or plan.evolution.widened:
        return False
    if base is None:
        return (
            _PROPERTIES.issuperset(plan.properties)
            and all(plan.properties[name] == DEFAULT_PROPERTIES[name] for name in _BRING_FEATURES)
            and _has_common_types(plan.schema_json)
        )
    same = base.schema_json == plan.schema_json
    return (
        is_plain(base)
        and base.properties == plan.properties
        and (same or _has_common_types(plan.schema_json))
    )


def _has_common_types(type_: Any) -> bool:
    """Whether a type in Delta's JSON, nested ones too, is in every version of the protocol."""
    if isinstance(type_, str):
        return type_ in _TYPES or type_.startswith("decimal(")
    inner = [field["type"] for field in type_.get("fields", ())]
    inner += [type_[part] for part in ("elementType", "keyType", "valueType") if part in type_]
    return all(map(_has_common_types, inner))


def lacking_readers(protocol: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Map each reader feature of a protocol to programs that can't read tables with it.

    An unknown reader feature counts as one that most programs lack.

    >>> lacking_readers({"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]})
    {'deletionVectors': ('delta-rs',)}
    >>> lacking_readers({"minReaderVersion": 1, "minWriterVersion": 2})
    {}
    """
    named = protocol.get("readerFeatures")
    features = {str(name) for name in named} if isinstance(named, (list, tuple)) else set()
    found = {name: LACKING_READERS.get(name, ("most others",)) for name in sorted(features)}
    if protocol.get("minReaderVersion") == 2:
        listed = ("DuckDB",) if protocol.get("writerFeatures") else ()
        found["columnMapping"] = (*_MAPPED_BY_VERSION, *listed)
    return {name: readers for name, readers in found.items() if readers}


def feature_notes(before: Iterable[str], protocol: Mapping[str, object]) -> tuple[str, ...]:
    """Return a note for each new feature of a protocol that some programs can't read or write.

    >>> feature_notes((), {"minReaderVersion": 1, "writerFeatures": ["clustering"]})
    ('the table now has `clustering`: delta-rs, Trino can read it, but not write to it.',)
    """
    had = set(before)
    notes = [
        f"the table now has `{name}`: {', '.join(readers)} can't read it."
        for name, readers in lacking_readers(protocol).items()
        if name not in had
    ]
    named = protocol.get("writerFeatures")
    for name in sorted(str(item) for item in named) if isinstance(named, (list, tuple)) else ():
        if name in _WRITERS and name not in had:
            writers = ", ".join(_WRITERS[name])
            notes.append(f"the table now has `{name}`: {writers} can read it, but not write to it.")
    return tuple(notes)
