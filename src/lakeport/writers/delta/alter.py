"""Another type for a column of a Delta table: every value exactly, in one commit, or not at all.

```
no file has the column   the metadata change
the table widens types   the metadata change, where Delta's protocol lets old files be
else                     the files that have the column are written anew
```
A change that meets another writer's is made again on the table's new state.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import ConfigError, DestinationError, SchemaConflict
from lakeport.model import Landed, Mode, Staged
from lakeport.schema.evolution import Evolution, widens
from lakeport.schema.exact import InexactError, convertible, exactly
from lakeport.schema.named import like, listed, type_name
from lakeport.schema.text import json_column, text_column
from lakeport.schema.types import declared_type, is_json, storable, with_text
from lakeport.spark.jobs import run_tasks
from lakeport.writers.delta.commit.attempt import Attempt
from lakeport.writers.delta.commit.log_transaction import TableTransaction
from lakeport.writers.delta.commit.operation import Operation
from lakeport.writers.delta.commit.transaction import Added
from lakeport.writers.delta.merge.files import DataFile, Entry, TableFiles
from lakeport.writers.delta.merge.tasks import MergeTasks, shared_out
from lakeport.writers.delta.plan import WIDENING, DeltaPlan, TableRequest
from lakeport.writers.delta.schema import file_schema, grow_schema, physical_names, retyped
from lakeport.writers.delta.sink import DeltaSink
from lakeport.writers.delta.state import TableState
from lakeport.writers.delta.untyped import holders, in_files, left_out, marked, opened
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.spark.session import Runtime

__all__ = ["Alteration", "Altered"]

_SHOWN = 3
_TASKS_PER_CORE = 4


@dataclass(frozen=True)
class Altered:
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
class Alteration(DeltaWriter):
    """A writer whose plans are to give one column another type.

    Attributes:
        column: the column, as the table spells it or in any other case.
        type: its new type.
    """

    column: str = field(kw_only=True)
    type: pa.DataType = field(kw_only=True)

    def alter(self, runtime: Runtime, *, dry_run: bool = False) -> Altered:
        """Change the column's type.

        Args:
            runtime: runs the kernels.
            dry_run: look at every value, and write nothing.

        Raises:
            ConfigError: there is no such column.
            SchemaConflict: a value has no equal of the type, or such a column can't be changed.
            DestinationError: only the table's own engine may change it.
            LakeportError: as `DeltaWriter.commit`.
        """
        nothing = pa.schema([])
        request = TableRequest(Mode.OVERWRITE)
        plan = self._planned(self.table_state(), nothing, request)
        state = _known(plan.base)
        before = declared_type(state.open_schema.field(_spelt(state, self.column)))
        if before == self.type:
            return Altered(state.version, before)
        done = Altered(state.version, before)

        def attempt(current: DeltaPlan, txn: TableTransaction, _: int) -> Landed:
            nonlocal done
            landed, done = self._attempt(current, txn, runtime, dry_run=dry_run)
            return landed

        self.until_committed(plan, self.mark(), attempt)
        return replace(done, before=before)

    def _planned(
        self, state: TableState | None, incoming: pa.Schema, request: TableRequest
    ) -> DeltaPlan:
        """A plan to change the column in the table as it is."""
        state = _known(state)
        name = _check(state, self.column, self.type)
        before = state.schema.field(name).type
        in_place = state.properties.get(WIDENING) == "true" and widens(before, self.type)
        columns = pa.schema(
            [storable(name, self.type) if f.name == name else f for f in state.open_schema]
        )
        if in_place:
            schema_json = grow_schema(state.schema_json, with_text(columns), widened=True)
            evolution = Evolution(columns, widened={name: before})
        else:
            schema_json = retyped(state.schema_json, name, self.type)
            evolution = Evolution(columns, replaced=True)
        plan = DeltaPlan(
            incoming=incoming,
            schema=in_files(columns, state.partition_columns),
            schema_json=marked(schema_json, state.untyped - {name}),
            partition_columns=state.partition_columns,
            request=request,
            dynamic=False,
            evolution=evolution,
            properties=state.properties,
            base=state,
            mapped=state.mapped,
        )
        if in_place or not self.without_spark:
            self.begin()
        return plan

    def _attempt(
        self, plan: DeltaPlan, txn: TableTransaction, runtime: Runtime, *, dry_run: bool
    ) -> tuple[Landed, Altered]:
        state, new = _known(plan.base), list[Staged]()
        name = _spelt(state, self.column)
        tasks = MergeTasks(self, runtime)
        with self.published(new) as files:
            found: Sequence[Entry] = ()
            if not (plan.evolution.widened or declared_type(state.schema.field(name)) == self.type):
                physical = physical_names(state.schema_json, [name])[name]
                found = holders(self.storage, self.folder, tasks.entries(txn), physical)
            if found and state.properties.get("delta.appendOnly") == "true":
                raise DestinationError(
                    f"{self.uri} only takes appends (`delta.appendOnly`), and {len(found)} of its "
                    "files would have to be written anew",
                    "have the table's owner unset the property.",
                )
            done = self._converted(plan, name, found, runtime, dry_run=dry_run)
            new += [item for one in done for item in one.staged]
            rows = sum(one.rows for one in done)
            size = sum(int(entry["size"]) for entry in found)
            told = Altered(txn.version, pa.null(), len(found), rows, size)
            if dry_run:
                return Landed(self.stream, self.uri, -1, 0, version=txn.version), told
            one = _Change(self.storage, self.folder, plan, new, self.mark(), replaced=found)
            made = self.try_commit(one, txn, files)
            return one.landed(made), replace(told, version=made.version)

    def _converted(
        self,
        plan: DeltaPlan,
        name: str,
        entries: Sequence[Entry],
        runtime: Runtime,
        *,
        dry_run: bool,
    ) -> list[_Converted]:
        """Write files anew, or only look at their values.

        Raises:
            SchemaConflict: some have no equal of the type.
        """
        if not entries:
            return []
        state, storage = _known(plan.base), self.storage
        columns = opened(state.schema, state.untyped - {name})
        before = in_files(columns, state.partition_columns)
        table = TableFiles(
            storage,
            self.folder,
            before,
            file_schema(state.schema_json, before),
            frozenset(physical_names(state.schema_json, state.partition_columns).values()),
            left_out(state.schema_json, before),
        )
        found = [DataFile.of(entry) for entry in entries]

        def discard(done: list[_Converted]) -> None:
            for item in (item for one in done for item in one.staged):
                storage.discard(item)

        def strays(done: list[_Converted]) -> None:
            storage.drop_strays([item for one in done for item in one.staged])

        done = run_tasks(
            runtime,
            _Convert(
                table,
                name,
                columns.field(name),
                plan.schema,
                None if dry_run else self.sink(plan),
            ),
            list(enumerate(shared_out(found, runtime.cores * _TASKS_PER_CORE))),
            size=sum(file.bytes for file in found),
            discard=discard,
            strays=strays,
        )
        wrong = [one.wrong for one in done if one.wrong]
        if wrong:
            discard(done)
            listed_values = ", ".join(wrong[:_SHOWN])
            raise SchemaConflict(
                f"column {name!r} has values that are no {type_name(self.type)}: {listed_values}",
                "nothing was changed. Choose a type that holds every value, such as string, or "
                "correct the values first.",
            )
        return done


@dataclass(frozen=True)
class _Converted:
    """A file with another type of the column; `wrong` is its first value that has no equal."""

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    wrong: str = ""


@dataclass(frozen=True)
class _Convert:
    """The kernel: reads files of the table, and writes them with the column's new type.

    Attributes:
        table: how they are read.
        column: the column.
        before: the column as the files have it.
        schema: the columns to write.
        sink: where the new files go; None to look at the values alone.
    """

    table: TableFiles
    column: str
    before: pa.Field
    schema: pa.Schema
    sink: DeltaSink | None

    def __call__(self, item: tuple[int, tuple[DataFile, ...]]) -> list[_Converted]:
        number, files = item
        done: list[_Converted] = []
        try:
            for file in files:
                done.append(self._file(file, number))
                if done[-1].wrong:
                    break
        except BaseException:
            for staged in (staged for one in done for staged in one.staged):
                if self.sink is not None:
                    self.sink.storage.discard(staged)
            raise
        return done

    def _file(self, file: DataFile, number: int) -> _Converted:
        rows = 0

        def converted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in self.table.batches(file):
                rows += len(batch)
                yield self._batch(batch)

        try:
            if self.sink is None:
                for _ in converted():
                    pass
                return _Converted(rows=rows)
            # Names are made from the job: no two of a task's files may have the same one.
            sink = replace(self.sink, job=uuid.uuid5(self.sink.job, file.path))
            return _Converted(tuple(sink.write(converted(), number)), rows)
        except InexactError as error:
            return _Converted(wrong=repr(error.value) if error.value != "" else "an empty text")

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            _altered(batch.column(f.name), self.before, f)
            if f.name == self.column
            else batch.column(f.name)
            for f in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class _Change(Attempt):
    """An attempt to commit it; `replaced` are the `add` actions of the files that go."""

    replaced: Sequence[Mapping[str, Any]] = ()

    def removed(self, txn: TableTransaction, adds: Sequence[str]) -> list[Added]:
        """The files that were written anew."""
        return [txn.file(entry) for entry in self.replaced]

    def operation(self, removed: int) -> Operation:
        """An overwrite where files go."""
        return replace(super().operation(removed), overwrite=bool(self.replaced))


def _altered(column: pa.Array, before: pa.Field, after: pa.Field) -> pa.Array:
    """A column of another type, with the same values; JSON becomes text where it is all strings.

    Raises:
        InexactError: the first value that has no equal of the type.
    """
    if is_json(after):
        return json_column(column, before, after.name)
    if is_json(before):
        texts = text_column(column)
        if pa.types.is_string(after.type):
            same = pc.fill_null(pc.equal(texts, column), False)
            if pc.any(same).as_py():
                at = same.index(True).as_py()
                raise InexactError(at, column[at].as_py())
        column = texts
    return exactly(column, after.type)


def _known(state: TableState | None) -> TableState:
    if state is None:
        raise DestinationError("there is no Delta table any more", "look at the folder.")
    return state


def _spelt(state: TableState, column: str) -> str:
    """A column as the table spells it.

    Raises:
        ConfigError: there is none.
    """
    names = {name.lower(): name for name in state.schema.names}
    if column.lower() not in names:
        raise ConfigError(
            f"the table has no column {column!r}",
            f"it has {listed(like(column, names.values()))}.",
        )
    return str(names[column.lower()])


def _check(state: TableState, column: str, type_: pa.DataType) -> str:
    """The column's name, once it is one whose type can be changed.

    Raises:
        ConfigError: there is none.
        SchemaConflict: it is a partition column, or no value of it is one of the type.
        DestinationError: only the table's own engine may change it.
    """
    name = _spelt(state, column)
    before = declared_type(state.open_schema.field(name))
    if name in state.partition_columns:
        raise SchemaConflict(
            f"{name!r} is a partition column: its values are in the names of folders",
            "land the data in a new table, partitioned by the new type.",
        )
    if not (isinstance(type_, pa.JsonType) or convertible(before, type_)):
        raise SchemaConflict(
            f"column {name!r} is {type_name(before)}, of which no value is {type_name(type_)}",
            "choose another type, such as string, or land in another table.",
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
