"""Merge batches into Delta tables by key, and retire rows of earlier stream versions.

```
staged batch ─▶ keys ─▶ files that may hold one ─▶ rewrite those that do ─┐
                  └────────▶ rows that no file held ─▶ insert ────────────┴─▶ one commit
```
When another writer's commit conflicts, the operation reads the table again and rewrites its files
again. Its tasks run code of `row_changes`, which workers import without the driver's modules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakeport.config.values import DeleteCondition
from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.transactions import CommitInfo, CommitMark
from lakeport.errors import ConfigError, SchemaConflict
from lakeport.model import Landed, Mode, Staged
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import TIMESTAMP, format_type
from lakeport.shape import DELETED_AT, TABLE_VERSION, apply_header_case, combine_lowest_versions
from lakeport.writers.delta.commit import StagedFiles, TableChange, TableTransaction
from lakeport.writers.delta.files import TableFiles, map_untyped_columns, rewrite_files
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.row_changes import (
    BatchKeys,
    Change,
    FileRewriter,
    MergeBatch,
    Positions,
    Retire,
    RewrittenFile,
    Upsert,
    insert,
)
from lakeport.writers.delta.sink import DeltaSink
from lakeport.writers.delta.writer import DeltaWriter, TableOperation

if TYPE_CHECKING:
    from lakeport.engine.base import Engine
    from lakeport.engine.spark.delta.rows import DeltaRows
    from lakeport.engine.spark.delta.session import DeltaSession

_STAGING = "_lakeport/staging"


@dataclass(frozen=True)
class MergePlan:
    """Plan of a merge: the table after it, and the upsert, which `commit` gives the rows."""

    table: DeltaPlan
    change: Upsert
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Schema:
        """The batch's columns, with the table's types and spelling."""
        return self.change.incoming.schema


@dataclass
class DeltaMerger:
    """Merges one stream's batches into its table by key; removes rows of older stream versions.

    Attributes:
        replaces_rows: whether the next batch's commit removes all rows that the table has.
    """

    writer: DeltaWriter
    engine: Engine
    replaces_rows: bool = False

    def plan(
        self,
        incoming: pa.Schema,
        key_properties: Sequence[str],
        partition_keys: Sequence[str] = (),
        *,
        only_keys: bool = False,
    ) -> MergePlan:
        """Plan a merge into the table's newest version; warn if the deletion column is absent.

        Args:
            incoming: the batch's columns.
            key_properties: the stream's keys in any case, used if the config has no `merge_keys`.
            partition_keys: columns to partition a new table by.
            only_keys: whether the batch has keys of deleted rows alone: `delete_when` does not
                apply to it.

        Raises:
            ConfigError: there are no keys, or a key's column is absent or nested; or `delete_when`
                has values that its column can't have.
            SchemaConflict: the batch does not fit the table.
        """
        config = self.writer.config
        when = None
        if config.delete_when and not only_keys:
            when = DeleteCondition.parse(config.delete_when)
        header = config.column_header_format
        named = config.merge_keys or key_properties
        merge_keys = [apply_header_case(name, header) for name in named]
        table = self.writer.plan(
            incoming,
            mode=Mode.MERGE,
            partition_keys=partition_keys,
            policy=config.schema_evolution,
            keys=merge_keys,
        )
        batch = {name.lower() for name in incoming.names}
        rows = pa.schema([field for field in table.schema if field.name.lower() in batch])
        names = {name.lower(): name for name in rows.names}
        keys = _spell_merge_keys(self.writer.stream, rows, merge_keys)
        mark_column = when.column if when else config.delete_column
        mark = apply_header_case(mark_column or DELETED_AT, header).lower()
        deleted = names.get(mark, "") if config.hard_delete else ""
        if deleted and when:
            _check_values(rows.field(deleted), when)
        created, updated = self._time_column("created_at"), self._time_column("updated_at")
        constants = [apply_header_case(name, header) for name in config.constant_columns]
        others = {name.lower() for name in (*keys, *constants, created, updated)}
        own = (n for low, n in names.items() if low not in others and not low.startswith("_sdc_"))
        change = Upsert(
            MergeBatch(self.writer.storage, (), rows, 0),
            table.schema,
            keys,
            names.get(created.lower(), ""),
            deleted,
            names.get(updated.lower(), ""),
            when,
            "" if config.hard_delete else names.get(DELETED_AT, ""),
            tuple(own),
        )
        if mark_column is not None and not deleted:
            columns = table.evolution.schema
            empty = {f.name.lower() for f in columns if pa.types.is_null(f.type)}
            if mark not in empty:
                text = f"there is no column {mark_column!r}: no row was taken for deleted."
                table = replace(table, warnings=(*table.warnings, text))
        return MergePlan(table, change)

    def _time_column(self, name: str) -> str:
        """Return an internal column's name with the config's prefix; empty if a load adds none."""
        config = self.writer.config
        if not config.internal_columns:
            return ""
        column = f"{config.internal_columns_prefix}{name}"
        return apply_header_case(column, config.column_header_format)

    def sink(self, plan: MergePlan) -> DeltaSink:
        """Return the sink that stages the batch's rows apart from the table's data files."""
        return replace(
            self.writer.sink(plan.table),
            folder=_STAGING,
            files=plan.rows,
            partitions={},
            indexed_columns=0,
        )

    def commit(
        self, plan: MergePlan, staged: Sequence[Staged], mark: CommitMark | None = None
    ) -> Landed:
        """Merge a staged batch in one commit, unless its run has merged it before.

        Raises:
            InputError: a row has no value in a key column.
            LakeportError: as `DeltaWriter.commit_operation`.
        """
        writer = self.writer
        with ExitStack() as stack:
            stack.enter_context(StagedFiles(writer.storage, staged)).publish()
            files = tuple((item.key, item.rows) for item in staged)
            size = sum(item.bytes for item in staged)
            rows = replace(plan.change.incoming, files=files, bytes=size)
            change = replace(plan.change, incoming=rows)
            keys = BatchKeys.read(change)
            filled = change.fill_marked_rows()
            if filled is not None:
                new = self.sink(plan).write(iter(filled.to_batches()), len(staged))
                stack.enter_context(StagedFiles(writer.storage, new)).publish()
                files = (*files, *((item.key, item.rows) for item in new))
                change = replace(change, incoming=replace(rows, files=files))
                keys = BatchKeys.read(change)
            operation = MergeOperation(
                writer,
                plan.table,
                mark or writer.mark(),
                engine=self.engine,
                change=change,
                keys=keys,
                replaces_rows=self.replaces_rows,
            )
            landed = writer.commit_operation(operation)
            self.replaces_rows = False
            return replace(
                landed,
                rows=landed.rows - (len(filled) if filled and not landed.skipped else 0),
                warnings=tuple(dict.fromkeys((*plan.table.warnings, *landed.warnings))),
            )

    def retire(self, version: int, lowest_versions: Collection[int | None]) -> Landed | None:
        """Remove rows of older stream versions or mark them deleted; None if rows have no version.

        Returns:
            The report: without a version when there is no table, or when rows of the run have no
            version or a lower one. None when the table has no such column of numbers.

        Raises:
            SchemaConflict: the column that marks deleted rows can't hold a time.
            LakeportError: the store or Spark refused.
        """
        writer, state = self.writer, self.writer.log.read_state()
        nothing = Landed(writer.stream, writer.uri, -1, 0)
        if state is None:
            return nothing
        names = {name.lower(): name for name in state.schema.names}
        column = names.get(TABLE_VERSION)
        if column is None or not _is_number(state.schema.field(column).type):
            return None
        if any(one is None or one < version for one in lowest_versions):
            text = _not_activated_warning(version, combine_lowest_versions(lowest_versions))
            return replace(nothing, warnings=(text,))
        incoming = state.open_schema
        deleted = "" if writer.config.hard_delete else names.get(DELETED_AT, DELETED_AT)
        if deleted and deleted not in incoming.names:
            incoming = incoming.append(pa.field(deleted, TIMESTAMP))
        if deleted and not _can_hold_time(incoming.field(deleted).type):
            raise SchemaConflict(
                f"column {deleted!r} is {incoming.field(deleted).type}, so that no row can be "
                "marked as deleted in it",
                "give it the type of a time or text in the source and the table, or set "
                "`hard_delete: true`.",
            )
        plan = writer.plan(incoming, mode=Mode.MERGE)
        updated = names.get(self._time_column("updated_at").lower(), "")
        change = Retire(column, version, deleted, updated, datetime.now(UTC))
        mark = writer.mark(writer.config.run_id or "", -1)
        return writer.commit_operation(
            RetireOperation(writer, plan, mark, engine=self.engine, change=change)
        )


@dataclass
class RowsOperation(TableOperation):
    """Base of the operations that change rows by rewriting data files in tasks."""

    engine: Engine = field(kw_only=True)

    def rewrite_files(
        self, plan: DeltaPlan, change: Change, files: Sequence[DataFile]
    ) -> list[RewrittenFile]:
        """Rewrite, in tasks, the files with rows to change; return results for these files."""
        writer = self.writer
        table = TableFiles.of(
            writer.log,
            plan.schema_json,
            plan.schema,
            plan.partition_columns,
            map_untyped_columns(plan.schema_json, plan.evolution.schema),
        )
        rewriter = FileRewriter(table, change, writer.sink(plan))
        job = f"rewrite files of {writer.uri} for a merge"
        return rewrite_files(self.engine, job, rewriter, files, writer.storage)

    def open_session(self, plan: DeltaPlan) -> DeltaSession:
        """Return the Spark session; SourceError if the log names data files in other folders.

        Raises:
            SourceError: the log names such a file.
        """
        writer, session = self.writer, self.writer.session()
        if (base := plan.base) is not None:
            roots = writer.config.table_roots
            session.check_files(writer.storage, writer.folder, base.version, roots)
        return session


@dataclass
class MergeOperation(RowsOperation):
    """Merges a staged batch: updates or deletes rows by key, and inserts rows with new keys.

    Attributes:
        replaces_rows: whether the commit removes all rows that the table has.
    """

    change: Upsert = field(kw_only=True)
    keys: BatchKeys = field(kw_only=True)
    replaces_rows: bool = field(default=False, kw_only=True)

    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange:
        """Stage rewritten files and new rows, and return the change that commits them.

        Raises:
            ConfigError: only Spark may change the table's rows, and the batch is to replace all.
            LakeportError: the store, a task or Spark failed.
        """
        change, keys, mark = replace(self.change, schema=plan.schema), self.keys, self.mark
        if plan.needs_spark:
            if self.replaces_rows:
                raise _cannot_replace_error(self.writer.uri, plan)
            self.open_session(plan)
            operation = _describe_operation(change, mark, {})
            by_spark = partial(self._merge_by_spark, change)
            return TableChange(plan, mark, operation, by_spark=by_spark, rows=len(keys))
        files = txn.all_files()
        candidates = [f for f in files if not self.replaces_rows and keys.may_be_in(f, plan)]
        rewritten = self.rewrite_files(plan, change, candidates)
        txn.files.add(item for one in rewritten for item in one.staged)
        inserted = self._insert(plan, change, keys.unmatched(one.matched for one in rewritten))
        txn.files.add(inserted)
        paths = {one.path for one in rewritten}
        removed = [file for file in files if self.replaces_rows or file.path in paths]
        metrics = _merge_metrics(len(keys), rewritten, inserted, removed)
        return TableChange(
            plan,
            mark,
            _describe_operation(change, mark, metrics),
            txn.files.staged,
            removed,
            rows=len(keys),
            unchanged=sum(one.same for one in rewritten),
        )

    def _merge_by_spark(self, change: Upsert, table: DeltaRows) -> None:
        """Merge the batch's staged files into the table with Spark's MERGE."""
        table.merge(
            change.incoming.schema,
            [self.writer.storage.hadoop_uri(key) for key, _ in change.incoming.files],
            change.merge_keys,
            keep_column=change.created,
            delete_condition=_delete_condition(change),
            partial_condition=_key_only_condition(change),
            partial_columns=change.value_columns,
        )

    def _insert(self, plan: DeltaPlan, change: Upsert, positions: Positions) -> list[Staged]:
        """Stage the batch's rows at these sorted positions as new data files, in tasks."""
        items, start = [], 0
        for number, (key, rows) in enumerate(change.incoming.files):
            first, end = np.searchsorted(positions, (start, start + rows))
            if first < end:
                part = replace(change.incoming, files=((key, rows),))
                items.append((number, part, positions[first:end] - start))
            start += rows
        storage = self.writer.storage

        def discard(done: list[Staged]) -> None:
            for staged in done:
                storage.discard(staged)

        return self.engine.run_tasks(
            f"write new rows of a merge to {self.writer.uri}",
            partial(insert, plan.schema, self.writer.sink(plan)),
            items,
            discard=discard,
        )


@dataclass
class RetireOperation(RowsOperation):
    """Removes rows of earlier stream versions, or marks them as deleted."""

    change: Retire = field(kw_only=True)

    def plan_change(self, plan: DeltaPlan, txn: TableTransaction) -> TableChange | Landed:
        """Rewrite files that have rows of older versions; return an empty report if none has."""
        change, mark, writer = self.change, self.mark, self.writer
        if plan.needs_spark:
            return TableChange(
                plan,
                mark,
                _describe_operation(change, mark, {}),
                by_spark=self._retire_by_spark,
                rows=0,
                warnings=_unversioned_warnings(self._count_unversioned(plan)),
            )
        files = [file for file in txn.all_files() if change.may_be_in(file, plan)]
        opened = self.rewrite_files(plan, change, files)
        warnings = _unversioned_warnings(sum(one.unknown for one in opened))
        rewritten = [one for one in opened if one.changed]
        if not rewritten:
            report = Landed(writer.stream, writer.uri, -1, 0, version=txn.version)
            return replace(report, warnings=warnings)
        txn.files.add(item for one in rewritten for item in one.staged)
        paths = {one.path for one in rewritten}
        return TableChange(
            plan,
            mark,
            _describe_operation(change, mark, _retire_metrics(rewritten, change)),
            txn.files.staged,
            [file for file in files if file.path in paths],
            rows=sum(one.changed for one in rewritten),
            warnings=warnings,
        )

    def _count_unversioned(self, plan: DeltaPlan) -> int:
        """Count the rows without a stream version in the planned table version, by Spark."""
        session = self.open_session(plan)
        assert plan.base is not None
        # The version that was planned on: its files have been checked.
        reader = session.spark.read.format("delta").option("versionAsOf", plan.base.version)
        rows = reader.load(self.writer.log.hadoop_uri)
        return int(rows.where(f"{quote_identifier(self.change.version_column)} IS NULL").count())

    def _retire_by_spark(self, table: DeltaRows) -> None:
        """Mark earlier versions' rows with Spark's UPDATE, or remove them with its DELETE."""
        change, condition = self.change, _old_rows_condition(self.change)
        if change.deleted:
            names = filter(None, (change.deleted, change.updated))
            table.update(condition, dict.fromkeys(names, change.clock), new_column=change.deleted)
        else:
            table.delete(condition)


def _delete_condition(change: Upsert) -> str:
    """Return the SQL condition for batch rows that delete their key; empty if none can."""
    if not change.deleted:
        return ""
    column = f"source.{quote_identifier(change.deleted)}"
    if change.delete_when:
        return change.delete_when.to_sql(column)
    flag = pa.types.is_boolean(change.incoming.schema.field(change.deleted).type)
    return f"coalesce({column}, false)" if flag else f"{column} IS NOT NULL"


def _key_only_condition(change: Upsert) -> str:
    """Return the SQL condition for batch rows with only a key and a deletion mark; or empty."""
    if not (change.soft_deleted and change.value_columns):
        return ""
    empty = [f"source.{quote_identifier(name)} IS NULL" for name in change.value_columns]
    return " AND ".join([f"source.{quote_identifier(change.soft_deleted)} IS NOT NULL", *empty])


def _key_condition(keys: Sequence[str]) -> str:
    """Return the SQL condition of a MERGE: all keys of `target` and `source` are equal."""
    return " AND ".join(
        f"target.{quote_identifier(key)} = source.{quote_identifier(key)}" for key in keys
    )


def _old_rows_condition(change: Retire) -> str:
    """Return the SQL condition for rows of older stream versions, not marked as deleted yet."""
    column = quote_identifier(change.version_column)
    old = f"{column} < {int(change.version)}"
    return f"{old} AND {quote_identifier(change.deleted)} IS NULL" if change.deleted else old


def _describe_operation(change: Change, mark: CommitMark, metrics: Mapping[str, int]) -> CommitInfo:
    """Return the commit's history entry: a MERGE, or an UPDATE or DELETE of older rows."""
    if isinstance(change, Upsert):
        name, condition = "MERGE", _key_condition(change.merge_keys)
    else:
        name, condition = "UPDATE" if change.deleted else "DELETE", _old_rows_condition(change)
    return CommitInfo(user_metadata=mark.format(), metrics=metrics, name=name, condition=condition)


def _not_activated_warning(version: int, lowest: int | None) -> str:
    """Return the warning that older rows stay, as this run has rows of a lower or no version."""
    what = "no version" if lowest is None else f"a lower version, down to {lowest}"
    advice = (
        "have the tap send `version` with every record, and load with `add_record_metadata: true`"
        if lowest is None
        else "have the tap send one version in a run"
    )
    return (
        f"version {version} was not activated, as rows of this run have {what}: rows of earlier "
        f"versions stay. To retire them, {advice}."
    )


def _unversioned_warnings(unversioned: int) -> tuple[str, ...]:
    """Return the warning that rows without a stream version stay; empty for 0 rows."""
    if not unversioned:
        return ()
    rows = "1 row has" if unversioned == 1 else f"{unversioned} rows have"
    return (
        f"{rows} no version, as loads without `add_record_metadata: true` leave them, and stayed: "
        "nothing tells whether they are of an earlier version. `mode: overwrite` replaces them.",
    )


def _cannot_replace_error(uri: str, plan: DeltaPlan) -> ConfigError:
    """Return the error: only Spark may merge into this table, which can't replace all rows."""
    return ConfigError(
        f"{uri} has {', '.join(plan.needs_spark)}, so that Spark itself merges rows into it, which "
        "can't replace the table in one commit",
        "land it with `mode: overwrite` once, or delete the table, and load it again.",
    )


def _check_values(field: pa.Field, when: DeleteCondition) -> None:
    """Raise ConfigError if a value of the delete condition can't be cast to the column's type."""
    try:
        pa.array(when.values).cast(field.type)
    except (pa.ArrowException, TypeError, ValueError):
        raise ConfigError(
            f"`delete_when` compares column {field.name!r}, which is {format_type(field.type)}, "
            "with a value that it can't have",
            f"write its values as {format_type(field.type)}, texts in single quotes.",
        ) from None


def _spell_merge_keys(stream: str, rows: pa.Schema, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the merge keys as `rows` spells them; ConfigError for none, absent or nested ones."""
    names = {name.lower(): name for name in rows.names}
    if not keys:
        raise ConfigError(
            f"stream {stream!r} has no key to merge by",
            "name the columns that identify a row in `merge_keys` (`--merge-keys`), or use "
            "`mode: append`.",
        )
    for key in keys:
        if key.lower() not in names:
            raise ConfigError(
                f"stream {stream!r} has no column {key!r} to merge by",
                f"its columns are {', '.join(rows.names)}.",
            )
        type_ = rows.field(names[key.lower()]).type
        if pa.types.is_nested(type_):
            raise ConfigError(
                f"column {key!r} is {type_}, which can't identify a row",
                "name columns of text, numbers, dates or times in `merge_keys`.",
            )
    return tuple(dict.fromkeys(names[key.lower()] for key in keys))


def _is_number(type_: pa.DataType) -> bool:
    """Whether a type is an integer, a float or a decimal."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds)


def _can_hold_time(type_: pa.DataType) -> bool:
    """Whether a type is a timestamp, a date or text."""
    kinds = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_string)
    return any(is_kind(type_) for is_kind in kinds)


def _merge_metrics(
    source_rows: int,
    rewritten: Sequence[RewrittenFile],
    inserted: Sequence[Staged],
    replaced: Sequence[DataFile],
) -> dict[str, int]:
    """Return `operationMetrics` of a MERGE, as delta-spark names them."""
    new = [staged for one in rewritten for staged in one.staged] + list(inserted)
    return {
        "operationNumSourceRows": source_rows,
        "numTargetRowsInserted": sum(item.rows for item in inserted),
        "numTargetRowsUpdated": sum(one.updated for one in rewritten),
        "numTargetRowsDeleted": sum(one.deleted for one in rewritten),
        "numTargetRowsCopied": sum(one.copied for one in rewritten),
        "numTargetFilesAdded": len(new),
        "numTargetFilesRemoved": len(replaced),
        "numTargetBytesAdded": sum(item.bytes for item in new),
        "numTargetBytesRemoved": sum(file.bytes for file in replaced),
    }


def _retire_metrics(rewritten: Sequence[RewrittenFile], change: Retire) -> dict[str, int]:
    """Return `operationMetrics` of an UPDATE or DELETE, as delta-spark names them."""
    changed = "numUpdatedRows" if change.deleted else "numDeletedRows"
    return {
        changed: sum(one.changed for one in rewritten),
        "numCopiedRows": sum(one.copied for one in rewritten),
        "numAddedFiles": sum(len(one.staged) for one in rewritten),
        "numRemovedFiles": len(rewritten),
    }
