"""Merges: the rows of a batch take the place of the table's rows with the same keys.

```
staged batch ─▶ keys ─▶ files that may hold one ─▶ rewrite those that do ─┐
                  └────────▶ rows that no file held ─▶ insert ────────────┴─▶ one commit
```
A merge that meets another writer's change looks at the table again and rewrites its files anew.

The kernels are a module of their own, as workers import them: these need nothing of the driver's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakeport.config.keys import DeleteCondition
from lakeport.delta_log.actions import DataFile
from lakeport.delta_log.transactions import Mark, Operation
from lakeport.errors import ConfigError, SchemaConflict
from lakeport.model import Landed, Mode, Staged
from lakeport.schema.evolution import EvolutionPolicy
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import TIMESTAMP, format_type
from lakeport.shape import DELETED_AT, TABLE_VERSION, combine_lowest_versions
from lakeport.writers.delta.commit import StagedFiles, TableChange, TableTransaction
from lakeport.writers.delta.merge.changes import (
    BatchKeys,
    Change,
    Incoming,
    Positions,
    Retire,
    Rewrite,
    RewrittenFile,
    Upsert,
    insert,
)
from lakeport.writers.delta.merge.files import TableFiles, rewrite_files
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.sink import DeltaSink
from lakeport.writers.delta.untyped import open_stored_columns
from lakeport.writers.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from lakeport.engine.base import DeltaRows, DeltaSession, Engine

_STAGING = "_lakeport/staging"


def _delete_condition(change: Upsert) -> str:
    """A condition on rows of the batch whose keys are deleted; empty for none."""
    if not change.deleted:
        return ""
    column = f"source.{quote_identifier(change.deleted)}"
    if change.when:
        return change.when.sql(column)
    flag = pa.types.is_boolean(change.incoming.schema.field(change.deleted).type)
    return f"coalesce({column}, false)" if flag else f"{column} IS NOT NULL"


def _key_only_condition(change: Upsert) -> str:
    """A condition on rows of the batch that bring their keys alone, and leave what is there."""
    if not (change.soft and change.own):
        return ""
    empty = [f"source.{quote_identifier(name)} IS NULL" for name in change.own]
    return " AND ".join([f"source.{quote_identifier(change.soft)} IS NOT NULL", *empty])


def _key_condition(keys: Sequence[str]) -> str:
    return " AND ".join(
        f"target.{quote_identifier(key)} = source.{quote_identifier(key)}" for key in keys
    )


def _old_rows_condition(change: Retire) -> str:
    column = quote_identifier(change.version_column)
    old = f"{column} < {int(change.version)}"
    return f"{old} AND {quote_identifier(change.deleted)} IS NULL" if change.deleted else old


@dataclass(frozen=True)
class MergePlan:
    """What a batch makes of a table that it is merged into.

    Attributes:
        table: what the load makes of the table's schema, partitions and properties.
        change: the merge, of no rows so far.
        warnings: sentences for the report.
    """

    table: DeltaPlan
    change: Upsert
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Schema:
        """The batch's columns, of the table's types and spelling."""
        return self.change.incoming.schema


@dataclass
class DeltaMerger:
    """Merges one stream's batches into its table, and retires rows of earlier versions.

    Attributes:
        writer: plans against the table and commits to it.
        engine: runs the kernels.
        created: name of the column that tells when a row first came; empty for none.
        updated: name of the column that tells when a row last changed; empty for none.
        replaces_rows: whether the rows that the table has go with the next batch's commit.
    """

    writer: DeltaWriter
    engine: Engine
    created: str = ""
    updated: str = ""
    replaces_rows: bool = False

    def plan(
        self,
        incoming: pa.Schema,
        merge_keys: Sequence[str],
        *,
        deleted: str = "",
        when: DeleteCondition | None = None,
        soft: str = "",
        apart: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        policy: EvolutionPolicy | str = EvolutionPolicy.EVOLVE,
    ) -> MergePlan:
        """Plan a merge into the table as it is now.

        Args:
            incoming: the batch's columns.
            merge_keys: those that identify a row, in any case.
            deleted: the column that marks a row as deleted; empty for none.
            when: which values of it do; None to tell by its type.
            soft: the column whose value marks a row that stays; empty for none.
            apart: columns that the load gives every row.
            partition_keys: columns to partition a new table by.
            policy: whether columns may be added.

        Raises:
            ConfigError: there are no keys, or one is no column that could be one; or `when` names
                values that its column can't have.
            SchemaConflict: the batch does not fit the table.
        """
        table = self.writer.plan(
            incoming,
            mode=Mode.MERGE,
            partition_keys=partition_keys,
            policy=policy,
            keys=merge_keys,
        )
        coming = {name.lower() for name in incoming.names}
        rows = pa.schema([field for field in table.schema if field.name.lower() in coming])
        names = {name.lower(): name for name in rows.names}
        keys = _merge_keys(self.writer.stream, rows, merge_keys)
        mark = names.get(deleted.lower(), "")
        if mark and when:
            _check_values(rows.field(mark), when)
        beside = {*map(str.lower, (*keys, *apart)), self.created.lower(), self.updated.lower()}
        own = (n for low, n in names.items() if low not in beside and not low.startswith("_sdc_"))
        change = Upsert(
            Incoming(self.writer.storage, (), rows, 0),
            table.schema,
            keys,
            names.get(self.created.lower(), ""),
            mark,
            names.get(self.updated.lower(), ""),
            when,
            names.get(soft.lower(), ""),
            tuple(own),
        )
        return MergePlan(table, change, table.warnings)

    def sink(self, plan: MergePlan) -> DeltaSink:
        """The kernel that stages the batch's rows, not yet the table's files."""
        return replace(
            self.writer.sink(plan.table),
            folder=_STAGING,
            files=plan.rows,
            partitions={},
            indexed_columns=0,
        )

    def commit(self, plan: MergePlan, staged: Sequence[Staged], mark: Mark | None = None) -> Landed:
        """Merge a staged batch in one commit, or find that this run had merged it.

        Raises:
            InputError: a row has no value in a key column.
            LakeportError: as `DeltaWriter.commit`.
        """
        writer, own = self.writer, mark or self.writer.mark()
        with ExitStack() as stack:
            stack.enter_context(StagedFiles(writer.storage, staged)).publish()
            files = tuple((item.key, item.rows) for item in staged)
            size = sum(item.bytes for item in staged)
            rows = replace(plan.change.incoming, files=files, bytes=size)
            change = replace(plan.change, incoming=rows)
            keys = BatchKeys.read(change)
            filled = change.filled()
            if filled is not None:
                new = self.sink(plan).write(iter(filled.to_batches()), len(staged))
                stack.enter_context(StagedFiles(writer.storage, new)).publish()
                files = (*files, *((item.key, item.rows) for item in new))
                change = replace(change, incoming=replace(rows, files=files))
                keys = BatchKeys.read(change)

            def merge(
                current: DeltaPlan, txn: TableTransaction, own_files: StagedFiles
            ) -> TableChange:
                now = replace(change, schema=current.schema)
                return self._merge(current, txn, now, keys, own, own_files)

            landed = writer.until_committed(plan.table, own, merge)
            self.replaces_rows = False
            return replace(
                landed,
                rows=landed.rows - (len(filled) if filled and not landed.skipped else 0),
                warnings=tuple(dict.fromkeys((*plan.warnings, *landed.warnings))),
            )

    def retire(
        self,
        version: int,
        of_run: Collection[int | None],
        *,
        hard: bool,
        run_id: str,
    ) -> Landed | None:
        """Remove the rows of earlier versions, or mark them as deleted, in one commit.

        Args:
            version: rows that came with a lower one are earlier.
            of_run: the lowest version of each batch of the run; see `TableWriter.retire`.
            hard: remove the rows, which are marked as deleted otherwise.
            run_id: the run's id, for the commit's history; empty for none.

        Returns:
            None when the table has no such column of numbers; no version when there is no table,
            or when rows of the run are of no version or a lower one.

        Raises:
            SchemaConflict: the column that is to be set can't hold a time.
            LakeportError: the store or Spark refused.
        """
        state = self.writer.log.state()
        names = {} if state is None else {name.lower(): name for name in state.schema.names}
        column = names.get(TABLE_VERSION)
        if state is None:
            return Landed(self.writer.stream, self.writer.uri, -1, 0)
        if column is None or not _numeric(state.schema.field(column).type):
            return None
        if any(one is None or one < version for one in of_run):
            text = _not_activated_warning(version, combine_lowest_versions(of_run))
            return Landed(self.writer.stream, self.writer.uri, -1, 0, warnings=(text,))
        incoming = state.open_schema
        deleted = "" if hard else names.get(DELETED_AT, DELETED_AT)
        if deleted and deleted not in incoming.names:
            incoming = incoming.append(pa.field(deleted, TIMESTAMP))
        if deleted and not _holds_time(incoming.field(deleted).type):
            raise SchemaConflict(
                f"column {deleted!r} is {incoming.field(deleted).type}, so that no row can be "
                "marked as deleted in it",
                "give it the type of a time or text in the source and the table, or set "
                "`hard_delete: true`.",
            )
        plan = self.writer.plan(incoming, mode=Mode.MERGE)
        updated = names.get(self.updated.lower(), "")
        change = Retire(column, version, deleted, updated, datetime.now(UTC))
        mark = self.writer.mark(run_id, -1)

        unknown = 0

        def retire(
            current: DeltaPlan, txn: TableTransaction, files: StagedFiles
        ) -> TableChange | Landed:
            nonlocal unknown
            if current.needs_spark:

                def by_spark(session: DeltaSession, table: DeltaRows) -> None:
                    nonlocal unknown
                    unknown = self._retire_by_spark(current, change, session, table)

                operation = _operation(change, mark, {})
                return TableChange(current, mark, operation, by_spark=by_spark, rows=0)
            there = [file for file in txn.all_files() if change.may_be_in(file, current)]
            opened = self._rewrite(current, change, there)
            unknown = sum(one.unknown for one in opened)
            rewritten = [one for one in opened if one.changed]
            if not rewritten:
                return Landed(self.writer.stream, self.writer.uri, -1, 0, version=txn.version)
            files.add(item for one in rewritten for item in one.staged)
            paths = {one.path for one in rewritten}
            return TableChange(
                current,
                mark,
                _operation(change, mark, _retire_metrics(rewritten, change)),
                files.staged,
                [file for file in there if file.path in paths],
                rows=sum(one.changed for one in rewritten),
            )

        landed = self.writer.until_committed(plan, mark, retire)
        return replace(landed, warnings=(*landed.warnings, *_unversioned_warnings(unknown)))

    def _merge(
        self,
        plan: DeltaPlan,
        txn: TableTransaction,
        change: Upsert,
        keys: BatchKeys,
        mark: Mark,
        files: StagedFiles,
    ) -> TableChange:
        fresh = self.replaces_rows
        if plan.needs_spark:
            if fresh:
                raise _only_spark(self.writer.uri, plan)
            operation = _operation(change, mark, {})
            by_spark = partial(self._merge_by_spark, plan, change)
            return TableChange(plan, mark, operation, by_spark=by_spark, rows=len(keys))
        there = txn.all_files()
        found = [file for file in there if not fresh and keys.may_be_in(file, plan)]
        rewritten = self._rewrite(plan, change, found)
        files.add(item for one in rewritten for item in one.staged)
        inserted = self._insert(plan, change, keys.unmatched(one.matched for one in rewritten))
        files.add(inserted)
        paths = {one.path for one in rewritten}
        replaced = [file for file in there if fresh or file.path in paths]
        metrics = _merge_metrics(len(keys), rewritten, inserted, replaced)
        return TableChange(
            plan,
            mark,
            _operation(change, mark, metrics),
            files.staged,
            replaced,
            rows=len(keys),
            same=sum(one.same for one in rewritten),
        )

    def _merge_by_spark(
        self, plan: DeltaPlan, change: Upsert, session: DeltaSession, table: DeltaRows
    ) -> None:
        """Merge the rows with Spark's MERGE, in one commit that carries the mark."""
        self._check_files(plan, session)
        uris = [self.writer.storage.hadoop_uri(key) for key, _ in change.incoming.files]
        table.merge(
            change.incoming.schema,
            uris,
            change.merge_keys,
            kept=change.created,
            gone=_delete_condition(change),
            bare=_key_only_condition(change),
            own=change.own,
        )

    def _retire_by_spark(
        self, plan: DeltaPlan, change: Retire, session: DeltaSession, table: DeltaRows
    ) -> int:
        """Change the rows with Spark's DML; return how many have no version and stay."""
        self._check_files(plan, session)
        assert plan.base is not None
        # The version that was planned on: its files have been checked.
        reader = session.spark.read.format("delta").option("versionAsOf", plan.base.version)
        rows = reader.load(self.writer.log.hadoop_uri)
        unknown = rows.where(f"{quote_identifier(change.version_column)} IS NULL").count()
        if change.deleted:
            names = filter(None, (change.deleted, change.updated))
            table.update(
                _old_rows_condition(change), dict.fromkeys(names, change.clock), new=change.deleted
            )
        else:
            table.delete(_old_rows_condition(change))
        return unknown

    def _check_files(self, plan: DeltaPlan, session: DeltaSession) -> None:
        writer = self.writer
        if (base := plan.base) is not None:
            roots = writer.options.roots
            session.check_files(writer.storage, writer.folder, base.version, roots)

    def _rewrite(
        self, plan: DeltaPlan, change: Change, found: Sequence[DataFile]
    ) -> list[RewrittenFile]:
        """Rewrite those of the files that have rows to change."""
        writer = self.writer
        table = TableFiles.of(
            writer.log,
            plan.schema_json,
            plan.schema,
            plan.partition_columns,
            open_stored_columns(plan.schema_json, plan.evolution.schema),
        )
        kernel = Rewrite(table, change, writer.sink(plan))
        what = f"rewrite files of {writer.uri} for a merge"
        return rewrite_files(self.engine, what, kernel, found, writer.storage)

    def _insert(self, plan: DeltaPlan, change: Upsert, positions: Positions) -> list[Staged]:
        """Write the batch's rows at these positions as new rows."""
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


def _operation(change: Change, mark: Mark, metrics: Mapping[str, int]) -> Operation:
    """MERGE, DELETE or UPDATE, as the table's history has it."""
    if isinstance(change, Upsert):
        name, condition = "MERGE", _key_condition(change.merge_keys)
    else:
        name, condition = "UPDATE" if change.deleted else "DELETE", _old_rows_condition(change)
    return Operation(user_metadata=mark.text(), metrics=metrics, name=name, condition=condition)


def _not_activated_warning(version: int, lowest: int | None) -> str:
    """Say why an ACTIVATE_VERSION retires no row: rows of the run would be among them."""
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


def _unversioned_warnings(unknown: int) -> tuple[str, ...]:
    """Say that rows without a version stay, as they may be of the active one."""
    if not unknown:
        return ()
    rows = "1 row has" if unknown == 1 else f"{unknown} rows have"
    return (
        f"{rows} no version, as loads without `add_record_metadata: true` leave them, and stayed: "
        "nothing tells whether they are of an earlier version. `mode: overwrite` replaces them.",
    )


def _only_spark(uri: str, plan: DeltaPlan) -> ConfigError:
    return ConfigError(
        f"{uri} has {', '.join(plan.needs_spark)}, so that Spark itself merges rows into it, which "
        "can't replace the table in one commit",
        "land it with `mode: overwrite` once, or delete the table, and load it again.",
    )


def _check_values(field: pa.Field, when: DeleteCondition) -> None:
    try:
        pa.array(when.values).cast(field.type)
    except (pa.ArrowException, TypeError, ValueError):
        raise ConfigError(
            f"`delete_when` compares column {field.name!r}, which is {format_type(field.type)}, "
            "with a value that it can't have",
            f"write its values as {format_type(field.type)}, texts in single quotes.",
        ) from None


def _merge_keys(stream: str, rows: pa.Schema, keys: Sequence[str]) -> tuple[str, ...]:
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


def _numeric(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type_) for is_kind in kinds)


def _holds_time(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_string)
    return any(is_kind(type_) for is_kind in kinds)


def _merge_metrics(
    rows: int,
    rewritten: Sequence[RewrittenFile],
    inserted: Sequence[Staged],
    replaced: Sequence[DataFile],
) -> dict[str, int]:
    new = [staged for one in rewritten for staged in one.staged] + list(inserted)
    return {
        "operationNumSourceRows": rows,
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
    changed = "numUpdatedRows" if change.deleted else "numDeletedRows"
    return {
        changed: sum(one.changed for one in rewritten),
        "numCopiedRows": sum(one.copied for one in rewritten),
        "numAddedFiles": sum(len(one.staged) for one in rewritten),
        "numRemovedFiles": len(rewritten),
    }
