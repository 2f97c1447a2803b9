"""Queries and functions between a source and its table, read back without Spark."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyspark
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.errors import BadRecords, ConfigError, InputError
from lakeport.loading.transform.function import import_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.engine.spark.session import DriverSession

PEOPLE = pa.table({"id": [1, 2, 3], "name": ["Ada", None, "Bob"], "year": [2013, 2013, 2014]})


def rows(path: Path, order: str = "ALL") -> list[tuple[Any, ...]]:
    table = DeltaTable(path).to_pyarrow_table()
    plain = table.select([name for name in table.column_names if not name.startswith("_mage_")])
    with duckdb.connect() as db:
        db.register("t", plain)
        return db.sql(f"SELECT * FROM t ORDER BY {order}").fetchall()


def singer(*records: Mapping[str, Any], **properties: str) -> io.BytesIO:
    schema = {"properties": {name: {"type": ["null", type_]} for name, type_ in properties.items()}}
    messages: list[dict[str, Any]] = [
        {"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": ["id"]},
        *({"type": "RECORD", "stream": "s", "record": record} for record in records),
        {"type": "STATE", "value": {"at": len(records)}},
    ]
    return io.BytesIO("".join(json.dumps(message) + "\n" for message in messages).encode())


def test_a_query_makes_the_rows_and_columns_of_the_table(
    driver: DriverSession, tmp_path: Path
) -> None:
    sql = "SELECT *, year * 100 + id AS ym FROM source WHERE name IS NOT NULL;"
    report = lakeport.land(PEOPLE, tmp_path, table="t", sql=sql, partition_keys=["ym"])
    assert report.rows == 2
    assert list(report.streams[0].columns)[:4] == ["id", "name", "year", "ym"]
    assert rows(tmp_path / "t") == [(1, "Ada", 2013, 201301), (3, "Bob", 2014, 201403)]
    assert DeltaTable(tmp_path / "t").metadata().partition_columns == ["ym"]


def test_an_aggregate_is_made_of_all_flushes_and_lands_once(
    driver: DriverSession, tmp_path: Path
) -> None:
    source = singer(*({"id": i, "v": i % 3} for i in range(30)), id="integer", v="integer")
    states: list[bytes] = []
    report = lakeport.land(
        source,
        tmp_path,
        sql="SELECT v, count(*) AS n FROM source GROUP BY v",
        maximum_batch_rows=7,
        on_state=states.append,
    )
    assert rows(tmp_path / "s") == [(0, 10), (1, 10), (2, 10)]
    assert report.streams[0].batches == 1
    assert [json.loads(state) for state in states] == [{"at": 30}]


def test_each_flush_is_transformed_on_its_own_where_rows_are(
    driver: DriverSession, tmp_path: Path
) -> None:
    source = singer(*({"id": i} for i in range(30)), id="integer")
    sql = "SELECT id * 2 AS d FROM source WHERE id % 2 = 0"
    report = lakeport.land(source, tmp_path, sql=sql, maximum_batch_rows=7)
    assert report.streams[0].batches == 5
    assert rows(tmp_path / "s") == [(i * 2,) for i in range(0, 30, 2)]


def test_undeclared_fields_and_merges_go_through_a_query(
    driver: DriverSession, tmp_path: Path
) -> None:
    sql = "SELECT * FROM source"
    for value in ("a", "b"):
        source = singer({"id": 1, "new": value}, {"id": 2}, id="integer")
        lakeport.land(source, tmp_path, sql=sql, mode="merge")
    assert rows(tmp_path / "s") == [(1, "b"), (2, None)]


def test_bad_records_are_told_as_without_a_query(driver: DriverSession, tmp_path: Path) -> None:
    sql = "SELECT id FROM source"
    with pytest.raises(BadRecords, match="line 3, column 'id': wrong type"):
        lakeport.land(singer({"id": 1}, {"id": "x"}, id="integer"), tmp_path, sql=sql)
    assert not (tmp_path / "s").exists()
    source = singer({"id": 1}, {"id": "x"}, id="integer")
    report = lakeport.land(source, tmp_path, sql=sql, on_bad_record="quarantine")
    assert (report.rows, report.rejected) == (1, 1)


def test_other_frames_and_spark_frames_can_be_read(driver: DriverSession, tmp_path: Path) -> None:
    spark = driver.spark
    names = spark.createDataFrame([(1, "one")], "id int, word string")
    sql = "SELECT s.id, word FROM source s LEFT JOIN names n ON s.id = n.id"
    lakeport.land(spark.range(2), tmp_path, table="t", sql=sql, views={"names": names})
    assert rows(tmp_path / "t") == [(0, None), (1, "one")]
    assert not spark.catalog.tableExists("source")


def test_odd_names_and_types_pass_unchanged(driver: DriverSession, tmp_path: Path) -> None:
    table = pa.table({"a.b": [1], "c`d": [b"x"], "e": [[{"f": 1.5}]], "g": [pa.scalar(None)]})
    lakeport.land(table, tmp_path, table="t", sql="SELECT * FROM source")
    assert rows(tmp_path / "t") == [(1, b"x", [{"f": 1.5}], None)]


def test_a_function_gets_what_the_query_gave(driver: DriverSession, tmp_path: Path) -> None:
    def doubled(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("id * 2 AS id")

    sql = "SELECT id FROM source WHERE id > 1"
    lakeport.land(PEOPLE, tmp_path, table="t", sql=sql, python=doubled)
    assert rows(tmp_path / "t") == [(4,), (6,)]
    with pytest.raises(ConfigError, match="gave a value of type 'int'"):
        lakeport.land(PEOPLE, tmp_path, table="u", python=lambda frame: 3)  # type: ignore[arg-type,return-value]


def test_a_function_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_for_a_test.py").write_text("def f(frame):\n    return frame\n")
    monkeypatch.chdir(tmp_path)
    assert import_function("made_for_a_test:f")(1) == 1
    for name, words in (
        ("made_for_a_test:g", "has no function 'g'"),
        ("no_such_module_here:f", "there is no module"),
        ("made_for_a_test", "names no function"),
    ):
        with pytest.raises(ConfigError, match=words):
            import_function(name)


def test_a_function_is_that_of_the_folder_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, folder in enumerate(("first", "second")):
        (tmp_path / folder).mkdir()
        words = f"def f(frame):\n    return {number}\n"
        (tmp_path / folder / "of_two_folders.py").write_text(words)
    (tmp_path / "first" / "json.py").write_text("def f(frame):\n    return 0\n")
    monkeypatch.chdir(tmp_path / "second")
    before = sys.path.copy()
    assert import_function("of_two_folders:f", tmp_path / "first")(None) == 0
    for name, folder in (("of_two_folders", "second"), ("json", "first")):
        with pytest.raises(ConfigError, match=r"already has a module .* from"):
            import_function(f"{name}:f", tmp_path / folder)
    assert sys.path == before


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nam FROM source", "name `nam` cannot be resolved. Did you mean"),
        ("SELECT id\nFROM source\nWHER id > 1", "Syntax error at or near 'id' (line 3, column 6)"),
        ("SELECT id FROM sourc", "`sourc` cannot be found"),
        ("DROP TABLE x", "is a command (DropTable), and only queries are run"),
        ("INSERT INTO x SELECT * FROM source", "is a command"),
        ("SELECT 1; SELECT 2", "near 'SELECT'" if pyspark.__version__ < "4" else "near ';'"),
        ("SELECT no_such(id) FROM source", "`no_such`"),
        (" ; ", "end of input" if pyspark.__version__ < "4" else "empty"),
    ],
)
def test_what_is_no_query_is_told_in_words(
    driver: DriverSession, tmp_path: Path, sql: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        lakeport.land(PEOPLE, tmp_path, table="t", sql=sql)
    assert words in caught.value.message
    assert "SQLSTATE" not in str(caught.value) and "Exception" not in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_variables_of_the_environment_stay_out_of_a_query(
    driver: DriverSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakeport.land(PEOPLE, tmp_path, table="t", sql="SELECT '${env:HOME}' AS x FROM source LIMIT 1")
    assert rows(tmp_path / "t") == [("${env:HOME}",)]


def test_several_streams_are_refused(driver: DriverSession, tmp_path: Path) -> None:
    lines = singer({"id": 1}, id="integer").getvalue()
    both = io.BytesIO(lines + lines.replace(b'"s"', b'"t"'))
    with pytest.raises(ConfigError, match="are about one stream, and the source has 's', 't'"):
        lakeport.land(both, tmp_path, sql="SELECT * FROM source")


def test_a_run_repeated_lands_once_and_another_query_is_another_content(
    driver: DriverSession, tmp_path: Path
) -> None:
    sql = "SELECT id FROM source"
    for _ in range(2):
        lakeport.land(singer({"id": 1}, id="integer"), tmp_path, sql=sql, run_id="r")
    assert rows(tmp_path / "s") == [(1,)]
    with pytest.raises(lakeport.RunMismatch):
        lakeport.land(
            singer({"id": 1}, id="integer"),
            tmp_path,
            sql="SELECT id + 1 AS id FROM source",
            run_id="r",
        )


def test_a_plan_tells_the_columns_and_how_a_query_is_run(
    driver: DriverSession, tmp_path: Path
) -> None:
    plan = lakeport.plan(PEOPLE, tmp_path, table="t", sql="SELECT id, upper(name) AS n FROM source")
    assert [c.name for c in plan.streams[0].columns][:2] == ["id", "n"]
    assert "transform: each batch on its own" in plan.streams[0].notes
    plan = lakeport.plan(PEOPLE, tmp_path, table="t", sql="SELECT count(*) AS n FROM source")
    assert "transform: the whole input at once" in plan.streams[0].notes
    with pytest.raises(ConfigError, match="`nope`"):
        lakeport.plan(PEOPLE, tmp_path, table="t", sql="SELECT nope FROM source")


def test_a_query_without_rows_makes_a_table(driver: DriverSession, tmp_path: Path) -> None:
    empty = PEOPLE.slice(0, 0)
    report = lakeport.land(empty, tmp_path, table="t", sql="SELECT id + 1 AS i FROM source")
    assert report.rows == 0
    assert rows(tmp_path / "t") == []


def test_a_value_that_can_not_be_computed_fails_the_load(
    driver: DriverSession, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="fails for some row") as caught:
        lakeport.land(PEOPLE, tmp_path, table="t", sql="SELECT int(name) AS n FROM source")
    assert "Ada" not in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_what_a_table_remembers_moves_also_where_no_row_is_left(
    driver: DriverSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id\n1\n2\n")
    source = lakeport.FilesSource(files=str(tmp_path / "in/*.csv"), new_only=True)
    for sql in ("SELECT * FROM source WHERE id > 9", "SELECT * FROM source"):
        lakeport.land(source, tmp_path, table="t", sql=sql)
        assert rows(tmp_path / "t") == []
    (tmp_path / "in/b.csv").write_text("id\n3\n")
    lakeport.land(source, tmp_path, table="t", sql="SELECT max(id) AS id FROM source")
    assert rows(tmp_path / "t") == [(3,)]


def test_once_is_refused_where_spark_makes_the_rows(driver: DriverSession, tmp_path: Path) -> None:
    sql = "SELECT * FROM source"
    with pytest.raises(ConfigError, match="`once` and `sql` exclude each other"):
        lakeport.land(PEOPLE, tmp_path, table="t", sql=sql, once=True)
    with pytest.raises(ConfigError, match=r"`once` and unique\(id\) exclude each other"):
        lakeport.land(PEOPLE, tmp_path, table="t", expect=[{"unique": "id"}], once=True)


@pytest.mark.parametrize("sql", ["lpad(zip, 6, '0')", "concat('0', zip)"])
def test_types_are_of_the_sources_columns_also_of_those_that_a_query_uses_up(
    driver: DriverSession, tmp_path: Path, sql: str
) -> None:
    people = tmp_path / "people.csv"
    people.write_text("id,zip,day\n1,01234,2020-01-31\n")
    columns = {"zip": "string", "day": "string"}
    query = f"SELECT id, {sql} AS code, day FROM source"
    lakeport.plan(str(people), tmp_path / "lake", sql=query, columns=columns)
    lakeport.land(str(people), tmp_path / "lake", sql=query, columns=columns)
    assert rows(tmp_path / "lake" / "people") == [(1, "001234", "2020-01-31")]
    with pytest.raises(InputError, match="'zap' is declared"):
        lakeport.land(str(people), tmp_path / "lake", sql=query, columns={"zap": "string"})
    frame = pa.table({"id": [1], "zip": ["01234"], "day": ["x"]})
    with pytest.raises(InputError, match="'zap' is declared"):
        lakeport.land(frame, tmp_path / "lake", table="t", sql=query, columns={"zap": "string"})
