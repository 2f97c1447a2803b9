"""What Arrow computes of a query is what Spark makes of it; whatever has no rule is left to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport.config.expectations import Expectation
from lakeport.engine.spark.sql.query import named, query, session_like
from lakeport.errors import LakeportError
from lakeport.loading.expect.meaning import met
from lakeport.loading.expressions.bound import NeedsSpark
from lakeport.loading.expressions.patterns import is_portable
from lakeport.loading.expressions.select import Select, parsed, selected
from lakeport.loading.transform import wanted
from tests.spark.expressions import KINDS, ROWS, texts_of
from tests.spark.test_small_loads import run_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeport.engine.spark.session import Runtime

# Spark takes half a second for a query, whatever is in it.
_TOGETHER = 20
_few = settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def by_spark(runtime: Runtime) -> Callable[[str], pa.Table]:
    """Runs a query on `ROWS`, by Spark."""
    session = session_like(runtime.spark)
    named(session, {"source": session.createDataFrame(pa.Table.from_batches([ROWS]))})

    def run(sql: str) -> pa.Table:
        return query(session, sql, {}).toArrow()

    return run


def select_of(sql: str) -> Select | None:
    found = parsed(sql, "source")
    return None if found is None else selected(found, ROWS.schema)


def by_arrow(sql: str) -> pa.RecordBatch | None:
    """What Arrow makes of `ROWS`; None where Spark is asked."""
    select = select_of(sql)
    try:
        return None if select is None else next(select(iter([ROWS])))
    except NeedsSpark:
        return None


def plain(column: Any) -> str:
    """Values in words: NaN equals itself, zeros have signs, and no date is too far away."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return repr(array.to_pylist())


@_few
@given(
    st.lists(
        st.sampled_from(KINDS).flatmap(lambda kind: texts_of(kind, 2)),
        min_size=_TOGETHER,
        max_size=_TOGETHER,
        unique=True,
    )
)
def test_arrow_tells_what_spark_tells(
    by_spark: Callable[[str], pa.Table], texts: list[str]
) -> None:
    arrays = {text: by_arrow(f"SELECT {text} AS c FROM source") for text in texts}
    told = {text: found.column(0) for text, found in arrays.items() if found is not None}
    if not told:
        return
    columns = ", ".join(f"{text} AS c{i}" for i, text in enumerate(told))
    spark = by_spark(f"SELECT {columns} FROM source")
    for (text, mine), theirs in zip(told.items(), spark.columns, strict=True):
        assert (text, mine.type, plain(mine)) == (text, theirs.type, plain(theirs))


WHOLE = [
    "SELECT * FROM source",
    "select `x y`, I, Z.j, z.R.B from source z where `x y` = 1",
    "SELECT z.*, j + 1 AS `a b` FROM source z WHERE p",
    "SELECT source.i FROM source WHERE i IN (1, 2, NULL) OR NOT q",
    "SELECT Z.I, z.r.B, r.a FROM source AS Z WHERE NOT p OR q IS NULL;",
    "SELECT * EXCEPT (l, R, `x y`), 1 AS one FROM source WHERE i = j",
    "SELECT i -- a comment\n, j k\tFROM source -- another",
    "SELECT p = (i > 0) AS a, NOT p = q AS b, p = (q IS NULL) AS c FROM source",
    "SELECT p = q IS NULL AS a, -j + j * j % 7 - 2 AS b FROM source WHERE j <> 0",
    "SELECT p AND q OR NOT p AND q AS a, i BETWEEN j AND n OR p AS b FROM source",
    "SELECT CASE WHEN p THEN 'x' WHEN q THEN s END AS a, i AS Year, d AS `date` FROM source",
    "SELECT f AS first, f AS ROW FROM source WHERE f > 1.5 AND NOT f = 3",
    "SELECT m, l, r, b FROM source WHERE m >= 1.5 AND size(l) >= 0 AND r.b <> ''",
    "SELECT -2147483648 AS a, 2147483648 AS b, - 1 AS c, 1e2 AS d, .5e0 AS e FROM source",
    "SELECT year(d) * 100 + month(d) AS ym FROM source WHERE d >= '1970-01-01'",
    "SELECT true AS t, date'2020-02-29' AS d, 'x' AS s FROM source WHERE i > 10",
]


@pytest.mark.parametrize("sql", WHOLE)
def test_a_whole_query_gives_the_columns_and_rows_that_spark_gives(
    by_spark: Callable[[str], pa.Table], sql: str
) -> None:
    mine, theirs = by_arrow(sql), by_spark(sql)
    assert mine is not None
    assert (mine.schema.names, mine.schema.types) == (theirs.schema.names, theirs.schema.types)
    assert [plain(column) for column in mine.columns] == [plain(c) for c in theirs.columns]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i, FROM source",
        "SELECT i FROM source, source",
        "SELECT i FROM other",
        "SELECT DISTINCT i FROM source",
        "SELECT i FROM source ORDER BY i",
        "SELECT i FROM source LIMIT 1",
        "SELECT count(*) AS n FROM source",
        "SELECT sum(i) OVER () AS n FROM source",
        "SELECT rand() AS r FROM source",
        "SELECT i FROM source WHERE i = (SELECT max(i) FROM source)",
        "SELECT i + 1 FROM source",  # Spark makes a name of the text
        "SELECT i AS a, j AS A FROM source",
        "SELECT i + 1 AS a, a + 1 AS c FROM source",  # the column before
        "SELECT nothing FROM source",
        "SELECT y.i FROM source z",
        "SELECT 'it''s' AS t FROM source",
        "SELECT 'a' 'b' AS t FROM source",
        "SELECT 'a\\nb' AS t FROM source",
        'SELECT "i" AS t FROM source',
        "SELECT /*+ REPARTITION(3) */ i FROM source",
        "SELECT 1.5 AS t FROM source",
        "SELECT 0.0 AS t FROM source",
        "SELECT NULL AS t FROM source",
        "SELECT 10L AS t FROM source",
        "SELECT i FROM source WHERE i",
        "SELECT i FROM source UNION ALL SELECT j FROM source",
        "SELECT explode(l) AS x FROM source",
        "SELECT current_date AS x FROM source",
        "SELECT ${env:HOME} AS x FROM source",
        "SELECT i::decimal(10,2,1) AS x FROM source",
        "SELECT s LIKE '\\%' AS x FROM source",
        "SELECT i FROM source WHERE t RLIKE 'a.c'",
        "DELETE FROM source",
        "",
    ],
)
def test_whatever_has_no_rule_is_left_to_spark(sql: str) -> None:
    assert select_of(sql) is None


def test_a_text_of_any_depth_is_left_to_spark() -> None:
    assert select_of(f"SELECT {'(' * 5000}i{')' * 5000} AS x FROM source") is None


ATOMS = st.sampled_from(
    ["a", "b", "-", "[ab]", "[^a]", "[a-c1]", r"\d", r"\.", r"[\]\d-]", "[b-]", "é"]
)
REPEATS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}"])
PATTERNS = st.recursive(
    st.tuples(ATOMS, REPEATS).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(st.sampled_from(["(", "(?:"]), inner, st.just(")"), REPEATS).map("".join),
    ),
    max_leaves=5,
)
MATCHED = ["", "a", "ab", "aab", "a-b", "1", "12", ".", "]", "-", "b\n", "\n", "é", "ba1", None]


@_few
@given(st.lists(PATTERNS, min_size=_TOGETHER, max_size=_TOGETHER, unique=True))
def test_a_pattern_matches_what_it_matches_in_java(runtime: Runtime, patterns: list[str]) -> None:
    texts = pa.RecordBatch.from_pydict({"t": pa.array(MATCHED, pa.string())})
    frame = runtime.spark.createDataFrame(pa.Table.from_batches([texts]))
    portable = [pattern for pattern in patterns if is_portable(pattern)]
    columns = [frame.t.rlike(rf"\A(?:{pattern})\z") for pattern in portable]
    theirs = frame.select(*columns).toArrow()
    for pattern, found in zip(portable, theirs.columns, strict=True):
        condition = met(Expectation(matches={"t": pattern}), texts.schema)
        assert condition is not None
        assert (pattern, condition(texts).to_pylist()) == (pattern, found.to_pylist())


def table(folder: Path) -> tuple[pa.Schema, list[dict[str, Any]]]:
    found = DeltaTable(folder).to_pyarrow_table()
    kept = found.select([name for name in found.column_names if not name.startswith("_mage_")])
    return kept.schema, sorted(kept.to_pylist(), key=repr)


NESTED = "id,name,day\n1,Ada,2020-01-31\n2,,2021-02-01\n3,Éva,\n"
SQL = "SELECT *, year(day) AS y, id * 2 AS double_id FROM source WHERE name IS NOT NULL"


@pytest.mark.parametrize(
    "sql", [SQL, "SELECT name AS n, id FROM source WHERE upper(name) <> 'BOB'"]
)
def test_a_load_lands_the_same_either_way(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    people = tmp_path / "people.csv"
    people.write_text(NESTED)
    lakeport.land(str(people), tmp_path / "arrow", sql=sql, expect=[{"check": "id > 0"}])
    monkeypatch.setattr(wanted, "is_standard", lambda _: False)
    lakeport.land(str(people), tmp_path / "spark", sql=sql, expect=[{"check": "id > 0"}])
    assert table(tmp_path / "arrow" / "people") == table(tmp_path / "spark" / "people")


def test_values_that_arrow_leaves_to_spark_land_once(runtime: Runtime, tmp_path: Path) -> None:
    people = pa.table({"id": list(range(40_000)), "name": [*["Ada"] * 39_999, "straße"]})
    sql = "SELECT id, upper(name) AS name FROM source"
    report = lakeport.land(people, tmp_path, table="t", sql=sql)
    assert report.rows == 40_000
    _, rows = table(tmp_path / "t")
    assert len(rows) == 40_000
    assert {row["name"] for row in rows} == {"ADA", "STRASSE"}


def test_bad_records_are_set_aside_once_where_spark_takes_over(
    runtime: Runtime, tmp_path: Path
) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text('{"id": 1, "name": "ß"}\n{"id": "x", "name": "b"}\n{"id": 2, "name": "c"}\n')
    report = lakeport.land(
        str(lines),
        tmp_path / "lake",
        schema={"id": "bigint", "name": "string"},
        sql="SELECT id, upper(name) AS name FROM source",
        on_bad_record="quarantine",
        max_bad_records=1,
    )
    assert report.streams[0].rejected == 1
    _, rows = table(tmp_path / "lake" / "people")
    assert [row["name"] for row in rows] == ["SS", "C"]


def test_a_value_that_fails_is_told_by_spark(runtime: Runtime, tmp_path: Path) -> None:
    people = pa.table({"id": [1, 2**63 - 1]})
    with pytest.raises(LakeportError, match=r"`id \+ 1` .* does not fit into its type"):
        lakeport.land(people, tmp_path, table="t", sql="SELECT id + 1 AS id FROM source")
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_columns_without_values_take_any_type_later(runtime: Runtime, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": 1, "seen": null}\n')
    second.write_text('{"id": 2, "seen": 7}\n')
    sql = "SELECT id, seen AS Later FROM source"
    for file in (first, second):
        lakeport.land(str(file), tmp_path / "lake", table="t", sql=sql)
    schema, rows = table(tmp_path / "lake" / "t")
    assert schema.field("Later").type == pa.int64()
    assert [row["Later"] for row in rows] == [None, 7]


def test_a_query_and_conditions_need_no_java(tmp_path: Path) -> None:
    made = """
        report = land(
            pa.table({"id": [1, 2, 3], "name": ["a", "b", None]}),
            table="t",
            file_type="delta",
            sql="SELECT id * 2 AS id, name FROM source WHERE name IS NOT NULL",
            expect=[{"check": "id > 2", "otherwise": "quarantine"}, {"matches": {"name": "[a-z]"}}],
        )
        started = Runtime._current.start_up.is_set() or Runtime._current._begun
        print(json.dumps([report.rows, started]))
    """
    assert run_script(made, tmp_path) == [1, False]
    assert table(tmp_path / "lake" / "t")[1] == [{"id": 4, "name": "b"}]


def test_settings_of_spark_sql_have_spark_run_the_query(tmp_path: Path) -> None:
    made = """
        report = land(
            pa.table({"id": [2**63 - 1]}),
            table="t",
            file_type="delta",
            sql="SELECT id + 1 AS id FROM source",
            spark={"spark.sql.ansi.enabled": "false"},
        )
        print(json.dumps(report.rows))
    """
    assert run_script(made, tmp_path) == 1
    assert table(tmp_path / "lake" / "t")[1] == [{"id": -(2**63)}]
