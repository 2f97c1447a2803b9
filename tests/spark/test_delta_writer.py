"""Delta commits on a local table: what lands, read back by delta-rs, DuckDB and Spark."""

from __future__ import annotations

import hashlib
import json
import threading
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from delta_support import aligned, land, session, writer
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaProtocolError

import lakeport
from lakeport.engine.spark.delta.transaction import DeltaTransaction
from lakeport.engine.sql.frames import collect_arrow
from lakeport.errors import (
    CommitConflict,
    DestinationError,
    InputError,
    LakeportError,
    OutcomeUnknown,
    PermissionRefused,
    RunMismatch,
    SchemaConflict,
    Unreachable,
)
from lakeport.writers.delta.commit import TableTransaction


def rows(path: Path, order: str = "id") -> list[dict[str, object]]:
    table = DeltaTable(str(path)).to_pyarrow_table()
    return table.sort_by(order).to_pylist()


def log(path: Path, version: int) -> list[dict[str, object]]:
    text = (path / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def state(table: Path) -> bytes:
    found = lakeport.Table(str(table)).state()
    assert found is not None
    return found.state


def test_append_creates_and_grows_a_table_that_any_reader_reads(tmp_path: Path) -> None:
    into = writer(tmp_path)
    first = land(into, pa.table({"id": [1, 2], "name": ["a", None]}))
    second = land(into, pa.table({"ID": [3], "age": [7]}).rename_columns(["id", "age"]))
    assert (first.version, second.version) == (0, 1)
    assert (second.rows, len(second.files), Path(second.files[0]).is_file()) == (1, 1, True)
    expected = [
        {"id": 1, "name": "a", "age": None},
        {"id": 2, "name": None, "age": None},
        {"id": 3, "name": None, "age": 7},
    ]
    path = tmp_path / "t"
    assert rows(path) == expected
    assert [
        r.asDict() for r in session().read.format("delta").load(str(path)).sort("id").collect()
    ] == expected
    files = DeltaTable(str(path)).file_uris()
    total = duckdb.execute("select sum(id) from read_parquet(?)", [files]).fetchall()
    assert total == [(6,)]
    protocol = next(a["protocol"] for a in log(path, 0) if "protocol" in a)
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    info = next(a["commitInfo"] for a in log(path, 1) if "commitInfo" in a)
    assert info["isBlindAppend"] is True
    assert info["operationMetrics"]["numOutputRows"] == "1"


def test_every_type_comes_back(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "i64": pa.array([9007199254740993, -1], pa.int64()),
            "f": pa.array([1.5, None], pa.float64()),
            "b": pa.array([False, True]),
            "d": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
            "at": pa.array(
                [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 5, 1, 1, 2, 3, 456789, UTC)],
                pa.timestamp("us", "UTC"),
            ),
            "dec": pa.array(
                [Decimal("12345678901234567890.123456789"), None], pa.decimal128(38, 9)
            ),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "list": pa.array([["x", None], []], pa.list_(pa.string())),
            "s": pa.array(
                [{"a": {"b": [1]}}, None],
                pa.struct([("a", pa.struct([("b", pa.list_(pa.int64()))]))]),
            ),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            'a.b`q"é🦀': ["x", "y"],
        }
    )
    land(writer(tmp_path), table)
    back = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    assert back.to_pylist() == table.to_pylist()
    spark = collect_arrow(session().read.format("delta").load(str(tmp_path / "t")))
    assert spark.column("dec").to_pylist() == table.column("dec").to_pylist()
    assert spark.column("at").to_pylist() == table.column("at").to_pylist()


def test_overwrite_replaces_rows_and_schema_in_one_commit(tmp_path: Path) -> None:
    into = writer(tmp_path)
    land(into, pa.table({"id": [1], "old": ["x"]}))
    landed = land(into, pa.table({"id": ["a"], "new": [1.5]}), mode="overwrite")
    assert (landed.version, landed.removed_files) == (1, 1)
    assert rows(tmp_path / "t") == [{"id": "a", "new": 1.5}]
    assert DeltaTable(str(tmp_path / "t"), version=0).to_pyarrow_table().num_rows == 1


def test_partition_overwrite_touches_only_its_partitions_compared_by_value(tmp_path: Path) -> None:
    at = pa.timestamp("us", "UTC")

    def table(moments: list[datetime | None], n: int) -> pa.Table:
        return pa.table({"at": pa.array(moments, at), "n": [n] * len(moments)})

    one, two = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)
    into = writer(tmp_path)
    write_deltalake(str(tmp_path / "t"), table([one, two, None], 1), partition_by=["at"])
    before = log(tmp_path / "t", 0)
    landed = land(into, table([one, None], 2), mode="overwrite", keys=["at"])
    assert (landed.version, landed.removed_files) == (1, 2)
    found = {
        (r["at"], r["n"]) for r in DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    }
    assert found == {(one, 2), (two, 1), (None, 2)}
    assert log(tmp_path / "t", 0) == before


def test_partition_keys_that_differ_are_refused(tmp_path: Path) -> None:
    into = writer(tmp_path)
    table = pa.table({"a": ["x"], "b": ["y"], "n": [1]})
    land(into, table, keys=["a"])
    with pytest.raises(SchemaConflict, match=r"\(a\), the batch by \(b\)"):
        into.plan(table.schema, partition_keys=["b"])
    assert into.plan(table.schema).partition_columns == ("a",)


def test_a_repeated_run_adds_nothing_and_other_content_is_refused(tmp_path: Path) -> None:
    into = writer(tmp_path)
    again = {"run_id": "r", "sequence": 0, "digest": "d0", "singer_state": b'{"at": 1}'}
    land(into, ids(1), **again)
    land(into, ids(2), run_id="r", sequence=1, digest="d1", singer_state=b'{"at":  2}')
    landed = land(into, ids(1), **again)
    assert (landed.skipped, landed.rows, landed.version) == (True, 0, 1)
    assert into.find_landed_batch(run_id="r", sequence=1, digest="d1") is not None
    assert into.find_landed_batch(run_id="r", sequence=2, digest="d2") is None
    assert into.find_landed_batch(run_id="other", sequence=0, digest="d0") is None
    with pytest.raises(RunMismatch, match="batch 0"):
        land(into, ids(9), run_id="r", sequence=0, digest="zz")
    assert rows(tmp_path / "t") == [{"id": 1}, {"id": 2}]
    assert state(tmp_path / "t") == b'{"at":  2}'
    names = {p.name for p in (tmp_path / "t").glob("*.parquet")}
    assert len(names) == 2


def test_the_same_run_in_two_processes_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = writer(tmp_path)
    land(into, ids(0))
    commit = TableTransaction.commit
    raced: list[int] = []

    def late(self: TableTransaction, *args: object) -> int:
        if not raced:
            raced.append(1)
            land(into, ids(1), run_id="r", sequence=0, digest="d")
        return commit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(TableTransaction, "commit", late)
    landed = land(into, ids(1), run_id="r", sequence=0, digest="d")
    assert landed.skipped
    assert rows(tmp_path / "t") == [{"id": 0}, {"id": 1}]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2


def test_an_overwrite_that_meets_an_append_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = writer(tmp_path)
    land(into, ids(0))
    commit = TableTransaction.commit
    raced: list[int] = []

    def late(self: TableTransaction, *args: object) -> int:
        if not raced:
            raced.append(1)
            write_deltalake(str(tmp_path / "t"), ids(1), mode="append")
        return commit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(TableTransaction, "commit", late)
    landed = land(into, ids(2), mode="overwrite")
    assert (landed.version, landed.removed_files) == (2, 2)
    assert rows(tmp_path / "t") == [{"id": 2}]


def test_an_append_rides_along_with_another_writers_new_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = writer(tmp_path)
    land(into, ids(0))
    plan = into.plan(ids(1).schema)
    staged = into.sink(plan).write(aligned(plan, ids(1)), 0)
    write_deltalake(
        str(tmp_path / "t"), pa.table({"id": [5], "x": ["y"]}), mode="append", schema_mode="merge"
    )
    assert into.commit(plan, staged).version == 2
    assert [r["id"] for r in rows(tmp_path / "t")] == [0, 1, 5]


def test_a_column_that_got_another_type_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    into = writer(tmp_path)
    land(into, ids(0))
    wide = pa.table({"id": [1], "x": pa.array([1], pa.int32())})
    plan = into.plan(wide.schema)
    staged = into.sink(plan).write(aligned(plan, wide), 0)
    land(into, pa.table({"id": [2], "x": pa.array([1], pa.int64())}))
    with pytest.raises(CommitConflict, match="changed the schema"):
        into.commit(plan, staged)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2


@pytest.mark.parametrize(
    ("told", "run", "mode"),
    [
        (Unreachable, {}, "append"),
        (CommitConflict, {}, "overwrite"),
        (PermissionRefused, {"run_id": "r", "digest": "d"}, "append"),
    ],
)
def test_a_lost_answer_is_recognised_as_our_own_commit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: type[LakeportError],
    run: dict[str, str],
    mode: str,
) -> None:
    into = writer(tmp_path)
    land(into, ids(0))
    commit = DeltaTransaction.commit_actions

    def lost(self: DeltaTransaction, *args: object) -> int:
        commit(self, *args)  # type: ignore[arg-type]
        raise told("no answer")

    monkeypatch.setattr(DeltaTransaction, "commit_actions", lost)
    landed = land(into, ids(1), mode=mode, **run)
    assert (landed.version, landed.rows, landed.skipped) == (1, 1, False)
    assert DeltaTable(str(tmp_path / "t")).version() == 1
    assert [r["id"] for r in rows(tmp_path / "t")] == [0, 1][mode == "overwrite" :]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(PermissionRefused, PermissionRefused), (Unreachable, OutcomeUnknown)],
)
def test_a_refused_commit_leaves_no_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[LakeportError],
    raised: type[LakeportError],
) -> None:
    """A store that does not answer may still make the commit: then its files have to stay."""
    into = writer(tmp_path)
    land(into, ids(0))

    def fails(self: DeltaTransaction, *args: object) -> int:
        raise error("no")

    monkeypatch.setattr(DeltaTransaction, "commit_actions", fails)
    with pytest.raises(raised):
        land(into, ids(1))
    kept = 2 if error is Unreachable else 1
    assert len(list((tmp_path / "t").glob("*.parquet"))) == kept
    assert not [p for p in (tmp_path / "_lakeport").rglob("*") if p.is_file()]


def test_two_writers_lose_nothing_and_old_commits_never_change(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    prints: dict[str, str] = {}

    def append(first: int) -> None:
        try:
            into = writer(tmp_path)
            for n in range(first, first + 6):
                land(into, ids(n))
                for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    assert prints.setdefault(path.name, digest) == digest
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(n,)) for n in (0, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(r["id"] for r in rows(tmp_path / "t")) == list(range(12))
    names = sorted(p.name for p in (tmp_path / "t" / "_delta_log").glob("*.json"))
    assert names == [f"{n:020d}.json" for n in range(12)]
    assert (tmp_path / "t" / "_delta_log" / f"{10:020d}.checkpoint.parquet").is_file()


def test_names_that_delta_can_not_hold_use_column_mapping(tmp_path: Path) -> None:
    into = writer(tmp_path)
    table = pa.table(
        {
            "unit price (€)": [1.5, 2.5],
            "at,day": ["x", "y"],
            "s": pa.array([{"a b": 1}, None], pa.struct([("a b", pa.int64())])),
        }
    )
    plan = lakeport.plan(table, tmp_path, table="planned")
    landed = land(into, table, keys=["at,day"])
    assert landed.warnings == plan.streams[0].warnings  # and nothing of the feature beside it
    assert "column mapping" in landed.warnings[0] and "delta-rs" in landed.warnings[0]
    assert "=snake`) lands 'unit price (€)' as 'unit_price'" in landed.warnings[0]
    with pytest.raises(DeltaProtocolError, match="columnMapping"):
        DeltaTable(tmp_path / "t").to_pyarrow_table()  # rather than nulls
    more = table.append_column("new one", pa.array([1, 2]))
    land(into, more)
    found = collect_arrow(session().read.format("delta").load(str(tmp_path / "t")))
    assert found.num_rows == 4
    assert sorted(found.column("unit price (€)").to_pylist()) == [1.5, 1.5, 2.5, 2.5]
    assert (
        sorted(str(v) for v in found.column("s").to_pylist())
        == ["None", "None"] + ["{'a b': 1}"] * 2
    )
    assert found.filter(pa.compute.field("at,day") == "x").num_rows == 2
    back = land(into, pa.table({"q q": [1], "at,day": ["z"]}), mode="overwrite")
    assert back.removed_files == 4
    frame = session().read.format("delta").load(str(tmp_path / "t"))
    assert [r.asDict() for r in frame.collect()] == [{"q q": 1, "at,day": "z"}]


def test_a_table_with_a_check_constraint_is_written_by_spark(tmp_path: Path) -> None:
    into = writer(tmp_path)
    land(into, ids(1))
    path = tmp_path / "t"
    session().sql(f"alter table delta.`{path}` add constraint positive check (id > 0)")
    landed = land(into, ids(2, 3), run_id="r", digest="d", singer_state=b"{}")
    assert landed.version == 2
    assert "Spark wrote this batch" in landed.warnings[0]
    assert state(path) == b"{}"
    with pytest.raises(InputError, match="positive") as refused:
        land(into, ids(4, -77))
    assert "77" not in str(refused.value)
    assert DeltaTable(str(path)).version() == 2
    assert [r["id"] for r in rows(path)] == [1, 2, 3]
    assert land(into, ids(2, 3), run_id="r", digest="d").skipped


def test_columns_that_a_table_fills_itself_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark = session()
    java, tables = spark._jsparkSession, spark._jvm.io.delta.tables.DeltaTable
    day = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 1)
    day[0] = "day"
    table = tables.create(java).location(str(path)).partitionedBy(day)
    for name, kind in {"id": "bigint", "at": "timestamp", "note": "string"}.items():
        table = table.addColumn(name, kind)
    filled = tables.columnBuilder(java, "sk").dataType("bigint").generatedAlwaysAsIdentity()
    table = table.addColumn(filled.build())
    filled = tables.columnBuilder(java, "day").dataType("date")
    table = table.addColumn(filled.generatedAlwaysAs("cast(at as date)").build())
    table.property("delta.feature.allowColumnDefaults", "supported").execute()
    spark.sql(f"alter table delta.`{path}` alter column note set default 'none'")
    into = writer(tmp_path)
    moment = pa.array([datetime(2024, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    batch = pa.table({"id": [7], "at": moment})
    land(into, batch)
    (row,) = session().read.format("delta").load(str(path)).drop("at").collect()
    assert row.asDict() == {"id": 7, "sk": 1, "note": "none", "day": date(2024, 1, 2)}
    with pytest.raises(InputError, match="another value in a generated column"):
        land(into, batch.append_column("day", pa.array([date(2020, 1, 1)])))
    with pytest.raises(InputError, match="fills an identity column itself"):
        land(into, batch.append_column("sk", pa.array([5])))


def test_a_table_that_only_grows_is_not_overwritten(tmp_path: Path) -> None:
    into = writer(tmp_path, table_properties={"delta.appendOnly": "true"})
    land(into, ids(1))
    with pytest.raises(DestinationError, match=r"its property `delta\.appendOnly`"):
        into.plan(ids(2).schema, mode="overwrite")
    table = lakeport.Table(str(tmp_path / "t"))
    land(into, ids(2))
    with pytest.raises(DestinationError, match="can't be changed or removed"):
        table.restore(0)
    assert [row["id"] for row in rows(tmp_path / "t")] == [1, 2]


def test_texts_fit_the_columns_of_tables_that_limit_them(tmp_path: Path) -> None:
    path = tmp_path / "t"
    session().sql(f"create table delta.`{path}` (id bigint, code varchar(3)) using delta")
    into = writer(tmp_path)
    with pytest.raises(InputError, match="longer than the table's column") as refused:
        land(into, pa.table({"id": [1], "code": ["secret"]}))
    assert "secret" not in refused.value.message
    land(into, pa.table({"id": [1], "code": ["abc"]}))
    assert rows(path) == [{"id": 1, "code": "abc"}]


def test_tables_with_checkpoints_of_the_newer_kind_are_undone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
    into = writer(tmp_path, table_properties=properties)
    for number in range(3):
        land(into, ids(number), run_id=f"r{number}", digest="d")
    assert list((path / "_delta_log").glob("*.checkpoint.*"))
    assert lakeport.Table(str(path)).undo("r2").version == 3
    frame = session().read.format("delta").load(str(path))
    assert sorted(row["id"] for row in frame.collect()) == [0, 1]


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", UTC), ("timestamp_ntz", None)])
def test_a_frame_without_zones_lands_in_the_type_that_the_table_has(
    tmp_path: Path, kind: str, zone: tzinfo | None
) -> None:
    path = tmp_path / "t"
    session().sql(f"create table delta.`{path}` (id bigint, at {kind}) using delta")
    frame = session().sql("select 1L as id, timestamp_ntz'2024-03-10 02:30:00' as at")
    keys = {"table": "t", "internal_columns": False}
    report = lakeport.land(frame, tmp_path, **keys)
    assert report.streams[0].columns["at"] == kind
    assert report.streams[0].notes == ("timestamps without a zone are taken as UTC: 'at'",)
    later = frame.selectExpr("id + 1 as id", "at + interval 1 hour as at").union(frame)
    lakeport.land(later, tmp_path, mode="merge", merge_keys=["id"], **keys)
    csv = tmp_path / "t.csv"
    csv.write_text("id,at\n3,2024-03-10 04:30:00\n")
    lakeport.land(str(csv), tmp_path, **keys)
    at = [datetime(2024, 3, 10, hour, 30, tzinfo=zone) for hour in (2, 3, 4)]
    assert rows(path) == [{"id": n, "at": moment} for n, moment in enumerate(at, 1)]


@pytest.mark.soak
@pytest.mark.parametrize("key", ["at", "id"])
def test_columns_without_a_zone_are_written_as_they_read_in_utc(tmp_path: Path, key: str) -> None:
    path = tmp_path / "t"
    naive = pa.timestamp("us")
    moments = [datetime(2024, 7, 1, 12, 30, 15, 250001), datetime(2024, 1, 2, 3)]
    first = pa.table({"id": [1, 2], "at": pa.array([moments[0], None], naive), "n": [1, 2]})
    write_deltalake(str(path), first, partition_by=[key])
    changes = pa.table({"id": [1, 3], "at": pa.array(moments, naive)})
    keys = {"table": "t", "internal_columns": False}
    session()
    lakeport.land(changes, tmp_path, mode="merge", merge_keys=["id", "at"], **keys)
    assert rows(path) == [
        {"id": 1, "at": moments[0], "n": 1},
        {"id": 2, "at": None, "n": 2},
        {"id": 3, "at": moments[1], "n": None},
    ]
    lakeport.land(changes.slice(1), tmp_path, mode="overwrite", partition_keys=[key], **keys)
    lakeport.land(pa.table({"id": [4], "n": [4]}), tmp_path, **keys)
    assert [row["id"] for row in rows(path)] == [1, 2, 3, 4]
    frame = session().read.format("delta").load(str(path))
    assert dict(frame.dtypes)["at"] == "timestamp_ntz"
    for moment, number in zip(moments, (1, 3), strict=True):
        found = frame.where(f"at = timestamp_ntz'{moment}'").collect()
        assert [row["id"] for row in found] == [number]
