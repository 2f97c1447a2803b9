"""A query of single rows on a schema: rows kept and columns made, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakeport.loading.expressions.binding import Binder, same_name
from lakeport.loading.expressions.bound import Bound, Column, Constant, computed
from lakeport.loading.expressions.coercion import need
from lakeport.loading.expressions.parser import condition_of, query_of
from lakeport.loading.expressions.syntax import Item, Name, Query, Star
from lakeport.loading.expressions.tokens import Beyond
from lakeport.shape.columns import fitted

__all__ = ["Condition", "Select", "condition", "is_condition", "parsed", "selected"]


@dataclass(frozen=True)
class Select:
    """Makes batches of batches; pickled into tasks.

    Attributes:
        source: the columns of the batches that it takes; one that a batch lacks is null there.
        schema: of the batches that are made.
        columns: how each is computed.
        condition: which rows are kept; None for all.
    """

    source: pa.Schema
    schema: pa.Schema
    columns: tuple[Bound, ...]
    condition: Bound | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches made, one of each.

        Raises:
            NeedsSpark: a value that Spark is to compute.
        """
        for batch in fitted(batches, self.source):
            kept = batch if self.condition is None else _kept(batch, self.condition)
            arrays = [computed(column, kept) for column in self.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def passed(self, untyped: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The open types of the result's columns that are some of the source's as they are."""
        return {
            field.name: untyped[name]
            for field, column in zip(self.schema, self.columns, strict=True)
            if isinstance(column, Column)
            and (name := self.source.field(column.index).name) in untyped
        }


@dataclass(frozen=True)
class Condition:
    """Tells of each row whether a condition is met, not met, or null; pickled into tasks."""

    expression: Bound

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """One boolean for each row.

        Raises:
            NeedsSpark: a value that Spark is to compute.
        """
        return computed(self.expression, batch)


def _kept(batch: pa.RecordBatch, condition: Bound) -> pa.RecordBatch:
    met = computed(condition, batch)
    # Mostly all are, and a copy of nested columns is dear.
    return batch if met.true_count == batch.num_rows else batch.filter(met)


def parsed(sql: str, table: str) -> Query | None:
    """A query on one table; None where it is beyond what Arrow is asked to do."""
    try:
        return query_of(sql, table)
    except (Beyond, RecursionError):
        return None


def selected(query: Query, schema: pa.Schema) -> Select | None:
    """A query over a schema; None where Spark is to run it, or to tell what is wrong with it."""
    try:
        binder = Binder(schema, query.alias)
        columns = [one for item in query.items for one in _columns(item, binder, schema, query)]
        if not columns or len({name.casefold() for name, _ in columns}) < len(columns):
            return None
        kept = query.condition
        condition = None if kept is None else need(binder.bound(kept), pa.bool_())
    except (Beyond, RecursionError):
        return None
    fields = [
        schema.field(bound.index).with_name(name)
        if isinstance(bound, Column)
        else pa.field(name, bound.type)
        for name, bound in columns
    ]
    return Select(schema, pa.schema(fields), tuple(bound for _, bound in columns), condition)


def condition(text: str, schema: pa.Schema) -> Condition | None:
    """A condition over a schema; None where Spark is to tell."""
    try:
        return Condition(need(Binder(schema).bound(condition_of(text)), pa.bool_()))
    except (Beyond, RecursionError):
        return None


def is_condition(text: str) -> bool:
    """Whether a text says something that Arrow may be able to tell, of columns that suit."""
    try:
        condition_of(text)
    except (Beyond, RecursionError):
        return False
    return True


def _columns(
    item: Item | Star, binder: Binder, schema: pa.Schema, query: Query
) -> list[tuple[str, Bound]]:
    if isinstance(item, Star):
        return _starred(item, binder, schema, query)
    bound = binder.bound(item.value)
    if bound.type == pa.null() or (isinstance(bound, Constant) and bound.exact is not None):
        raise Beyond
    if item.name:
        return [(item.name, bound)]
    if not isinstance(item.value, Name):
        raise Beyond  # Spark makes a name of the text
    return [(item.value.parts[-1], bound)]


def _starred(
    star: Star, binder: Binder, schema: pa.Schema, query: Query
) -> list[tuple[str, Bound]]:
    if star.table and not same_name(star.table, query.alias):
        raise Beyond
    without = {binder.column(name).index for name in star.without}
    if len(without) < len(star.without):
        raise Beyond
    return [
        (field.name, Column(i, field.type)) for i, field in enumerate(schema) if i not in without
    ]
