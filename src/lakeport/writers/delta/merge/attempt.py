"""Commits that change rows of a table: by files that the kernels rewrote, or by Spark's own DML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from lakeport.engine.spark.delta.files import check_table_files
from lakeport.engine.spark.delta.rows import StagedRows
from lakeport.engine.spark.delta.transaction import Operation
from lakeport.engine.spark.sql import quoted
from lakeport.writers.delta.commit.attempt import Attempt
from lakeport.writers.delta.commit.log_transaction import TableTransaction
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.merge.changes import Retire, Upsert

if TYPE_CHECKING:
    from lakeport.engine.types import SparkSession


@dataclass(frozen=True)
class ChangeAttempt(Attempt):
    """An attempt to change rows; `staged` are the files that take the removed ones' place.

    Attributes:
        change: what is done to the rows.
        replaced: the files that the commit removes.
        metrics: numbers for the history.
        roots: see `DeltaOptions.roots`.
    """

    may_do_nothing: ClassVar[bool] = True
    change: Upsert | Retire = field(kw_only=True)
    replaced: Sequence[DataFile] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    roots: Sequence[str] = ()

    def removed(self, txn: TableTransaction, adds: Sequence[str]) -> list[DataFile]:
        """The files that were rewritten."""
        return list(self.replaced)

    def operation(self, removed: int) -> Operation:
        """MERGE, DELETE or UPDATE."""
        name, condition = self._described()
        return Operation(
            user_metadata=self.mark.text(),
            metrics=self.metrics,
            name=name,
            condition=condition,
        )

    def run_in_spark(self, spark: SparkSession) -> None:
        """Change the rows with Spark's DML, in one commit that carries the mark."""
        if (base := self.plan.base) is not None:
            check_table_files(spark, self.storage, self.folder, base.version, self.roots)
        table, change = self._table(spark), self.change
        if isinstance(change, Upsert):
            uris = [self.storage.hadoop_uri(key) for key, _ in change.incoming.files]
            table.merge(
                StagedRows(change.incoming.schema, uris),
                change.merge_keys,
                kept=change.created,
                gone=_gone(change),
                bare=_bare(change),
                own=change.own,
            )
        elif change.deleted:
            names = filter(None, (change.deleted, change.updated))
            table.update(_old(change), dict.fromkeys(names, change.clock), new=change.deleted)
        else:
            table.delete(_old(change))

    def unknown(self, spark: SparkSession) -> int:
        """How many rows of the table had no version and stayed, as Spark counts them."""
        assert isinstance(self.change, Retire)
        assert self.plan.base is not None
        # The version that was planned on: its files have been checked.
        reader = spark.read.format("delta").option("versionAsOf", self.plan.base.version)
        rows = reader.load(self.storage.hadoop_uri(self.folder))
        return rows.where(f"{quoted(self.change.version_column)} IS NULL").count()

    def _described(self) -> tuple[str, str]:
        if isinstance(self.change, Upsert):
            return "MERGE", _same(self.change.merge_keys)
        return "UPDATE" if self.change.deleted else "DELETE", _old(self.change)


def _gone(change: Upsert) -> str:
    """A condition on rows of the batch whose keys are deleted; empty for none."""
    if not change.deleted:
        return ""
    column = f"source.{quoted(change.deleted)}"
    if change.when:
        return change.when.sql(column)
    flag = pa.types.is_boolean(change.incoming.schema.field(change.deleted).type)
    return f"coalesce({column}, false)" if flag else f"{column} IS NOT NULL"


def _bare(change: Upsert) -> str:
    """A condition on rows of the batch that bring their keys alone, and leave what is there."""
    if not (change.soft and change.own):
        return ""
    empty = [f"source.{quoted(name)} IS NULL" for name in change.own]
    return " AND ".join([f"source.{quoted(change.soft)} IS NOT NULL", *empty])


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"target.{quoted(key)} = source.{quoted(key)}" for key in keys)


def _old(change: Retire) -> str:
    column = quoted(change.version_column)
    old = f"{column} < {int(change.version)}"
    return f"{old} AND {quoted(change.deleted)} IS NULL" if change.deleted else old
