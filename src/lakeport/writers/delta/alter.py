"""Change the type of a Delta table's column: in one commit, and only if every value stays equal.

```
no file has the column   change the metadata
the table widens types   change the metadata, where Delta's protocol allows it for old files
else                     rewrite the files that have the column
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.state import TableState, grow_schema, physical_names, replace_type
from lakeport.errors import ConfigError, DestinationError, SchemaConflict
from lakeport.model import Landed, Mode
from lakeport.schema.casting import InexactError, can_convert, convert_exactly
from lakeport.schema.evolution import Evolution, can_widen
from lakeport.schema.hints import (
    find_parent_column,
    format_alter_command,
    quote_names,
    sort_by_similarity,
)
from lakeport.schema.nested import is_json, replace_untyped_columns
from lakeport.schema.spark_schema import write_untyped_marks
from lakeport.schema.text import to_json_column, unquote_json
from lakeport.schema.types import format_type, get_logical_type, to_table_field
from lakeport.writers.delta.commit import TableChange, TableTransaction, make_write_change
from lakeport.writers.delta.files import (
    ConvertedFile,
    FileConverter,
    TableFiles,
    convert_files,
    discard_rewritten,
    find_files_to_convert,
    map_untyped_columns,
)
from lakeport.writers.delta.plan import (
    WIDENING,
    DeltaPlan,
    TableRequest,
    check_takes_changes,
    list_spark_reasons,
    stored_columns,
)
from lakeport.writers.delta.writer import DeltaWriter, TableOperation

if TYPE_CHECKING:
    from lakeport.engine.base import Engine

_SHOWN = 3


@dataclass(frozen=True)
class AlterResult:
    """Result of `alter_column`: the table's version, the old type, and what was rewritten.

    Attributes:
        version: the table's version after the change; the newest one if nothing was committed.
        before: the column's type before; `null` if it never had a value.
        files: number of data files that were, or would be, rewritten.
    """

    version: int
    before: pa.DataType
    files: int = 0
    rows: int = 0
    bytes: int = 0


def alter_column(
    writer: DeltaWriter, engine: Engine, column: str, type_: pa.DataType, *, dry_run: bool = False
) -> AlterResult:
    """Change a column's type if every value stays equal; no commit for the same type or a dry run.

    Args:
        writer: writes the table.
        engine: runs the tasks that read and rewrite data files.
        column: the column, in any case.
        type_: its new type.
        dry_run: read every value, and write nothing.

    Raises:
        ConfigError: there is no such column.
        SchemaConflict: a value has no equal of the type, or the column's type can't be changed.
        DestinationError: only the table's own engine may change it.
        LakeportError: as `DeltaWriter.commit_operation`.
    """
    state = _require_table(writer.log.read_state())
    plan = _plan_type(state, column, type_, writer.uri)
    before = get_logical_type(state.open_schema.field(_spell_column(state, column, writer.uri)))
    result = AlterResult(state.version, before)
    if before == type_:
        return result
    operation = AlterOperation(
        writer,
        plan,
        writer.mark(),
        engine=engine,
        column=column,
        type=type_,
        dry_run=dry_run,
        result=result,
    )
    landed = writer.commit_operation(operation)
    assert landed.version is not None
    return replace(operation.result, version=landed.version)


@dataclass
class AlterOperation(TableOperation):
    """Changes a column's type. Rewrites the files that have the column, unless Delta can widen it.

    Attributes:
        column: the column, in any case.
        dry_run: read every value, and write nothing.
        result: the result of the newest attempt.
    """

    engine: Engine = field(kw_only=True)
    column: str = field(kw_only=True)
    type: pa.DataType = field(kw_only=True)
    dry_run: bool = field(kw_only=True)
    result: AlterResult = field(kw_only=True)

    def replan(self, state: TableState | None) -> DeltaPlan:
        """Plan the new type on another state of the table; raises as `alter_column`."""
        return _plan_type(_require_table(state), self.column, self.type, self.writer.uri)

    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange | Landed:
        """Stage converted files, and return the change that adds them; a report for a dry run.

        Raises:
            SchemaConflict: a value has no equal of the type.
            DestinationError: files are to be rewritten, and the table only takes appends.
        """
        files = self._find_files(plan, txn)
        converted = self._convert(plan, files)
        txn.files.add(item for one in converted for item in one.staged)
        rows, size = sum(one.rows for one in converted), sum(file.bytes for file in files)
        self.result = AlterResult(txn.version, self.result.before, len(files), rows, size)
        if self.dry_run:
            return Landed(self.writer.stream, self.writer.uri, -1, 0, version=txn.version)
        return make_write_change(plan, self.mark, txn.files.staged, files, overwrite=bool(files))

    def _find_files(self, plan: DeltaPlan, txn: TableTransaction) -> Sequence[DataFile]:
        """Return the files to rewrite: those with the column; none if Delta can widen the type."""
        state, writer = _require_table(plan.base), self.writer
        name = _spell_column(state, self.column, writer.uri)
        if plan.evolution.widened or get_logical_type(state.schema.field(name)) == self.type:
            return ()
        physical = physical_names(state.schema_json, [name])[name]
        before, after = {physical: None}, {physical: self.type}
        files = find_files_to_convert(writer.log, txn.all_files(), before, after)
        if files:
            check_takes_changes(state, f"{len(files)} files of the table can't be written anew")
        return files

    def _convert(self, plan: DeltaPlan, files: Sequence[DataFile]) -> list[ConvertedFile]:
        """Stage copies of the files with the new type; a dry run only checks all values.

        Raises:
            SchemaConflict: some values have no equal of the type.
        """
        state, writer = _require_table(plan.base), self.writer
        name = _spell_column(state, self.column, writer.uri)
        columns = _open_other_columns(state, name)
        table = TableFiles.of(
            writer.log,
            state.schema_json,
            stored_columns(columns, state.partition_columns),
            state.partition_columns,
            map_untyped_columns(state.schema_json, columns),
        )
        sink = None if self.dry_run else writer.sink(plan)
        converter = FileConverter(table, sink, _ExactCast(name, columns.field(name), plan.schema))
        converted = convert_files(converter, files, self.engine)
        misfits = [one.misfit for one in converted if one.misfit]
        known = get_logical_type(state.schema.field(name))
        if misfits:
            discard_rewritten(writer.storage, converted)
            listed_values = ", ".join(misfits[:_SHOWN])
            raise SchemaConflict(
                f"column {name!r} has values that are no {format_type(self.type)}: {listed_values}",
                f"nothing was changed. {_suggest_type(writer.uri, name, known, self.type)}, or "
                "correct the values first.",
            )
        return converted


def _plan_type(state: TableState, column: str, type_: pa.DataType, uri: str) -> DeltaPlan:
    """Return the plan that gives a column another type; raises as `alter_column`."""
    name = _check_change(state, column, type_, uri)
    before = state.schema.field(name).type
    in_place = state.properties.get(WIDENING) == "true" and can_widen(before, type_)
    columns = pa.schema(
        [to_table_field(name, type_) if f.name == name else f for f in state.open_schema]
    )
    if in_place:
        schema_json = grow_schema(state.schema_json, replace_untyped_columns(columns), widened=True)
        evolution = Evolution(columns, widened={name: before})
    else:
        schema_json = replace_type(state.schema_json, name, type_)
        evolution = Evolution(columns, replaced=True)
    return DeltaPlan(
        incoming=pa.schema([]),
        schema=stored_columns(columns, state.partition_columns),
        schema_json=write_untyped_marks(schema_json, columns),
        partition_columns=state.partition_columns,
        request=TableRequest(Mode.OVERWRITE),
        evolution=evolution,
        properties=state.properties,
        base=state,
    )


@dataclass(frozen=True)
class _ExactCast:
    """Callable that casts one column of a batch; InexactError for a value that would change.

    Attributes:
        column: the column's name.
        before: the column as the files have it.
        schema: the batch's columns after the cast.
    """

    column: str
    before: pa.Field
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            _cast_column(batch.column(f.name), self.before, f)
            if f.name == self.column
            else batch.column(f.name)
            for f in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _cast_column(column: pa.Array, before: pa.Field, after: pa.Field) -> pa.Array:
    """Cast a column; InexactError for a value that would change. JSON strings lose their quotes.

    Raises:
        InexactError: with the first value that has no equal of the type.
    """
    if is_json(after):
        return to_json_column(column, before, after.name)
    if is_json(before):
        texts = unquote_json(column)
        if pa.types.is_string(after.type):
            same = pc.fill_null(pc.equal(texts, column), False)
            if pc.any(same).as_py():
                at = same.index(True).as_py()
                raise InexactError(at, column[at].as_py())
        column = texts
    return convert_exactly(column, after.type)


def _require_table(state: TableState | None) -> TableState:
    """Return `state`; DestinationError if it is None, as the table no longer exists."""
    if state is None:
        raise DestinationError("there is no Delta table any more", "look at the folder.")
    return state


def _open_other_columns(state: TableState, name: str) -> pa.Schema:
    """Return the table's columns, open where no value came yet; `name` has text there instead."""
    closed = state.schema.field(name)
    return pa.schema([closed if f.name == name else f for f in state.open_schema])


def _spell_column(state: TableState, column: str, uri: str) -> str:
    """Return the table's spelling of a column; ConfigError if it is absent or a nested field."""
    names = {name.lower(): name for name in state.schema.names}
    if column.lower() not in names:
        nested = [f.name.lower() for f in state.schema if pa.types.is_nested(f.type)]
        if whole := names.get(find_parent_column(column.lower(), nested)):
            raise ConfigError(
                f"{column!r} is a part of the column {whole!r}, and types are changed for whole "
                "columns",
                f"{format_alter_command(uri, whole, 'json')} makes JSON of all of it, which takes "
                "any type.",
            )
        raise ConfigError(
            f"the table has no column {column!r}",
            f"it has {quote_names(sort_by_similarity(column, names.values()))}.",
        )
    return str(names[column.lower()])


def _suggest_type(uri: str, name: str, before: pa.DataType, tried: pa.DataType) -> str:
    """Return advice for an error: make the column string or JSON, or leave it if it is text."""
    text = pa.string()
    if before == text:
        return "Leave it as it is"
    held = "string" if tried != text and can_convert(before, text) else "json"
    return f"{format_alter_command(uri, name, held)} keeps every value"


def _check_change(state: TableState, column: str, type_: pa.DataType, uri: str) -> str:
    """Return the table's spelling of a column; raise if its type can't be changed.

    Raises:
        ConfigError: there is no such column.
        SchemaConflict: it is a partition column, or none of its values can be of the type.
        DestinationError: only the table's own engine may change it.
    """
    name = _spell_column(state, column, uri)
    before = get_logical_type(state.open_schema.field(name))
    if name in state.partition_columns:
        raise SchemaConflict(
            f"{name!r} is a partition column: its values are in the names of folders",
            "land the data in a new table, partitioned by the new type.",
        )
    if not (isinstance(type_, pa.JsonType) or can_convert(before, type_)):
        raise SchemaConflict(
            f"column {name!r} is {format_type(before)}, of which no value is {format_type(type_)}",
            f"{_suggest_type(uri, name, before, type_)}, or land in another table.",
        )
    reasons = list(list_spark_reasons(state, Mode.MERGE))
    if name in {path.partition(".")[0] for path in state.clustering}:
        reasons.append(f"clustering by {name!r}")
    if reasons:
        raise DestinationError(
            f"the table has {', '.join(reasons)}, which files written anew could break",
            "change the type with the engine that the table belongs to, or land in a new table.",
        )
    return name
