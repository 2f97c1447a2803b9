"""Values of PostgreSQL's types, as another reader finds them in the table: the same."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import SourceError
from tests.database.kit import Schema
from tests.postgres import Postgres

KINDS = {
    "numeric(10,2)": ("-12345678.90", "decimal(10,2)", Decimal("-12345678.90")),
    "numeric(38,0)": ("9" * 38, "decimal(38,0)", Decimal("9" * 38)),
    "numeric(2,-3)": ("45000", "decimal(5,0)", Decimal(45000)),
    "numeric(2,4)": ("0.0012", "decimal(4,4)", Decimal("0.0012")),
    "numeric": ("1.5", "decimal(38,9)", Decimal("1.5")),
    "money": ("1234.56", "decimal(19,2)", Decimal("1234.56")),
    "smallint": ("-32768", "int16", -32768),
    "bigint": ("-9223372036854775808", "integer", -(2**63)),
    "oid": ("4294967295", "integer", 4294967295),
    "real": ("1.5", "float32", 1.5),
    "double precision": ("0.1", "double", 0.1),
    "boolean": ("true", "boolean", True),
    "text": ("Zürich \U0001f600", "string", "Zürich \U0001f600"),
    "varchar(9)": ("abc", "string", "abc"),
    "char(5)": ("abc", "string", "abc  "),
    "bytea": (r"\x00ff", "binary", b"\x00\xff"),
    "date": ("0001-01-01", "date", date(1, 1, 1)),
    "timestamptz": (
        "2024-05-06 12:00:00.123456+02",
        "timestamp",
        datetime(2024, 5, 6, 10, 0, 0, 123456, UTC),
    ),
    "timestamp": (
        "2024-05-06 12:00:00.000001",
        "timestamp",
        datetime(2024, 5, 6, 12, 0, 0, 1, UTC),
    ),
    "time": ("24:00:00", "string", "24:00:00"),
    "timetz": ("12:00:00+02", "string", "12:00:00+02"),
    "interval": ("1 year 2 days 03:00", "string", "P1Y2DT3H"),
    "uuid": (
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "string",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "json": ('{"a":  1.50}', "json", '{"a":  1.50}'),
    "jsonb": ('{"a":  1.50}', "json", '{"a": 1.50}'),
    "inet": ("10.0.0.1/8", "string", "10.0.0.1/8"),
    "macaddr": ("08:00:2b:01:02:03", "string", "08:00:2b:01:02:03"),
    "bit(3)": ("101", "string", "101"),
    "int4range": ("[1,5)", "string", "[1,5)"),
    "tsvector": ("a b", "string", "'a' 'b'"),
    "point": ("(1,2)", "string", "(1,2)"),
    "int[]": ("{1,NULL,3}", "list of int32", [1, None, 3]),
    "text[]": ('{a,NULL,"b,c"}', "list of string", ["a", None, "b,c"]),
    "uuid[]": (
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "list of string",
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    ),
    "numeric[]": ("{1.5,NULL}", "list of decimal(38,9)", [Decimal("1.5"), None]),
    "date[]": ("{2024-01-02}", "list of date", [date(2024, 1, 2)]),
    "mood": ("happy", "string", "happy"),
    "mood[]": ("{happy,sad}", "list of string", ["happy", "sad"]),
    "price": ("1.25", "decimal(9,2)", Decimal("1.25")),
    "pair": ('(1,"a b")', "json", '{"x":1,"y":"a b"}'),
    "pair[]": ('{"(1,a)","(2,b)"}', "json", '[{"x":1,"y":"a"},{"x":2,"y":"b"}]'),
}
OWN = (
    "CREATE TYPE mood AS ENUM ('happy', 'sad')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN price AS numeric(9,2) CHECK (VALUE > 0)",
)


def test_each_type_has_one_that_holds_it(schema: Schema) -> None:
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(KINDS))
    values = ", ".join(f"'{text}'" for text, _, _ in KINDS.values())
    nulls = ", ".join(["NULL"] * len(KINDS))
    schema.sql(
        *OWN,
        f"CREATE TABLE t (id int, {columns})",
        f"INSERT INTO t VALUES (1, {values}), (2, {nulls})",
    )
    report = schema.land()
    told, empty = schema.rows()
    types = report.streams[0].columns
    zoneless = f"'c{[*KINDS].index('timestamp')}'"
    assert f"timestamps without a zone are taken as UTC: {zoneless}" in report.streams[0].notes
    for i, (kind, (_, type_, value)) in enumerate(KINDS.items()):
        found = told[f"c{i}"]
        assert (kind, types[f"c{i}"], found) == (kind, type_, value)
        assert empty[f"c{i}"] is None


def test_a_query_has_the_types_of_its_expressions(schema: Schema) -> None:
    query = (
        "SELECT 1 AS id, 2.50::numeric(5,2) AS price, now() - now() AS none, row(1, 'a') AS pair"
    )
    schema.land(source=schema.source(query=query + " -- to the end;"))
    (row,) = schema.rows()
    assert row == {"id": 1, "price": Decimal("2.50"), "none": "PT0S", "pair": '{"f1":1,"f2":"a"}'}


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("numeric(5,2)", "NaN", "can't hold: NaN"),
        ("date", "infinity", "outside the years 1 to 9999"),
        ("timestamptz", "-infinity", "outside the years 1 to 9999"),
        ("timestamp", "0044-03-15 BC", "outside the years 1 to 9999"),
        ("int[]", "{{1,2},{3,4}}", "arrays of several dimensions"),
    ],
)
def test_what_no_table_holds_is_named(schema: Schema, kind: str, value: str, words: str) -> None:
    schema.sql(f"CREATE TABLE t (id int, odd {kind})", f"INSERT INTO t VALUES (1, '{value}')")
    with pytest.raises(SourceError) as caught:
        schema.land()
    assert "'odd" in caught.value.message
    assert words in caught.value.message
    assert not (schema.lake / "t").exists()


@pytest.mark.parametrize(
    ("values", "type_", "found"),
    [
        (["1e-20", "1"], "decimal(38,28)", [Decimal("1e-20"), Decimal(1)]),
        (["1e37", "1.5"], "string", ["1" + "0" * 37, "1.5"]),
        (["NaN", "1.5"], "string", ["NaN", "1.5"]),
        (["Infinity"], "string", ["Infinity"]),
        ([], "decimal(38,9)", []),
    ],
)
def test_numbers_without_a_precision_are_what_their_values_need(
    schema: Schema, values: list[str], type_: str, found: list[Any]
) -> None:
    schema.sql("CREATE TABLE t (id serial, n numeric)")
    for value in values:
        schema.sql(f"INSERT INTO t (n) VALUES ('{value}')")
    stream = schema.land().streams[0]
    assert stream.columns["n"] == type_
    assert [row["n"] for row in schema.rows()] == found
    assert "'n' is numeric without a precision" in stream.notes[0]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.decimals(-(10**15), 10**15, places=4, allow_nan=False),
        "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | TEXT,
        "b": st.none() | st.binary(max_size=20),
        "m": st.none() | MOMENT,
        "w": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "l": st.none() | st.lists(st.none() | TEXT, max_size=4),
    }
)


@given(st.lists(ROW, max_size=20))
def test_any_values_come_back(server: Postgres, rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        schema = Schema(server, Path(folder))
        create = (
            "CREATE TABLE t (id int, n bigint, d numeric(20,4), f double precision, s text, "
            "b bytea, m timestamptz, w date, l text[])"
        )
        inserts = [
            f"INSERT INTO t VALUES ({number}, {', '.join(_sql(row[name]) for name in 'ndfsbmwl')})"
            for number, row in enumerate(rows)
        ]
        schema.sql(create, *inserts)
        schema.land()
        found = [{k: v for k, v in row.items() if k != "id"} for row in schema.rows()]
        assert found == rows


def _sql(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return rf"'\x{value.hex()}'"
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_sql, value))}]::text[]"
    text = value.isoformat() if isinstance(value, (date, datetime)) else str(value)
    return "'" + text.replace("'", "''") + "'"
