"""The shape kernel: header case, internal columns, and the table's order of columns.

```
source   id  Name
shaped   id  name  _mage_created_at  _mage_updated_at      (header case `lower`)
aligned  id  city  name  _mage_created_at  _mage_updated_at  (the table has `city`: null here)
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InputError
from lakeport.schema.exact import InexactError, exactly
from lakeport.schema.named import type_name
from lakeport.shape.rules import ColumnRules

__all__ = [
    "TIMESTAMP",
    "Shape",
    "fit_column",
    "fitted",
    "header_name",
    "internal_names",
    "plan_shape",
]

HeaderCase = Literal["lower", "upper"]
TIMESTAMP = pa.timestamp("us", "UTC")


def header_name(name: str, case: HeaderCase | None) -> str:
    """Spell a column's name as the table has it.

    >>> header_name("userId", "upper")
    'USERID'
    """
    if case == "lower":
        return name.lower()
    return name.upper() if case == "upper" else name


def internal_names(prefix: str | None) -> tuple[str, ...]:
    """Names of the internal columns, before any header case.

    >>> internal_names("_mage_")
    ('_mage_created_at', '_mage_updated_at')
    """
    return () if prefix is None else (f"{prefix}created_at", f"{prefix}updated_at")


@dataclass(frozen=True)
class Shape:
    """A source's batches -> a table's columns; a `lakeport.model.Shaper`.

    Attributes:
        source: the columns that the reader yields.
        names: source column -> table column, in the source's order; those that are left out lack.
        created: name of the column that tells when a row first came; empty for none.
        updated: name of the column that tells when a row last changed; empty for none.
        constants: table column of text -> its value in every row.
        clock: the batch's one reading of the clock.
        schema: the table's columns, in order; those that no source column feeds are null. A table
            may spell a name in another case.
        rules: the source's columns that get other types than they come with.
        untyped: the source's columns that never had a value.
    """

    source: pa.Schema
    names: tuple[tuple[str, str], ...]
    created: str
    updated: str
    clock: datetime
    schema: pa.Schema
    constants: tuple[tuple[str, str], ...] = ()
    rules: ColumnRules = field(default_factory=ColumnRules)
    untyped: frozenset[str] = frozenset()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Shape record batches, lazily.

        Raises:
            InputError: there are rows, but the table has no column that could hold them.
        """
        for batch in batches:
            if batch.num_rows and not self.schema.names:
                raise InputError(
                    "the records have no fields and the table no columns, so that their rows "
                    "would be lost",
                    "set `internal_columns: true`, or declare the columns of the records.",
                )
            yield self._shape(batch)

    def aligned(self, table: pa.Schema) -> Shape:
        """The same shape in the table's order and types, with nulls for what the source lacks."""
        return replace(self, schema=table)

    def _shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            name.lower(): self._column(source, batch.column(source)) for source, name in self.names
        }
        for name, value in self.constants:
            columns[name.lower()] = pa.repeat(pa.scalar(value, pa.string()), len(batch))
        if self.created:
            stamp = pa.scalar(self.clock, TIMESTAMP)
            known = columns.get(self.created.lower())
            columns[self.created.lower()] = (
                pa.repeat(stamp, len(batch)) if known is None else pc.fill_null(known, stamp)
            )
            columns[self.updated.lower()] = pa.repeat(stamp, len(batch))
        arrays = [
            fit_column(columns.get(field.name.lower()), field, len(batch)) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, column: pa.Array) -> pa.Array | None:
        """A source's column by what is said of it; None for one without a value."""
        if name in self.untyped:
            if column.null_count < len(column):
                raise InputError(
                    f"column {name!r} has a value, and had none when the source was looked at",
                    "land the source again once nobody writes to it.",
                )
            return None
        type_ = self.rules.types.get(name, column.type)
        try:
            return exactly(column, type_)
        except InexactError as error:
            raise InputError(
                f"column {name!r} is declared as {type_name(type_)}, which {error.value!r} is not",
                "declare a type that holds every value, or correct the source.",
            ) from None
        except TypeError:
            raise InputError(
                f"column {name!r} is {type_name(column.type)} in the source, and declared as "
                f"{type_name(type_)}",
                "declare a type that its values can have, or leave the declaration out.",
            ) from None


def plan_shape(
    source: pa.Schema,
    *,
    clock: datetime | None = None,
    internal_prefix: str | None = "_mage_",
    header_case: HeaderCase | None = None,
    constants: Sequence[tuple[str, str]] = (),
    rules: ColumnRules | None = None,
    untyped: Collection[str] = (),
) -> Shape:
    """Plan how a source's columns become the table's.

    Args:
        source: the columns that the reader yields.
        clock: the batch's time, aware; now when absent.
        internal_prefix: what stands before `created_at` and `updated_at`; None leaves both out.
        header_case: spelling of every column, the internal ones too.
        constants: columns of text and their value, which a source's column of that name gives
            way to.
        rules: which columns are left out, and which have other names or types.
        untyped: the source's columns that never had a value; they have the type null.

    Raises:
        SourceError: a rule is for a column that the source lacks, or two get the same name by one.
        InputError: two columns get the same name, or a source column stands where an internal
            one belongs and is no date-time.
    """
    rules = rules or ColumnRules()
    open_ = frozenset(untyped) - rules.types.keys()
    kept = rules.applied(source.names)
    names = tuple((old, header_name(new, header_case)) for old, new in kept)
    _refuse_clashes(names, header_case)
    types = {
        new: pa.null() if old in open_ else rules.types.get(old, source.field(old).type)
        for old, new in names
    }
    spelt = {name.lower(): name for name in types}
    fixed = [
        (spelt.get(name.lower(), name), value) for name, value in _headed(constants, header_case)
    ]
    types.update((name, pa.string()) for name, _ in fixed)
    created = updated = ""
    if internal_prefix is not None:
        created, updated = (
            header_name(name, header_case) for name in internal_names(internal_prefix)
        )
        for name in (created, updated):
            if types.get(name) == pa.null():
                types[name] = TIMESTAMP
            if types.setdefault(name, TIMESTAMP) != TIMESTAMP:
                raise InputError(
                    f"column {name!r} is {types[name]} in the source, but the internal column of "
                    "that name is a date-time",
                    "set `internal_columns: false`, or another `internal_columns_prefix`.",
                )
    schema = pa.schema([pa.field(name, type_) for name, type_ in types.items()])
    stamp = clock or datetime.now(UTC)
    return Shape(
        source, names, created, updated, stamp, schema, tuple(fixed), rules=rules, untyped=open_
    )


def _headed(constants: Sequence[tuple[str, str]], case: HeaderCase | None) -> list[tuple[str, str]]:
    """Constants under their columns' names in the table."""
    _refuse_clashes([(name, header_name(name, case)) for name, _ in constants], case)
    return [(header_name(name, case), value) for name, value in constants]


def _refuse_clashes(names: Sequence[tuple[str, str]], case: HeaderCase | None) -> None:
    seen: dict[str, str] = {}
    for old, new in names:
        other = seen.setdefault(new.lower(), old)
        if other != old:
            raise InputError(
                f"columns {other!r} and {old!r} differ only in case"
                + (f" and become one under `column_header_format: {case}`" if case else ""),
                "rename or leave out one of them: a table can't hold both.",
            )


def fit_column(column: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    """Give a column the table's type, which is wide enough or refuses the value.

    Args:
        column: what there is; None for a column of nulls.
        field: the table's column; a struct of its type may have more fields than the column's.
        rows: how many rows a column of nulls has.

    Raises:
        InputError: the type can't hold a value exactly.

    >>> wider = pa.struct({"b": pa.int8(), "a": pa.int64()})
    >>> fit_column(pa.array([{"a": 1}]), pa.field("s", wider), 1).to_pylist()
    [{'b': None, 'a': 1}]
    """
    if column is None:
        return pa.nulls(rows, field.type)
    try:
        return _cast(column, field.type)
    except pa.ArrowInvalid:
        raise InputError(
            f"column {field.name!r} has a value that the table's type {field.type} can't hold "
            f"exactly; in the source it is {column.type}",
            "land it in another table or column, or declare the table's type in the source.",
        ) from None


def fitted(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give batches just these columns; those that one lacks are nulls there. See `fit_column`."""
    for batch in batches:
        at = {name: index for index, name in enumerate(batch.schema.names)}
        arrays = [
            fit_column(batch.column(at[f.name]) if f.name in at else None, f, batch.num_rows)
            for f in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast, also a struct that has fewer fields than the table's, or in another order."""
    if column.type == target:
        return column
    if pa.types.is_struct(target):
        present = {column.type.field(i).name.lower(): i for i in range(column.type.num_fields)}
        children = [
            _cast(pc.struct_field(column, [present[child.name.lower()]]), child.type)
            if child.name.lower() in present
            else pa.nulls(len(column), child.type)
            for child in target
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=column.is_null())
    if pa.types.is_list(target):
        values = _cast(column.flatten(), target.value_type)
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=column.is_null())
    return column.cast(target)
