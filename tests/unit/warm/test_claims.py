"""Settings of stores, claimed by runs that share a JVM."""

from __future__ import annotations

from lakeport.warm.claims import Claims

A, B = "s3a://a", "s3a://b"
Closed = list[tuple[str, list[str]]]


def made() -> tuple[Claims, Closed]:
    closed: Closed = []
    return Claims(lambda store, names: closed.append((store, sorted(names)))), closed


def test_the_same_settings_can_be_claimed_by_several() -> None:
    claims, closed = made()
    assert claims.take("one", A, {"key": "1"})
    assert claims.take("two", A, {"key": "1"})
    claims.give_back("one")
    assert closed == []
    claims.give_back("two")
    assert closed == [(A, ["key"])]


def test_others_are_refused_until_they_are_given_back() -> None:
    claims, closed = made()
    assert claims.take("one", A, {"key": "1"})
    assert not claims.take("two", A, {"key": "2"})
    assert not claims.take("two", A, {"key": "1", "proxy": "x"})
    assert not claims.take("two", A, {})
    claims.give_back("two")
    assert closed == []
    claims.give_back("one")
    assert claims.take("two", A, {"key": "2"})


def test_a_name_is_one_value_whatever_the_store() -> None:
    claims, closed = made()
    assert claims.take("one", A, {"wait": "30", "key.a": "1"})
    assert not claims.take("two", B, {"wait": "10"})
    assert claims.take("two", B, {"wait": "30", "key.b": "2"})
    claims.give_back("one")
    assert closed == [(A, ["key.a"])]
    claims.give_back("two")
    assert closed[1:] == [(B, ["key.b", "wait"])]


def test_a_run_may_renew_its_own() -> None:
    claims, closed = made()
    assert claims.take("one", A, {"key": "1"})
    assert claims.take("one", A, {"key": "2"})
    assert claims.take("two", A, {"key": "2"})
    assert not claims.take("one", A, {"key": "3"})
    claims.give_back("one")
    claims.give_back("one")
    assert closed == []
