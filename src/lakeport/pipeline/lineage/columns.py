"""What a load's table has its columns from: OpenLineage's facets of columns.

```
source's columns ─▶ sql ─▶ drop, rename, columns, column_header_format ─▶ the table's columns
```
What does not fit together is left out: a facet tells what is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openlineage.client.facet_v2 import column_lineage_dataset as facets
from openlineage.client.facet_v2 import schema_dataset

from lakeport.config.inputs.database import DatabaseSource
from lakeport.config.inputs.tables import TablesSource
from lakeport.errors import LakeportError
from lakeport.loading.transform.transform import SOURCE
from lakeport.pipeline.lineage.datasets import Name, inputs_of, name_of
from lakeport.pipeline.lineage.query import (
    Column,
    Kind,
    Origins,
    QueryLineage,
    lineage_of,
    made,
)
from lakeport.shape.columns import header_name, internal_names
from lakeport.sources.database.deletes import mark_of
from lakeport.tables import Table

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.lake import Load
    from lakeport.loading.report import StreamReport


@dataclass(frozen=True)
class Dataset:
    """What a load reads.

    Attributes:
        name: what OpenLineage calls it.
        columns: column -> type in words.
    """

    name: Name
    columns: Mapping[str, str]


def read_by(load: Load, streams: Sequence[StreamReport]) -> dict[str, Dataset]:
    """What a load has read, by its names in `sql`: as far as its columns are known.

    Of several streams in one dataset, as a tap has them, nothing tells whose column one is.

    Args:
        load: the load.
        streams: what was landed of it.
    """
    source, found = load.source, dict[str, Dataset]()
    own = source.tables if isinstance(source, TablesSource) else {}
    for name, place in {**load.tables, **own}.items():
        with suppress(LakeportError):
            told = Table(place, load.target).describe()
            columns = {column.name: column.type for column in told.columns}
            found[name] = Dataset(name_of(place), columns)
    first = found.get(next(iter(own))) if own else _alone(load, streams)
    return found if first is None else {**found, SOURCE: first}


def _alone(load: Load, streams: Sequence[StreamReport]) -> Dataset | None:
    names = set(inputs_of(load.source))
    if len(names) > 1 or len(streams) != 1 or load.target.add_record_metadata:
        return None
    columns = dict(streams[0].source_columns)
    if isinstance(load.source, DatabaseSource) and load.source.deletes == "compare":
        columns.pop(mark_of(load.target), None)  # which lakeport may have added
    return Dataset(names.pop(), columns) if names and columns else None


def column_lineage(
    load: Load, stream: StreamReport, datasets: Mapping[str, Dataset]
) -> facets.ColumnLineageDatasetFacet | None:
    """The facet of the table in which a stream has landed; None where nothing is certain.

    Args:
        load: the load.
        stream: what was landed.
        datasets: what `read_by` gives.
    """
    made_of = _result(load, datasets)
    if made_of is None:
        return None
    columns = _in_table(load.target, made_of.columns, stream.columns)
    if columns is None:
        return None
    fields = {name: facets.Fields(_fields(origins, datasets)) for name, origins in columns.items()}
    rows = _fields(made_of.rows, datasets)
    return facets.ColumnLineageDatasetFacet(fields, rows) if fields or rows else None


def _result(load: Load, datasets: Mapping[str, Dataset]) -> QueryLineage | None:
    """What `sql` makes, or the source as it is; a Python function can't be looked into."""
    if load.python:
        return None
    if load.sql:
        return lineage_of(load.sql, {name: each.columns for name, each in datasets.items()})
    if SOURCE not in datasets:
        return None
    columns = [
        (name.lower(), {(SOURCE, name): frozenset({Kind.IDENTITY})})
        for name in datasets[SOURCE].columns
    ]
    return QueryLineage(tuple(columns), {})


def _in_table(
    config: DestinationConfig, made_of: Iterable[Column], landed: Mapping[str, str]
) -> dict[str, Origins] | None:
    """Column of the table -> its origins; None if others have landed than were to."""
    case = config.column_header_format
    internal = internal_names(config.internal_columns_prefix if config.internal_columns else None)
    own = {header_name(name, case).lower() for name in (*internal, *config.constant_columns)}
    rename = {old.lower(): new for old, new in config.rename.items()}
    typed = {name.lower() for name in config.columns}
    dropped = {name.lower() for name in config.drop}
    spelt = {name.lower(): name for name in landed}
    found: dict[str, Origins] = {}
    for name, origins in made_of:
        if name is None or name in dropped:
            continue
        target = header_name(rename.get(name, name), case).lower()
        if target not in spelt or spelt[target] in found:
            return None
        if origins and target not in own:
            kind = Kind.TRANSFORMATION if name in typed else Kind.IDENTITY
            found[spelt[target]] = made(kind, [origins])
    return found


def _fields(origins: Origins, datasets: Mapping[str, Dataset]) -> list[facets.InputField]:
    return [
        facets.InputField(*datasets[table].name, column, [_told(kind) for kind in sorted(kinds)])
        for (table, column), kinds in sorted(origins.items())
    ]


def _told(kind: Kind) -> facets.Transformation:
    return facets.Transformation("DIRECT" if kind.is_direct else "INDIRECT", kind.value or None)


def schema_of(columns: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    """The facet of a dataset's columns."""
    fields = [schema_dataset.SchemaDatasetFacetFields(*column) for column in columns.items()]
    return schema_dataset.SchemaDatasetFacet(fields)
