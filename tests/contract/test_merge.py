"""Merges, deletes, versions of a stream and wider types, on every destination with Delta tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine.spark.jvm.versions import installed_build
from lakeport.errors import ConfigError, InputError, RunMismatch, SchemaConflict
from tests.contract.conftest import LOCAL, STORES, Land
from tests.contract.targets import (
    INTEGER,
    STRING,
    Target,
    record,
    records,
    schema,
    singer,
    state,
)

DELTA = [name for name in (*LOCAL, *STORES) if name.endswith("-delta")]
everywhere = pytest.mark.parametrize("target", DELTA, indirect=True)
# What the log and the rows decide: a store has no say in it.
on_disk = pytest.mark.parametrize(
    "target",
    [name if name in LOCAL else pytest.param(name, marks=pytest.mark.soak) for name in DELTA],
    indirect=True,
)

AT = {"type": ["null", "string"], "format": "date-time"}
USERS = schema("users", {"id": INTEGER, "name": STRING}, "id")


def people(**names: str | None) -> list[dict[str, Any]]:
    return records("users", [{"id": int(key[1:]), "name": name} for key, name in names.items()])


def names(target: Target, table: str = "users") -> dict[int, Any]:
    """id -> name; fails when an id is there twice."""
    rows = target.rows(table)
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows)
    return found


@everywhere
def test_the_last_record_of_a_key_wins_and_other_rows_stay(target: Target, land: Land) -> None:
    land(singer(USERS, *people(_1="a", _2="b", _3="c")), mode="merge")
    before = {row["id"]: row for row in target.rows("users")}
    lines = singer(USERS, *people(_2="x", _4="d"), *people(_2="y"), *people(_2="B", _4="D"))
    states: list[bytes] = []
    report = land(lines + singer(state(users=4)), mode="merge", maximum_batch_rows=3, states=states)
    assert names(target) == {1: "a", 2: "B", 3: "c", 4: "D"}
    assert report.streams[0].last_version - report.streams[0].first_version == 1
    merged = {"inserted": 1, "updated": 3, "deleted": 0, "unchanged": 0}
    assert report.streams[0].merged == merged
    after = {row["id"]: row for row in target.rows("users")}
    assert after[1] == before[1]
    assert after[2]["_mage_created_at"] == before[2]["_mage_created_at"]
    assert after[2]["_mage_updated_at"] > before[2]["_mage_updated_at"]
    info = target.delta("users").history(1)[0]
    assert info["operation"] == "MERGE"
    counted = {key: int(value) for key, value in info["operationMetrics"].items()}
    assert counted["numTargetRowsUpdated"] == 2
    kept = json.loads(json.loads(info["userMetadata"])["lakeport"]["state"])
    assert kept == json.loads(states[-1]) == {"bookmarks": {"users": 4}}
    left = [k for k in target.files.keys() if k.startswith("_lakeport/staging/")]  # noqa: SIM118
    assert left == []


@everywhere
def test_only_files_that_hold_a_key_are_rewritten(target: Target, land: Land) -> None:
    for start in (0, 10, 20):
        land(singer(USERS, *people(**{f"_{start + i}": "old" for i in range(5)})))
    before = set(target.data_keys("users"))
    report = land(singer(USERS, *people(_11="new", _17="new")), mode="merge")
    after = set(target.data_keys("users"))
    assert (len(before - after), len(before & after), report.streams[0].removed_files) == (1, 2, 1)
    assert {key for key, name in names(target).items() if name == "new"} == {11, 17}


@everywhere
def test_a_merge_repeated_with_its_run_id_changes_nothing(target: Target, land: Land) -> None:
    land(singer(USERS, *people(_1="a")), mode="merge", run_id="first")
    lines = singer(USERS, *people(_1="b", _2="b"), *people(_1="c"))
    land(lines, mode="merge", run_id="r", maximum_batch_rows=2)
    version = target.delta("users").version()
    again = land(lines, mode="merge", run_id="r", maximum_batch_rows=2)
    assert (again.rows, target.delta("users").version()) == (0, version)
    with pytest.raises(RunMismatch):
        land(singer(USERS, *people(_1="z", _2="z")), mode="merge", run_id="r")
    assert names(target) == {1: "c", 2: "b"}


@everywhere
def test_several_keys_partitions_and_a_row_that_moves(target: Target, land: Land) -> None:
    one = pa.table(
        {
            "shop": ["a", "a", "b", "b"],
            "id": [1, 2, 1, 2],
            "day": ["mon", "mon", "tue", None],
            "tree": [{"x": [1], "y": "p"}] * 3 + [None],
        }
    )
    keys = {"mode": "merge", "merge_keys": ["SHOP", "id"], "table": "t", "partition_keys": ["day"]}
    land(one, **keys)
    two = pa.table(
        {
            "shop": ["b", "a", "b"],
            "id": [2, 2, 3],
            "day": ["wed", "tue", None],
            "tree": [{"x": [2], "y": "q"}] * 3,
        }
    )
    land(two, **keys)
    found = {(row["shop"], row["id"]): (row["day"], row["tree"]) for row in target.rows("t")}
    assert found == {
        ("a", 1): ("mon", {"x": [1], "y": "p"}),
        ("a", 2): ("tue", {"x": [2], "y": "q"}),
        ("b", 1): ("tue", {"x": [1], "y": "p"}),
        ("b", 2): ("wed", {"x": [2], "y": "q"}),
        ("b", 3): (None, {"x": [2], "y": "q"}),
    }
    assert len(target.rows("t")) == 5


@everywhere
def test_new_columns_are_added_and_missing_ones_keep_their_values(
    target: Target, land: Land
) -> None:
    land(singer(USERS, *people(_1="a", _2="b")), mode="merge")
    nested = {"type": ["null", "object"], "properties": {"city": STRING}}
    other = schema("users", {"id": INTEGER, "address": nested}, "id")
    rows = [{"id": 2, "address": {"city": "Z"}}, {"id": 3, "address": None}]
    land(singer(other, *records("users", rows)), mode="merge")
    found = {row["id"]: (row["name"], row["address"]) for row in target.rows("users")}
    assert found == {1: ("a", None), 2: ("b", {"city": "Z"}), 3: (None, None)}
    with pytest.raises(SchemaConflict, match="zip"):
        zipped = schema("users", {"id": INTEGER, "zip": STRING}, "id")
        land(
            singer(zipped, record("users", id=1, zip="8")), mode="merge", schema_evolution="strict"
        )
    assert "zip" not in target.arrow("users").schema.names


@on_disk
def test_marked_records_stay_marked_or_go(target: Target, land: Land) -> None:
    marked = schema("users", {"id": INTEGER, "name": STRING, "_sdc_deleted_at": AT}, "id")
    gone = "2024-05-01T00:00:00Z"
    start = [{"id": i, "name": "n"} for i in range(1, 5)]
    land(singer(marked, *records("users", start)), mode="merge")
    deletion = {"id": 1, "name": "n", "_sdc_deleted_at": gone}
    land(singer(marked, *records("users", [deletion])), mode="merge")
    found = {row["id"]: row["_sdc_deleted_at"] for row in target.rows("users")}
    assert found == {1: datetime(2024, 5, 1, tzinfo=UTC), 2: None, 3: None, 4: None}
    rows = [
        {"id": 2, "_sdc_deleted_at": gone},
        {"id": 3, "_sdc_deleted_at": gone},
        {"id": 3, "name": "back"},
        {"id": 5, "name": "brief"},
        {"id": 5, "_sdc_deleted_at": gone},
        {"id": 9, "_sdc_deleted_at": gone},
    ]
    land(singer(marked, *records("users", rows)), mode="merge", hard_delete=True)
    assert names(target) == {1: "n", 3: "back", 4: "n"}
    flags = pa.table({"id": [1, 4, 7], "name": ["x", "y", "z"], "gone": [True, False, None]})
    keys = {"mode": "merge", "merge_keys": ["id"], "table": "users", "hard_delete": True}
    land(flags, delete_column="gone", **keys)
    assert names(target) == {3: "back", 4: "y", 7: "z"}
    report = land(flags, delete_column="absent", **keys)
    assert "absent" in report.streams[0].warnings[0]


def changes(*rows: tuple[str | None, int, str]) -> pa.Table:
    op, ids, name = (list(column) for column in zip(*rows, strict=True))
    return pa.table({"Op": pa.array(op, pa.string()), "id": ids, "name": name})


@on_disk
@pytest.mark.parametrize(
    "condition", ["Op = 'D'", "op in ('D', 'X''Y')", "`OP` == 'D'", " Op  IN('D') "]
)
def test_a_condition_says_which_records_are_deletes(
    target: Target, land: Land, condition: str
) -> None:
    keys = {"mode": "merge", "merge_keys": "id", "table": "users", "hard_delete": True}
    land(changes(("I", 1, "a"), ("I", 2, "b"), ("I", 3, "c")), delete_when=condition, **keys)
    rows = [
        ("U", 1, "A"),
        ("D", 2, "b"),
        ("D", 9, "x"),
        ("D", 4, "d"),
        ("I", 4, "e"),
        (None, 5, "f"),
    ]
    report = land(changes(*rows), delete_when=condition, delete_column="Op", **keys)
    assert names(target) == {1: "A", 3: "c", 4: "e", 5: "f"}
    assert report.streams[0].merged["deleted"] == 1
    land(changes((None, 1, "-"), ("U", 3, "-")), delete_when="Op IS NOT NULL", **keys)
    assert names(target) == {1: "-", 4: "e", 5: "f"}
    land(pa.table({"id": [4, 5], "gone": [0, 1]}), delete_when="gone = 1", **keys)
    assert names(target) == {1: "-", 4: "e"}


@on_disk
def test_marks_of_several_kinds_need_a_condition(target: Target, land: Land) -> None:
    keys = {"mode": "merge", "merge_keys": "id", "table": "users", "hard_delete": True}
    land(changes(("Y", 1, "a"), (None, 2, "b")), delete_column="Op", **keys)
    assert names(target) == {2: "b"}
    version = target.delta("users").version()
    for rows in ([("I", 1, "a"), ("D", 2, "b")], [("U", 2, "B")]):
        with pytest.raises(InputError, match="does not say which rows are deleted") as failure:
            land(changes(*rows), delete_column="Op", **keys)
        assert "`--delete-when \"Op = 'D'\"`" in failure.value.hint
    with pytest.raises(InputError) as failure:
        land(pa.table({"id": [1, 2], "is-gone": [0, 1]}), delete_column="is-gone", **keys)
    assert "`--delete-when '`is-gone` = 1'`" in failure.value.hint
    with pytest.raises(ConfigError, match="column 'id', which is integer"):
        land(changes(("I", 1, "a")), delete_when="id = 'D'", **keys)
    assert (target.delta("users").version(), names(target)) == (version, {2: "b"})


def deleted(ident: int, **values: Any) -> dict[str, Any]:
    return record("users", id=ident, _sdc_deleted_at="2024-01-01T00:00:00Z", **values)


@on_disk
def test_a_mark_that_brings_its_key_alone_leaves_the_other_columns(
    target: Target, land: Land
) -> None:
    declared = {
        "id": INTEGER,
        "name": STRING,
        "tags": {"type": ["null", "array"], "items": INTEGER},
    }
    head = schema("users", {**declared, "_sdc_deleted_at": AT}, "id")
    keys = {"mode": "merge", "constant_columns": {"env": "x"}, "add_record_metadata": True}
    land(singer(head, record("users", id=1, name="a", tags=[1]), *people(_2="b")), **keys)
    lines = [deleted(1), deleted(2, name="B"), *people(_3="c"), deleted(3), deleted(4), deleted(4)]
    report = land(singer(head, *lines), **keys)
    assert report.rows == len(lines)
    rows = {row["id"]: row for row in target.rows("users")}
    assert {i: (row["name"], row["tags"]) for i, row in rows.items()} == {
        1: ("a", [1]),
        2: ("B", None),
        3: ("c", None),
        4: (None, None),
    }
    assert all(row["_sdc_deleted_at"] is not None and row["env"] == "x" for row in rows.values())
    land(singer(head, *people(_1="back")), **keys)
    (row,) = (row for row in target.rows("users") if row["id"] == 1)
    assert (row["name"], row["tags"], row["_sdc_deleted_at"]) == ("back", None, None)


@on_disk
def test_what_can_t_be_merged_is_refused_before_anything_is_written(
    target: Target, land: Land
) -> None:
    table = pa.table({"id": [1, None], "tree": [{"x": 1}] * 2})
    with pytest.raises(ConfigError, match="no key") as failure:
        land(table, mode="merge", table="t")
    assert "merge_keys" in failure.value.hint
    with pytest.raises(ConfigError, match="'nope'"):
        land(table, mode="merge", table="t", merge_keys="nope")
    with pytest.raises(ConfigError, match="'tree' is struct"):
        land(table, mode="merge", table="t", merge_keys="tree")
    with pytest.raises(InputError, match="1 of the batch's 2 rows have no value in 'id'"):
        land(table, mode="merge", table="t", merge_keys="id")
    assert not target.exists("t")
    assert not [k for k in target.files.keys() if "staging" in k or k.startswith("t/")]  # noqa: SIM118


def versioned(number: int, *ids: int) -> list[dict[str, Any]]:
    return [{**record("users", id=i, name=f"v{number}"), "version": number} for i in ids]


def activate(number: int) -> dict[str, Any]:
    return {"type": "ACTIVATE_VERSION", "stream": "users", "version": number}


@everywhere
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_new_version_retires_the_rows_of_earlier_ones(
    target: Target, land: Land, mode: str
) -> None:
    keys = {"mode": mode, "add_record_metadata": True}
    land(singer(USERS, activate(1), *versioned(1, 1, 2, 3), activate(1)), **keys)
    assert names(target) == {1: "v1", 2: "v1", 3: "v1"}
    land(singer(USERS, *versioned(2, 2, 3, 4), activate(2)), **keys)
    rows = target.rows("users")
    live = sorted((row["id"], row["name"]) for row in rows if row["_sdc_deleted_at"] is None)
    assert live == [(2, "v2"), (3, "v2"), (4, "v2")]
    assert len(rows) == (6 if mode == "append" else 4)
    land(singer(USERS, *versioned(3, 4), activate(3)), hard_delete=True, **keys)
    assert names(target) == {4: "v3"}
    version = target.delta("users").version()
    land(singer(USERS, activate(3)), hard_delete=True, **keys)
    assert target.delta("users").version() == version


def unversioned(*ids: int) -> list[dict[str, Any]]:
    return [record("users", id=i, name="none") for i in ids]


@on_disk
@pytest.mark.parametrize(("mode", "hard"), [("append", True), ("merge", False)])
@pytest.mark.parametrize(
    ("lines", "metadata"),
    [
        ([*unversioned(4), activate(9)], True),
        ([*versioned(9, 3), *unversioned(4), activate(9)], True),
        ([*unversioned(4), *versioned(9, 3, 5), activate(9)], True),
        ([activate(9), *unversioned(4)], True),
        ([*versioned(9, 1, 4), activate(9)], False),  # nothing keeps what the tap sends
        ([*versioned(8, 4), *versioned(9, 1), activate(9)], True),
    ],
)
def test_no_row_of_the_run_is_retired(
    target: Target,
    land: Land,
    mode: str,
    hard: bool,
    lines: list[dict[str, Any]],
    metadata: bool,
) -> None:
    keys = {"mode": mode, "hard_delete": hard, "batch_size_rows": 1}
    land(singer(USERS, *versioned(8, 1, 2), activate(8)), add_record_metadata=True, **keys)
    report = land(singer(USERS, *lines), add_record_metadata=metadata, **keys)
    sent = {line["record"]["id"] for line in lines if line["type"] == "RECORD"}
    rows = target.rows("users")
    assert all(row["_sdc_deleted_at"] is None for row in rows)
    assert {row["id"] for row in rows} == {1, 2, *sent}
    (warning,) = report.streams[0].warnings
    assert "version 9 was not activated, as rows of this run have" in warning
    land(singer(USERS, *versioned(10, 7), activate(10)), add_record_metadata=True, **keys)
    live = {row["id"] for row in target.rows("users") if row["_sdc_deleted_at"] is None}
    nameless = {row["id"] for row in target.rows("users") if row["_sdc_table_version"] is None}
    assert live == {7, *nameless}  # no version is not an old one


@on_disk
@pytest.mark.parametrize("hard", [True, False])
def test_a_repeated_run_activates_what_it_had_landed(
    target: Target, land: Land, hard: bool
) -> None:
    keys = {"hard_delete": hard, "add_record_metadata": True, "batch_size_rows": 1}
    land(singer(USERS, *versioned(8, 1)), **keys)
    for lines, warned in ((versioned(9, 2, 3), False), (unversioned(4, 5), True)):
        run = f"run {lines[0].get('version')}"
        land(singer(USERS, *lines), run_id=run, **keys)
        report = land(singer(USERS, *lines, activate(9)), run_id=run, **keys)
        assert report.streams[0].skipped_batches == 2
        assert bool(report.streams[0].warnings) == warned
        rows = target.rows("users")
        assert sorted(r["id"] for r in rows if r["_sdc_deleted_at"] is None) == [
            *(2, 3),
            *((4, 5) if warned else ()),
        ]


@on_disk
@pytest.mark.parametrize("hard", [True, False])
def test_rows_without_a_version_stay_and_are_counted(
    target: Target, land: Land, hard: bool
) -> None:
    keys = {"hard_delete": hard}
    land(singer(USERS, *unversioned(1, 2), activate(8)), **keys)
    for number in (9, 10):
        lines = singer(USERS, *versioned(number, 3), activate(number))
        report = land(lines, add_record_metadata=True, **keys)
        assert "2 rows have no version" in report.streams[0].warnings[0]
        live = [row["id"] for row in target.rows("users") if row["_sdc_deleted_at"] is None]
        assert sorted(live) == [1, 2, 3]


@on_disk
def test_versions_of_interleaved_streams_do_not_mix(target: Target, land: Land) -> None:
    other = {**USERS, "stream": "other"}
    keys = {"add_record_metadata": True, "hard_delete": True, "batch_size_rows": 2}
    for number in (1, 2):
        lines = [USERS, other]
        for i in (number, number + 1):
            lines += [*versioned(number, i), {**record("other", id=i, name="x")}]
        report = land(
            singer(*lines, activate(number), {**activate(number), "stream": "other"}), **keys
        )
    assert sorted(row["id"] for row in target.rows("users")) == [2, 3]
    assert sorted(row["id"] for row in target.rows("other")) == [1, 2, 2, 3]
    warned = {stream.stream: len(stream.warnings) for stream in report.streams}
    assert warned == {"users": 0, "other": 1}


@on_disk
def test_a_version_named_before_its_schema_is_activated(target: Target, land: Land) -> None:
    keys = {"add_record_metadata": True, "hard_delete": True}
    land(singer(USERS, *versioned(1, 1)), **keys)
    land(singer(activate(2), USERS, *versioned(2, 2)), **keys)
    assert names(target) == {2: "v2"}
    land(singer({**activate(3), "stream": "nobody"}, USERS), **keys)
    assert not target.exists("nobody")


@on_disk
def test_without_versions_earlier_rows_stay_and_a_warning_says_so(
    target: Target, land: Land
) -> None:
    report = land(singer(USERS, *versioned(1, 1), activate(1)))
    assert "rows of earlier versions stay" in report.warnings[0]
    assert names(target) == {1: "v1"}


def typed(column: pa.DataType, value: Any, ident: int) -> pa.Table:
    inner = pa.struct([("list", pa.list_(pa.struct([("x", column)])))])
    return pa.table(
        {
            "id": [ident],
            "n": pa.array([value], column),
            "deep": pa.array([{"list": [{"x": value}]}], inner),
        }
    )


@on_disk
@pytest.mark.spark
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_wider_types_need_to_be_asked_for(target: Target, land: Land, mode: str) -> None:
    keys = {"table": "t", "mode": mode, "merge_keys": "id", "internal_columns": False}
    land(typed(pa.int32(), 7, 1), **keys)
    files = list(target.data_keys("t"))
    for refused in ({}, {"type_widening": True, "schema_evolution": "strict"}):
        with pytest.raises(SchemaConflict, match=r"int32 .* int64") as failure:
            land(typed(pa.int64(), 2**40, 2), **keys, **refused)
        assert "type_widening: true" in failure.value.hint
        assert failure.value.message.startswith(("column 'n'", "column 'deep.list.element.x'"))
    with pytest.raises(SchemaConflict, match=r"int32 .* string"):
        land(typed(pa.string(), "x", 2), **keys, type_widening=True)
    assert (target.delta("t").version(), target.data_keys("t")) == (0, files)
    if installed_build().minor < "4":
        with pytest.raises(SchemaConflict, match="widened to long, which Delta on Spark 3"):
            land(typed(pa.int64(), 2**40, 2), **keys, type_widening=True)
        assert (target.delta("t").version(), target.data_keys("t")) == (0, files)
        return
    report = land(typed(pa.int64(), 2**40, 2), **keys, type_widening=True)
    assert "typeWidening" in report.streams[0].warnings[0]
    land(typed(pa.decimal128(24, 2), Decimal("0.25"), 3), **keys, type_widening=True)
    land(typed(pa.int32(), 9, 1 if mode == "merge" else 4), **keys)
    found = {
        row["id"]: (row["n"], row["deep"]["list"][0]["x"]) for row in widened_rows(target, "t")
    }
    quarter = Decimal("0.25")
    expected = {1: (7, 7), 2: (2**40, 2**40), 3: (quarter, quarter)}
    expected |= {1: (9, 9)} if mode == "merge" else {4: (9, 9)}
    assert found == expected


def widened_rows(target: Target, table: str) -> list[dict[str, Any]]:
    """The rows of a table that delta-rs can't read: from its files, as the log names them."""
    import io

    import pyarrow.parquet as pq

    logs = [
        key
        for key in target.files.keys()  # noqa: SIM118
        if key.startswith(f"{table}/_delta_log/0") and key.endswith(".json")
    ]
    live: set[str] = set()
    features: list[str] = []
    for key in sorted(logs):
        actions = [json.loads(line) for line in target.files.read(key).splitlines()]
        live -= {action["remove"]["path"] for action in actions if "remove" in action}
        live |= {action["add"]["path"] for action in actions if "add" in action}
        for action in actions:
            features += action.get("protocol", {}).get("readerFeatures", [])
    assert "typeWidening" in features
    return [
        row
        for path in live
        for row in pq.read_table(io.BytesIO(target.files.read(f"{table}/{path}"))).to_pylist()
    ]
