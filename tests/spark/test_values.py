"""Values that can't be computed: the error names which of `sql` and the expectations failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.engine.spark.session import DriverSession

SECRET = "4711-sesame"
ROWS = pa.table({"id": [1, 2], "s": ["1", SECRET], "n": [5, 0], "big": [1, 2**62]})
CAST = "a value of type STRING is none of type INT"


def failing(folder: Path, source: Any = ROWS, **given: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        lakeport.land(source, folder, table="t", **given)
    assert not (folder / "t").exists()
    told = f"{caught.value.message} {caught.value.hint}"
    assert SECRET not in told
    assert not {"java", "org.apache", "SQLSTATE"} & {*told.split()}
    return caught.value


@pytest.mark.parametrize(
    ("expression", "why", "hint"),
    [
        ("CAST(s AS INT)", CAST, "try_cast"),
        ("big * 4", "the result does not fit into its type", "try_multiply"),
        ("1 / n", "it divides by zero", "try_divide"),
        ("1 % n", "it divides by zero", "try_mod"),
        ("array(1)[n]", "an array has no element at that index", "get(array, index)"),
        ("element_at(array(1), cast(n AS int))", "no element at that index", "try_element_at"),
        ("CAST(big AS DECIMAL(5,2))", "a value does not fit into decimal(5,2)", "try_cast"),
        ("to_date(s)", "a value of type STRING is none of type DATE", "try_to_date"),
    ],
)
def test_sql_is_named_with_the_part_that_fails(
    driver: DriverSession, tmp_path: Path, expression: str, why: str, hint: str
) -> None:
    # One row is fine: that the other one is not shows at run time alone.
    error = failing(tmp_path, sql=f"SELECT id,\n  {expression} AS v FROM source;")
    assert error.message.startswith(f"`sql`: `{expression}` (line 2, column 3) fails for some row")
    assert why in error.message
    assert hint in error.hint


@pytest.mark.parametrize("sql", ["", "SELECT *, id + 1 AS more FROM source"])
def test_the_expectation_is_named(driver: DriverSession, tmp_path: Path, sql: str) -> None:
    checks = [{"not_null": "id"}, {"check": "id > 0"}, {"check": "CAST(s AS INT) > 0"}]
    error = failing(tmp_path, sql=sql, expect=checks)
    words = "`CAST(s AS INT)` (line 1, column 1) fails for some row: " + CAST
    assert error.message == f"expectation check(CAST(s AS INT) > 0): {words}"
    named = [{**checks[2], "name": "positive"}]
    assert failing(tmp_path, sql=sql, expect=named).message == f"expectation positive: {words}"


def test_sql_is_named_where_both_could_fail(driver: DriverSession, tmp_path: Path) -> None:
    error = failing(tmp_path, sql="SELECT id, 1 / n AS v FROM source", expect=[{"check": "v > 0"}])
    assert error.message.startswith("`sql`: `1 / n` (line 1, column 12) fails")


@pytest.mark.parametrize("kind", [{"between": {"s": [1, 2]}}, {"in": {"s": [1, 2]}}])
def test_a_comparison_with_values_of_another_type(
    driver: DriverSession, tmp_path: Path, kind: dict[str, Any]
) -> None:
    error = failing(tmp_path, expect=[kind, {"check": "id > 0"}])
    assert error.message.startswith(f"expectation {next(iter(kind))}(s) fails for some row: ")
    assert "values of their own type" in error.hint


def test_those_are_named_that_may_have_failed_where_spark_does_not_tell(
    driver: DriverSession, tmp_path: Path
) -> None:
    sql = "SELECT id, CAST(big AS INT) AS v FROM source"
    why = "fails for some row: a value of type BIGINT does not fit into INT"
    assert failing(tmp_path, sql=sql).message == f"`sql` {why}"
    dated = "SELECT to_date(s, 'yyyy') AS v FROM source"
    words = "fails for some row: a text is no date or time in that format"
    assert failing(tmp_path, sql=dated).message == f"`sql` {words}"
    error = failing(tmp_path, sql=sql, expect=[{"check": "v > 0"}])
    assert error.message == f"one of `sql`, expectation check(v > 0) {why}"


def test_a_functions_and_a_users_frame_are_told_apart(
    driver: DriverSession, tmp_path: Path
) -> None:
    def function(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("CAST(s AS INT) AS v")

    expect = [{"check": "v > 0"}]
    words = f"`CAST(s AS INT)` (line 1, column 1) fails for some row: {CAST}"
    error = failing(tmp_path, python=function, expect=expect)
    assert error.message == f"`python`: {words}"
    frame = function(driver.spark.createDataFrame(ROWS))
    error = failing(tmp_path, frame, expect=expect)
    assert error.message == f"the frame that is landed: {words}"
