"""Expectations of the rows that a load lands: what lands, what does not, and what is told."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport.config.expectations import Expectation
from lakeport.errors import ConfigError, ExpectationFailed, InputError, ObjectExists
from lakeport.loading.expect.arrow import mask_violations, needs_spark
from lakeport.loading.expect.spark import MASK, add_violation_mask
from lakeport.writers.files.writer import FilesWriter

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

ROWS = pa.table(
    {
        "id": [1, 2, 2, None, 5],
        "s": ["a", "bb", "c", None, "d"],
        "x": [1.0, float("nan"), -5.0, None, 3.0],
    }
)


def ids(path: Path) -> list[int | None]:
    found: list[int | None] = DeltaTable(path).to_pyarrow_table()["id"].to_pylist()
    return sorted(found, key=lambda i: (i is None, i))


def set_aside(report: lakeport.LandingReport) -> list[dict[str, Any]]:
    lines = [line for uri in report.quarantine for line in Path(uri).read_text().splitlines()]
    return [json.loads(line) for line in lines]


def failed(report: lakeport.LandingReport) -> dict[str, int]:
    return {one.name: one.failed for one in report.streams[0].expectations}


@pytest.mark.parametrize("sql", ["", "SELECT * FROM source"])
@pytest.mark.parametrize(
    ("given_", "landed"),
    [
        ({"not_null": "id"}, [1, 2, 2, 5]),
        ({"in": {"s": ["a", "bb"]}}, [1, 2, None]),
        ({"between": {"id": [2, None]}}, [2, 2, 5, None]),
        ({"matches": {"s": "[a-c]"}}, [1, 2, None]),
        ({"check": "x > 0 OR id = 2"}, [1, 2, 2, 5, None]),
        ({"unique": "id"}, [1, 5, None]),
        ({"unique": ["id", "s"]}, [1, 2, 2, 5, None]),
    ],
)
def test_rows_that_fail_are_set_aside_and_the_others_land(
    driver: DriverSession,
    tmp_path: Path,
    given_: dict[str, Any],
    landed: list[int | None],
    sql: str,
) -> None:
    one = {**given_, "otherwise": "quarantine"}
    report = lakeport.land(ROWS, tmp_path, table="t", sql=sql, expect=[one])
    assert ids(tmp_path / "t") == landed
    aside = [json.loads(line["raw"])["id"] for line in set_aside(report)]
    assert sorted([*aside, *landed], key=str) == sorted(ROWS["id"].to_pylist(), key=str)
    assert report.rejected == len(aside) == sum(failed(report).values())
    assert {line["reason"] for line in set_aside(report)} <= {Expectation(**one).title}
    assert report.rows == len(landed)


@pytest.mark.parametrize("sql", ["", "SELECT * FROM source"])
def test_a_failure_commits_nothing_and_names_the_expectation(
    driver: DriverSession, tmp_path: Path, sql: str
) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        lakeport.land(ROWS, tmp_path, table="t", sql=sql, expect=[{"not_null": ["id", "s"]}])
    assert "not_null(id, s) by 1 of 5 rows; nothing was committed" in caught.value.message
    assert caught.value.exit_code == 3
    assert not (tmp_path / "t").exists()
    (file,) = (tmp_path / "_lakeport/quarantine").glob("*/t~samples.jsonl")
    assert str(file) in caught.value.hint
    assert json.loads(json.loads(file.read_text())["raw"]) == {"id": None, "s": None, "x": None}
    (kept,) = (tmp_path / "_lakeport/reports").glob("*.json")
    (stream,) = json.loads(kept.read_text())["streams"]
    assert stream["expectations"][0]["failed"] == 1


def test_warnings_are_counted_and_everything_lands(driver: DriverSession, tmp_path: Path) -> None:
    expect = [
        {"between": {"x": [0, 2]}, "otherwise": "warn"},
        {"rows": {"at_most": 1}, "otherwise": "warn"},
    ]
    report = lakeport.land(ROWS, tmp_path, table="t", expect=expect)
    assert report.rows == 5
    assert failed(report) == {"between(x)": 3, "rows(at_most 1)": 1}
    assert report.streams[0].warnings == (
        "an expectation is not met: between(x) by 3 of 5 rows.",
        "an expectation is not met: rows(at_most 1): 5 rows.",
    )


def test_all_rows_together(driver: DriverSession, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old = pa.table({"at": [now - timedelta(days=3), now - timedelta(days=9)]})
    lakeport.land(
        old, tmp_path, table="t", expect=[{"fresh": {"column": "at", "within": "4 days"}}]
    )
    fresh = {"fresh": {"column": "at", "within": "2 days"}}
    for expect, words in (
        (fresh, "the newest value is 3.0 days old"),
        ({"rows": {"at_least": 3}}, "rows(at_least 3): 2 rows"),
        ({"rows": {"at_most": 1}}, "rows(at_most 1): 2 rows"),
    ):
        with pytest.raises(ExpectationFailed) as caught:
            lakeport.land(old, tmp_path, table="t", expect=[expect])
        assert words in caught.value.message
        assert "quarantine" not in caught.value.hint
    assert DeltaTable(tmp_path / "t").version() == 0


def test_keys_are_unique_among_the_rows_that_the_table_has(
    driver: DriverSession, tmp_path: Path
) -> None:
    unique = {"unique": "id", "otherwise": "quarantine"}
    lakeport.land(pa.table({"id": [1, 2]}), tmp_path, table="t", expect=[unique])
    report = lakeport.land(
        pa.table({"Id No": [2, 3, None]}),
        tmp_path,
        table="t",
        rename={"Id No": "id"},
        expect=[{**unique, "unique": "Id No"}],
    )
    assert ids(tmp_path / "t") == [1, 2, 3, None]
    assert report.rejected == 1
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="t", expect=[unique], mode="overwrite")
    assert ids(tmp_path / "t") == [1]


def test_references_are_looked_up_in_the_lake_and_among_the_views(
    driver: DriverSession, tmp_path: Path
) -> None:
    lakeport.land(pa.table({"key": [1, 2]}), tmp_path, table="customers")
    one = {"references": {"id": "customers.key"}, "otherwise": "quarantine"}
    lakeport.land(ROWS, tmp_path, table="t", expect=[one])
    assert ids(tmp_path / "t") == [1, 2, 2, None]
    views = {"customers": driver.spark.createDataFrame([(5,)], "key long")}
    lakeport.land(ROWS, tmp_path, table="u", expect=[one], views=views)
    assert ids(tmp_path / "u") == [5, None]
    with pytest.raises(ConfigError, match="there is no table 'absent'"):
        lakeport.land(ROWS, tmp_path, table="v", expect=[{"references": {"id": "absent.id"}}])


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"not_null": "idd"}, "expectation not_null(idd): there is no column 'idd'"),
        ({"unique": "idd"}, "there is no column 'idd'; did you mean `id`?"),
        ({"check": "idd > 1"}, "`idd` cannot be resolved"),
        ({"check": "id >"}, "Syntax error"),
        ({"check": "count(*) > 1"}, "contains invalid expressions"),
        ({"check": "id + 1"}, "data type mismatch"),
        ({"check": "s"}, "it gives a value of type string, not true or false"),
        ({"matches": {"s": "[a-"}}, "it is no regular expression of Java's"),
    ],
)
def test_a_wrong_expectation_is_told_in_words(
    driver: DriverSession, tmp_path: Path, given_: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        lakeport.land(ROWS, tmp_path, table="t", expect=[given_])
    assert words in caught.value.message
    assert not (tmp_path / "t").exists()


def test_too_many_rows_set_aside_fail_the_load(driver: DriverSession, tmp_path: Path) -> None:
    one = {"not_null": "id", "otherwise": "quarantine"}
    lakeport.land(ROWS, tmp_path, table="t", expect=[one], max_bad_records="20%")
    with pytest.raises(InputError, match="1 of 5 records are bad"):
        lakeport.land(ROWS, tmp_path, table="t", expect=[one], max_bad_records="19%")
    assert DeltaTable(tmp_path / "t").version() == 0


VALUES = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-3, 3),
            "s": st.none() | st.text(st.sampled_from("ab\n"), max_size=2),
            "f": st.none() | st.sampled_from([-1.5, 0.0, -0.0, 2.0, float("nan")]),
        }
    ),
    max_size=12,
)
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
CONDITIONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"not_null": ["n", "s"]}, "n IS NULL OR s IS NULL"),
    ({"in": {"n": [1, 2], "s": ["a", ""]}}, "n NOT IN (1, 2) OR s NOT IN ('a', '')"),
    ({"between": {"f": [-1.0, 1]}}, "f < -1.0 OR f > 1"),
    ({"matches": {"s": "a.?"}}, "NOT regexp_full_match(s, 'a.?')"),
    ({"check": "n > 0 AND f < 1"}, "NOT (n > 0 AND f < 1)"),
    ({"check": "n = 1 OR s = 'a'"}, "NOT (n = 1 OR s = 'a')"),
    (
        {"unique": ["n", "s"]},
        "n IS NOT NULL AND s IS NOT NULL AND count(*) OVER (PARTITION BY n, s) > 1",
    ),
    ({"references": {"n": "o.k"}}, "n IS NOT NULL AND n NOT IN (1, 2)"),
)


@given(VALUES)
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_rows_that_fail_are_those_of_sql(
    driver: DriverSession, values: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist(values, SCHEMA)
    others = {"o": driver.spark.createDataFrame([(1,), (2,), (2,)], "k long")}
    expected = [Expectation(**given_) for given_, _ in CONDITIONS]
    told = add_violation_mask(driver.spark.createDataFrame(table), expected, others, None)
    bits = [row[MASK] for row in told.select(f"`{MASK}`").collect()]
    wanted = ", ".join(f"({sql}) IS TRUE AS c{i}" for i, (_, sql) in enumerate(CONDITIONS))
    sums = ", ".join(f"count(*) FILTER (c{i})" for i in range(len(CONDITIONS)))
    with duckdb.connect() as db:
        db.register("t", table)
        (counts,) = db.sql(f"SELECT {sums} FROM (SELECT {wanted} FROM t)").fetchall()
    assert len(bits) == table.num_rows
    assert tuple(sum(bit >> i & 1 for bit in bits) for i in range(len(CONDITIONS))) == counts


D, T = decimal.Decimal, datetime
TYPED = pa.table(
    {
        "n": pa.array([1, -1, 2**63 - 1, None, 0, 3], pa.int64()),
        "b": pa.array([1, -1, 127, None, 0, 3], pa.int8()),
        "x": pa.array([0.0, -0.0, float("nan"), None, float("inf"), 0.1], pa.float64()),
        "f": pa.array([0.0, -0.0, float("nan"), None, float("-inf"), 0.1], pa.float32()),
        "d": pa.array([D("1.00"), D("-0.01"), D("99.99"), None, D("0.00"), D("1.5")]),
        "s": pa.array(["a", "A", "\U0001f600", None, "", "\uffff\n"]),
        "day": pa.array([dt.date(1970, 1, day) for day in (1, 2, 3, 4, 5)] + [None]),
        "t": pa.array([T(2020, 1, 1, h, tzinfo=UTC) for h in range(5)] + [None]),
        "is": pa.array([True, False, None, True, False, True]),
        "list": pa.array([[1], [], None, [None], [2], [3]]),
    }
)


def test_arrow_and_spark_find_the_same_rows(driver: DriverSession) -> None:
    given_: list[dict[str, Any]] = [{"not_null": name} for name in TYPED.column_names]
    limits: dict[str, list[Any]] = {
        "n": [0, 2, 2**63 - 1],
        "b": [0, 2, 300],
        "x": [0, 0.1, -0.0],
        "f": [0, 0.1, -0.0, 2**24 + 1],
        "d": [0, 1, D("1.5"), D("-0.01")],
        "s": ["a", "", "\ue000"],
        "day": [dt.date(1970, 1, 2)],
        "t": [T(2020, 1, 1, 1), T(2020, 1, 1, 4, tzinfo=timezone(timedelta(hours=2)))],
        "is": [True, False],
    }
    given_ += [{"between": {n: [v, None]}} for n, values in limits.items() for v in values]
    given_ += [{"between": {n: [None, v]}} for n, values in limits.items() for v in values]
    given_ += [{"in": {n.upper(): values}} for n, values in limits.items()]
    given_ += [{"matches": {"s": pattern}} for pattern in ("[a-z]*", "(?:A|a){1,2}", "[^a]+")]
    expected = [Expectation(**one) for one in given_]
    assert not any(needs_spark(one, TYPED.schema) for one in expected)
    (batch,) = TYPED.to_batches()
    frame = driver.spark.createDataFrame(TYPED)
    for some in (expected[:40], expected[40:]):
        _, bits = mask_violations(some, batch)
        told = [
            row[MASK]
            for row in add_violation_mask(frame, some, {}, None).select(f"`{MASK}`").collect()
        ]
        for number, one in enumerate(some):
            ours, theirs = (
                [bool(bit >> number & 1) for bit in of] for of in (bits.to_pylist(), told)
            )
            assert ours == theirs, one


def test_rows_that_are_staged_again_are_judged_once(
    driver: DriverSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, taken = FilesWriter.commit, [True]

    def once_more(self: FilesWriter, *args: Any) -> Any:
        if taken.pop() if taken else False:
            raise ObjectExists("a name is taken")
        return commit(self, *args)

    monkeypatch.setattr(FilesWriter, "commit", once_more)
    one = {"not_null": "id", "otherwise": "quarantine"}
    report = lakeport.land(ROWS, tmp_path, table="t", file_type="parquet", expect=[one])
    assert not taken
    assert (report.rows, report.rejected, failed(report)) == (4, 1, {"not_null(id)": 1})
