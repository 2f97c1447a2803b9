from __future__ import annotations

import random

import pytest

from lakeport.writers.stopwatch import Pace


def test_what_comes_in_any_order_adds_up() -> None:
    moments = [0.2, 3.7, 0.4, 1.1, 3.9, 0.0]
    ordered, mixed = Pace(8, 1.0), Pace(8, 1.0)
    for at in sorted(moments):
        ordered.add(at, rows=2, size=10)
    for at in moments:
        mixed.add(at, rows=2, size=10)
    expected = ((0.0, 0, 0), (1.0, 6, 30), (2.0, 8, 40), (3.0, 8, 40), (4.0, 12, 60))
    assert mixed.points() == ordered.points() == expected
    assert mixed.done() == [(1.0, 6, 30), (2.0, 2, 10), (4.0, 4, 20)]


def test_it_stands_still_where_nothing_is_done() -> None:
    pace = Pace(100, 1.0)
    pace.add(10.5, rows=7)
    pace.add(50.5, rows=3)
    assert pace.points() == ((0.0, 0, 0), (10.0, 0, 0), (11.0, 7, 0), (50.0, 7, 0), (51.0, 10, 0))


@pytest.mark.parametrize("seconds", [0.01, 1, 60, 100_000])
def test_however_long_it_takes_the_points_have_a_bound(seconds: float) -> None:
    pace, chance = Pace(119), random.Random(1)
    for _ in range(5_000):
        pace.add(chance.random() * seconds, rows=1, size=3)
    points = pace.points()
    assert len(points) <= 120
    assert points[-1][1:] == (5_000, 15_000)
    assert points[-1][0] >= seconds * 0.9 and pace.step <= max(0.05, seconds / 60)
    assert list(points) == sorted(points, key=lambda point: point)


def test_nothing_has_no_points() -> None:
    assert Pace(4).points() == ()


def test_nothing_is_before_the_beginning() -> None:
    pace = Pace(4, 1.0)
    pace.add(-3.0, rows=1)
    assert pace.points() == ((0.0, 0, 0), (1.0, 1, 0))


def test_steps_are_not_shorter_than_what_is_added() -> None:
    pace = Pace(100, 0.5)
    pace.add(0.2, rows=1)
    pace.coarsen(2.0)
    for at in (2.0, 4.0, 6.0):  # one every two seconds
        pace.add(at, rows=10)
    assert pace.points() == ((0.0, 0, 0), (2.0, 1, 0), (4.0, 11, 0), (6.0, 21, 0), (8.0, 31, 0))
    pace.coarsen(1.0)
    assert pace.step == 2.0
