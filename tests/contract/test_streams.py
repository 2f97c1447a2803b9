"""Streams, batches, state, and what happens between them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import ConfigError, InputError, LakeportError, RunMismatch, UnknownFields
from tests.contract.conftest import Land
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

USERS = schema("users", {"id": INTEGER, "name": STRING}, "id")
ORDERS = schema("orders", {"id": INTEGER})


def people(*ids: int) -> list[dict[str, Any]]:
    return records("users", [{"id": i, "name": f"n{i}"} for i in ids])


def test_rows_land_once_and_the_report_says_so(target: Target, land: Land) -> None:
    report = land(singer(USERS, *people(1, 2, 3)))
    assert target.ids("users") == [1, 2, 3]
    (stream,) = report.streams
    assert (stream.stream, stream.rows, stream.batches) == ("users", 3, 1)


def test_interleaved_streams_each_have_a_table(target: Target, land: Land) -> None:
    lines: list[Any] = [USERS, ORDERS]
    for i in range(50):
        lines += [*people(i), record("orders", id=i)]
    land(singer(*lines))
    assert target.ids("users") == target.ids("orders") == list(range(50))


def test_appending_twice_keeps_both(target: Target, land: Land) -> None:
    land(singer(USERS, *people(1)))
    land(singer(USERS, *people(2)))
    assert target.ids("users") == [1, 2]


def test_many_batches_in_one_second_lose_nothing(target: Target, land: Land) -> None:
    land(singer(USERS, *people(*range(12))), maximum_batch_rows=3)
    assert target.ids("users") == list(range(12))


def test_state_goes_out_unchanged_and_after_everything_before_it(
    target: Target, land: Land
) -> None:
    odd = b'{"type": "STATE", "value": {"b":  [1, 2.50], "\\u00e9": null}}'
    states: list[bytes] = []
    land(singer(USERS, *people(1), state(users=1), *people(2), odd), states=states)
    assert states[-1] == b'{"b":  [1, 2.50], "\\u00e9": null}'
    assert target.ids("users") == [1, 2]


@pytest.mark.before_the_store
def test_a_state_without_records_goes_out_too(land: Land) -> None:
    states: list[bytes] = []
    land(singer(state(users=5)), states=states)
    assert [json.loads(s) for s in states] == [{"bookmarks": {"users": 5}}]


@pytest.mark.before_the_store
def test_empty_input_lands_nothing(target: Target, land: Land) -> None:
    report = land(b"")
    assert report.rows == 0
    assert not [key for key in target.files.keys() if not key.startswith("_lakeport/")]  # noqa: SIM118


def test_a_stream_without_records_leaves_no_object(target: Target, land: Land) -> None:
    land(singer(USERS))
    assert target.rows("users") == []


def test_the_same_run_repeated_adds_nothing(target: Target, land: Land) -> None:
    lines = singer(USERS, *people(*range(10)), state(users=9))
    first = land(lines, run_id="nightly/2024-03-04", maximum_batch_rows=4)
    states: list[bytes] = []
    again = land(lines, run_id="nightly/2024-03-04", maximum_batch_rows=4, states=states)
    assert target.ids("users") == list(range(10))
    assert (first.rows, again.rows) == (10, 0)
    assert json.loads(states[-1]) == {"bookmarks": {"users": 9}}


def test_the_same_run_with_other_content_is_refused(target: Target, land: Land) -> None:
    land(singer(USERS, *people(1)), run_id="r")
    with pytest.raises(RunMismatch, match=r"run 'r' .* batch 0 of .*'users'"):
        land(singer(USERS, *people(2)), run_id="r")
    assert target.ids("users") == [1]


def test_another_run_adds_its_rows(target: Target, land: Land) -> None:
    land(singer(USERS, *people(1)), run_id="a")
    land(singer(USERS, *people(1)), run_id="b")
    assert target.ids("users") == [1, 1]


BAD = {
    "cut off": b'{"type": "RECORD", "stream": "users", "record": {"id": 2, "na',
    "wrong type": b'{"type": "RECORD", "stream": "users", "record": {"id": "two"}}',
    "not an object": b'{"type": "RECORD", "stream": "users", "record": [1]}',
    "no record": b'{"type": "RECORD", "stream": "users"}',
    "no type": b'{"stream": "users", "record": {"id": 2}}',
    "not JSON": b"Traceback (most recent call last):",
    "not UTF-8": b'{"type": "RECORD", "stream": "users", "record": {"id": 2, "name": "\xff"}}',
    "before its schema": b'{"type": "RECORD", "stream": "nobody", "record": {"id": 2}}',
    "over 64 bit": b'{"type": "RECORD", "stream": "users", "record": {"id": 9223372036854775808}}',
    "NaN": b'{"type": "RECORD", "stream": "users", "record": {"id": NaN}}',
    "duplicate key": b'{"type": "RECORD", "stream": "users", "record": {"id": 2, "id": 3}}',
    "deep": b'{"type": "RECORD", "stream": "users", "record": {"id": 2, "name": '
    + b"[" * 10_000
    + b"]" * 10_000
    + b"}}",
    "no key": b'{"type": "RECORD", "stream": "users", "record": {"name": "x"}}',
}


@pytest.mark.before_the_store
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_record_fails_the_run_and_nothing_lands(
    target: Target, land: Land, kind: str
) -> None:
    states: list[bytes] = []
    lines = singer(USERS, *people(1), BAD[kind], *people(3), state(users=3))
    with pytest.raises(LakeportError, match="line 3") as failure:
        land(lines, states=states)
    assert failure.value.exit_code != 0
    assert not target.exists("users")
    assert states == []


def test_bad_records_are_set_aside_with_their_reasons(target: Target, land: Land) -> None:
    lines = singer(USERS, *people(1), *BAD.values(), *people(3), state(users=3))
    states: list[bytes] = []
    report = land(lines, on_bad_record="quarantine", run_id="q", states=states)
    assert target.ids("users") == [1, 3]
    assert report.rejected == len(BAD)
    assert len(states) == 1
    kept = [
        json.loads(line)
        for key in target.files.keys()  # noqa: SIM118
        if key.startswith("_lakeport/quarantine/")
        for line in target.files.read(key).splitlines()
    ]
    assert sorted(bad["line"] for bad in kept) == list(range(3, 3 + len(BAD)))
    assert all(bad["run_id"] == "q" and bad["reason"] for bad in kept)


@pytest.mark.before_the_store
def test_too_many_bad_records_fail_the_run(target: Target, land: Land) -> None:
    lines = singer(USERS, *people(1), BAD["wrong type"], BAD["wrong type"])
    with pytest.raises(InputError):
        land(lines, on_bad_record="quarantine", max_bad_records=1)
    assert not target.exists("users")


@pytest.mark.before_the_store
def test_undeclared_fields_become_columns(target: Target, land: Land) -> None:
    rows = [
        {"id": 1, "flag": True, "count": 2, "share": 1, "text": "a", "tree": {"k": [1]}},
        {"id": 2, "share": 0.5, "text": 5, "count": None},
    ]
    land(singer(USERS, *records("users", rows)))
    first, second = sorted(target.rows("users"), key=lambda row: int(row["id"]))
    expected = {"flag": True, "count": 2, "share": 1.0, "text": "a"}
    for name, value in expected.items():
        assert first[name] == target.expected(value)
    assert json.loads(first["tree"]) == {"k": [1]}
    assert second["text"] == "5"
    assert second["flag"] is None


@pytest.mark.before_the_store
def test_undeclared_fields_stay_columns_of_the_run(target: Target, land: Land) -> None:
    rows = [{"id": 1, "extra": 1}, {"id": 2}, {"id": 3, "extra": 3}]
    land(singer(USERS, *records("users", rows)), maximum_batch_rows=1)
    found = {int(row["id"]): row.get("extra") for row in target.rows("users")}
    assert found == {1: target.expected(1), 2: None, 3: target.expected(3)}


@pytest.mark.before_the_store
def test_an_undeclared_field_keeps_its_type_and_what_breaks_it_is_set_aside(
    target: Target, land: Land
) -> None:
    rows = [{"id": 1, "extra": 1}, {"id": 2, "extra": "two"}]
    lines = singer(USERS, *records("users", rows))
    report = land(lines, maximum_batch_rows=1, on_bad_record="quarantine")
    assert target.ids("users") == [1]
    assert report.rejected == 1


@pytest.mark.before_the_store
def test_undeclared_fields_can_be_dropped_and_are_counted(target: Target, land: Land) -> None:
    rows = [{"id": 1, "extra": 1}, {"id": 2}, {"id": 3, "extra": 3}]
    report = land(singer(USERS, *records("users", rows)), unknown_fields="drop")
    assert "extra" not in target.rows("users")[0]
    assert report.streams[0].dropped == {"extra": 2}


@pytest.mark.before_the_store
@pytest.mark.parametrize("on_bad", ["fail", "quarantine"])
def test_undeclared_fields_can_fail_the_run(target: Target, land: Land, on_bad: Any) -> None:
    lines = singer(USERS, *records("users", [{"id": 1, "extra": 1}]))
    with pytest.raises(UnknownFields, match="extra"):
        land(lines, unknown_fields="fail", on_bad_record=on_bad)
    assert not target.exists("users")


def test_a_schema_that_grows_in_mid_stream(target: Target, land: Land) -> None:
    wider = schema("users", {"id": INTEGER, "name": STRING, "age": {"type": ["null", "integer"]}})
    land(singer(USERS, *people(1), wider, record("users", id=2, name="n2", age=40)))
    first, second = sorted(target.rows("users"), key=lambda row: int(row["id"]))
    assert first.get("age") is None
    assert second["age"] == target.expected(40)


@pytest.mark.before_the_store
def test_one_table_name_for_two_streams_is_refused(target: Target, land: Land) -> None:
    lines = singer(USERS, *people(1), ORDERS, record("orders", id=1))
    with pytest.raises(ConfigError, match="orders"):
        land(lines, table="one")
    land(singer(USERS, *people(1), ORDERS, record("orders", id=1)), table="raw_{stream}")
    assert target.ids("raw_users") == target.ids("raw_orders") == [1]


@pytest.mark.before_the_store
def test_a_stream_s_name_never_leaves_the_root(target: Target, land: Land) -> None:
    names = ["../up", "a/b", "..", "_delta_log", "sp ace", "ünï", "%2e%2e"]
    land(singer(*(line for name in names for line in one_record(name))))
    data = [k for k in target.files.keys() if not k.startswith("_lakeport/")]  # noqa: SIM118
    tables = {key.split("/")[0] for key in data}
    assert len(tables) == len(names)
    assert tables.isdisjoint({"..", "_delta_log", "", "up"})


def one_record(stream: str) -> list[dict[str, Any]]:
    return [schema(stream, {"id": INTEGER}), record(stream, id=1)]


def test_a_prefix_in_front_of_the_tables(target: Target, land: Land) -> None:
    land(singer(USERS, *people(1)), object_key_path="/raw//crm/")
    assert target.ids("raw/crm/users") == [1]


@pytest.mark.before_the_store
def test_record_metadata_of_messages_batches_and_deletes(
    target: Target, land: Land, tmp_path: Path
) -> None:
    before = datetime.now(UTC)
    told = {"time_extracted": "2024-05-06T07:08:09.1+02:00", "version": 3}
    deleted = record("users", id=2, _sdc_deleted_at="2024-05-06T00:00:00Z")
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": 3, "name": "c"}\n')
    encoding = {"format": "jsonl", "compression": "none"}
    batch = {"type": "BATCH", "stream": "users", "encoding": encoding, "manifest": [str(more)]}
    lines = singer(USERS, {**record("users", id=1), **told}, deleted, batch)
    land(lines, add_record_metadata=True, batch_roots=[str(tmp_path)])
    after = datetime.now(UTC)

    rows = sorted(target.rows("users"), key=lambda row: int(row["id"]))
    extracted, gone = datetime(2024, 5, 6, 5, 8, 9, 100_000, UTC), datetime(2024, 5, 6, tzinfo=UTC)
    told_of = [(extracted, 3, None), (None, None, gone), (None, None, None)]
    for row, expected in zip(rows, told_of, strict=True):
        names = ("_sdc_extracted_at", "_sdc_table_version", "_sdc_deleted_at")
        assert [row[name] for name in names] == [target.expected(value) for value in expected]
        started, sequence = int(row["_sdc_sync_started_at"]), int(row["_sdc_sequence"])
        assert int(before.timestamp() * 1000) <= started <= sequence <= after.timestamp() * 1000
        low, high = target.expected(before), target.expected(after)
        assert low <= row["_sdc_batched_at"] <= row["_sdc_received_at"] <= high
    with pytest.raises(ConfigError, match="add_record_metadata"):
        land(pa.table({"id": [1]}), table="other", add_record_metadata=True)
