"""Section 3: Singer messages, through the classes' `process`."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import BadRecords
from tests.mage.conftest import Place, record, schema, singer, state

INTEGER = {"type": ["null", "integer"]}
ARRAY = {"type": ["null", "array"], "items": {"type": "integer"}}
USERS = schema({"id": INTEGER})


def test_what_is_no_message_is_passed_over_and_what_is_one_is_landed(
    s3: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stray lines, null, arrays, logs; a schema that changes; STATE of every shape, unchanged."""
    value = {"currently_syncing": "users", "bookmarks": {"users": {"at": 1}}, "other": [1]}
    states = s3.land(
        b"Starting sync",
        b"[1, 2]",
        b"null",
        b"",
        {"level": "INFO", "message": "from the tap"},
        {"type": "LOG", "level": "ERROR", "message": "not ours"},
        state({"at": 0}),
        USERS,
        {"type": "ACTIVATE_VERSION", "stream": "users", "version": 3},
        record(id=1, version=3, time_extracted="2024-01-01T00:00:00Z"),
        schema({"id": INTEGER, "list": ARRAY}),
        record(id=2, list="[1, 2]"),
        record(id=3, list=None),
        state(value),
    )
    assert states == [value]
    assert sorted(row[0] for row in s3.rows("id")) == [1, 2, 3]
    lists = {row["id"]: row["list"] for row in s3.arrow().to_pylist()}
    assert lists == {1: None, 2: [1, 2], 3: None}
    errors = capfd.readouterr().err
    assert "Unable to parse: Starting sync" in errors


def test_a_state_alone_goes_out(s3: Place) -> None:
    assert s3.land(USERS, state({"bookmarks": {"gone": {"at": 2}}})) == [
        {"bookmarks": {"gone": {"at": 2}}}
    ]
    each = [{"bookmarks": {"users": {"at": 2}}}, {"bookmarks": {"orders": {"at": 3}}}]
    assert s3.land(USERS, *map(state, each)) == each
    assert s3.data_keys() == []


def test_a_stream_that_fails_holds_every_state_behind_it_back(s3: Place, tmp_path: Path) -> None:
    """A bookmark of the failed stream can't leave through another one's, nor into the file."""
    file = tmp_path / "state.json"
    file.write_text('{"bookmarks": {"kept": 1}}')
    lines = singer(
        USERS,
        record(id=1),
        state({"bookmarks": {"users": {"at": 1}}}),
        record(id="no number"),
        state({"bookmarks": {"users": {"at": 2}, "orders": {"at": 2}}}),
    )
    made = type(s3.made())(
        config={**s3.config, "maximum_batch_rows": 1}, state_file_path=file, batch_processing=True
    )
    with pytest.raises(BadRecords, match="line 4, column 'id'"):
        made.process(io.BytesIO(lines))
    assert json.loads(file.read_text()) in (
        {"bookmarks": {"kept": 1}},
        {"bookmarks": {"kept": 1, "users": {"at": 1}}},
    )


def test_no_error_hides_another(s3: Place, capfd: pytest.CaptureFixture[str]) -> None:
    more = schema({"id": INTEGER}, "orders", partition_keys=None)
    wrong = [record(id="a"), record("orders", id="b")]
    with pytest.raises(BadRecords):
        s3.land(USERS, more, *wrong, table=None)
    errors = capfd.readouterr().err
    assert "stream 'users', line 3" in errors and "stream 'orders', line 4" in errors


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([record(id=1)], "before its stream's SCHEMA"),
        ([USERS, {"type": "STATE"}], "STATE without a `value`"),
        ([USERS, {"stream": "users"}], "without `type`"),
        ([USERS, b'{"type": "RECORD", "stream": "users", "rec'], "cut off"),
    ],
)
def test_a_broken_message_is_a_bad_record(s3: Place, lines: list[Any], reason: str) -> None:
    with pytest.raises(BadRecords, match=reason):
        s3.land(*lines)


def test_records_of_a_call_are_judged_by_the_schema_that_went_by(s3: Place) -> None:
    """`export_batch_data`: by `process`, `process_schema` and by rules where nothing is known."""
    made = s3.made(table=None)
    made.process(io.BytesIO(singer(USERS, record(id=1))))
    made.export_batch_data([{"record": {"id": 2}, "stream": "users"}], "users", {"records": 1})
    with pytest.raises(BadRecords, match="column 'id'"):
        made.export_batch_data([{"id": "x"}], "users")
    made.process_schema("orders", {"properties": {"at": {"type": "string", "format": "date-time"}}})
    made.export_batch_data([{"at": datetime(2024, 3, 4, tzinfo=UTC)}], "orders")
    made.export_batch_data([{"n": 1, "m": True}, {"n": 2.5, "m": "text"}], "free")
    assert made.export_batch_data([], "users") is None
    assert s3.arrow().num_rows == 5
    found = s3.arrow().to_pylist()
    assert sorted(row["id"] for row in found if row.get("id")) == [1, 2]
    assert [row["at"] for row in found if row.get("at")] == [datetime(2024, 3, 4, tzinfo=UTC)]
    assert [(row["n"], row["m"]) for row in found if row.get("n")] == [(1.0, "true"), (2.5, "text")]
