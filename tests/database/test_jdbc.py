"""Databases that Spark reads: Derby, whose driver comes with it, stands for all of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import DatabaseSource
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.engine import SparkEngine
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import ConfigError, MissingDependency, SourceError
from lakeport.sources.database.jdbc import jdbc_flushes

pytestmark = pytest.mark.spark
CANARY = "canary5ecret"


@pytest.fixture
def uri() -> Iterator[str]:
    """A database in the memory of Spark's JVM."""
    driver = DriverSession._current
    assert driver is not None
    name = f"jdbc:derby:memory:d{secrets.token_hex(6)}"
    found = f"{name};create=true;user=APP;password={CANARY}"
    connection = driver.spark._jvm.java.sql.DriverManager.getConnection(found)
    statement = connection.createStatement()
    statement.execute("CREATE TABLE T (ID INT PRIMARY KEY, N DECIMAL(9,2), S VARCHAR(9), D DATE)")
    for i in range(40):
        statement.execute(f"INSERT INTO T VALUES ({i}, {i}.25, 's{i}', DATE('2024-01-02'))")
    connection.close()
    yield found
    driver.spark.catalog.clearCache()


def land(folder: Path, uri: str, **keys: Any) -> Any:
    source = DatabaseSource(database=uri, **({} if "query" in keys else {"table": "T"}), **keys)
    target = str(folder / "lake")
    return lakeport.land(source, target, table="t", file_type="delta", internal_columns=False)


@pytest.mark.parametrize("how", [{}, {"split_by": "ID", "splits": 3}, {"split_by": "N"}], ids=str)
def test_a_table_lands(tmp_path: Path, uri: str, how: dict[str, Any]) -> None:
    assert land(tmp_path, uri, **how).rows == 40
    table = pa.table(DeltaTable(str(tmp_path / "lake" / "t")).to_pyarrow_table()).sort_by("ID")
    assert table["ID"].to_pylist() == list(range(40))
    expected = {"ID": 7, "N": Decimal("7.25"), "S": "s7", "D": date(2024, 1, 2)}
    assert table.to_pylist()[7] == expected


def test_a_plan_of_sparks_holds_no_password(uri: str) -> None:
    assert DriverSession._current is not None
    source = DatabaseSource(database=uri, table="T", split_by="ID", splits=2)
    (flush,) = jdbc_flushes(source, "t", SparkEngine(SessionRequest(DriverSession._current.needs)))
    frame = flush.batches[0].frame
    assert frame is not None
    assert CANARY not in frame._jdf.queryExecution().toString()
    assert CANARY not in repr(source)


def test_a_query_lands(tmp_path: Path, uri: str) -> None:
    assert land(tmp_path, uri, query="SELECT ID, S FROM T WHERE ID < 5").rows == 5


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"query": "SELECT * FROM NOPE"}, SourceError, "'NOPE' does not exist"),
        ({"split_by": "S"}, ConfigError, "`split_by` names the column 'S'"),
        ({"split_by": "NOPE"}, ConfigError, "`split_by` names the column 'NOPE'"),
        ({"cursor": "ID"}, ConfigError, "`cursor` works with ADBC drivers"),
    ],
)
def test_what_can_not_be_read(
    tmp_path: Path, uri: str, how: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        land(tmp_path, uri, **how)
    assert words in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_driver_that_spark_lacks(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="no JDBC driver") as caught:
        land(tmp_path, f"jdbc:nosuch://host/shop;password={CANARY}")
    assert "spark.jars" in caught.value.hint
    assert CANARY not in str(caught.value)
