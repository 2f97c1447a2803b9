"""What a batch makes of a Delta table: its schema, properties and layout. No Spark here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.errors import ConfigError, DestinationError, SchemaConflict
from lakeport.model import Mode
from lakeport.schema.evolution import Evolution, EvolutionPolicy, plan_evolution
from lakeport.writers.delta.log.actions import check_partition_type
from lakeport.writers.delta.options import cluster_columns, spelled, table_settings
from lakeport.writers.delta.schema import MAPPING_MODE, grow_schema, needs_mapping
from lakeport.writers.delta.state import TableState

__all__ = ["DEFAULT_PROPERTIES", "TARGET_FILE_SIZE", "WIDENING", "DeltaPlan", "plan_table"]

TARGET_FILE_SIZE = "delta.targetFileSize"
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "delta.checkpointInterval": "10",
    "delta.checkpointPolicy": "classic",
    "delta.dataSkippingNumIndexedCols": "32",
    "delta.enableDeletionVectors": "false",
    TARGET_FILE_SIZE: str(256 << 20),
}
"""Properties of new tables: what keeps them quick to open, and readable by every engine, whatever
the session says. How long the log is kept is left to Delta."""

WIDENING = "delta.enableTypeWidening"
"""Property of tables whose columns may get wider types."""

_MAX_ID = "delta.columnMapping.maxColumnId"


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """What a batch makes of a table.

    Attributes:
        incoming: the batch's columns.
        schema: the table's columns after the batch, partition columns included, in order: what
            the shaped batches must have.
        schema_json: the same as Delta's JSON.
        partition_columns: the table's partition columns.
        mode: append, overwrite or merge.
        policy: whether columns may be added.
        partition_keys: the columns that were asked for; none means the table's own.
        dynamic: the overwrite replaces only the partitions that the batch has.
        evolution: how the schema came about.
        properties: the table's properties after the batch.
        base: the table before the batch; None when there is none.
        mapped: data files have other column names than the table.
        cluster_by: the columns by which a new table is to be clustered.
        needs_spark: why Spark has to write this batch itself; empty when it need not.
        warnings: sentences for the report.
    """

    incoming: pa.Schema
    schema: pa.Schema
    schema_json: Mapping[str, Any]
    partition_columns: tuple[str, ...]
    mode: Mode
    policy: EvolutionPolicy
    partition_keys: tuple[str, ...]
    dynamic: bool
    evolution: Evolution
    properties: Mapping[str, str]
    base: TableState | None
    mapped: bool
    cluster_by: tuple[str, ...] = ()
    needs_spark: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def metadata_changes(self) -> bool:
        """Whether the commit has to change the table's metadata."""
        return (
            self.base is None
            or self.schema_json != self.base.schema_json
            or self.properties != self.base.properties
        )


def plan_table(
    state: TableState | None,
    incoming: pa.Schema,
    *,
    mode: Mode | str = Mode.APPEND,
    partition_keys: Sequence[str] = (),
    policy: EvolutionPolicy | str = EvolutionPolicy.EVOLVE,
    properties: Mapping[str, str] | None = None,
    widen: bool = False,
    cluster_by: Sequence[str] = (),
) -> DeltaPlan:
    """Plan what a batch makes of a table.

    Args:
        state: the table; None when there is none.
        incoming: the batch's columns.
        mode: append, overwrite or merge.
        partition_keys: columns to partition by; none means the table's own.
        policy: whether columns may be added.
        properties: of the table; of a new one, beside and above the defaults.
        widen: columns may get wider types.
        cluster_by: columns by which a new table is clustered; none means the table's own.

    Raises:
        ConfigError: a partition or clustering column is absent or of a type that can't be one, or
            a property can't be set by a load.
        SchemaConflict: the batch does not fit the table, or is to be partitioned otherwise.
        DestinationError: an overwrite of a table that only takes appends.
    """
    mode, policy = Mode(mode), EvolutionPolicy(policy)
    if state is not None and mode is Mode.OVERWRITE and _only_grows(state):
        raise DestinationError(
            "the table can't be overwritten: its property `delta.appendOnly` is `true`",
            "use `mode: append`, or have the table's owner unset the property.",
        )
    dynamic = mode is Mode.OVERWRITE and bool(partition_keys) and state is not None
    evolution = plan_evolution(
        None if state is None else state.schema,
        incoming,
        policy,
        mode,
        partial=dynamic,
        widen=widen or (state is not None and state.properties.get(WIDENING) == "true"),
    )
    columns = _partition_columns(state, evolution.schema, partition_keys)
    clustered = cluster_columns(state, evolution.schema, cluster_by, partitioned=bool(columns))
    settings = table_settings(state, properties or {}, DEFAULT_PROPERTIES)
    if clustered:
        settings["delta.feature.clustering"] = "supported"
    warnings = _map_columns(state, evolution.schema, settings)
    warnings += _widen(state, evolution, settings)
    mapped = settings.get(MAPPING_MODE, "none") != "none"
    schema_json = grow_schema(
        state.schema_json if state else None,
        evolution.schema,
        mapped=mapped,
        widened=bool(evolution.widened),
        highest_id=int(settings.get(_MAX_ID, 0)),
    )
    return DeltaPlan(
        incoming=incoming,
        schema=evolution.schema,
        schema_json=schema_json,
        partition_columns=columns,
        mode=mode,
        policy=policy,
        partition_keys=tuple(partition_keys),
        dynamic=dynamic,
        evolution=evolution,
        properties=settings,
        base=state,
        mapped=mapped,
        cluster_by=clustered,
        needs_spark=_needs_spark(state, mode) if state else (),
        warnings=warnings,
    )


def _only_grows(state: TableState) -> bool:
    return state.properties.get("delta.appendOnly", "").lower() == "true"


def _needs_spark(state: TableState, mode: Mode) -> tuple[str, ...]:
    """What only Spark can honour, which is more where rows are changed."""
    found = state.needs_spark
    if mode is Mode.MERGE:
        if "deletionVectors" in state.features:
            found += ("deletion vectors",)
        if state.properties.get("delta.enableChangeDataFeed") == "true":
            found += ("a change data feed",)
    return found


def _map_columns(
    state: TableState | None, schema: pa.Schema, settings: dict[str, str]
) -> tuple[str, ...]:
    names = needs_mapping(schema)
    if not names or settings.get(MAPPING_MODE, "none") != "none":
        return ()
    listed = ", ".join(repr(name) for name in names)
    if state is not None:
        raise SchemaConflict(
            f"the table can't hold a column of the name {listed}: it has no column mapping",
            "rename the column, land in a new table, or set the table property "
            "`delta.columnMapping.mode` to `name`.",
        )
    settings[MAPPING_MODE] = "name"
    return (
        f"the names {listed} need column mapping, which some readers of Delta tables lack; "
        "names without spaces and ,;{}()= do not.",
    )


def _widen(
    state: TableState | None, evolution: Evolution, settings: dict[str, str]
) -> tuple[str, ...]:
    if not evolution.widened or state is None:
        return ()
    listed = ", ".join(f"{name!r} (was {type_})" for name, type_ in evolution.widened.items())
    if settings.get(WIDENING) == "true":
        return (f"wider types: {listed}.",)
    if state.needs_spark:
        raise SchemaConflict(
            f"the table has {', '.join(state.needs_spark)}, so that {listed} can't be widened here",
            f"set the table property `{WIDENING}` to `true` first.",
        )
    settings[WIDENING] = "true"
    return (
        f"wider types: {listed}; from now on the table takes the feature `typeWidening`, which "
        "delta-rs and Athena, among others, lack.",
    )


def _partition_columns(
    state: TableState | None, schema: pa.Schema, partition_keys: Sequence[str]
) -> tuple[str, ...]:
    wanted = spelled(partition_keys, schema, "partition")
    if state is not None:
        known = state.partition_columns
        if wanted and wanted != known:
            raise SchemaConflict(
                f"the table is partitioned by {_listed(known)}, the batch by {_listed(wanted)}",
                "leave out `partition_keys` to keep the table's, or land in another table.",
            )
        lost = [name for name in known if name not in schema.names]
        if lost:
            raise SchemaConflict(
                f"the batch lacks {lost[0]!r}, by which the table is partitioned",
                "add the column to the source, or land in another table.",
            )
        for name in known:
            if schema.field(name).type != state.schema.field(name).type:
                check_partition_type(name, schema.field(name).type)
        return known
    for name in wanted:
        check_partition_type(name, schema.field(name).type)
    if wanted and len(wanted) == len(schema.names):
        raise ConfigError(
            f"every column is a partition column: {_listed(wanted)}",
            "leave at least one column for the data files.",
        )
    return wanted


def _listed(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ")" if names else "nothing"
