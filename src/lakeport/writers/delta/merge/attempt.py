"""Commits that change rows of a table: by files that the kernels rewrote, or by Spark's own DML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lakeport.engine.spark.quoting import quoted
from lakeport.engine.spark.table_files import check_table_files
from lakeport.schema.evolution import EvolutionPolicy
from lakeport.schema.sparktypes import spark_schema
from lakeport.writers.delta.commit.attempt import Attempt, check_partitions
from lakeport.writers.delta.commit.log_transaction import TableTransaction
from lakeport.writers.delta.commit.operation import Operation
from lakeport.writers.delta.commit.session import USER_METADATA, committing_session
from lakeport.writers.delta.commit.transaction import Added
from lakeport.writers.delta.log.reader import DataFile
from lakeport.writers.delta.merge.changes import Incoming, Retire, Upsert

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ChangeAttempt"]

_TXN = "spark.databricks.delta.write.txn"
_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_ORDER = "lakeport position in the batch"
_FILE = "lakeport file of the batch"


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

    def removed(self, txn: TableTransaction, adds: Sequence[str]) -> list[Added]:
        """The files that were rewritten."""
        return [txn.file(file) for file in self.replaced]

    def operation(self, removed: int) -> Operation:
        """MERGE, DELETE or UPDATE."""
        name, condition = self._described()
        return Operation(
            overwrite=False,
            dynamic=False,
            new_schema=False,
            partition_columns=(),
            user_metadata=self.mark.text(),
            metrics=self.metrics,
            name=name,
            condition=condition,
        )

    def run_in_spark(self, spark: SparkSession) -> None:
        """Change the rows with Spark's DML, in a session of its own whose settings say the mark."""
        from delta.tables import DeltaTable

        settings = {USER_METADATA: self.mark.text()}
        for app, number in self.mark.transactions.items():  # Spark takes one: the bookmark's
            settings |= {f"{_TXN}AppId": app, f"{_TXN}Version": str(number)}
        if self.plan.request.policy is EvolutionPolicy.EVOLVE:
            settings[_AUTO_MERGE] = "true"
        own, uri = committing_session(spark, settings), self.storage.hadoop_uri(self.folder)
        if (base := self.plan.base) is not None:
            check_table_files(spark, self.storage, self.folder, base.version, self.roots)
        new = self.change.deleted if isinstance(self.change, Retire) else ""
        present = spark.read.format("delta").load(uri)
        check_partitions(present, self.plan.partition_columns, of_table=True)
        if new and new not in present.columns:
            # An UPDATE adds no column; the commit that does is not the change, and has no mark.
            spark.sql(f"ALTER TABLE delta.{quoted(uri)} ADD COLUMNS ({quoted(new)} TIMESTAMP)")
        table = DeltaTable.forPath(own, uri)
        if isinstance(self.change, Upsert):
            self._upsert(own, table, self.change)
        else:
            self._retire(table, self.change)

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

    def _upsert(self, spark: SparkSession, table: DeltaTable, change: Upsert) -> None:
        rows = _last_rows(spark, self.storage.hadoop_uri, change.incoming, change.merge_keys)
        check_partitions(rows, [n for n in self.plan.partition_columns if n in rows.columns])
        names = {name: f"source.{quoted(name)}" for name in change.incoming.schema.names}
        new: dict[str, str | Column] = {quoted(name): value for name, value in names.items()}
        updated = dict(new)
        if change.created in names:
            text = quoted(change.created)
            updated[text] = f"coalesce(target.{text}, source.{text})"
        merge = table.alias("target").merge(rows.alias("source"), _same(change.merge_keys))
        gone = ""
        if change.deleted:
            column = f"source.{quoted(change.deleted)}"
            flag = dict(rows.dtypes)[change.deleted] == "boolean"
            gone = f"coalesce({column}, false)" if flag else f"{column} IS NOT NULL"
            gone = change.when.sql(column) if change.when else gone
            merge = merge.whenMatchedDelete(gone)
        if change.soft and change.own:
            bare = [f"source.{quoted(name)} IS NULL" for name in change.own]
            own = {quoted(name) for name in change.own}
            merge = merge.whenMatchedUpdate(
                " AND ".join([f"source.{quoted(change.soft)} IS NOT NULL", *bare]),
                {name: value for name, value in updated.items() if name not in own},
            )
        merge = merge.whenMatchedUpdate(set=updated)
        merge.whenNotMatchedInsert(f"NOT ({gone})" if gone else "true", new).execute()

    def _retire(self, table: DeltaTable, change: Retire) -> None:
        from pyspark.sql import functions

        if not change.deleted:
            table.delete(_old(change))
            return
        stamp = functions.lit(change.clock)
        names = filter(None, (change.deleted, change.updated))
        table.update(_old(change), {quoted(name): stamp for name in names})


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"target.{quoted(key)} = source.{quoted(key)}" for key in keys)


def _old(change: Retire) -> str:
    column = quoted(change.version_column)
    old = f"{column} < {int(change.version)}"
    return f"{old} AND {quoted(change.deleted)} IS NULL" if change.deleted else old


def _last_rows(spark: SparkSession, uri: Any, incoming: Incoming, keys: Sequence[str]) -> DataFrame:
    """The last row of each key, read by Spark."""
    from pyspark.sql import Window, functions

    schema = spark_schema(incoming.schema)
    parts = [
        spark.read.schema(schema)
        .parquet(uri(key))
        .select(
            "*",
            functions.lit(number).alias(_FILE),
            functions.col("_metadata.row_index").alias(_ORDER),
        )
        for number, (key, _) in enumerate(incoming.files)
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    order = Window.partitionBy(*(functions.col(quoted(key)) for key in keys)).orderBy(
        functions.col(_FILE).desc(), functions.col(_ORDER).desc()
    )
    rank = "lakeport rank"
    return (
        rows.withColumn(rank, functions.row_number().over(order))
        .where(functions.col(rank) == 1)
        .drop(rank, _FILE, _ORDER)
    )
