"""Which loads can begin."""

from __future__ import annotations

from lakeport.pipeline.run import Schedule


def test_those_that_use_nothing_begin_in_the_files_order() -> None:
    schedule = Schedule({"b": [], "a": [], "c": ["a"]})
    assert schedule.take_ready() == ["b", "a"]
    assert schedule.take_ready() == []


def test_a_load_waits_for_all_that_it_uses() -> None:
    schedule = Schedule({"a": [], "b": [], "c": ["a", "b"]})
    schedule.take_ready()
    assert schedule.mark_ended("a", succeeded=True) == {}
    assert schedule.take_ready() == []
    schedule.mark_ended("b", succeeded=True)
    assert schedule.take_ready() == ["c"]


def test_what_needs_a_failed_one_never_begins_nor_does_what_needs_that() -> None:
    schedule = Schedule({"a": [], "b": ["a"], "c": ["b", "a"], "d": ["c"], "other": []})
    assert schedule.take_ready() == ["a", "other"]
    assert schedule.mark_ended("a", succeeded=False) == {
        "b": "needs a, which failed",
        "c": "needs b, which was skipped",
        "d": "needs c, which was skipped",
    }
    assert schedule.mark_ended("other", succeeded=True) == {}
    assert schedule.take_ready() == []


def test_what_is_not_asked_for_is_taken_to_be_there() -> None:
    assert Schedule({"delays": ["flights"]}).take_ready() == ["delays"]


def test_loads_of_one_table_take_turns_however_they_end() -> None:
    needs: dict[str, list[str]] = {"a": [], "b": [], "c": [], "tap": [], "other": []}
    tables = {"a": "t", "b": "t", "c": "t", "tap": "", "other": ""}
    schedule = Schedule(needs, tables)
    assert schedule.take_ready() == ["a", "tap", "other"]
    schedule.mark_ended("tap", succeeded=True)
    assert schedule.take_ready() == []
    assert schedule.mark_ended("a", succeeded=False) == {}
    assert schedule.take_ready() == ["b"]
    schedule.mark_ended("b", succeeded=True)
    assert schedule.take_ready() == ["c"]


def test_loads_that_reach_one_store_in_different_ways_take_turns() -> None:
    ways = {
        "a": {"lake": "bronze's key"},
        "b": {"lake": "silver's key", "inbox": "key"},
        "c": {"lake": "bronze's key", "inbox": "key"},
        "d": {"other": "silver's key"},
        "e": {},
    }
    schedule = Schedule({name: [] for name in ways}, None, ways)
    assert schedule.take_ready() == ["a", "c", "d", "e"]
    schedule.mark_ended("a", succeeded=True)
    assert schedule.take_ready() == []
    schedule.mark_ended("c", succeeded=False)
    assert schedule.take_ready() == ["b"]
