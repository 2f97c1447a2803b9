"""A listing from before some commits: what is read is one older version, and nothing is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from lakeport.errors import CommitConflict
from tests.faults.requests.faults import Fault
from tests.histories.chaos import ChaosProxy
from tests.histories.checker import Row
from tests.histories.reader import rows
from tests.histories.stores import PUBLICATION, Store

FIRST, SECOND, THIRD = (Row(n, f"r{n}", "p1") for n in range(3))
MOST_REQUESTS = 15 * 31 * 2  # for a version: our attempts, Delta's in each, its look at who has it


class Lagging(ChaosProxy):
    """Lists what is known, and may catch up between a transaction's begin and its commit.

    Attributes:
        catches_up: whether it does.
        asked: how often a request was for a version.
    """

    catches_up = True

    def __init__(self, store: Store) -> None:
        super().__init__(store.endpoint, store.dialect, "")
        self.asked: Counter[str] = Counter()

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        if self.catches_up and re.match(PUBLICATION, f"{method} {target}"):
            self.known = None
        if method in ("HEAD", "PUT"):
            self.asked.update(re.findall(r"_delta_log/(\d{20}\.json)(?:\?|$)", target))
        return None


@pytest.fixture(autouse=True)
def with_spark(one_spark: None) -> None:
    """One session for the module; `land` takes it up."""


@pytest.fixture
def lagging(store: Store) -> Iterator[Lagging]:
    """Lists the table's first version; the second, which is there, is not listed."""
    store.create_table()
    with Lagging(store) as proxy:
        store.through(proxy.endpoint).land(FIRST, run_id="first")
        proxy.known = set(store.files.keys())
        store.land(SECOND, run_id="second", mode="overwrite")
        yield proxy


def test_a_stale_listing(store: Store, lagging: Lagging) -> None:
    behind = store.through(lagging.endpoint)
    assert behind.reader.content() == (1, Counter([FIRST]))
    table = behind.table()
    seen = table.describe().version
    assert rows(table.preview(version=seen)) == store.reader.content(seen)[1]
    found = rows(table.query("select key, value, part from t"))
    assert found in (Counter([FIRST]), Counter([SECOND]))
    behind.land(THIRD, run_id="third")
    assert store.reader.content() == (3, Counter([SECOND, THIRD]))
    assert [commit.step for commit in store.reader.commits()] == ["first", "second", "third"]


def test_a_listing_that_is_stale_for_ever(store: Store, lagging: Lagging) -> None:
    """What replaces rows that it can't see conflicts; appended rows follow whatever came."""
    lagging.catches_up = False
    behind = store.through(lagging.endpoint)
    with pytest.raises(CommitConflict, match="met other writers' changes"):
        behind.land(THIRD, run_id="third", mode="overwrite")
    assert 0 < lagging.asked[f"{2:020d}.json"] <= MOST_REQUESTS
    assert store.reader.content() == (2, Counter([SECOND]))
    behind.land(THIRD, run_id="third")
    assert store.reader.content() == (3, Counter([SECOND, THIRD]))
