"""What logs of delta-spark's own making tell pages, as Spark reads the tables."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import lakeport
from lakeport.lake.facts import read_table_facts
from lakeport.lake.records import TableFacts
from lakeport.storage.local import LocalStorage
from tests.spark.delta_support import session


def facts(path: Path) -> TableFacts:
    return read_table_facts(LocalStorage(str(path)), "", "t")[0]


def check(path: Path, since: int) -> TableFacts:
    """Compare what the log tells with what Spark reads, from a version on."""
    spark, told = session(), facts(path)
    for version in told.versions[since:]:
        frame = spark.read.format("delta").option("versionAsOf", version.number).load(str(path))
        assert version.rows == frame.count(), version
    newest = spark.read.format("delta").load(str(path))
    for column in told.columns:
        name = ".".join(f"`{part}`" for part in column.name.split("."))
        (row,) = newest.selectExpr(
            f"count_if({name} IS NULL)",
            f"CAST(min({name}) AS STRING)",
            f"CAST(max({name}) AS STRING)",
        ).collect()
        assert column.nulls in (row[0], None), column
        if not column.approximate and column.type != "boolean":
            assert (column.minimum, column.maximum) == (row[1], row[2]), column
    sizes = [Path(unquote(urlsplit(uri).path)).stat().st_size for uri in newest.inputFiles()]
    assert (told.rows, told.bytes) == (newest.count(), sum(sizes))
    return told


@pytest.mark.soak
def test_a_table_with_deleted_rows_mapped_names_and_newer_checkpoints(tmp_path: Path) -> None:
    path, spark = tmp_path / "t", session()
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day DATE, price DECIMAL(9,2), x DOUBLE,"
        " inner STRUCT<a: INT, b: STRING>, ok BOOLEAN) USING delta PARTITIONED BY (day)"
        f" TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '4',"
        f" 'delta.checkpointPolicy' = 'v2', 'delta.columnMapping.mode' = 'name')"
    )
    values = (
        "SELECT id, date_add(DATE'2024-05-01', CAST(id % 3 AS INT)) day,"
        " CAST(id / 4 AS DECIMAL(9,2)) price, IF(id = 7, double('NaN'), id / 8) x,"
        " named_struct('a', CAST(id AS INT), 'b', IF(id % 5 = 0, NULL, concat('b', id))) inner,"
        " id % 2 = 0 ok FROM range({}, {})"
    )
    table = f"delta.`{path}`"
    spark.sql(f"INSERT INTO {table} {values.format(0, 30)}")
    spark.sql(f"INSERT INTO {table} {values.format(30, 45)}")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    check(path, 3)
    spark.sql(f"UPDATE {table} SET x = 2 WHERE id = 8")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (extra STRING)")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN price TO `the price`")
    spark.sql(f"INSERT INTO {table} SELECT *, 'e' FROM ({values.format(45, 50)})")
    told = check(path, 4)
    assert "columnMapping" in told.features and told.partition_columns == ("day",)
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"RESTORE {table} TO VERSION AS OF 3")
    spark.sql(f"INSERT OVERWRITE {table} {values.format(45, 50)}")
    told = check(path, 8)
    assert dict(told.readers)["delta-rs"] and not dict(told.readers)["Spark"]
    for version in range(9):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    cleaned = facts(path)
    assert (cleaned.rows, cleaned.by_partition) == (told.rows, told.by_partition)
    assert [one.number for one in cleaned.versions] == [9, 10]
    assert [one.rows for one in cleaned.versions] == [one.rows for one in told.versions[9:]]


def test_a_table_that_lakeport_keeps(tmp_path: Path) -> None:
    session()
    path = tmp_path / "t"
    rows = [{"id": number, "v": f"v{number}"} for number in range(9)]
    for number in range(3):
        lakeport.land(rows[number:], tmp_path, table="t", internal_columns=False)
    table = lakeport.Table(path)
    table.optimize()
    table.alter("id", "decimal(20,2)")
    table.restore(1)
    told = check(path, 3)
    assert len(told.versions) == 6
