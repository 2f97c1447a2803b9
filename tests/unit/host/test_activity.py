from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from lakeport.host.activity import (
    activity,
    add_progress,
    attribute_to_load,
    bind_activity,
    current_activities,
    current_load,
    load_initializer,
    set_progress,
    set_progress_share,
)


def test_nothing_goes_on_outside_of_activities() -> None:
    add_progress(5, rows=1)
    assert current_activities() == ()
    with activity("reading", "a", total=10, rows_total=3):
        add_progress(4, rows=1)
        (now,) = current_activities()
        assert (now.what, now.name, now.done, now.rows) == ("reading", "a", 4, 1)
        assert (now.total, now.rows_total, now.share) == (10, 3, 0.4)
    assert current_activities() == ()


def test_an_inner_activity_takes_the_place_of_the_outer_one_for_its_thread() -> None:
    with activity("reading"):
        with activity("starting Spark"):
            add_progress(1)
        add_progress(2)
        assert [each.done for each in current_activities()] == [2]


def test_an_activity_that_fails_is_over() -> None:
    try:
        with activity("reading"):
            raise ValueError
    except ValueError:
        pass
    assert current_activities() == ()


def test_many_threads_work_for_one_activity() -> None:
    with activity("writing", total=8000), ThreadPoolExecutor(8) as threads:
        work = bind_activity(lambda: [add_progress(1, rows=2) for _ in range(1000)])
        for done in [threads.submit(work) for _ in range(8)]:
            done.result()
        threads.submit(add_progress, 5).result()  # works for nothing
        (now,) = current_activities()
        assert (now.done, now.rows) == (8000, 16000)


def test_what_is_done_in_all_may_be_told_instead() -> None:
    with activity("reading", total=200):
        set_progress(50, 3)
        assert (current_activities()[0].done, current_activities()[0].rows) == (50, 3)
        set_progress_share(0.5)
        assert current_activities()[0].done == 100
    with activity("reading"):
        set_progress_share(0.5)
        assert current_activities()[0].done == 0


def test_more_than_there_is_has_no_share() -> None:
    with activity("unpacking", total=10):
        add_progress(11)
        (unpacking,) = current_activities()
        assert unpacking.share is None and unpacking.seconds_left(1e9) is None
    with activity("reading", total=-1, rows_total=4):
        add_progress(rows=1)
        assert current_activities()[0].share == 0.25


def test_things_are_counted() -> None:
    with activity("fetching", "jars", total=10, count_total=2):
        set_progress(6, count=1)
        (now,) = current_activities()
        assert (now.count, now.count_total, now.done, now.share) == (1, 2, 6, 0.6)


def test_who_waits_for_it_is_not_told_beside_it() -> None:
    with ThreadPoolExecutor(1) as threads, activity("starting Spark"):
        begun, over = Event(), Event()

        def fetch() -> None:
            with activity("fetching", part_of="starting Spark"):
                begun.set()
                over.wait()

        fetched = threads.submit(fetch)
        begun.wait()
        assert [each.what for each in current_activities()] == ["fetching"]
        over.set()
        fetched.result()
        assert [each.what for each in current_activities()] == ["starting Spark"]


def test_what_goes_on_says_which_of_several_loads_it_is_a_part_of() -> None:
    begun, seen = Event(), Event()

    def work() -> str:
        with activity("writing"):
            begun.set()
            seen.wait(60)
        return current_load()

    with (
        attribute_to_load("flights"),
        ThreadPoolExecutor(1, initializer=load_initializer()) as threads,
    ):
        done = threads.submit(work)
        with activity("reading"):
            begun.wait(60)
            assert {each.what: each.load for each in current_activities()} == dict.fromkeys(
                ("reading", "writing"), "flights"
            )
        seen.set()
        assert done.result() == "flights"
    assert current_load() == ""
