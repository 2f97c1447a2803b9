"""Another type for a column: the same values, in one commit, or nothing at all."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.config.destinations.local import LocalConfig
from lakeport.engine.threads import ThreadEngine, require_spark
from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    SchemaConflict,
    SourceError,
)
from lakeport.storage.local import LocalStorage
from lakeport.writers.delta.alter import AlterResult, alter_column
from lakeport.writers.delta.writer import DeltaWriter


def land(lake: Path, values: list[Any], **keys: Any) -> lakeport.LandingReport:
    frame = values if isinstance(values, pa.Table) else pa.table({"c": values})
    frame = frame.append_column("id", pa.array(range(len(frame))))
    return lakeport.land(frame, lake, table="t", internal_columns=False, **keys)


def read(lake: Path) -> list[Any]:
    """The column's values, once delta-rs and DuckDB agree on them and on the rows' number."""
    delta = DeltaTable(str(lake / "t"))
    found = delta.to_pyarrow_table().column("c").to_pylist()
    files = [unquote(uri) for uri in delta.file_uris()]
    if not delta.metadata().partition_columns:
        by_duckdb = duckdb.read_parquet(files, union_by_name=True).arrow().read_all()
        assert sorted(by_duckdb.column("c").to_pylist(), key=str) == sorted(found, key=str)
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("before", "type_", "after"),
    [
        ([1, None, 2**53], "double", [1.0, None, 2.0**53]),
        ([1, None, 2**62], "decimal(20,1)", [Decimal(1), None, Decimal(2**62)]),
        ([1.5, None, 2.25], "decimal(10,2)", [Decimal("1.50"), None, Decimal("2.25")]),
        ([1.0, None, 3.0], "integer", [1, None, 3]),
        ([1, None, 2], "string", ["1", None, "2"]),
        (["1", None, "-7"], "integer", [1, None, -7]),
        (["1.5", None, "1e2"], "number", [1.5, None, 100.0]),
        (["true", None, "FALSE"], "boolean", [True, None, False]),
        ([date(2024, 1, 2), None], "timestamp", [datetime(2024, 1, 2, tzinfo=UTC), None]),
        (["2024-01-02", None], "date", [date(2024, 1, 2), None]),
        ([Decimal("1.50"), None], "decimal(12,4)", [Decimal("1.5"), None]),
        ([None, Decimal("7.00"), Decimal("-1.00")], "integer", [None, 7, -1]),
    ],
)
def test_every_value_stays_what_it_is(
    before: list[Any], type_: str, after: list[Any], tmp_path: Path
) -> None:
    land(tmp_path, before)
    land(tmp_path, before[:1])
    done = lakeport.Table(tmp_path / "t").alter("C", type_)
    assert (done.version, done.files, done.rows) == (2, 2, len(before) + 1)
    assert read(tmp_path) == sorted(after + after[:1], key=str)
    delta = DeltaTable(str(tmp_path / "t"))
    assert delta.history(1)[0]["operationParameters"]["mode"] == "Overwrite"
    older = DeltaTable(str(tmp_path / "t"), version=1).to_pyarrow_table()
    assert sorted(older.column("c").to_pylist(), key=str) == sorted(before + before[:1], key=str)
    land(tmp_path, pa.table({"c": delta.to_pyarrow_table().column("c")}))
    assert len(read(tmp_path)) == 2 * len(before) + 2


@pytest.mark.parametrize(
    ("values", "type_", "seen"),
    [
        ([1, 2**53 + 1], "double", "9007199254740993"),
        ([1.0, 2.5], "integer", "2.5"),
        ([None, Decimal("7.00"), Decimal("1.25")], "integer", "1.25"),
        ([1.0, float("nan")], "decimal(10,2)", "nan"),
        (["1", ""], "integer", "an empty text"),
        (["2024-01-01", "x"], "date", "'x'"),
    ],
)
def test_a_value_without_an_equal_changes_nothing(
    values: list[Any], type_: str, seen: str, tmp_path: Path
) -> None:
    land(tmp_path, values)
    before = sorted((tmp_path / "t").iterdir())
    for dry_run in (True, False):
        with pytest.raises(SchemaConflict) as failure:
            lakeport.Table(tmp_path / "t").alter("c", type_, dry_run=dry_run)
        assert seen in failure.value.message
    assert sorted((tmp_path / "t").iterdir()) == before
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    land(tmp_path, [1, 2])
    done = lakeport.Table(tmp_path / "t").alter("c", "double", dry_run=True)
    assert (done.version, done.files, done.rows, done.dry_run) == (0, 1, 2, True)
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1


def test_files_without_the_column_stay(tmp_path: Path) -> None:
    lakeport.land(pa.table({"id": [1]}), tmp_path, table="t", internal_columns=False)
    land(tmp_path, [5])
    done = lakeport.Table(tmp_path / "t").alter("c", "string")
    assert (done.files, DeltaTable(str(tmp_path / "t")).version()) == (1, 2)
    assert read(tmp_path) == ["5", None] or read(tmp_path) == [None, "5"]
    assert lakeport.Table(tmp_path / "t").alter("c", "string").version == 2


def test_partitions_stay_where_they_are(tmp_path: Path) -> None:
    frame = pa.table({"c": [1, 2, 3], "p": ["a", "b", None]})
    land(tmp_path, frame, partition_keys="p")
    lakeport.Table(tmp_path / "t").alter("c", "double")
    rows = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().select(["c", "p"]).to_pylist()
    assert sorted(rows, key=str) == [
        {"c": 1.0, "p": "a"},
        {"c": 2.0, "p": "b"},
        {"c": 3.0, "p": None},
    ]
    with pytest.raises(SchemaConflict, match="partition column"):
        lakeport.Table(tmp_path / "t").alter("p", "integer")


@pytest.mark.parametrize(
    ("column", "type_", "error", "words"),
    [
        ("pryce", "double", ConfigError, "it has 'price'"),
        ("price", "duble", ConfigError, "did you mean 'double'"),
        ("price", "date", SchemaConflict, "of which no value is date"),
        ("s", "string", SchemaConflict, "object"),
    ],
)
def test_what_can_not_be_is_said(
    column: str, type_: str, error: type[LakeportError], words: str, tmp_path: Path
) -> None:
    frame = pa.table({"price": [1], "s": [{"x": 1}]})
    lakeport.land(frame, tmp_path, table="t")
    with pytest.raises(error) as failure:
        lakeport.Table(tmp_path / "t").alter(column, type_)
    assert words in str(failure.value)


def test_files_have_no_type_to_change(tmp_path: Path) -> None:
    lakeport.land(pa.table({"c": [1]}), tmp_path, table="t", file_type="parquet")
    with pytest.raises(SourceError, match="not a Delta table"):
        lakeport.Table(tmp_path / "t").alter("c", "double")


def test_a_table_that_only_takes_appends_is_left_alone(tmp_path: Path) -> None:
    land(tmp_path, [1])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    text = log.read_text().replace(
        '"delta.checkpointPolicy"', '"delta.appendOnly":"true","delta.checkpointPolicy"'
    )
    log.write_text(text)
    with pytest.raises(DestinationError, match="appendOnly"):
        lakeport.Table(tmp_path / "t").alter("c", "double")
    merge: Any = {"mode": "merge", "merge_keys": ["c"], "file_type": "delta", "engine": "threads"}
    with pytest.raises(DestinationError, match=r"can't be changed or removed: .*appendOnly"):
        lakeport.land([{"c": 1, "d": 2}], tmp_path, table="t", **merge)
    lakeport.land([{"c": 2, "d": 2}], tmp_path, table="t", **merge)
    assert lakeport.Table(tmp_path / "t").describe().rows == 2


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    land(tmp_path, [1])
    (file,) = (tmp_path / "t").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DestinationError, match=file.name):
        lakeport.Table(tmp_path / "t").alter("c", "double")


class Crowded(LocalStorage):
    """A store in which somebody else lands a row right before the next commits."""

    def __init__(self, root: str, others: list[Any]) -> None:
        super().__init__(root)
        self.others = others

    def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        if self.others and key.endswith(".json"):
            self.others.pop()()
        super().put(key, data, create_only=create_only)


def alter(storage: LocalStorage, type_: pa.DataType) -> AlterResult:
    engine = ThreadEngine()
    session = lambda: require_spark(engine, "a test").delta_session("test")  # noqa: E731
    config = LocalConfig(path=storage.root)
    writer = DeltaWriter(session, storage, "t", "t", config, by_log=True)
    return alter_column(writer, engine, "c", type_)


def test_rows_that_land_meanwhile_get_the_type_too(tmp_path: Path) -> None:
    land(tmp_path, [1])
    more = [lambda: land(tmp_path, [3]), lambda: land(tmp_path, [2])]
    done = alter(Crowded(str(tmp_path), more), pa.float64())
    assert (done.version, done.files) == (3, 3)
    assert read(tmp_path) == [1.0, 2.0, 3.0]
    named = {Path(uri).name for uri in DeltaTable(str(tmp_path / "t")).file_uris()}
    older = {
        Path(uri).name
        for version in range(3)
        for uri in DeltaTable(str(tmp_path / "t"), version=version).file_uris()
    }
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == named | older


def test_a_value_that_lands_meanwhile_can_stop_it(tmp_path: Path) -> None:
    land(tmp_path, [1])
    others = [lambda: land(tmp_path, [2**60 + 1])]
    with pytest.raises(SchemaConflict, match=str(2**60 + 1)):
        alter(Crowded(str(tmp_path), others), pa.float64())
    assert read(tmp_path) == [1, 2**60 + 1]


def test_a_conflict_names_the_command_and_the_first_value(tmp_path: Path) -> None:
    lake = tmp_path / "my lake"
    for name, text in (("jan", "c\n1\n2\n"), ("feb", 'c\n"3"\n4\n12.5\n13.5\n')):
        (tmp_path / f"{name}.csv").write_text(text)
    lakeport.land(str(tmp_path / "jan.csv"), lake, table="t")
    with pytest.raises(SchemaConflict) as failure:
        lakeport.land(str(tmp_path / "feb.csv"), lake, table="t")
    assert failure.value.message.endswith("does not fit: 12.5 in row 3 of feb.csv")
    command = f"`lakeport table alter '{lake}/t' --column c --type double`"
    assert command in failure.value.hint
    plan = lakeport.plan(str(tmp_path / "feb.csv"), lake, table="t")
    assert command in plan.streams[0].warnings[0]
    lakeport.Table(lake / "t").alter("c", "double")
    lakeport.land(str(tmp_path / "feb.csv"), lake, table="t")
    assert read(lake) == [1.0, 12.5, 13.5, 2.0, 3.0, 4.0]


def test_text_is_landed_as_declared(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("c\nx\n")
    (tmp_path / "b.csv").write_text("c\n12\n")
    lakeport.land(str(tmp_path / "a.csv"), tmp_path / "lake", table="t")
    pq.write_table(pa.table({"c": [12]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaConflict) as failure:
        lakeport.land(str(tmp_path / "b.parquet"), tmp_path / "lake", table="t")
    assert "`--column c=string`" in failure.value.hint
    assert "table alter" not in failure.value.hint
    lakeport.land(
        str(tmp_path / "b.parquet"), tmp_path / "lake", table="t", columns={"c": "string"}
    )
    assert read(tmp_path / "lake") == ["12", "x"]


def test_no_command_is_named_that_a_partition_column_refuses(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for name, text in (("a", "id,p\n1,2\n"), ("b", "id,p\n3,x\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    lakeport.land(str(tmp_path / "a.csv"), lake, table="t", partition_keys=["p"])
    with pytest.raises(SchemaConflict) as failure:
        lakeport.land(str(tmp_path / "b.csv"), lake, table="t", partition_keys=["p"])
    plan = lakeport.plan(str(tmp_path / "b.csv"), lake, table="t", partition_keys=["p"])
    for told in (failure.value.hint, plan.streams[0].warnings[0]):
        assert "table alter" not in told
        assert "'p' is a partition column, whose type stays" in told


def test_new_files_have_statistics_of_the_new_type(tmp_path: Path) -> None:
    land(tmp_path, [5, 7])
    lakeport.Table(tmp_path / "t").alter("c", "double")
    added = DeltaTable(str(tmp_path / "t")).get_add_actions(flatten=True)
    (action,) = pa.table(added).to_pylist()
    assert (action["min.c"], action["max.c"]) == (5.0, 7.0)
    (uri,) = DeltaTable(str(tmp_path / "t")).file_uris()
    assert pq.read_schema(uri).field("c").type == pa.float64()
