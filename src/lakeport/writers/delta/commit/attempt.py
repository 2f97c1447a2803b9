"""One attempt to commit a batch: by actions of ours, or by Spark's writer where it must."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lakeport.engine.spark.delta.rows import DeltaRows, StagedRows
from lakeport.engine.spark.delta.transaction import Operation
from lakeport.errors import LakeportError, SparkFailure
from lakeport.model import Landed, Mode, Staged, Storage
from lakeport.schema.evolution import EvolutionPolicy
from lakeport.writers.delta.commit.known_content import NOT_TOLD, KnownContent, overwritten
from lakeport.writers.delta.commit.log_transaction import LogTransaction, TableTransaction
from lakeport.writers.delta.commit.outcome import settle
from lakeport.writers.delta.commit.transaction import Transaction
from lakeport.writers.delta.features import LACKING_READERS, feature_notes
from lakeport.writers.delta.log.actions import (
    add_action,
    clustering_action,
    metadata_action,
    parse_value,
    transaction_action,
)
from lakeport.writers.delta.log.commits import Commit, CommitLog, Mark
from lakeport.writers.delta.log.reader import DataFile, row_count
from lakeport.writers.delta.plan import DeltaPlan
from lakeport.writers.delta.schema import physical_names
from lakeport.writers.delta.sink import EMPTY_VALUES

if TYPE_CHECKING:
    from lakeport.engine.types import SparkSession


@dataclass(frozen=True, slots=True)
class Done:
    """A commit that was made.

    Attributes:
        version: the version that it made.
        removed_files: how many files it removed.
        removed_rows: the rows in them; None where the log does not tell.
        metrics: what Spark's own writer has counted.
    """

    version: int
    removed_files: int = 0
    removed_rows: int | None = 0
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """A planned batch and its files.

    Attributes:
        storage: where the table is.
        folder: the table's key.
        plan: on the table's present state.
        staged: the files.
        mark: what the commit says about itself.
        conflict_on_whole_table: an overwrite of partitions by delta-spark conflicts with changes to
            any partition, which is quicker to find out than with changes to these alone.
        content: what the batch is known by, when it comes again.
        changes_rows: whether the table has other rows after it: those who follow it look at them.
        may_do_nothing: Spark's way may find that there is nothing to commit.
    """

    storage: Storage
    folder: str
    plan: DeltaPlan
    staged: Sequence[Staged]
    mark: Mark
    conflict_on_whole_table: bool = True
    content: KnownContent = NOT_TOLD
    changes_rows: bool = True
    may_do_nothing: ClassVar[bool] = False

    def direct(self, txn: TableTransaction, publish: Callable[[], None]) -> Done:
        """Commit our own actions.

        Args:
            txn: a fresh transaction, on the state that the plan is for.
            publish: makes the files visible.

        Raises:
            LakeportError: as `Transaction.commit`.
        """
        moment = int(time.time() * 1000)
        adds = [self._add(item, moment) for item in self.staged]
        if self.plan.metadata_changes:
            if self.plan.evolution.typed:
                txn.read_all()  # no file with the column may come meanwhile
            txn.set_metadata(self._metadata(moment), replaces=self.plan.evolution.replaced)
        removed = self.removed(txn, adds)
        txn.remove(removed, changes_rows=self.changes_rows)
        actions = list(adds)
        if self.plan.cluster_by:
            names = physical_names(self.plan.schema_json, self.plan.cluster_by)
            actions.append(clustering_action([[name] for name in names.values()]))
        for app, number in self.mark.transactions.items():
            actions.append(transaction_action(app, number, moment))
        actions += self.content.actions(txn.version + 1, moment)
        if self.plan.mode is Mode.OVERWRITE and self.plan.base is not None:
            actions.append(overwritten(txn.version + 1, moment))
        publish()
        version = txn.commit(actions, self.operation(len(removed)))
        return Done(version, len(removed), row_count(removed))

    def through_spark(self, spark: SparkSession, read: int) -> Done:
        """Have Spark's writer read the published files and write them, with every rule checked.

        The version that it makes is found by the commit's mark.

        Args:
            spark: the session.
            read: the table's version before.

        Raises:
            CommitConflict: another writer was faster; nothing landed.
            InputError: a row breaks a constraint of the table.
            OutcomeUnknown: nothing tells whether the commit was made, or will be.
            LakeportError: it was not made.
        """
        nothing = SparkFailure("Spark wrote nothing")
        failure: LakeportError = nothing
        try:
            self.run_in_spark(spark)
        except LakeportError as error:
            failure = error
        try:
            done = settle(CommitLog(self.storage, self.folder), self._is_mine, read, failure)
        except SparkFailure as error:
            if error is nothing and self.may_do_nothing:
                return Done(read)
            raise
        metrics = done.info.get("operationMetrics") or {}
        return Done(done.version, done.removed, None if done.removed else 0, metrics)

    def _is_mine(self, commit: Commit) -> bool:
        return commit.mark is not None and commit.mark.commit_id == self.mark.commit_id

    def run_in_spark(self, spark: SparkSession) -> None:
        """Write with Spark, in one commit that carries the mark."""
        plan, schema = self.plan, self.plan.schema
        filled = plan.base.filled if plan.base else frozenset()
        absent = filled & {*plan.evolution.missing}
        uris = [self.storage.hadoop_uri(item.key) for item in self.staged]
        self._table(spark).write(
            StagedRows(schema, uris),
            [name for name in schema.names if name not in absent],
            overwrite=plan.mode is Mode.OVERWRITE,
            dynamic=plan.dynamic,
        )

    def _table(self, spark: SparkSession) -> DeltaRows:
        return DeltaRows(
            spark,
            self.storage.hadoop_uri(self.folder),
            self.plan.partition_columns,
            self.mark.text(),
            self.mark.transactions,
            evolve=self.plan.request.policy is EvolutionPolicy.EVOLVE,
        )

    def _add(self, item: Staged, moment: int) -> str:
        path = item.key.removeprefix(f"{self.folder}/") if self.folder else item.key
        return add_action(
            path, item.partition, item.bytes, moment, item.stats, changes_rows=self.changes_rows
        )

    def _metadata(self, moment: int) -> str:
        plan = self.plan
        if plan.base is None:
            return metadata_action(
                self.mark.commit_id,
                plan.schema_json,
                plan.partition_columns,
                plan.properties,
                moment,
            )
        text = json.dumps(plan.schema_json, ensure_ascii=False)
        changed = {"schemaString": text, "configuration": dict(plan.properties)}
        return json.dumps({"metaData": {**plan.base.metadata, **changed}}, ensure_ascii=False)

    def removed(self, txn: TableTransaction, adds: Sequence[str]) -> list[DataFile]:
        """The files that the commit removes: none, all, or those of the batch's partitions.

        Partitions are compared by value, as several writers spell one in several ways. delta-spark
        can do that, and then takes only changes to these partitions for a conflict; but it runs a
        Spark job for it, and does not know the batch's types where they have become wider. So it
        is done on all files first, which makes any change to the table a conflict.
        """
        if self.plan.mode is not Mode.OVERWRITE or self.plan.base is None:
            return []
        if not self.plan.dynamic:
            return txn.all_files()
        if not adds:
            return []
        columns = self.plan.partition_columns
        same_types = self.plan.evolution.widened.keys().isdisjoint(columns)
        if same_types and not self.conflict_on_whole_table and isinstance(txn, Transaction):
            return txn.files_beside(adds)
        names = physical_names(self.plan.schema_json, columns)
        types = {names[column]: self.plan.schema.field(column).type for column in columns}

        def typed(values: Any) -> tuple[Any, ...]:
            return tuple(parse_value(values.get(name), type_) for name, type_ in types.items())

        present = {typed(item.partition) for item in self.staged}

        def replaced(values: Mapping[str, str | None]) -> bool:
            return typed(values) in present

        if isinstance(txn, LogTransaction):
            return txn.files_of(replaced)
        return [file for file in txn.all_files() if replaced(file.partition)]

    def operation(self, removed: int) -> Operation:
        """How the commit describes itself in the table's history."""
        plan = self.plan
        return Operation(
            overwrite=plan.mode is Mode.OVERWRITE,
            dynamic=plan.dynamic,
            new_schema=plan.evolution.replaced,
            partition_columns=() if plan.base else plan.partition_columns,
            user_metadata=self.mark.text(),
            metrics={
                "numFiles": len(self.staged),
                "numOutputRows": sum(item.rows for item in self.staged),
                "numOutputBytes": sum(item.bytes for item in self.staged),
                **({"numRemovedFiles": removed} if removed else {}),
            },
        )

    def landed(
        self, done: Done, rows: int | None = None, merged: Mapping[str, int] | None = None
    ) -> Landed:
        """What the attempt has landed; as many rows as its files have, if nothing else is said."""
        plan, staged = self.plan, self.staged
        return Landed(
            stream=self.mark.stream,
            table=self.storage.uri(self.folder),
            sequence=self.mark.sequence,
            rows=sum(item.rows for item in staged) if rows is None else rows,
            files=() if plan.needs_spark else tuple(self.storage.uri(i.key) for i in staged),
            bytes=sum(item.bytes for item in staged),
            version=done.version,
            removed_files=done.removed_files,
            removed_rows=done.removed_rows,
            merged=merged or {},
            warnings=(*plan.warnings, *_notes(plan, staged), *self._features(done.version)),
            lowest_version=self.mark.lowest_version,
        )

    def _features(self, version: int) -> tuple[str, ...]:
        """What a report says about table features that the commit brought."""
        plan = self.plan
        if not plan.metadata_changes:
            return ()
        try:
            commit = CommitLog(self.storage, self.folder).read(version)
        except LakeportError:
            return ()  # the batch has landed: no note is worth failing the load
        had = set(plan.base.features if plan.base else ())
        said = {name for name in LACKING_READERS if any(name in text for text in plan.warnings)}
        return feature_notes(had | said, (commit and commit.protocol) or {})


def _notes(plan: DeltaPlan, staged: Sequence[Staged]) -> list[str]:
    notes = []
    emptied = sum(int(item.token.get(EMPTY_VALUES, 0)) for item in staged)
    if emptied:
        notes.append(
            f"{emptied} rows have an empty text in a partition column; Delta can't hold one there "
            "and reads it as null."
        )
    if plan.needs_spark:
        notes.append(
            f"Spark wrote this batch itself, which takes longer: the table has "
            f"{', '.join(plan.needs_spark)}."
        )
    return notes
