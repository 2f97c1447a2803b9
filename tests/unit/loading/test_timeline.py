from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from lakeport.loading.report import MOST_SPANS, Timeline
from lakeport.model import Span, Staged, Work


class Clock:
    """Two clocks of one machine: one that never steps back, and the time of day."""

    def __init__(self) -> None:
        self.seconds = 500.0

    def tick(self) -> float:
        return self.seconds

    def time(self) -> float:
        return self.seconds + 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timeline(clock: Clock) -> Timeline:
    return Timeline(clock.tick, clock.time)


def told(timeline: Timeline) -> list[tuple[str, str, float, float]]:
    spans, _ = timeline.spans(timeline.elapsed())
    return [(span.stage, span.stream, span.start, span.end) for span in spans]


def test_stages_are_told_in_the_order_in_which_they_began(timeline: Timeline, clock: Clock) -> None:
    with timeline.stage("reading"):
        clock.seconds += 1
        with timeline.stage("writing", "a") as start:
            assert start == 1.0
            clock.seconds += 2
        clock.seconds += 1
    assert told(timeline) == [("reading", "", 0.0, 4.0), ("writing", "a", 1.0, 3.0)]


def test_a_stage_that_fails_or_goes_on_is_told(timeline: Timeline, clock: Clock) -> None:
    with pytest.raises(ValueError, match="no"), timeline.stage("opening"):
        clock.seconds += 1
        raise ValueError("no")
    with timeline.stage("writing", "a"):
        clock.seconds += 2
        assert told(timeline) == [("opening", "", 0.0, 1.0), ("writing", "a", 1.0, 3.0)]
        clock.seconds += 2
    assert told(timeline)[1] == ("writing", "a", 1.0, 5.0)


def test_of_a_source_the_time_counts_that_each_flush_takes(
    timeline: Timeline, clock: Clock
) -> None:
    def source() -> object:
        for _ in range(2):
            clock.seconds += 3
            yield None
        clock.seconds += 1

    for _ in timeline.time_items("reading", source()):  # type: ignore[call-overload]
        clock.seconds += 10
    assert [each[2:] for each in told(timeline)] == [(0.0, 3.0), (13.0, 16.0), (26.0, 27.0)]


def test_neighbours_that_touch_are_one(timeline: Timeline, clock: Clock) -> None:
    for _ in range(3):
        with timeline.stage("reading"):
            clock.seconds += 1
        clock.seconds += 0.001
    (span,), _ = timeline.spans(10.0)
    assert (span.start, round(span.end, 3)) == (0.0, 3.002) and span.busy == pytest.approx(3)


def test_tasks_are_put_where_they_ran(timeline: Timeline, clock: Clock) -> None:
    begun = clock.time()
    clock.seconds += 2
    with timeline.stage("writing", "a") as start:
        clock.seconds += 8
    slow = Work(
        {"parsing": (begun + 3, begun + 6, 2.0), "encoding": (begun + 3, begun + 9, 4.0)},
        ((begun + 4, 70, 0), (begun + 8, 30, 900)),
    )
    ahead = Work({"parsing": (begun + 7, begun + 99, 1.5)}, ((begun + 50, 5, 50),))
    behind = Work({"parsing": (begun - 60, begun - 50, 0.5)}, ((begun - 55, 1, 10),))
    staged = [Staged(str(at), {}, 1, 1, work=work) for at, work in enumerate((slow, ahead, behind))]
    timeline.add_tasks("a", [*staged, replace(staged[0], work=None)], start)
    spans, _ = timeline.spans(10.0)
    found = {span.stage: span for span in spans}
    assert found["parsing"] == Span("parsing", "a", 2.0, 10.0, tasks=3, busy=4.0)
    assert found["encoding"] == Span("encoding", "a", 3.0, 9.0, tasks=1, busy=4.0)
    read, written = timeline.paces(10.0)
    assert read == () and written[-1] == (10.0, 106, 960)
    assert next(point for point in written if point[0] > 4)[1] == 71


def test_a_steady_task_has_a_steady_pace(timeline: Timeline, clock: Clock) -> None:
    begun = clock.time()
    clock.seconds += 20
    pace = tuple((begun + 0.13 + 0.4 * step, 8, 80) for step in range(1, 40))
    staged = Staged("k", {}, 1, 1, work=Work({"parsing": (begun, begun + 16, 1.0)}, pace, 0.4))
    timeline.add_tasks("a", [staged], 0.0)
    _, written = timeline.paces(20.0)
    rates = {round((b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(written)}
    assert rates == {0, 20} and written[-1][1:] == (39 * 8, 39 * 80)


def test_what_is_read_is_the_sum_of_the_streams(timeline: Timeline, clock: Clock) -> None:
    for stream, records, size in (("a", 10, 100), ("b", 1, 5), ("a", 25, 260), ("b", 2, 11)):
        clock.seconds += 1
        timeline.add_progress(stream, records, size)
    read, written = timeline.paces(clock.seconds - 500)
    assert written == () and [point[1:] for point in read if point[1:] != (0, 0)][::2] == [
        (10, 100),
        (11, 105),
        (26, 265),
        (27, 271),
    ]
    assert read[-1][0] == 4.0  # not the end of a step that goes on


@pytest.mark.parametrize(
    ("began", "ended", "expected"),
    [
        (480.0, 503.0, [(0.0, 3.0)]),
        (501.0, None, [(1.0, 4.0)]),
        (480.0, 490.0, []),
        (None, None, []),
    ],
)
def test_of_what_began_before_the_run_its_part_is_told(
    timeline: Timeline,
    clock: Clock,
    began: float | None,
    ended: float | None,
    expected: list[tuple[float, float]],
) -> None:
    clock.seconds += 4
    timeline.add_stage("starting Spark", began, ended)
    assert [each[2:] for each in told(timeline)] == expected


def test_many_flushes_become_few_spans_and_no_time_is_lost(
    timeline: Timeline, clock: Clock
) -> None:
    for number in range(3_000):
        for stage in ("reading", "writing", "committing"):
            with timeline.stage(stage, "" if stage == "reading" else "a"):
                clock.seconds += 1
            clock.seconds += 60 if number == 1_000 else 0.1
    spans, left_out = timeline.spans(clock.seconds)
    assert len(spans) == MOST_SPANS and left_out == 0
    assert {span.stage for span in spans} == {"reading", "writing", "committing"}
    assert sum(span.busy for span in spans) == pytest.approx(9_000)
    # The widest gap is still one.
    reading = [span for span in spans if span.stage == "reading"]
    assert any(b.start - a.end > 100 for a, b in pairwise(reading))


def test_of_a_thousand_streams_those_are_told_that_took_the_most_time(
    timeline: Timeline, clock: Clock
) -> None:
    with timeline.stage("opening"):
        clock.seconds += 0.5
    for flush in range(3):
        for number in range(1_000):
            for stage in ("planning", "writing", "committing"):
                with timeline.stage(stage, f"s{number}"):
                    clock.seconds += 10 if number == 777 else 0.1
            clock.seconds += flush
    spans, left_out = timeline.spans(clock.seconds)
    streams = {span.stream for span in spans}
    assert len(spans) <= MOST_SPANS and {"", "s777"} <= streams
    assert left_out == 1_000 - (len(streams) - 1) and len(streams) == 1 + (MOST_SPANS - 1) // 3
