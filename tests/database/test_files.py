"""SQLite and DuckDB: files whose rows come as their values are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_sqlite
import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import DatabaseSource
from lakeport.errors import ConfigError, SourceError


def land(folder: Path, uri: str, **keys: Any) -> Any:
    what = {} if "query" in keys else {"table": "t"}
    source = DatabaseSource(**({"database": uri} | what | keys))
    target = str(folder / "lake")
    return lakeport.land(source, target, table="t", file_type="delta", internal_columns=False)


def rows(folder: Path) -> list[dict[str, Any]]:
    table = DeltaTable(str(folder / "lake" / "t")).to_pyarrow_table()
    return pa.table(table).sort_by("id").to_pylist()


def sqlite(folder: Path, *statements: str, many: Sequence[Any] = ()) -> str:
    file = folder / "shop.db"
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    if many:
        marks = ", ".join("?" * len(many[0]))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", many)
    connection.commit()
    connection.close()
    return f"sqlite:///{file}"


def test_sqlite_has_its_declared_types(tmp_path: Path) -> None:
    create = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT, x REAL, s VARCHAR(9), b BLOB, "
        "p DECIMAL(9,2), f BOOLEAN, d DATE)"
    )
    nothing = [(i, *[None] * 7) for i in range(3000)]  # more than a driver looks at
    full = (5000, 2**63 - 1, 0.1, "Zürich", b"\x00\xff", 2.25, 1, "2024-01-02")
    report = land(tmp_path, sqlite(tmp_path, create, many=[*nothing, full]))
    assert report.streams[0].columns == {
        **{"id": "integer", "n": "integer", "x": "double", "s": "string", "b": "binary"},
        **{"p": "double", "f": "boolean", "d": "string"},
    }
    found = rows(tmp_path)
    assert len(found) == 3001
    assert tuple(found[-1].values()) == (*full[:6], True, "2024-01-02")
    assert tuple(found[0].values()) == (0, *[None] * 7)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INTEGER", "abc"),
        ("INTEGER", 1.5),
        ("BOOLEAN", 2),
        ("TEXT", b"\x00"),
        ("JSON", "{a"),
        ("JSON", b"\x00"),
        ("BLOB", "abc"),
        ("REAL", "abc"),
        ("DECIMAL(9,2)", 2**53 + 1),
    ],
)
def test_a_value_of_another_kind_than_declared_is_named(
    tmp_path: Path, kind: str, value: Any
) -> None:
    uri = sqlite(tmp_path, f"CREATE TABLE t (id INTEGER, odd {kind})", many=[(1, None), (2, value)])
    with pytest.raises(SourceError, match=r"column 'odd' holds a value that is no ") as caught:
        land(tmp_path, uri)
    assert "CAST(odd AS TEXT)" in caught.value.hint
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "type_", "found"),
    [
        ([1, 2], "integer", [1, 2]),
        ([1, 2.5], "double", [1.0, 2.5]),
        (["a", 2], "string", ["a", "2"]),
        ([b"a"], "binary", [b"a"]),
        ([None], "no value yet", [None]),
    ],
)
def test_a_column_without_a_type_is_what_its_values_are(
    tmp_path: Path, values: list[Any], type_: str, found: list[Any]
) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER, v)", many=list(enumerate(values)))
    stream = land(tmp_path, uri).streams[0]
    assert stream.columns["v"] == type_
    assert [row["v"] for row in rows(tmp_path)] == found
    assert len(stream.notes) == (len({type(value) for value in values}) > 1)


def test_a_column_without_a_value_gets_its_type_later(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER, v)", many=[(1, None)])
    land(tmp_path, uri)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("UPDATE t SET id = 2, v = 7")
    connection.close()
    land(tmp_path, uri)
    assert rows(tmp_path) == [{"id": 1, "v": None}, {"id": 2, "v": 7}]


def test_kinds_that_nothing_holds_together_are_named(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER, v)", many=[(1, "a"), (2, 1.5)])
    with pytest.raises(SourceError, match="column 'v' holds values of several kinds: real, text"):
        land(tmp_path, uri)


def test_a_query_of_sqlite(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER, v)", many=[(i, i / 2) for i in range(9)])
    land(
        tmp_path, uri, query="SELECT id, count(*) AS n, sum(v) AS v FROM t WHERE id > 6 GROUP BY 1"
    )
    assert rows(tmp_path) == [{"id": 7, "n": 1, "v": 3.5}, {"id": 8, "n": 1, "v": 4.0}]


def test_sqlite_is_never_written(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER)", many=[(1,)])
    with pytest.raises(SourceError, match="syntax error"):
        land(tmp_path, uri, query="DELETE FROM t RETURNING id")
    assert sqlite3.connect(tmp_path / "shop.db").execute("SELECT count(*) FROM t").fetchone() == (
        1,
    )


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_a_file_that_is_not_there_and_one_that_is_no_database(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        land(tmp_path, f"{scheme}:///{tmp_path}/nope.db")
    with pytest.raises(ConfigError, match="names no file"):
        land(tmp_path, f"{scheme}:///:memory:")
    (tmp_path / "text.db").write_text("no database at all " * 100)
    with pytest.raises(SourceError) as caught:
        land(tmp_path, f"{scheme}:///{tmp_path}/text.db")
    assert "text.db" in caught.value.message
    assert not (tmp_path / "nope.db").exists()


def test_a_table_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE orders (id INTEGER)")
    with pytest.raises(SourceError, match="no table 'order'") as caught:
        land(tmp_path, uri, table="order")
    assert "'orders'" in caught.value.hint


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_columns_of_json_stay_so(tmp_path: Path, engine: str) -> None:
    """No text is quoted a second time, and values from elsewhere land as JSON, too."""
    texts = ['"a"', '{"b": [1, null]}', "7", None, "0.30000000000000004"]
    create, values = "CREATE TABLE t (id INTEGER, v JSON)", list(enumerate(texts))
    if engine == "sqlite":
        uri = sqlite(tmp_path, create, many=values)
    else:
        uri = f"duckdb:///{tmp_path}/shop.duckdb"
        with duckdb.connect(tmp_path / "shop.duckdb") as connection:
            connection.execute(create)
            connection.executemany("INSERT INTO t VALUES (?, ?)", values)
    for _ in range(2):
        assert land(tmp_path, uri).streams[0].columns["v"] == "json"
    for row in ({"id": 8, "v": "a"}, {"id": 9, "v": {"b": 1}}):
        lakeport.land([row], tmp_path / "lake", table="t", internal_columns=False)
    found = sorted((row["id"], row["v"]) for row in rows(tmp_path) if row["v"] is not None)
    twice = [pair for pair in values for _ in range(2) if pair[1] is not None]
    assert found == [*twice, (8, '"a"'), (9, '{"b":1}')]


TYPES = {
    "1::HUGEINT": ("decimal(38,0)", Decimal(1)),
    "1.5::DECIMAL(10,2)": ("decimal(10,2)", Decimal("1.50")),
    "DATE '2024-01-02'": ("date", date(2024, 1, 2)),
    "TIMESTAMPTZ '2024-01-02 12:00:00+02'": ("timestamp", datetime(2024, 1, 2, 10, tzinfo=UTC)),
    "TIMESTAMP '2024-01-02 12:00:00'": ("timestamp", datetime(2024, 1, 2, 12, tzinfo=UTC)),
    "TIME '12:00:00'": ("string", "12:00:00"),
    "'12:00:00+01'::TIMETZ": ("string", "12:00:00+01"),
    "INTERVAL 1 DAY": ("string", "1 day"),
    "'1010'::BIT": ("string", "1010"),
    "12::BIGNUM": ("string", "12"),
    "'a'::ENUM('a', 'b')": ("string", "a"),
    "[1, NULL]": ("list of int32", [1, None]),
    "[1::HUGEINT]": ("list of decimal(38,0)", [Decimal(1)]),
    "{'a': 1, 'b': ['x']}": ("object", {"a": 1, "b": ["x"]}),
    "MAP {'k': 1}": ("map", [("k", 1)]),
    "{'t': TIME '12:00:00'}": ("json", '{"t":"12:00:00"}'),
    """'{"a":  "b"}'::JSON""": ("json", '{"a":  "b"}'),
    "1::UBIGINT": ("decimal(20,0)", Decimal(1)),
    "'ab'::BLOB": ("binary", b"ab"),
}


def test_each_type_of_duckdb_has_one_that_holds_it(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        columns = ", ".join(f"{value} AS c{i}" for i, value in enumerate(TYPES))
        connection.execute(f"CREATE TABLE t AS SELECT 1 AS id, {columns}")
    stream = land(tmp_path, f"duckdb:///{tmp_path}/shop.duckdb").streams[0]
    assert stream.notes == ("timestamps without a zone are taken as UTC: 'c4'",)
    (row,) = rows(tmp_path)
    for i, (value, told) in enumerate(TYPES.items()):
        assert (value, stream.columns[f"c{i}"], row[f"c{i}"]) == (value, *told)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (f"{2**127 - 1}::HUGEINT", "n"),
        (f"[1, NULL, {-(2**127) + 1}]::HUGEINT[]", "N'"),
        (f"{2**128 - 1}::UHUGEINT", "n"),
    ],
)
def test_a_number_of_duckdb_that_no_table_holds(tmp_path: Path, value: str, name: str) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        connection.execute(f'CREATE TABLE t AS SELECT 1 AS id, {value} AS "{name}"')
    with pytest.raises(SourceError, match=f"column {name!r} holds .* of more than 38") as caught:
        land(tmp_path, f"duckdb:///{tmp_path}/shop.duckdb")
    text = f'SELECT id, CAST("{name}" AS VARCHAR) AS n FROM t'
    assert "CAST(... AS VARCHAR)" in caught.value.hint
    land(tmp_path, f"duckdb:///{tmp_path}/shop.duckdb", query=text)
    assert str(2**127 - 1)[:9] not in str(caught.value)


def test_ranges_of_duckdb_are_read_side_by_side(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS id, range % 7 AS n FROM range(20000)")
    uri = f"duckdb:///{tmp_path}/shop.duckdb"
    assert land(tmp_path, uri, split_by="id", splits=3).rows == 20_000
    assert [row["id"] for row in rows(tmp_path)] == list(range(20_000))


def test_any_driver_by_its_name(tmp_path: Path) -> None:
    uri = sqlite(tmp_path, "CREATE TABLE t (id INTEGER, v TEXT)", many=[(1, "a"), (2, None)])
    driver = {"driver": adbc_driver_sqlite._driver_path()}
    land(tmp_path, uri.removeprefix("sqlite:///").join(("file:", "")), **driver, cursor="id")
    assert rows(tmp_path) == [{"id": 1, "v": "a"}, {"id": 2, "v": None}]


def test_a_driver_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        land(tmp_path, "nowhere://me:canary5ecret@host/shop", driver="adbc_driver_nowhere")
    assert "adbc_driver_nowhere" in str(caught.value)
    assert "canary5ecret" not in str(caught.value)
