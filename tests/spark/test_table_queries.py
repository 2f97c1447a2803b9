"""What a query of a table may do: read that table, whatever else the session could reach."""

from __future__ import annotations

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from delta_support import land, session, writer

import lakeport
from lakeport.cli.app import main
from lakeport.errors import ConfigError, LakeportError, SourceError, SparkFailure
from lakeport.lake import query
from lakeport.lake.table import Table

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
CALL = "java_method('java.lang.System', 'getProperty', 'user.home')"


def since(spark: tuple[int, int], sql: str) -> Any:
    """A query whose SQL came with a version of Spark."""
    return pytest.param(sql, marks=pytest.mark.skipif(spark > SPARK, reason=f"SQL of {spark}"))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("lake")
    land(writer(folder), pa.table({"id": [1, 2, 3], "tags": [["a"], ["b", "c"], []]}), keys=[])
    land(writer(folder, "parted"), pa.table({"p": ["a"], "id": [1]}), keys=["p"])
    session().sql("CREATE OR REPLACE TEMPORARY FUNCTION own AS 'java.lang.Math'")
    return Table(folder / "t")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE id IN (SELECT max(id) FROM t) OR EXISTS (SELECT 1 FROM range(1))",
        "WITH a AS (SELECT id FROM t), b AS (SELECT * FROM a) SELECT A.id FROM a JOIN B USING (id)",
        since(
            (4, 1),
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) FROM n",
        ),
        "SELECT id, tag FROM T LATERAL VIEW OUTER explode(tags) AS tag",
        "SELECT x.id, y.tag FROM t x, LATERAL (SELECT explode(x.tags)) AS y(tag)",
        since(
            (4, 2),
            "SELECT id, sum(id) OVER w FROM t WINDOW w AS (ORDER BY id) QUALIFY rank() OVER w < 3",
        ),
        "SELECT * FROM VALUES (1, 'a'), (abs(-2), 'b') AS v(n, s) PIVOT (max(n) FOR s IN ('a'))",
        "SELECT transform(tags, x -> upper(x)), array(id)[0], CAST(id AS DECIMAL), current_date "
        "FROM t TABLESAMPLE (5 ROWS) ORDER BY ALL LIMIT 2 OFFSET 1",
        "SELECT id % 2 AS k, count(*) FROM t GROUP BY ROLLUP (k) HAVING count(*) > 0",
        since((4, 0), "FROM t |> WHERE id > 1 |> AGGREGATE count(*) AS n |> EXTEND n + 1 AS m"),
        "(SELECT id FROM t EXCEPT SELECT 1) INTERSECT SELECT id FROM t ORDER BY 1",
        since((4, 2), "SELECT id FROM IDENTIFIER('t')"),
        "TABLE t",
    ],
)
def test_a_query_may_use_all_of_sql_on_the_table(table: Table, sql: str) -> None:
    assert table.query(sql).num_rows > 0


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        (f"SELECT {CALL}", "function 'java_method'"),
        (f"SELECT `JAVA_method`{CALL[11:]}", "function 'JAVA_method'"),
        (f"SELECT reflect{CALL[11:]}", "function 'reflect'"),
        (f"SELECT try_reflect{CALL[11:]}", "'try_reflect'"),
        (f"SELECT system.builtin.{CALL}", "function 'system.builtin.java_method'"),
        (f"SELECT IDENTIFIER('java_' || 'method'){CALL[11:]}", "UnresolvedIdentifier"),
        (f"SELECT id FROM t WHERE EXISTS (SELECT {CALL})", "function 'java_method'"),
        (f"WITH x AS (SELECT {CALL}) SELECT * FROM x", "function 'java_method'"),
        (f"SELECT transform(tags, x -> {CALL}) FROM t", "function 'java_method'"),
        (f"SELECT * FROM VALUES ({CALL})", "function 'java_method'"),
        (f"SELECT sum(id) OVER w FROM t WINDOW w AS (ORDER BY {CALL})", "function 'java_method'"),
        (f"SELECT /*+ REBALANCE({CALL}) */ id FROM t", "function 'java_method'"),
        (f"SELECT id FROM t LIMIT length({CALL})", "function 'java_method'"),
        (f"SELECT * FROM t, LATERAL (SELECT {CALL})", "function 'java_method'"),
        (f"SELECT * FROM t LATERAL VIEW {CALL} AS x", "function 'java_method'"),
        (f"SELECT * FROM {CALL}", "table function 'java_method'"),
        (f"SELECT * FROM t TIMESTAMP AS OF {CALL}", "RelationTimeTravel"),
        ("SELECT own(1)", "'own', which is none of Spark's own"),
        ("SELECT from_xml('<a/>', 'a int', map('rowValidationXSDPath', '/x'))", "'from_xml'"),
        ("SELECT from_avro(x'00', '', map('avroSchemaUrl', '/x'))", "'from_avro'"),
        ("SELECT xpath('<!DOCTYPE a SYSTEM \"file:///x\"><a/>', '/a')", "'xpath'"),
        ("SELECT * FROM text.`/etc/passwd`", "'text./etc/passwd'"),
        ("SELECT * FROM t WHERE id IN (SELECT * FROM csv.`/etc/passwd`)", "'csv./etc/passwd'"),
        ("SELECT * FROM delta.`/x`", "'delta./x'"),
        (
            "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
            "'csv./etc/passwd'" if SPARK >= (4, 2) else "UnresolvedIdentifier",
        ),
        ("SELECT * FROM IDENTIFIER('cs' || 'v.`/x`')", "UnresolvedIdentifier"),
        ("SELECT * FROM other", "'other', which is another table"),
        ("SELECT * FROM default.t", "'default.t', which is another table"),
        ("WITH other AS (SELECT * FROM other) SELECT * FROM other", "'other', which is another"),
        (
            "SELECT * FROM other, (WITH other AS (SELECT 1) TABLE other)",
            "'other', which is another",
        ),
        (
            "SELECT * FROM t WITH (path = '/x')",
            "options of 't'" if SPARK >= (4, 0) else "Syntax error",
        ),
        (
            "SELECT * FROM STREAM t",
            "NamedStreamingRelation"
            if SPARK >= (4, 2)
            else "options of 't'"
            if SPARK >= (4, 1)
            else "'STREAM', which is another table",
        ),
        ("SELECT * FROM table_changes_by_path('/x', 0)", "'table_changes_by_path'"),
        ("SELECT * FROM python_worker_logs()", "'python_worker_logs'"),
        ("SELECT * FROM explode(TABLE(t))", "FunctionTableSubquery"),
        ("SELECT TRANSFORM(id) USING 'cat' FROM t", "ScriptTransformation"),
        ("FROM t INSERT INTO x SELECT *", "InsertIntoStatement"),
        # What comes behind such a comment is for the parser alone.
        (
            "/**/ EXECUTE IMMEDIATE 'SELECT 1'",
            "ExecuteImmediate" if SPARK >= (4, 0) else "Syntax error",
        ),
        pytest.param(
            "/**/ BEGIN SELECT 1; END",
            "CompoundBody" if SPARK >= (4, 1) else "Syntax error",
            marks=pytest.mark.skipif(SPARK == (4, 0), reason="Spark 4.0 refuses it as a script"),
        ),
        ("/**/ DECLARE x INT", "CreateVariable" if SPARK >= (4, 0) else "Syntax error"),
        ("/**/ ADD JAR '/x.jar'", "AddJarsCommand"),
        ("/**/ CREATE TEMPORARY FUNCTION f AS 'x'", "CreateFunctionCommand"),
        ("/**/ USE other", "SetCatalogAndNamespace"),
        ("/**/ CACHE TABLE t", "CacheTable"),
    ],
)
def test_a_query_reaches_nothing_but_the_table(table: Table, sql: str, named: str) -> None:
    with pytest.raises(ConfigError, match="not one query") as refused:
        table.query(sql)
    assert named in refused.value.message
    if named != "Syntax error":
        assert "not one query of the table alone" in refused.value.message
        assert "use Spark itself" in refused.value.hint


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "SELECT id\nFRM t WHERE",
            r"this is not one query: Syntax error .* \(line 2, column \d+\)",
        ),
        ("SELECT gone FROM t", r"Spark can't run the query: .* \(line 1, column 8\)"),
    ],
)
def test_a_query_at_fault_is_told_in_words(table: Table, sql: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        table.query(sql)
    assert ": [" not in refused.value.message and "SQLSTATE" not in refused.value.message


def test_variables_in_a_query_stay_text(table: Table) -> None:
    rows = table.query("SELECT '${env:HOME}' AS e, '${system:user.home}' AS s").to_pylist()
    assert rows == [{"e": "${env:HOME}", "s": "${system:user.home}"}]


def test_a_session_keeps_nothing_of_a_query(table: Table) -> None:
    spark = session()
    active = spark._jvm.org.apache.spark.sql.SparkSession.getActiveSession
    before = active().isDefined() and active().get().hashCode()
    table.query("SELECT 1 FROM t")
    assert [view.name for view in spark.catalog.listTables()] == []
    assert (active().isDefined() and active().get().hashCode()) == before


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    land(writer(folder, "orders"), pa.table({"id": [1, 2, 3], "who": [1, 2, 1]}), keys=[])
    land(writer(folder, "silver/who-v1.2"), pa.table({"who": [1, 2], "name": ["a", "b"]}), keys=[])
    for name, kind in (("paid", "parquet"), ("notes", "csv")):
        rows = pa.table({"id": [1, 3], name: [True, False]})
        lakeport.land(rows, folder, table=name, format=kind, internal_columns=False)
    (folder / "broken" / "_delta_log").mkdir(parents=True)
    (folder / "broken" / "_delta_log" / f"{0:020d}.json").write_text("{")
    return folder


def test_a_query_joins_the_tables_that_it_names(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read: list[str] = []
    before = query.read_table

    def read_table(spark: Any, uri: str, *rest: Any) -> Any:
        read.append(Path(uri).name)
        return before(spark, uri, *rest)

    monkeypatch.setattr(query, "read_table", read_table)
    sql = (
        "WITH paid AS (SELECT * FROM paid WHERE paid) SELECT id, name, notes FROM orders "
        "JOIN `silver/who-v1.2` USING (who) JOIN paid USING (id) JOIN notes USING (id)"
    )
    rows = [{"id": 1, "name": "a", "notes": "true"}]
    assert lakeport.sql(lake, sql).to_pylist() == rows
    assert sorted(read) == ["notes", "orders", "paid", "who-v1.2"]
    assert main(["sql", str(lake), sql, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert lakeport.sql(lake, "TABLE orders", limit=2).num_rows == 2
    assert [view.name for view in session().catalog.listTables()] == []


@pytest.mark.parametrize(
    ("sql", "words", "hint"),
    [
        (
            "TABLE oders",
            r"no table 'oders' in .*; did you mean orders\?",
            "its tables are orders, ",
        ),
        ("TABLE `who-v1.2`", r"did you mean `silver/who-v1.2`\?", "are `silver/who-v1.2`, "),
        ("TABLE silver.`who-v1.2`", r"did you mean `silver/who-v1.2`\?", "`silver/who-v1.2`, "),
        ("TABLE silver", "no table 'silver'", "`silver/who-v1.2`"),
        ("TABLE ORDERS", "no table 'ORDERS' in .*did you mean orders", "orders"),
        ("SELECT * FROM csv.`/etc/passwd`", "no table 'csv./etc/passwd'", "orders"),
        ("TABLE `../orders`", "has the part '..'", ""),
        (f"SELECT {CALL} FROM orders", "of the lake's tables alone: it uses the function", ""),
        (
            "DROP TABLE orders",
            "of the lake's tables alone: it begins with 'DROP'",
            "by their names",
        ),
        ("/**/ DROP TABLE orders", "of the lake's tables alone: it uses", ""),
        (
            "SELECT gone FROM orders, paid",
            "can't run",
            "`orders` has id, who; `paid` has id, paid.",
        ),
    ],
)
def test_a_query_of_a_lake_reaches_nothing_else(
    lake: Path, sql: str, words: str, hint: str
) -> None:
    with pytest.raises(LakeportError, match=words) as refused:
        lakeport.sql(lake, sql)
    assert isinstance(refused.value, SourceError | ConfigError)
    assert hint in refused.value.hint


@pytest.mark.parametrize("damage", ["cut off", "no JSON", "missing", "checkpoint"])
def test_a_query_names_the_damaged_file_of_the_log(tmp_path: Path, damage: str) -> None:
    for number in range(12):
        land(writer(tmp_path), pa.table({"id": [number]}), keys=[])
    log = tmp_path / "t" / "_delta_log"
    at_fault = log / f"{11:020d}.json"
    if damage == "missing":
        land(writer(tmp_path), pa.table({"id": [12]}), keys=[])
        at_fault.unlink()
    elif damage == "checkpoint":
        (log / f"{3:020d}.json").unlink()
        at_fault = log / f"{10:020d}.checkpoint.parquet"
        at_fault.write_bytes(b"PAR1")
    else:
        at_fault.write_bytes(at_fault.read_bytes()[:-40] if damage == "cut off" else b"{")
    session()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    table = Table(tmp_path / "t")
    with pytest.raises(LakeportError) as plain:
        table.describe()
    assert at_fault.name in plain.value.message and str(tmp_path / "t") in plain.value.message
    for query_table in (table.query, partial(lakeport.sql, tmp_path)):
        with pytest.raises(type(plain.value)) as refused:
            query_table("SELECT count(*) FROM t")
        assert str(refused.value) == str(plain.value) and refused.value.hint


def test_two_tables_whose_names_sql_takes_for_one(lake: Path) -> None:
    land(writer(lake, "Paid"), pa.table({"id": [1]}), keys=[])
    with pytest.raises(ConfigError, match="'paid' and 'Paid', which are one name in SQL"):
        lakeport.sql(lake, "SELECT * FROM paid JOIN Paid USING (id)")


def test_a_condition_of_optimize_reaches_nothing_either(table: Table) -> None:
    parted = Table(Path(table.uri).with_name("parted"))
    with pytest.raises(ConfigError, match="no condition on a row alone: it uses the function"):
        parted.optimize(where=f"p = {CALL}")
    with pytest.raises(ConfigError, match=r"it uses 'text\./etc/passwd'"):
        parted.optimize(where="p IN (SELECT value FROM text.`/etc/passwd`)")
    assert parted.optimize(where="upper(p) = 'A'").files_removed == 0


@pytest.mark.parametrize(
    ("sql", "timeout"),
    [
        ("SELECT max(id % 77) FROM range(100000000000000)", 0.5),
        ("SELECT count(*) FROM range(100000000000) JOIN range(100000000000) USING (id)", 0.5),
        ("SELECT id FROM range(100000000000000) WHERE id < 0", 0),
        ("SELECT (SELECT max(id) FROM range(100000000000000)), id FROM t", 0.5),
        # Spark computes this as it plans the query: no job is there to be cancelled.
        (
            "SELECT aggregate(sequence(1, 1500), 0L, (a, x) -> a + aggregate(sequence(1, 1500), "
            "0L, (b, y) -> b + (x + y) % 7)) FROM t",
            0,
        ),
    ],
)
def test_a_query_ends_in_time(table: Table, sql: str, timeout: float) -> None:
    with pytest.raises(SparkFailure, match=f"took longer than {timeout:g} s, and was cancelled"):
        table.query(sql, timeout=timeout)
    assert table.query("SELECT max(id) AS m FROM t", timeout=math.inf).to_pylist() == [{"m": 3}]
    status, end = session().sparkContext.statusTracker(), time.monotonic() + 60
    while status.getActiveJobsIds():  # of a query that was still being planned, and is cancelled
        assert time.monotonic() < end
        time.sleep(0.05)
