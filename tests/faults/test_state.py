"""STATE on its way out: in order, never ahead of the data, and what if nobody takes it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import lakeport
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import LakeportError
from tests.contract.targets import record, schema, singer, state
from tests.faults.conftest import IN_DELTA, Command
from tests.faults.kit import INTEGER, Lake, land, started, users

SIZES = ("--set", "maximum_batch_rows=10")


@pytest.mark.by_threads
@IN_DELTA
def test_the_reader_of_state_has_gone(lake: Lake, command: Command) -> None:
    """The load stops behind the batch whose STATE nobody took, with an error; repeat it."""
    with started(*land(lake, *SIZES, "--run-id", "r"), follow=False) as process:
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        process.feed(users(100, 5))
        assert process.popen.stderr is not None
        words = process.popen.stderr.read().decode()
        assert process.end() == 5, words
    assert "STATE could not be written" in words
    assert "Traceback" not in words
    ids = lake.ids()
    assert ids == list(range(len(ids)))
    assert 10 <= len(ids) < 100
    assert lake.staged() == []
    found = command(*land(lake, *SIZES, "--run-id", "r"), given=users(100, 5))
    assert found.code == 0, found.err
    assert lake.ids() == list(range(100))
    assert found.states[-1] == {"bookmarks": {"users": 100}}


@pytest.mark.usefixtures("engine_of_kills")
def test_no_state_at_all(lake: Lake, command: Command) -> None:
    found = command(*land(lake, *SIZES), given=users(25))
    assert (found.code, found.out) == (0, []), found.err
    assert lake.ids() == list(range(25))


@pytest.mark.usefixtures("engine_of_kills")
@pytest.mark.parametrize("end", [b'"reco', b'"record": {"id": 24', b'"record": {"id": 24}'])
def test_a_tap_that_dies_within_a_line(lake: Lake, command: Command, end: bytes) -> None:
    lines = users(24, 5) + b'{"type": "RECORD", "stream": "users", ' + end
    found = command(*land(lake, *SIZES), given=lines)
    assert found.code == 3, found.err
    last = len(lines.splitlines())
    assert f"line {last}" in found.err
    assert lake.ids() == list(range(20))
    assert found.states[-1] == {"bookmarks": {"users": 15}}
    assert lake.staged() == []


@pytest.mark.usefixtures("engine_of_kills")
def test_a_tap_that_dies_behind_a_record_s_brace(lake: Lake, command: Command) -> None:
    """A last line that is whole and only lacks its newline is data."""
    found = command(*land(lake), given=users(24).removesuffix(b"\n"))
    assert found.code == 0, found.err
    assert lake.ids() == list(range(24))


STREAMS = ("left", "middle", "right")


@pytest.mark.usefixtures("engine_of_kills")
@IN_DELTA
def test_states_of_many_streams_over_many_flushes(spark: DriverSession, lake: Lake) -> None:
    """Each STATE finds everything before it in the tables at the moment in which it goes out."""
    lines: list[Any] = [schema(name, {"id": INTEGER}) for name in STREAMS]
    for number in range(40):
        for place, name in enumerate(STREAMS):
            if number % (place + 1) == 0:  # streams of different speed
                lines.append(record(name, id=number))
            if (number + place) % 3 == 0:
                lines.append(state(seen={each: _count(lines, each) for each in STREAMS}))
    lines.append(state(seen={each: _count(lines, each) for each in STREAMS}))
    out: list[dict[str, int]] = []

    def check(value: bytes) -> None:
        seen = json.loads(value)["bookmarks"]["seen"]
        for name in STREAMS:
            assert len(lake.rows(name)) >= seen[name]
        out.append(seen)

    lakeport.land(
        io.BytesIO(singer(*lines)),
        lake.root,
        file_type=lake.format,
        maximum_batch_rows=15,
        on_state=check,
    )
    assert len(out) >= 4
    assert out == sorted(out, key=lambda seen: [seen[name] for name in STREAMS])
    assert out[-1] == lines[-1]["value"]["bookmarks"]["seen"]
    for name in STREAMS:
        assert len(lake.rows(name)) == _count(lines, name)


def test_no_state_goes_out_behind_a_stream_that_failed(spark: DriverSession, lake: Lake) -> None:
    """One stream's bad record holds the STATE of all, though the others may have landed."""
    lines = [schema(name, {"id": INTEGER}) for name in STREAMS]
    lines += [record(name, id=1) for name in STREAMS]
    lines += [state(at=1), *(record(name, id=2) for name in STREAMS)]
    lines += [record("middle", id="not a number"), state(at=2)]
    out: list[Any] = []
    with pytest.raises(LakeportError, match="middle"):
        lakeport.land(
            io.BytesIO(singer(*lines)),
            lake.root,
            file_type=lake.format,
            maximum_batch_rows=4,
            on_state=lambda value: out.append(json.loads(value)),
        )
    assert out in ([], [{"bookmarks": {"at": 1}}])
    assert lake.ids("middle") in ([], [1], [1, 2])
    assert lake.staged() == []


def _count(lines: list[Any], stream: str) -> int:
    return sum(line["type"] == "RECORD" and line["stream"] == stream for line in lines)
