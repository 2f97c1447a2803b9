"""The columns of batches: as their sources have them, of several together, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.errors import SchemaConflict
from lakeport.model import Mode
from lakeport.schema.casting import normalise
from lakeport.schema.evolution import TypeConflict, plan_evolution
from lakeport.schema.named import type_name
from lakeport.schema.nested import reopened
from lakeport.schema.sparktypes import from_spark_json
from lakeport.schema.types import declared_type

if TYPE_CHECKING:
    from lakeport.model import Batch
    from lakeport.writers.base import TablePlan


def columns_of(batch: Batch) -> pa.Schema:
    """The columns of a batch as its source has them."""
    if batch.reader is not None:
        return batch.reader.schema
    if batch.frame is None:
        raise TypeError("a batch has a reader or a frame")
    return normalise(from_spark_json(batch.frame.schema.json()))


def opened_columns(batch: Batch, columns: pa.Schema) -> pa.Schema:
    """A reader's columns, with the types of `lakeport.schema.nested` where the batch has none."""
    return pa.schema([reopened(f, batch.untyped.get(f.name, f.type)) for f in columns])


def read_columns(batches: Sequence[Batch]) -> dict[str, str]:
    """The columns of batches as their source has them, with types in words; frames tell none."""
    schemas = [batch.reader.schema for batch in batches if batch.reader is not None]
    return {f.name: type_name(declared_type(f)) for schema in schemas for f in schema}


def described(incoming: pa.Schema, plan: TablePlan) -> dict[str, str]:
    """The columns that a batch brought, as the table spells and types them, in words."""
    known = {f.name.lower(): f for f in plan.schema if f.name not in plan.untyped}
    fields = [known.get(field.name.lower(), field) for field in incoming]
    return {field.name: type_name(declared_type(field)) for field in fields}


def union(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of all batches that land together, in order of first appearance.

    Raises:
        SchemaConflict: two of them don't go together.
    """
    merged = schemas[0]
    for schema in schemas[1:]:
        try:
            merged = plan_evolution(merged, schema, "evolve", Mode.APPEND, fresh=True).schema
        except TypeConflict as conflict:  # of two batches: no table's column is to blame
            raise SchemaConflict(conflict.message, conflict.hint) from None
    return merged
