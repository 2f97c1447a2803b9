"""Singer lines -> flushes: what is cut where, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tracemalloc
from pathlib import Path

import pytest

from lakeport.errors import BadRecords, InputError, SourceError
from lakeport.model import Flush, UnknownPolicy
from lakeport.sources.spool import SpoolLocation, SpoolUploader
from tests.singer_kit import (
    STREAMS,
    NotedReader,
    described,
    ids,
    lines_of,
    note_kernels,
    record,
    schema,
    source,
    state,
)

pytestmark = pytest.mark.usefixtures("fast_path")


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note_kernels(monkeypatch, tmp_path)


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What lakeport logged; connections that others leave behind may say something as well."""
    return [entry for entry in caplog.records if entry.name.startswith("lakeport.")]


def scenario(name: str) -> bytes:
    return (STREAMS / f"{name}.singer").read_bytes()


def test_interleaved_streams_come_in_one_flush_with_the_latest_state() -> None:
    (flush,) = source(scenario("interleaved_streams"))
    assert described(flush) == [("users", 0, [1, 2, 3]), ("orders", 0, [10, 11])]
    assert flush.state == b'{"bookmarks": {"users": {"id": 3}, "orders": {"id": 11}}}'
    assert flush.last
    assert [number for number, _ in lines_of(flush.batches[0])] == [3, 5, 6]
    assert [number for number, _ in lines_of(flush.batches[1])] == [4, 8]


def test_keys_come_in_any_order_and_spelling() -> None:
    (flush,) = source(scenario("keys_in_any_order"))
    assert described(flush) == [("users", 0, [1, 2, 3, 4, 5])]
    assert flush.state == b'{"users": 5}'


def test_a_changed_schema_begins_a_batch_of_the_same_flush() -> None:
    tap = source(scenario("schema_changes_midstream"))
    (flush,) = tap
    assert described(flush) == [("users", 0, [1, 2]), ("users", 1, [3])]
    assert [len(batch.reader.fields) for batch in flush.batches] == [1, 2]  # type: ignore
    assert [field.name for field in flush.batches[1].reader.fields] == ["id", "name"]  # type: ignore


def test_a_state_without_records_passes_unchanged() -> None:
    (flush,) = source(scenario("state_without_records"))
    expected = b'{"bookmarks": {"users": {"at":  1.50, "id": 9007199254740993}}}'
    assert flush == Flush((), (expected,), (), last=True)


@pytest.mark.parametrize("value", [b"{}", b'{"a":  1e400}', b"null"])
def test_a_state_is_never_rewritten(value: bytes) -> None:
    (flush,) = source(b'{"type": "STATE", "value": ' + value + b"}")
    assert flush.state == value


def test_other_messages_have_no_effect_on_data(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lakeport")
    tap = source(scenario("everything_but_records"))
    (flush,) = tap
    assert (flush.state, flush.last) == (None, True)
    (batch,) = flush.batches  # the stream was declared, and that is all
    assert (batch.schema_only, batch.records, batch.sequence, batch.splits) == (True, 0, -1, ())
    assert flush.versions == {"users": 2}
    assert [(entry.levelname, entry.message.split(":")[0]) for entry in told(caplog)] == [
        ("WARNING", "slow source"),
        ("INFO", "no type"),
        ("WARNING", "line 7"),
    ]


def test_keys_are_handed_on_once_each() -> None:
    lines = schema(key_properties=["id", "id"], partition_keys=["day", "id", "day"]) + record(1)
    (flush,) = source(lines, unknown_fields=UnknownPolicy.DROP, max_record_mb=7)
    (batch,) = flush.batches
    assert (batch.key_properties, batch.partition_keys) == (("id",), ("day", "id"))
    reader = batch.reader
    assert isinstance(reader, NotedReader)
    assert (reader.stream, reader.envelope, reader.max_record_mb) == ("users", True, 7)
    assert (reader.unknown, reader.key_properties) == (UnknownPolicy.DROP, ("id",))


@pytest.mark.parametrize("absent", [{}, {"partition_keys": None, "key_properties": None}])
def test_absent_keys_are_none(absent: dict[str, None]) -> None:
    (flush,) = source(schema(**absent) + record(1))
    assert (flush.batches[0].key_properties, flush.batches[0].partition_keys) == ((), ())


def test_empty_input_gives_one_empty_last_flush() -> None:
    assert list(source(b"")) == [Flush((), last=True)]


def test_byte_order_mark_crlf_blank_and_unended_lines() -> None:
    (flush,) = source(scenario("byte_order_mark_and_crlf"))
    assert [number for number, _ in lines_of(flush.batches[0])] == [2, 4]
    assert ids(flush.batches[0]) == [1, 2]


def test_a_flush_is_cut_behind_the_line_that_reaches_the_rows() -> None:
    lines = schema() + b"".join(map(record, range(7))) + state(7)
    flushes = list(source(lines, flush_rows=3))
    assert [ids(flush.batches[0]) for flush in flushes] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [flush.batches[0].sequence for flush in flushes] == [0, 1, 2]
    assert [flush.last for flush in flushes] == [False, False, True]


def test_a_flush_is_cut_behind_the_line_that_reaches_the_bytes() -> None:
    size = len(record(0))
    lines = schema() + b"".join(map(record, range(9)))
    exact, over = source(lines, flush_bytes=3 * size), source(lines, flush_bytes=3 * size - 1)
    more = source(lines, flush_bytes=3 * size + 1)
    assert [len(f.batches[0].splits) and ids(f.batches[0]) for f in list(exact)[:3]] == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7, 8],
    ]
    assert ids(next(iter(over)).batches[0]) == [0, 1, 2]
    assert ids(next(iter(more)).batches[0]) == [0, 1, 2, 3]


def test_limits_count_all_streams_together() -> None:
    lines = schema("a") + schema("b")
    lines += record(1, "a") + record(2, "b") + record(3, "a") + record(4, "b")
    first, second, last = source(lines, flush_rows=2)
    assert described(first) == [("a", 0, [1]), ("b", 0, [2])]
    assert described(second) == [("a", 1, [3]), ("b", 1, [4])]
    assert last == Flush((), last=True)


def test_a_state_behind_the_cut_belongs_to_the_next_flush() -> None:
    lines = schema() + state(0) + record(1) + record(2) + state(2) + record(3) + state(3)
    first, last = source(lines, flush_rows=2)
    assert (first.state, last.state) == (b"0", b"3")
    first, last = source(schema() + record(1) + state(1), flush_rows=1)
    assert (first.state, last) == (None, Flush((), (b"1",), last=True))


def test_the_last_bookmark_of_each_stream_goes_out() -> None:
    """A tap may tell each stream's bookmark in a STATE of its own."""
    values = [{"bookmarks": {"a": 1}}, {"bookmarks": {"a": 2}}, {"bookmarks": {"b": 1}}, {}]
    (flush,) = source(b"".join(map(state, values)))
    assert list(map(json.loads, flush.states)) == values[1:]
    whole = {"bookmarks": {"a": 3, "b": 1}}
    (flush,) = source(b"".join(map(state, [*values, whole])))
    assert list(map(json.loads, flush.states)) == [whole]


def test_an_overwrite_has_one_flush() -> None:
    lines = schema() + b"".join(map(record, range(9)))
    (flush,) = source(lines, flush_rows=2, flush_bytes=10, mode="overwrite")
    assert ids(flush.batches[0]) == list(range(9))


def test_a_batch_has_files_of_about_the_split_size() -> None:
    size = len(record(0))
    lines = schema() + b"".join(map(record, range(10)))
    (flush,) = source(lines, split_bytes=3 * size)
    assert [split.end // size for split in flush.batches[0].splits] == [3, 3, 3, 1]
    assert ids(flush.batches[0]) == list(range(10))


def test_a_digest_tells_the_lines_only() -> None:
    lines = [record(i) for i in range(10)]
    whole = b"".join(lines)
    expected = hashlib.sha256(whole).hexdigest()
    for split_bytes in (1, 100, 1 << 20):
        (flush,) = source(schema() + state(1) + whole, split_bytes=split_bytes, digest=True)
        assert flush.batches[0].digest == expected
    (flush,) = source(schema() + whole)
    assert flush.batches[0].digest == ""


def test_landed_batches_leave_nothing_on_disk(tmp_path: Path) -> None:
    tap = source(schema() + record(1) + record(2), under=tmp_path, split_bytes=1)
    (flush,) = tap
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4
    uploader = SpoolUploader(SpoolLocation(tmp_path))
    uploader.discard(flush)
    uploader.discard(flush)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_progress_is_told_per_stream() -> None:
    told: list[tuple[str, int, int]] = []
    tap = source(
        schema("a") + schema("b") + record(1, "a"),
        on_progress=lambda *moved: told.append(moved),
    )
    list(tap)
    assert told == [("a", 1, len(record(1, "a")))]
    assert tap.counts == {"a": 1, "b": 0}
    assert tap.lines == 3


BAD = {
    b"Traceback (most recent call last):": "not a JSON object",
    b"[]": "not a JSON object",
    b'{"stream": "users", "record": {"id": 2}}': "without `type`",
    b"{}": "without `type`",
    b'{"type": 5}': "not a message",
    b'{"type": "RECORD", "record": {}}': "without a `stream`",
    b'{"type": "RECORD", "stream": "x", "record": {"id": 1}}': "before its stream's SCHEMA",
    b'{"type": "STATE"}': "STATE without a `value`",
    b'{"type": "STATE", "value": {"a": "\xff"}}': "not UTF-8",
    b'{"type": "STA': "cut off",
    b'{"type": "STATE", "value": 1} {': "not valid JSON",
    b'{"type": "\xff"}': "not UTF-8",
    b'{"a": "\xff", "b": tru}': "not UTF-8",
    b'{"record": ' + b"[" * 300_000 + b"]" * 300_000 + b', "type": "RECORD"}': "too deeply",
    b'{"type": "ACTIVATE_VERSION", "stream": "users"}': "ACTIVATE_VERSION without",
}


@pytest.mark.parametrize("line", BAD, ids=list(BAD.values()))
def test_a_line_that_is_no_message_ends_the_run_at_once(line: bytes) -> None:
    tap = iter(source(schema() + record(1) + line + b"\n" + record(2)))
    with pytest.raises(BadRecords, match="line 3") as failure:
        next(tap)
    assert BAD[line] in failure.value.message
    assert failure.value.records[0].raw == line


@pytest.mark.parametrize("line", BAD, ids=list(BAD.values()))
def test_a_line_that_is_no_message_is_set_aside(line: bytes) -> None:
    lines = schema() + record(1) + line + b"\n" + record(2) + state(2)
    tap = source(lines, on_bad_record="quarantine")
    (flush,) = tap
    assert ids(flush.batches[0]) == [1, 2]
    assert flush.state == b"2"
    (bad,) = flush.bad
    assert (bad.line, bad.raw) == (3, line)
    assert BAD[line] in bad.reason


def test_flushes_before_a_bad_line_are_handed_out() -> None:
    tap = iter(source(schema() + record(1) + b"oops\n", flush_rows=1))
    assert ids(next(tap).batches[0]) == [1]
    with pytest.raises(BadRecords):
        next(tap)


def test_a_cut_off_last_line_names_its_stream_and_line() -> None:
    with pytest.raises(BadRecords, match="'users', line 4: the last line is incomplete") as failure:
        list(source(scenario("cut_off_last_line")))
    assert '"na' not in failure.value.message


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"\\ud800"', "00", '"\\x"'])
def test_records_that_only_a_kernel_can_check_reach_it(value: str) -> None:
    bad = f'{{"type": "RECORD", "stream": "users", "record": {{"id": {value}}}}}\n'.encode()
    (flush,) = source(schema() + record(1) + bad + record(2))
    assert [line for _, line in lines_of(flush.batches[0])][1] == bad.strip()


def test_odd_json_in_an_odd_order_still_finds_its_stream() -> None:
    bad = b'{"record": {"id": NaN}, "type": "RECORD", "stream": "users"}\n'
    (flush,) = source(schema() + bad)
    assert flush.batches[0].records == 1


def test_stray_lines_can_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lakeport")
    tap = source(schema() + b"x" * 500 + b"\x1b\n" + record(1), stray_lines="skip")
    (flush,) = tap
    assert ids(flush.batches[0]) == [1]
    assert tap.stray_lines_skipped == 1
    assert [entry.message for entry in told(caplog)] == ["Unable to parse: " + "x" * 80]


def test_a_line_over_the_limit_is_refused_and_what_follows_is_read() -> None:
    limit = 1 << 20
    fits = b'{"type": "STATE", "value": "' + b"x" * (limit - 30) + b'"}'
    assert len(fits) == limit
    (flush,) = source(fits, max_record_mb=1)
    assert len(flush.state or b"") == limit - 28
    long = b'{"type": "RECORD", "stream": "users", "record": {"id": "' + b"x" * limit + b'"}}\n'
    with pytest.raises(BadRecords, match="line 2: longer than the limit of 1 MB"):
        list(source(schema() + long, max_record_mb=1))
    for lines in (long + record(1), long + long + record(1)):
        (flush,) = source(schema() + lines, max_record_mb=1, on_bad_record="quarantine")
        assert ids(flush.batches[0]) == [1]
        assert all(len(bad.raw) == 4096 for bad in flush.bad)
        assert len(flush.bad) == lines.count(b"\n") - 1
    (flush,) = source(long * 3 + long[:-1], max_record_mb=1, on_bad_record="quarantine")
    assert [bad.line for bad in flush.bad] == [1, 2, 3, 4]


def test_a_line_may_be_longer_than_the_usual_buffer() -> None:
    long = (
        b'{"type": "RECORD", "stream": "users", "record": {"id": "' + b"x" * (20 << 20) + b'"}}\n'
    )
    (flush,) = source(schema() + record(1) + long + record(2), flush_bytes=1 << 30)
    assert flush.batches[0].records == 3
    assert flush.batches[0].bytes == len(long) + 2 * len(record(1))


SCHEMAS = {
    b'{"type": "SCHEMA", "schema": {"properties": {}}}': "without a `stream`",
    b'{"type": "SCHEMA", "stream": "users"}': "has no `schema`",
    b'{"type": "SCHEMA", "stream": "users", "schema": null}': "line 2: SCHEMA of stream 'users'",
    b'{"type": "SCHEMA", "stream": "users", "schema": {"properties": []}}': "not an object",
    b'{"type": "SCHEMA", "stream": "u", "schema": {}, "key_properties": "id"}': "key_properties",
    b'{"type": "SCHEMA", "stream": "u", "schema": {"type": "object"}}': "properties",
}


@pytest.mark.parametrize("policy", ["fail", "quarantine"])
@pytest.mark.parametrize("line", SCHEMAS, ids=list(SCHEMAS.values()))
def test_a_schema_that_cannot_be_used_ends_the_run(line: bytes, policy: str) -> None:
    with pytest.raises(InputError, match="line 2") as failure:
        list(source(b"\n" + line, on_bad_record=policy))
    assert SCHEMAS[line] in failure.value.message


def test_bad_lines_held_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.sources.singer.singer_source._MAX_HELD_BAD", 1000)
    flushes = list(source(b"oops\n" * 10, on_bad_record="quarantine"))
    assert [len(flush.bad) for flush in flushes] == [4, 4, 2]
    with pytest.raises(BadRecords, match="and 3 more"):
        list(source(b"oops\n" * 10, on_bad_record="quarantine", mode="overwrite"))


class Endless(io.RawIOBase):
    """A tap of many records that nobody holds in memory."""

    def __init__(self, block: bytes, times: int) -> None:
        self._head, self._block, self._times = schema() + schema("orders"), block, times

    def readinto1(self, buffer: memoryview) -> int:
        if self._head:
            got, self._head = self._head, b""
        else:
            got, self._times = self._block if self._times else b"", max(0, self._times - 1)
        buffer[: len(got)] = got
        return len(got)


def test_memory_does_not_grow_with_the_input() -> None:
    block = (record(1) * 90 + record(2, "orders") * 10) * 20
    list(source(Endless(block, 1)))  # what is imported at the first use is no part of it
    peaks = []
    for times in (30, 90):
        tracemalloc.start()
        (flush,) = source(Endless(block, times), flush_bytes=1 << 40)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert [batch.records for batch in flush.batches] == [1800 * times, 200 * times]
    assert max(peaks) < 16 << 20
    assert peaks[1] < peaks[0] * 1.2


def test_more_ways_to_write_a_message_than_are_remembered() -> None:
    lines = b"".join(record(i).replace(b'"users"', b" " * i + b'"users"') for i in range(600))
    (flush,) = source(schema() + lines)
    assert ids(flush.batches[0]) == list(range(600))


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="can't spool the input to") as failure:
        list(source(schema() + record(1), spool_dir=tmp_path / "gone"))
    assert "spool_dir" in failure.value.hint


def test_byte_order_marks_before_any_line_are_left_out() -> None:
    mark = b"\xef\xbb\xbf"
    lines = [schema(), record(1), record(2), state({"at": 2}), schema(), record(3)]
    (flush,) = source(b"".join(mark + line for line in lines))
    assert described(flush) == [("users", 0, [1, 2, 3])]
    assert flush.state == b'{"at": 2}'


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_long_runs_of_a_plain_file_stay_where_they_are(tmp_path: Path, head: bytes) -> None:
    """The flushes are the same as from a pipe, whatever stands between the runs."""
    long = [record(f"{i:01000}") for i in range(12_000)]  # about 12 MB
    long[7000:7000] = [state({"at": 7000})]
    lines = [schema("users"), *long[:50], schema("orders"), record(1, "orders"), *long[50:]]
    text = head + b"".join(lines)[:-1]  # the last line lacks its newline
    file = tmp_path / "tap.singer"
    file.write_bytes(text)
    sizes = {"flush_bytes": 7 << 20, "split_bytes": 3 << 20, "digest": True}
    piped = list(source(text, **sizes))
    with file.open("rb") as opened:
        placed = list(source(opened, origin=file, **sizes))
    told = [[(b.stream, b.records, b.bytes, b.digest) for b in f.batches] for f in piped]
    assert [[(b.stream, b.records, b.bytes, b.digest) for b in f.batches] for f in placed] == told
    for one, other in zip(piped, placed, strict=True):
        assert [lines_of(b) for b in one.batches] == [lines_of(b) for b in other.batches]
        assert one.state == other.state
    splits = [split for flush in placed for batch in flush.batches for split in batch.splits]
    inside = sum(split.end - split.start for split in splits if split.uri == str(file))
    assert inside > 0.5 * len(text)
    for flush in placed:
        SpoolUploader(SpoolLocation(tmp_path)).discard(flush)
    assert file.read_bytes() == text
    assert all(not Path(split.uri).exists() for split in splits if split.lines)


def test_behind_a_line_beyond_the_limit_everything_is_spooled(tmp_path: Path) -> None:
    long = [record(f"{i:01000}") for i in range(9000)]
    file = tmp_path / "tap.singer"
    file.write_bytes(b"".join([schema("users"), record("y" * 2_000_000), *long]))
    with file.open("rb") as opened:
        (flush,) = source(
            opened, origin=file, max_record_mb=1, on_bad_record="quarantine", flush_bytes=1 << 30
        )
    assert [number for number, _ in lines_of(flush.batches[0])] == list(range(3, 9003))
