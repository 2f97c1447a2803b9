"""Whatever the reads, the order of keys and the bytes: the same flushes, or a lakeport error."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import LakeportError
from lakeport.model import Flush
from lakeport.sources.input.lines import read_blocks
from lakeport.sources.singer.messages import decode_message
from tests.singer_kit import (
    ShortReads,
    described,
    lines_of,
    note_kernels,
    record,
    schema,
    source,
    state,
)

pytestmark = pytest.mark.usefixtures("fast_path")

STREAMS = ("users", "orders", 'a "b"\\', "ü")


@pytest.fixture(scope="module", autouse=True)
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        note_kernels(monkeypatch, tmp_path_factory.mktemp("spool"))
        yield


def envelope(stream: str, number: int, order: tuple[str, ...], compact: bool) -> bytes:
    message = {"type": "RECORD", "stream": stream, "record": {"id": number}, "version": 1}
    separators = (",", ":") if compact else (", ", ": ")
    return json.dumps({key: message[key] for key in order}, separators=separators).encode() + b"\n"


ORDERS = list(itertools.permutations(["type", "stream", "record", "version"]))
moves = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(STREAMS)),
        st.tuples(st.just("state"), st.integers(0, 99)),
        st.tuples(st.just("blank"), st.just(0)),
        st.tuples(st.just("schema"), st.sampled_from(STREAMS)),
        st.tuples(st.just("bad"), st.just(0)),
    ),
    max_size=60,
)


def written(moves: list[tuple[str, Any]], draw: Any = None) -> bytes:
    """The moves as lines; `draw` picks a way to write each record, None the usual one."""
    lines = [schema(stream) for stream in STREAMS]
    for number, (kind, detail) in enumerate(moves):
        if kind == "record" and draw is not None:
            order, compact = draw(st.sampled_from(ORDERS)), draw(st.booleans())
            lines.append(envelope(detail, number, order, compact))
        elif kind == "record":
            lines.append(record(number, detail))
        elif kind == "state":
            lines.append(state(detail))
        elif kind == "schema":
            lines.append(schema(detail, properties={f"c{number % 3}": {}}))
        else:
            lines.append(b"\n" if kind == "blank" else b"oops\n")
    return b"".join(lines)


def told(flushes: list[Flush]) -> list[Any]:
    """Everything that has to be equal, the names of the spool files left out."""
    return [
        (
            described(flush),
            [
                (lines_of(b), [s.end for s in b.splits], b.digest, b.reader.fields)  # type: ignore
                for b in flush.batches
            ],
            flush.state,
            flush.bad,
            flush.last,
        )
        for flush in flushes
    ]


limits = st.fixed_dictionaries(
    {
        "flush_rows": st.sampled_from([0, 1, 2, 5]),
        "flush_bytes": st.sampled_from([0, 1, 130, 500]),
        "split_bytes": st.sampled_from([1, 150, 1000]),
    }
)


@given(moves, limits, st.integers(0, 9), st.sampled_from([1, 7, 100, 5000]))
def test_reads_of_any_size_give_the_same_flushes(
    moves: list[tuple[str, Any]], limits: dict[str, int], seed: int, most: int
) -> None:
    data = written(moves)
    options: dict[str, Any] = {**limits, "digest": True, "on_bad_record": "quarantine"}
    whole = told(list(source(data, **options)))
    assert told(list(source(ShortReads(data, seed, most), **options))) == whole
    assert told(list(source(data.removesuffix(b"\n"), **options))) == whole


@given(moves, st.sampled_from([0, 1, 3]), st.data())
def test_keys_of_any_order_give_the_same_flushes(
    moves: list[tuple[str, Any]], rows: int, data: st.DataObject
) -> None:
    options: dict[str, Any] = {"flush_rows": rows, "on_bad_record": "quarantine"}
    usual = list(source(written(moves), **options))
    mixed = list(source(written(moves, data.draw), **options))
    assert [described(flush) for flush in mixed] == [described(flush) for flush in usual]
    assert [(f.state, f.bad, f.last) for f in mixed] == [(f.state, f.bad, f.last) for f in usual]


@given(moves, limits)
def test_flushes_say_what_a_plain_reading_says(
    moves: list[tuple[str, Any]], limits: dict[str, int]
) -> None:
    """A model of a dozen lines: every record once, in order, and each state behind its records."""
    data = written(moves)
    flushes = list(source(data, on_bad_record="quarantine", **limits))
    rows, size, cut, state_now = 0, 0, list[tuple[int, bytes | None]](), None
    seen = 0
    for line in data.splitlines(keepends=True):
        message = json.loads(line) if line.startswith(b"{") else {}
        if message.get("type") == "STATE":
            state_now = json.dumps(message["value"]).encode()
        if message.get("type") == "RECORD":
            rows, size, seen = rows + 1, size + len(line), seen + 1
            full_rows = limits["flush_rows"] and rows >= limits["flush_rows"]
            if full_rows or (limits["flush_bytes"] and size >= limits["flush_bytes"]):
                cut.append((seen, state_now))
                rows, size, state_now = 0, 0, None
    cut.append((seen, state_now))
    handed = itertools.accumulate(sum(b.records for b in flush.batches) for flush in flushes)
    assert list(zip(handed, (flush.state for flush in flushes), strict=True)) == cut
    for stream in STREAMS:
        batches = [b for flush in flushes for b in flush.batches if b.stream == stream]
        of_stream = [b for b in batches if b.records]
        assert [b.sequence for b in of_stream] == list(range(len(of_stream)))
        assert all(b.sequence == -1 for b in batches if not b.records)  # of a SCHEMA alone
        numbers = [line["record"]["id"] for b in of_stream for line in map(json.loads, _texts(b))]
        assert numbers == [n for n, move in enumerate(moves) if move == ("record", stream)]


def _texts(batch: Any) -> list[bytes]:
    return [text for _, text in lines_of(batch)]


VALID = written([("record", "users"), ("state", 1), ("schema", "ü"), ("record", "ü")])


@given(st.data())
def test_damaged_input_raises_lakeport_errors_only(data: st.DataObject) -> None:
    lines = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines)))
        junk = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\n", b'"', b"{", b"}", b"null"])
        )
        lines[at : at + data.draw(st.integers(0, 5))] = junk
    for policy in ("fail", "quarantine"):
        with suppress(LakeportError):
            flushes = list(source(bytes(lines), on_bad_record=policy, stray_lines="fail"))
            assert flushes[-1].last
            for flush in flushes:
                for batch in flush.batches:
                    lines_of(batch)


KEYS = ["type", "stream", "schema", "key_properties", "partition_keys", "value", "version"]
KEYS += ["encoding", "manifest", "level", "message"]
TYPES = ["SCHEMA", "BATCH", "STATE", "LOG", "ACTIVATE_VERSION"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(TYPES) | values))
def test_messages_of_any_content_raise_lakeport_errors_only(message: dict[str, Any]) -> None:
    with suppress(LakeportError):
        decode_message(json.dumps(message).encode(), 1)


@given(
    st.lists(st.integers(0, 90).map(lambda size: b"x" * size), max_size=20),
    st.integers(1, 40),
    st.sampled_from([1, 10, 50, 80]),
    st.integers(0, 9),
)
def test_lines_over_the_limit_do_not_depend_on_the_reads(
    lines: list[bytes], most: int, limit: int, seed: int
) -> None:
    data = b"\n".join(lines)
    for stream in (ShortReads(data, seed, most), io.BytesIO(data)):
        found: list[bytes] = []
        for block in read_blocks(stream, limit, 32):  # type: ignore[arg-type]
            if block.too_long is None:
                found += bytes(block.data[: block.end]).split(b"\n")[:-1]
            else:
                found.append(b"too long")
        expected = [line if len(line) <= limit else b"too long" for line in lines]
        assert found == (expected[:-1] if lines and not lines[-1] else expected)
