"""Rows of a Delta table changed by Spark's own writer and DML, for tables that nothing else may.

Every rule of the table is checked then, and a rule that a row breaks is told in words. What became
of the commit its maker looks up in the log, by the user metadata that it was given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import translate
from lakeport.engine.spark.delta.transaction import USER_METADATA, committing_session
from lakeport.engine.sql.frames import empty_frame, literal, spark_schema
from lakeport.errors import DestinationError, InputError
from lakeport.schema.spark_schema import NULL_FOLDER, quote_identifier

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

_CONSTRAINT: Final = re.compile(
    r"(CHECK|NOT NULL) constraint (?:violated for column: )?`?(\w+(?:\.\w+)*)"
)
_GENERATED: Final = re.compile(r"CHECK constraint Generated Column ")
_TXN: Final = "spark.databricks.delta.write.txn"
_ORDER: Final = "lakeport position in the batch"
_FILE: Final = "lakeport file of the batch"
_RANK: Final = "lakeport rank"
_AUTO_MERGE: Final = "spark.databricks.delta.schema.autoMerge.enabled"


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """A table whose rows one commit of Spark's own is to change.

    Its methods raise InputError where a row breaks a rule of the table, DestinationError where a
    row of the table can't be written anew, and LakeportError for what else Spark says.

    Attributes:
        spark: a session that may write to the table.
        uri: the table, as Hadoop names it.
        partition_columns: the columns by which it is partitioned.
        user_metadata: what the commit says about itself.
        transactions: application -> the number that it comes to; Spark takes one.
        evolve: whether the commit may add columns.
    """

    spark: SparkSession
    uri: str
    partition_columns: Sequence[str]
    user_metadata: str
    transactions: Mapping[str, int]
    evolve: bool

    def write(
        self,
        schema: pa.Schema,
        uris: Sequence[str],
        columns: Collection[str],
        *,
        overwrite: bool,
        dynamic: bool,
    ) -> None:
        """Append rows of Parquet files, or replace the table's, or those of the rows' partitions.

        Args:
            schema: the rows' columns.
            uris: the files, as Hadoop names them.
            columns: those of the columns that are written; the table fills the others itself.
            overwrite: replace rows.
            dynamic: only those of the partitions that the rows are in.
        """
        options: dict[str, Any] = {"userMetadata": self.user_metadata}
        for app, number in self.transactions.items():
            options |= {"txnAppId": app, "txnVersion": number}
        if self.evolve:
            options["overwriteSchema" if overwrite and not dynamic else "mergeSchema"] = "true"
        if overwrite:
            options["partitionOverwriteMode"] = "dynamic" if dynamic else "static"
        with _translate_rule_errors():
            session = committing_session(self.spark, {})
            if not uris:
                frame = empty_frame(session, schema)
            else:
                frame = session.read.schema(spark_schema(schema)).parquet(*uris)
                _check_partitions(frame, self.partition_columns)
                frame = frame.select(*map(quote_identifier, columns))
            mode = "overwrite" if overwrite else "append"
            frame.write.format("delta").mode(mode).options(**options).save(self.uri)

    def merge(
        self,
        schema: pa.Schema,
        uris: Sequence[str],
        keys: Sequence[str],
        *,
        kept: str = "",
        gone: str = "",
        bare: str = "",
        own: Collection[str] = (),
    ) -> None:
        """Have the rows of the table (`target`) take the values of those with their key (`source`).

        Args:
            schema: the columns of the rows.
            uris: the Parquet files of the rows, as Hadoop names them, in the order of the rows: the
                last row of each key counts.
            keys: the columns that identify a row.
            kept: column whose value in the table stays, if there is one; empty for none.
            gone: condition on a row whose key is deleted; empty for none.
            bare: condition on a row that leaves the columns `own` as they are; empty for none.
            own: see `bare`.
        """
        with _translate_rule_errors():
            session, table = self._open_table()
            source = _last_of_each(session, schema, uris, keys)
            here = [name for name in self.partition_columns if name in source.columns]
            _check_partitions(source, here)
            new: dict[str, str | Column] = {
                quote_identifier(name): f"source.{quote_identifier(name)}" for name in schema.names
            }
            updated = dict(new)
            if kept in schema.names:
                updated[quote_identifier(kept)] = (
                    f"coalesce(target.{quote_identifier(kept)}, source.{quote_identifier(kept)})"
                )
            same = " AND ".join(
                f"target.{quote_identifier(key)} = source.{quote_identifier(key)}" for key in keys
            )
            merge = table.alias("target").merge(source.alias("source"), same)
            if gone:
                merge = merge.whenMatchedDelete(gone)
            if bare:
                stay = set(map(quote_identifier, own))
                some = {name: value for name, value in updated.items() if name not in stay}
                merge = merge.whenMatchedUpdate(bare, some)
            merge = merge.whenMatchedUpdate(set=updated)
            merge.whenNotMatchedInsert(f"NOT ({gone})" if gone else "true", new).execute()

    def delete(self, condition: str) -> None:
        """Remove the rows for which a condition is true."""
        with _translate_rule_errors():
            _, table = self._open_table()
            table.delete(condition)

    def update(self, condition: str, values: Mapping[str, datetime], *, new: str) -> None:
        """Set columns of the rows for which a condition is true.

        Args:
            condition: on a row of the table.
            values: column -> the moment that it is set to.
            new: the one of the columns that the table need not have yet.
        """
        with _translate_rule_errors():
            _, table = self._open_table(new)
            table.update(
                condition, {quote_identifier(n): literal(value) for n, value in values.items()}
            )

    def _open_table(self, new: str = "") -> tuple[SparkSession, DeltaTable]:
        """A session of its own whose settings say the mark, and the table in it."""
        from delta.tables import DeltaTable

        settings = {USER_METADATA: self.user_metadata}
        for app, number in self.transactions.items():
            settings |= {f"{_TXN}AppId": app, f"{_TXN}Version": str(number)}
        if self.evolve:
            settings[_AUTO_MERGE] = "true"
        own = committing_session(self.spark, settings)
        present = self.spark.read.format("delta").load(self.uri)
        _check_partitions(present, self.partition_columns, of_table=True)
        if new and new not in present.columns:
            # An UPDATE adds no column; the commit that does is not the change, and has no mark.
            column = f"{quote_identifier(new)} TIMESTAMP"
            self.spark.sql(f"ALTER TABLE delta.{quote_identifier(self.uri)} ADD COLUMNS ({column})")
        return own, DeltaTable.forPath(own, self.uri)


def _last_of_each(
    spark: SparkSession, schema: pa.Schema, uris: Sequence[str], keys: Sequence[str]
) -> DataFrame:
    """Return the last row of each key, in the order of the files and of the rows in them."""
    from pyspark.sql import DataFrame, Window, functions

    columns = spark_schema(schema)
    parts = [
        spark.read.schema(columns)
        .parquet(uri)
        .select(
            "*",
            functions.lit(number).alias(_FILE),
            functions.col("_metadata.row_index").alias(_ORDER),
        )
        for number, uri in enumerate(uris)
    ]
    order = Window.partitionBy(*map(quote_identifier, keys)).orderBy(
        functions.col(_FILE).desc(), functions.col(_ORDER).desc()
    )
    return (
        reduce(DataFrame.unionByName, parts)
        .withColumn(_RANK, functions.row_number().over(order))
        .where(functions.col(_RANK) == 1)
        .drop(_RANK, _FILE, _ORDER)
    )


@contextmanager
def _translate_rule_errors() -> Iterator[None]:
    """Raise an InputError for a rule of the table that a row breaks; others as `translate`."""
    try:
        yield
    except Exception as error:
        if _GENERATED.search(str(error)):
            raise InputError(
                "a row has another value in a generated column than the table's rule gives",
                "leave the column out of the source: the table fills it; nothing was committed.",
            ) from error
        broken = _CONSTRAINT.search(str(error))
        if broken:
            raise InputError(
                f"a row breaks the table's {broken[1]} constraint {broken[2]!r}",
                "correct the source, or drop the constraint; nothing was committed.",
            ) from error
        raise translate(error) from error


def _check_partitions(rows: DataFrame, columns: Sequence[str], *, of_table: bool = False) -> None:
    """Refuse a text that Spark, which reads partitions off the folders it writes, makes null.

    Args:
        rows: the batch's, or the table's own, which a change of other rows may write anew.
        columns: those by which the table is partitioned.
        of_table: whether the rows are the table's.

    Raises:
        InputError: a row of the batch has it in one of the columns.
        DestinationError: a row of the table has.
    """
    texts = {name for name, type_ in rows.dtypes if type_ == "string"}
    for name in columns:
        if name not in texts or rows.where(rows[quote_identifier(name)] == NULL_FOLDER).isEmpty():
            continue
        said = (
            f"has {NULL_FOLDER!r} in the partition column {name!r}, which Spark writes as null, "
            "and only Spark can write to this table"
        )
        if of_table:
            raise DestinationError(
                f"a row of the table {said}",
                "give such rows another value by Spark's own UPDATE, or use `mode: append`; "
                "nothing was committed.",
            )
        raise InputError(
            f"a row {said}",
            "correct the source, or land in a table without such features; nothing was committed.",
        )
