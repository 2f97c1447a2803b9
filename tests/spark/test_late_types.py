"""Types that come later, in tables that delta-spark reads, writes or has to commit to."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta_support import session
from deltalake import DeltaTable

import lakeport
from lakeport.engine.sql.frames import collect_arrow
from lakeport.errors import DestinationError, SchemaConflict


def land(lake: Path, frame: pa.Table, **keys: Any) -> lakeport.LandingReport:
    return lakeport.land(frame, lake, table="t", internal_columns=False, **keys)


def by_spark(lake: Path) -> dict[str, list[Any]]:
    """Column -> its values as delta-spark reads them, in the order of `id`."""
    frame = session().read.format("delta").load(str(lake / "t")).orderBy("id")
    found = collect_arrow(frame)
    return dict(zip(found.column_names, (c.to_pylist() for c in found.columns), strict=True))


def field(lake: Path, name: str) -> dict[str, Any]:
    schema = json.loads(session().read.format("delta").load(str(lake / "t")).schema.json())
    found: dict[str, Any] = next(f for f in schema["fields"] if f["name"] == name)
    return found


OPEN = pa.table({"id": [1], "c": pa.nulls(1)})


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, marks=pytest.mark.soak),
        {"delta.logRetentionDuration": "interval 40 days"},
    ],
)
def test_delta_spark_reads_what_was_typed_late(tmp_path: Path, properties: dict[str, str]) -> None:
    land(tmp_path, OPEN, table_properties=properties)
    assert field(tmp_path, "c")["type"] == "string"
    assert by_spark(tmp_path) == {"id": [1], "c": [None]}
    land(tmp_path, pa.table({"id": [2], "c": [2.5]}))
    assert field(tmp_path, "c") == {"name": "c", "type": "double", "nullable": True, "metadata": {}}
    assert by_spark(tmp_path) == {"id": [1, 2], "c": [None, 2.5]}
    more = session().createDataFrame([(3, 3.5)], "id long, c double")
    more.write.format("delta").mode("append").save(str(tmp_path / "t"))
    assert by_spark(tmp_path)["c"] == [None, 2.5, 3.5]
    older = session().read.format("delta").option("versionAsOf", 0).load(str(tmp_path / "t"))
    assert older.collect()[0].c is None
    done = lakeport.Table(tmp_path / "t").alter("c", "decimal(10,2)")
    assert done.files == 2
    assert by_spark(tmp_path)["c"] == [None, Decimal("2.50"), Decimal("3.50")]
    values = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id").column("c")
    assert values.to_pylist() == by_spark(tmp_path)["c"]


def test_what_optimize_writes_is_written_anew(tmp_path: Path) -> None:
    land(tmp_path, OPEN)
    land(tmp_path, OPEN)
    lakeport.Table(tmp_path / "t").optimize()
    land(tmp_path, pa.table({"id": [2], "c": [2.5]}))
    assert by_spark(tmp_path) == {"id": [1, 1, 2], "c": [None, None, 2.5]}


def test_a_table_that_only_spark_may_write_to_takes_types_later(tmp_path: Path) -> None:
    empty = {"id": 1, "c": None, "l": [], "o": {}}
    lakeport.land([empty], tmp_path, table="t", internal_columns=False)
    session().sql(f"ALTER TABLE delta.`{tmp_path / 't'}` ADD CONSTRAINT pos CHECK (id > 0)")
    full = {"id": 3, "c": 2.5, "l": [1], "o": {"k": 1}}
    for number, record in enumerate([{**empty, "id": 2, "d": None}, full, {**empty, "id": 4}]):
        keys = {"mode": "merge", "merge_keys": "id"} if number == 2 else {}
        lakeport.land([record], tmp_path, table="t", internal_columns=False, **keys)
    found = by_spark(tmp_path)
    assert (found["c"], found["l"]) == ([None, None, 2.5, None], [[], [], [1], []])
    assert found["o"] == [{"k": None}, {"k": None}, {"k": 1}, {"k": None}]
    assert found["d"] == [None] * 4
    with pytest.raises(DestinationError, match=r"delta\.constraints\.pos"):
        lakeport.Table(tmp_path / "t").alter("c", "string")


def test_names_that_need_a_mapping_keep_it(tmp_path: Path) -> None:
    first = {"id": 1, "my l": [], "o": {}, "p": {"a b": 1, "b": None}, "q": [{"x y": None}]}
    second = {"id": 2, "my l": [1], "o": {"k v": 1}, "p": {"a b": 1, "b": [2]}, "q": [{"x y": 2.5}]}
    for record in (first, {**second, "new col": 1}):
        lakeport.land([record], tmp_path, table="t", internal_columns=False)
    found = by_spark(tmp_path)
    assert (found["my l"], found["o"]) == ([[], [1]], [{"k v": None}, {"k v": 1}])
    assert found["p"] == [{"a b": 1, "b": None}, {"a b": 1, "b": [2]}]
    assert (found["q"], found["new col"]) == ([[{"x y": None}], [{"x y": 2.5}]], [None, 1])


AGGREGATE = "SELECT id, max(c) AS c, count(*) AS n FROM source GROUP BY id"
CHECK = [{"check": "id > 0 OR length(cast(c AS string)) > 0 OR id IS NULL"}]


@pytest.mark.parametrize(
    "keys",
    [pytest.param({"expect": CHECK}, marks=pytest.mark.soak), {"sql": AGGREGATE}],
    ids=["check", "sql"],
)
def test_what_spark_computes_of_no_value_has_no_type_yet(
    keys: dict[str, Any], tmp_path: Path
) -> None:
    for text in ("id,c\n", "id,c\n1,\n", "id,c\n2,2.5\n", "id,c\n", "id,c\n3,\n"):
        (tmp_path / "f.csv").write_text(text)
        lakeport.land(str(tmp_path / "f.csv"), tmp_path, table="t", internal_columns=False, **keys)
    assert field(tmp_path, "c")["type"] == "double"
    found = by_spark(tmp_path)
    assert (found["id"], found["c"]) == ([1, 2, 3], [None, 2.5, None])


@pytest.mark.parametrize("sql", [pytest.param("", marks=pytest.mark.soak), "SELECT * FROM src"])
def test_a_table_of_places_without_a_value_is_copied_as_one(sql: str, tmp_path: Path) -> None:
    record = {"id": 1, "c": None, "l": [], "o": {}, "p": {"k": None, "n": 1}}
    lakeport.land([record], tmp_path, table="src", internal_columns=False)
    source = lakeport.TablesSource(tables={"src": str(tmp_path / "src")})
    lakeport.land(source, tmp_path, table="t", internal_columns=False, sql=sql or None)
    full = {"id": 2, "c": 2.5, "l": [1], "o": {"a": [1]}, "p": {"k": "x", "n": 2}}
    lakeport.land([full], tmp_path, table="t", internal_columns=False)
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{**record, "o": {"a": None}}, full]


@pytest.mark.parametrize(
    ("before", "new", "type_", "values"),
    [
        ([7], [Decimal("1.25")], "decimal(21,2)", [Decimal(7), Decimal("1.25")]),
        pytest.param(
            [date(2024, 1, 2)],
            [datetime(2024, 1, 3, 4, tzinfo=UTC)],
            "timestamp_ntz",
            [datetime(2024, 1, 2), datetime(2024, 1, 3, 4)],
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_column_widens_where_that_is_switched_on(
    before: list[Any], new: list[Any], type_: str, values: list[Any], tmp_path: Path
) -> None:
    land(tmp_path, pa.table({"id": [1], "c": before}))
    coming = pa.table({"id": [2], "c": new})
    if type_.startswith("decimal"):
        coming = coming.set_column(1, "c", coming.column("c").cast(pa.decimal128(3, 2)))
        type_ = "decimal(22,2)"
    with pytest.raises(SchemaConflict) as failure:
        land(tmp_path, coming)
    assert "type_widening: true" in failure.value.hint
    report = land(tmp_path, coming, type_widening=True)
    assert report.streams[0].removed_files == 0
    assert field(tmp_path, "c")["type"] == type_
    assert by_spark(tmp_path)["c"] == values


def test_alter_widens_in_place_where_that_is_switched_on(tmp_path: Path) -> None:
    frame = pa.table({"id": [1], "c": pa.array([7], pa.int32())})
    land(tmp_path, frame, table_properties={"delta.enableTypeWidening": "true"})
    done = lakeport.Table(tmp_path / "t").alter("c", "integer")
    assert (done.before, done.type, done.files) == ("int32", "integer", 0)
    land(tmp_path, pa.table({"id": [2], "c": [2**40]}))
    assert by_spark(tmp_path)["c"] == [7, 2**40]
    done = lakeport.Table(tmp_path / "t").alter("c", "double")
    assert done.files == 2
    assert by_spark(tmp_path)["c"] == [7.0, 2.0**40]
    assert "delta.typeChanges" not in field(tmp_path, "c")["metadata"]


def test_what_a_conflict_names_is_all_that_it_takes(tmp_path: Path) -> None:
    """Text takes a command for the table, and an option for the load that is no text."""
    lake = tmp_path / "lake"
    (tmp_path / "a.csv").write_text("c d\ntrue\n")
    (tmp_path / "b.csv").write_text("c d\n12\n")
    lakeport.land(str(tmp_path / "a.csv"), lake, table="t", internal_columns=False)
    with pytest.raises(SchemaConflict) as failure:
        lakeport.land(str(tmp_path / "b.csv"), lake, table="t", internal_columns=False)
    assert f"`lakeport table alter {lake}/t --column 'c d' --type string`" in failure.value.hint
    assert "With `--column 'c d=string'` this load goes into it then." in failure.value.hint
    lakeport.Table(lake / "t").alter("c d", "string")
    declared = {"c d": "string"}
    lakeport.land(
        str(tmp_path / "b.csv"), lake, table="t", internal_columns=False, columns=declared
    )
    assert sorted(lakeport.Table(lake / "t").preview(5)["c d"].to_pylist()) == ["12", "true"]
