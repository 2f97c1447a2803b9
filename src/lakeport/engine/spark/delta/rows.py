"""Changes of a Delta table by Spark's own writer and DML, for tables that lakeport can't write.

Spark checks every rule of the table, and a broken rule becomes an InputError. The caller finds the
commit in the log by its user metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import translate
from lakeport.engine.spark.delta.transaction import USER_METADATA, clone_for_commit
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.sql.frames import empty_frame, expression, literal, spark_schema
from lakeport.errors import DestinationError, InputError
from lakeport.schema.spark_schema import NULL_FOLDER, quote_identifier

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
    """Appends, merges, deletes or updates rows of a Delta table through Spark, in one commit.

    Methods raise InputError if a row breaks a rule of the table, DestinationError if a row of the
    table can't be rewritten, and LakeportError for other failures of Spark.

    Attributes:
        uri: the table, as Hadoop names it.
        transactions: application id -> its new transaction number; Spark takes one.
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
        """Append Parquet files' rows; `overwrite` replaces all rows, `dynamic` whole partitions.

        Args:
            uris: the files, as Hadoop names them.
            columns: the columns to write; the table computes its other ones.
            dynamic: whether to replace only the partitions that the new rows are in.
        """
        options: dict[str, Any] = {"userMetadata": self.user_metadata}
        for app, number in self.transactions.items():
            options |= {"txnAppId": app, "txnVersion": number}
        if self.evolve:
            options["overwriteSchema" if overwrite and not dynamic else "mergeSchema"] = "true"
        if overwrite:
            options["partitionOverwriteMode"] = "dynamic" if dynamic else "static"
        with _translate_rule_errors():
            session = clone_for_commit(self.spark, {})
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
        keep_column: str = "",
        delete_condition: str = "",
        partial_condition: str = "",
        partial_columns: Collection[str] = (),
    ) -> None:
        """Upsert the Parquet files' rows by `keys`; delete where `delete_condition` is true.

        Conditions name the table `target` and the files' rows `source`.

        Args:
            uris: the files in order, as Hadoop names them: the last row of each key counts.
            keep_column: a column whose value in the table stays unless it is null; may be empty.
            delete_condition: true for a source row whose key is to be deleted; may be empty.
            partial_condition: true for a source row that leaves `partial_columns` as they are; may
                be empty.
        """
        with _translate_rule_errors():
            session, table = self._open_table()
            source = _last_row_per_key(session, schema, uris, keys)
            here = [name for name in self.partition_columns if name in source.columns]
            _check_partitions(source, here)
            new = {
                quote_identifier(name): f"source.{quote_identifier(name)}" for name in schema.names
            }
            updated = dict(new)
            if keep_column in schema.names:
                name = quote_identifier(keep_column)
                updated[name] = f"coalesce(target.{name}, source.{name})"
            same = " AND ".join(
                f"target.{quote_identifier(key)} = source.{quote_identifier(key)}" for key in keys
            )
            merge = table.alias("target").merge(source.alias("source")._jdf, same)
            if delete_condition:
                merge = merge.whenMatched(delete_condition).delete()
            if partial_condition:
                stay = set(map(quote_identifier, partial_columns))
                some = {name: value for name, value in updated.items() if name not in stay}
                merge = merge.whenMatched(partial_condition).updateExpr(some)
            merge = merge.whenMatched().updateExpr(updated)
            inserted = f"NOT ({delete_condition})" if delete_condition else "true"
            merge.whenNotMatched(inserted).insertExpr(new).execute()

    def delete(self, condition: str) -> None:
        """Delete the table's rows for which the SQL `condition` is true."""
        with _translate_rule_errors():
            _, table = self._open_table()
            table.delete(condition)

    def update(self, condition: str, values: Mapping[str, datetime], *, new_column: str) -> None:
        """Set timestamp columns where the SQL `condition` is true; add `new_column` if absent."""
        with _translate_rule_errors():
            _, table = self._open_table(new_column)
            times = {quote_identifier(n): literal(value)._jc for n, value in values.items()}
            table.update(expression(condition)._jc, times)

    def _open_table(self, new_column: str = "") -> tuple[SparkSession, Any]:
        """Return a session for one commit, and the JVM's `DeltaTable`; may add `new_column`."""
        settings = {USER_METADATA: self.user_metadata}
        for app, number in self.transactions.items():
            settings |= {f"{_TXN}AppId": app, f"{_TXN}Version": str(number)}
        if self.evolve:
            settings[_AUTO_MERGE] = "true"
        own = clone_for_commit(self.spark, settings)
        present = self.spark.read.format("delta").load(self.uri)
        _check_partitions(present, self.partition_columns, of_table=True)
        if new_column and new_column not in present.columns:
            # An UPDATE adds no column. This commit adds it, without the change's user metadata.
            column = f"{quote_identifier(new_column)} TIMESTAMP"
            self.spark.sql(f"ALTER TABLE delta.{quote_identifier(self.uri)} ADD COLUMNS ({column})")
        tables = java_class(own._jvm, "io.delta.tables.DeltaTable")
        return own, tables.forPath(own._jsparkSession, self.uri)


def _last_row_per_key(
    spark: SparkSession, schema: pa.Schema, uris: Sequence[str], keys: Sequence[str]
) -> DataFrame:
    """Return one row per key from Parquet files: the last, by file and then by row order."""
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
    """Raise InputError if a row violates a table constraint; translate other exceptions."""
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
    """Raise InputError (DestinationError if `of_table`) for Hive's null name as a value.

    For rows of the table, which a change of other rows may rewrite, raise DestinationError.
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
