"""Another type for a column of a Delta table: every value exactly, in one commit, or not at all.

```
no file has the column   the metadata change
the table widens types   the metadata change, where Delta's protocol lets old files be
else                     the files that have the column are written anew
```
A change that meets another writer's is made again on the table's new state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.state import TableState, grow_schema, physical_names, retyped
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
from lakeport.writers.delta.commit import StagedFiles, TableChange, TableTransaction, write_change
from lakeport.writers.delta.merge.files import (
    ConvertedFile,
    FileConverter,
    TableFiles,
    convert_files,
    discard_rewritten,
)
from lakeport.writers.delta.plan import WIDENING, DeltaPlan, TableRequest, check_takes_changes
from lakeport.writers.delta.untyped import find_holders, open_stored_columns, stored_columns
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.engine.base import Engine

_SHOWN = 3


@dataclass(frozen=True)
class AlterResult:
    """What became of a column.

    Attributes:
        version: the table's version after it; the newest one if nothing was committed.
        before: the column's type before; `null` if it never had a value.
        files: data files that were, or would be, written anew.
        rows: rows of these.
        bytes: size of these.
    """

    version: int
    before: pa.DataType
    files: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Alteration:
    """Gives one column of a table another type.

    Attributes:
        writer: writes the table.
        engine: runs the kernels.
        column: the column, as the table spells it or in any other case.
        type: its new type.
        dry_run: look at every value, and write nothing.
    """

    writer: DeltaWriter
    engine: Engine
    column: str
    type: pa.DataType
    dry_run: bool = False

    def run(self) -> AlterResult:
        """Change the column's type.

        Raises:
            ConfigError: there is no such column.
            SchemaConflict: a value has no equal of the type, or such a column can't be changed.
            DestinationError: only the table's own engine may change it.
            LakeportError: as `DeltaWriter.commit`.
        """
        writer = self.writer
        plan = self._planned(writer.log.state())
        state = _require_table(plan.base)
        before = get_logical_type(
            state.open_schema.field(_column_name(state, self.column, writer.uri))
        )
        if before == self.type:
            return AlterResult(state.version, before)
        mark, told = writer.mark(), AlterResult(state.version, before)

        def change(
            current: DeltaPlan, txn: TableTransaction, files: StagedFiles
        ) -> TableChange | Landed:
            nonlocal told
            found = self._holders(current, txn)
            done = self._converted(current, found)
            files.add(item for one in done for item in one.staged)
            rows, size = sum(one.rows for one in done), sum(file.bytes for file in found)
            told = AlterResult(txn.version, before, len(found), rows, size)
            if self.dry_run:
                return Landed(writer.stream, writer.uri, -1, 0, version=txn.version)
            return write_change(current, mark, files.staged, found, overwrite=bool(found))

        landed = writer.until_committed(plan, mark, change, planned=self._planned)
        assert landed.version is not None
        return replace(told, version=landed.version)

    def _planned(self, state: TableState | None) -> DeltaPlan:
        """A plan to change the column in the table as it is."""
        state = _require_table(state)
        name = _check_change(state, self.column, self.type, self.writer.uri)
        before = state.schema.field(name).type
        in_place = state.properties.get(WIDENING) == "true" and can_widen(before, self.type)
        columns = pa.schema(
            [to_table_field(name, self.type) if f.name == name else f for f in state.open_schema]
        )
        if in_place:
            schema_json = grow_schema(
                state.schema_json, replace_untyped_columns(columns), widened=True
            )
            evolution = Evolution(columns, widened={name: before})
        else:
            schema_json = retyped(state.schema_json, name, self.type)
            evolution = Evolution(columns, replaced=True)
        return DeltaPlan(
            incoming=pa.schema([]),
            schema=stored_columns(columns, state.partition_columns),
            schema_json=write_untyped_marks(schema_json, columns),
            partition_columns=state.partition_columns,
            request=TableRequest(Mode.OVERWRITE),
            dynamic=False,
            evolution=evolution,
            properties=state.properties,
            base=state,
            mapped=state.mapped,
        )

    def _holders(self, plan: DeltaPlan, txn: TableTransaction) -> Sequence[DataFile]:
        """The files that have to be written anew.

        Raises:
            DestinationError: there are some, and the table only takes appends.
        """
        state, writer = _require_table(plan.base), self.writer
        name = _column_name(state, self.column, writer.uri)
        if plan.evolution.widened or get_logical_type(state.schema.field(name)) == self.type:
            return ()
        physical = physical_names(state.schema_json, [name])[name]
        there, after = {physical: None}, {physical: self.type}
        found = find_holders(writer.storage, writer.folder, txn.all_files(), there, after)
        if found:
            check_takes_changes(state, f"{len(found)} files of the table can't be written anew")
        return found

    def _converted(self, plan: DeltaPlan, files: Sequence[DataFile]) -> list[ConvertedFile]:
        """Write files anew, or only look at their values.

        Raises:
            SchemaConflict: some have no equal of the type.
        """
        state, writer = _require_table(plan.base), self.writer
        name = _column_name(state, self.column, writer.uri)
        columns = _with_text(state, name)
        table = TableFiles.of(
            writer.log,
            state.schema_json,
            stored_columns(columns, state.partition_columns),
            state.partition_columns,
            open_stored_columns(state.schema_json, columns),
        )
        sink = None if self.dry_run else writer.sink(plan)
        kernel = FileConverter(table, sink, _ExactCast(name, columns.field(name), plan.schema))
        done = convert_files(kernel, files, self.engine)
        wrong = [one.wrong for one in done if one.wrong]
        known = get_logical_type(state.schema.field(name))
        if wrong:
            discard_rewritten(writer.storage, done)
            listed_values = ", ".join(wrong[:_SHOWN])
            raise SchemaConflict(
                f"column {name!r} has values that are no {format_type(self.type)}: {listed_values}",
                f"nothing was changed. {_suggest_type(writer.uri, name, known, self.type)}, or "
                "correct the values first.",
            )
        return done


@dataclass(frozen=True)
class _ExactCast:
    """Gives a column of batches another type.

    Attributes:
        column: its name.
        before: the column as the files have it.
        schema: the columns then.
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
    """A column of another type, with the same values; JSON becomes text where it is all strings.

    Raises:
        InexactError: the first value that has no equal of the type.
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
    if state is None:
        raise DestinationError("there is no Delta table any more", "look at the folder.")
    return state


def _with_text(state: TableState, name: str) -> pa.Schema:
    """The table's columns, one of them with text in places that never had a value."""
    closed = state.schema.field(name)
    return pa.schema([closed if f.name == name else f for f in state.open_schema])


def _column_name(state: TableState, column: str, uri: str) -> str:
    """A column as the table spells it.

    Raises:
        ConfigError: there is none.
    """
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
    """Say which type holds every value of a column, once another one does not."""
    text = pa.string()
    if before == text:
        return "Leave it as it is"
    held = "string" if tried != text and can_convert(before, text) else "json"
    return f"{format_alter_command(uri, name, held)} keeps every value"


def _check_change(state: TableState, column: str, type_: pa.DataType, uri: str) -> str:
    """The column's name, once it is one whose type can be changed.

    Raises:
        ConfigError: there is none.
        SchemaConflict: it is a partition column, or no value of it is one of the type.
        DestinationError: only the table's own engine may change it.
    """
    name = _column_name(state, column, uri)
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
    reasons = list(state.needs_spark)
    if "deletionVectors" in state.features:
        reasons.append("deletion vectors")
    if state.properties.get("delta.enableChangeDataFeed") == "true":
        reasons.append("a change data feed")
    if name in {path.partition(".")[0] for path in state.clustering}:
        reasons.append(f"clustering by {name!r}")
    if reasons:
        raise DestinationError(
            f"the table has {', '.join(reasons)}, which files written anew could break",
            "change the type with the engine that the table belongs to, or land in a new table.",
        )
    return name
