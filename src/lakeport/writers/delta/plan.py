"""Plan a batch against a Delta table: its schema, properties and layout after the batch."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakeport.config.explain import closest_match
from lakeport.delta_log.actions import check_partition_type
from lakeport.delta_log.state import MAPPING_MODE, TableState, grow_schema, needs_mapping
from lakeport.errors import ConfigError, DestinationError, SchemaConflict
from lakeport.model import Mode
from lakeport.schema.evolution import Evolution, EvolutionPolicy, plan_evolution
from lakeport.schema.hints import find_parent_column, quote_names
from lakeport.schema.nested import fill_untyped_columns, replace_untyped_columns, to_file_field
from lakeport.schema.spark_schema import fill_marked_types, write_untyped_marks
from lakeport.shape import apply_header_case

TARGET_FILE_SIZE = "delta.targetFileSize"
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "delta.checkpointInterval": "10",
    "delta.checkpointPolicy": "classic",
    "delta.dataSkippingNumIndexedCols": "32",
    "delta.enableDeletionVectors": "false",
    TARGET_FILE_SIZE: str(256 << 20),
}
"""Properties of new tables, whatever the session's defaults: quick to open, and readable by every
engine. How long the log is kept is left to Delta."""

WIDENING = "delta.enableTypeWidening"
"""Property that lets a table's columns get wider types."""

_MAX_ID = "delta.columnMapping.maxColumnId"
_FEATURE = "delta.feature."
_MAPPING = "delta.columnMapping."
_VERSIONS = ("delta.minReaderVersion", "delta.minWriterVersion")
_INDEXED = 32
_RULES = (
    "delta.constraints.",
    "NOT NULL",
    "a length of",
    "a rule of",
    "a change data feed",
    "deletion vectors",
)
"""Beginnings of reasons by which Spark writes batches, but files may be rewritten by lakeport."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Settings of a load for its table: mode, partitions, policy, properties, clustering, keys.

    Attributes:
        partition_keys: columns to partition by; empty keeps the table's own.
        policy: whether columns may be added.
        properties: table properties to set; a new table gets the defaults as well.
        widen: whether columns may get wider types.
        cluster_by: columns by which a new table is clustered; empty keeps the table's own.
        keys: columns that identify rows, which files store also where they have no value.
    """

    mode: Mode = Mode.APPEND
    partition_keys: tuple[str, ...] = ()
    policy: EvolutionPolicy = EvolutionPolicy.EVOLVE
    properties: Mapping[str, str] = field(default_factory=dict)
    widen: bool = False
    cluster_by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """A table's planned schema, partitions and properties after a batch, and its state before.

    Attributes:
        schema: the columns that staged batches must have, in order: the table's after the batch,
            partition columns included. Columns that never had a value are left out, or text.
        schema_json: the table's schema after the batch, as Delta's JSON.
        partition_columns: the table's partition columns.
        evolution: the schema's evolution from the table's columns and the batch's.
        properties: the table's properties after the batch.
        base: the table before the batch; None when there is none.
        cluster_by: columns by which a new table is clustered.
        needs_spark: reasons why Spark has to write this batch itself; empty for none.
    """

    incoming: pa.Schema
    schema: pa.Schema
    schema_json: Mapping[str, Any]
    partition_columns: tuple[str, ...]
    request: TableRequest
    evolution: Evolution
    properties: Mapping[str, str]
    base: TableState | None
    cluster_by: tuple[str, ...] = ()
    needs_spark: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def mode(self) -> Mode:
        """Append, overwrite or merge."""
        return self.request.mode

    @property
    def dynamic(self) -> bool:
        """Whether an overwrite replaces only the partitions that the batch has."""
        by_partition = self.base is not None and bool(self.request.partition_keys)
        return self.mode is Mode.OVERWRITE and by_partition

    @property
    def mapped(self) -> bool:
        """Whether the table has column mapping, so that data files have other column names."""
        return self.properties.get(MAPPING_MODE, "none") != "none"

    @property
    def metadata_changes(self) -> bool:
        """Whether the commit has to change the table's metadata."""
        return (
            self.base is None
            or self.schema_json != self.base.schema_json
            or self.properties != self.base.properties
        )


_DEFAULT_REQUEST = TableRequest()


def plan_table(
    state: TableState | None,
    incoming: pa.Schema,
    request: TableRequest = _DEFAULT_REQUEST,
) -> DeltaPlan:
    """Plan a table's schema, partitions and properties after a batch; no state: a new table.

    Raises:
        ConfigError: a partition or clustering column is absent or of a type that can't be one, or
            a property can't be set by a load.
        SchemaConflict: the batch does not fit the table, or is to be partitioned otherwise.
        DestinationError: the load overwrites a table that only takes appends.
    """
    mode = request.mode
    if state is not None and mode is Mode.OVERWRITE:
        check_takes_changes(state, "the table can't be overwritten")
    dynamic = mode is Mode.OVERWRITE and bool(request.partition_keys) and state is not None
    by_spark = list_spark_reasons(state, mode) if state else ()
    closed = bool(by_spark) and not all(reason.startswith(_RULES) for reason in by_spark)
    evolution = plan_evolution(
        None if state is None else state.schema if closed else state.open_schema,
        replace_untyped_columns(fill_untyped_columns(incoming, state.schema))
        if state and closed
        else incoming,
        request.policy,
        mode,
        partial=dynamic,
        widen=request.widen or (state is not None and state.properties.get(WIDENING) == "true"),
    )
    schema = replace_untyped_columns(evolution.schema)
    columns = _partition_columns(state, schema, request.partition_keys)
    clustered = _cluster_columns(state, schema, request.cluster_by, partitioned=bool(columns))
    settings = _merge_properties(state, request.properties)
    if clustered:
        settings["delta.feature.clustering"] = "supported"
    warnings = _map_columns(state, schema, settings)
    warnings += _widen(state, evolution, settings)
    mapped = settings.get(MAPPING_MODE, "none") != "none"
    known = fill_marked_types(state.schema_json, evolution.schema) if state else None
    schema_json = grow_schema(
        known,
        schema,
        mapped=mapped,
        widened=bool(evolution.widened),
        highest_id=int(settings.get(_MAX_ID, 0)),
    )
    kept = (*request.keys, *clustered, *(state.clustering if state else ()))
    return DeltaPlan(
        incoming=incoming,
        schema=schema if by_spark else stored_columns(evolution.schema, columns, kept),
        schema_json=write_untyped_marks(schema_json, evolution.schema),
        partition_columns=columns,
        request=request,
        evolution=evolution,
        properties=settings,
        base=state,
        cluster_by=clustered,
        needs_spark=by_spark,
        warnings=warnings,
    )


def stored_columns(
    columns: pa.Schema, partitions: Iterable[str], keep: Iterable[str] = ()
) -> pa.Schema:
    """Return the columns that data files store: null types, which never had a value, left out.

    Where no column would be left for the files, all stay: a file without columns has no rows.

    Args:
        columns: the table's columns, with the types of `lakeport.schema.nested`. Columns of the
            type null are left out, and of others the parts that `stored_field` leaves out.
        partitions: names of the partition columns, which stay.
        keep: names, in any case, of columns that stay as text.
    """
    apart = {name.lower() for name in partitions}
    kept = apart | {name.lower() for name in keep}
    left = [f for f in columns if not pa.types.is_null(f.type) or f.name.lower() in kept]
    own = [f for f in left if f.name.lower() not in apart]
    return pa.schema([to_file_field(f) for f in (left if own else columns)])


def check_takes_changes(state: TableState, refusal: str) -> None:
    """Raise DestinationError, its text beginning with `refusal`, if a table is append-only."""
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        raise DestinationError(
            f"{refusal}: its property `delta.appendOnly` is `true`",
            "use `mode: append`, or have the table's owner unset the property.",
        )


def list_spark_reasons(state: TableState, mode: Mode) -> tuple[str, ...]:
    """Return the reasons why only Spark can write to a table; a merge may have more of them."""
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
    """Turn on column mapping in `settings` if names need it; return a warning, or an empty tuple.

    Raises:
        SchemaConflict: the table exists without column mapping.
    """
    names, warnings = needs_mapping(schema), tuple[str, ...]()
    if settings.get(MAPPING_MODE, "none") == "none":
        if not names:
            return ()
        listed = quote_names(names)
        if state is not None:
            raise SchemaConflict(
                f"the table can't hold a column of the name {listed}: it has no column mapping",
                f"{suggest_plain_name(names[0], schema, state.schema)}; or land in a new table, "
                "or set the table property `delta.columnMapping.mode` to `name`.",
            )
        settings[MAPPING_MODE] = "name"
        warnings = (
            f"the names {listed} need column mapping (`columnMapping`): delta-rs (`to_pandas`, "
            "`to_pyarrow_table`) and Polars can't read the table, Spark, DuckDB, Trino and Athena "
            f"can. {suggest_plain_name(names[0], schema)}.",
        )
    if state is None:
        # A feature that takes reader version 3, which lists column mapping as one, too. In tables
        # of version 2 delta-rs 1.6 does not notice it and reads nulls; DuckDB 1.4 refuses them.
        settings.setdefault(f"{_FEATURE}timestampNtz", "supported")
    return warnings


def suggest_plain_name(name: str, schema: pa.Schema, table: pa.Schema | None = None) -> str:
    """Return advice on a column or member that needs column mapping, by its dotted path.

    `table`: the table's columns; None for a new table, where all names may change.
    """
    plain = apply_header_case(name, "snake")
    if name not in schema.names:
        whole = find_parent_column(name, schema.names)
        return f"`--column {shlex.quote(f'{whole}=json')}` lands all of {whole!r} as JSON"
    if table is not None and plain not in table.names:
        return f"`--rename {shlex.quote(f'{name}={plain}')}` lands it by another name"
    return (
        "`column_header_format: snake` (`--set column_header_format=snake`) lands "
        f"{name!r} as {plain!r}"
    )


def _widen(
    state: TableState | None, evolution: Evolution, settings: dict[str, str]
) -> tuple[str, ...]:
    """Turn on type widening in `settings` if columns widen; return a warning, or an empty tuple.

    Raises:
        SchemaConflict: only Spark may change the table, and it does not widen types yet.
    """
    if not evolution.widened or state is None:
        return ()
    listed = ", ".join(f"{name!r} (was {type_})" for name, type_ in evolution.widened.items())
    if pa.date32() in evolution.widened.values():  # to moments without a zone
        settings[f"{_FEATURE}timestampNtz"] = "supported"
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
    """Return the table's partition columns; for a new table, the checked `partition_keys`."""
    wanted = _spell_columns(partition_keys, schema, "partition")
    if state is not None:
        known = state.partition_columns
        if wanted and wanted != known:
            raise SchemaConflict(
                f"the table is partitioned by {_list_names(known)}, the batch by "
                f"{_list_names(wanted)}",
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
            f"every column is a partition column: {_list_names(wanted)}",
            "leave at least one column for the data files.",
        )
    return wanted


def _merge_properties(state: TableState | None, requested: Mapping[str, str]) -> dict[str, str]:
    """Return the table's properties with the requested ones; a new table gets the defaults too.

    Raises:
        ConfigError: a load can't change column mapping of an existing table.
    """
    if state is None:
        return {**DEFAULT_PROPERTIES, **requested}
    properties = dict(state.properties)
    for name, value in requested.items():
        if properties.get(name) == value or _is_in_protocol(state, name, value):
            continue
        if name.startswith(_MAPPING):
            raise ConfigError(
                f"`table_properties` can't set {name!r} of a table that is there already",
                "set it with ALTER TABLE, or land in a new table.",
            )
        properties[name] = value
    return properties


def _cluster_columns(
    state: TableState | None, schema: pa.Schema, columns: Sequence[str], *, partitioned: bool
) -> tuple[str, ...]:
    """Return the columns by which a new table is clustered; empty for an existing table.

    Raises:
        ConfigError: a column is absent or of a type that can't be one, or the table has partitions.
        SchemaConflict: the table is clustered otherwise, or the batch lacks such a column.
    """
    wanted = _spell_columns(columns, schema, "cluster")
    if state is not None:
        _check_clustering(state.clustering, schema, wanted)
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


def _spell_columns(names: Sequence[str], schema: pa.Schema, purpose: str) -> tuple[str, ...]:
    """Return the user's column names in the schema's spelling, without repeats.

    Args:
        names: the user's names.
        schema: the table's columns after the load.
        purpose: verb for the error, such as "cluster".

    Raises:
        ConfigError: a column is absent.

    >>> _spell_columns(["DAY", "day"], pa.schema([("Day", pa.date32())]), "partition")
    ('Day',)
    """
    spelling = {name.lower(): name for name in schema.names}
    absent = [name for name in names if name.lower() not in spelling]
    if absent:
        close = closest_match(absent[0], schema.names)
        guess = f"; did you mean {close!r}?" if close else ""
        raise ConfigError(
            f"there is no column {absent[0]!r} to {purpose} by{guess}",
            f"the columns are {', '.join(schema.names)}.",
        )
    return tuple(dict.fromkeys(spelling[name.lower()] for name in names))


def _check_clustering(known: Sequence[str], schema: pa.Schema, wanted: Sequence[str]) -> None:
    """Raise SchemaConflict if the load asks for other clustering, or lacks a clustering column."""
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


def _is_in_protocol(state: TableState, name: str, value: str) -> bool:
    """Whether a table's protocol already has the version or feature that a property asks for."""
    if name in _VERSIONS:
        known = state.protocol.get(name.removeprefix("delta."), 0)
        return value.isdecimal() and int(value) <= int(known)
    return name.startswith(_FEATURE) and name.removeprefix(_FEATURE).lower() in {
        feature.lower() for feature in state.features
    }


def _list_names(names: Sequence[str]) -> str:
    """Return names in parentheses; "nothing" for none."""
    return "(" + ", ".join(names) + ")" if names else "nothing"
