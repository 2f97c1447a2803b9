"""A listing from before some commits: what is read is one older version, and nothing is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pytest

from tests.faults.requests.faults import Fault
from tests.histories.chaos import ChaosProxy
from tests.histories.checker import Row
from tests.histories.reader import rows
from tests.histories.stores import Store

FIRST, SECOND, THIRD = (Row(n, f"r{n}", "p1") for n in range(3))


class Lagging(ChaosProxy):
    """Lists what is known until a commit is put: by then the others' have come to be listed."""

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        if method == "PUT" and re.search(r"_delta_log/\d{20}\.json(\?|$)", target):
            self.known = None
        return None


@pytest.fixture(autouse=True)
def with_spark(one_spark: None) -> None:
    """One session for the module; `land` takes it up."""


def test_a_stale_listing(store: Store) -> None:
    store.create_table()
    with Lagging(store.endpoint, store.dialect, "") as proxy:
        behind = store.through(proxy.endpoint)
        behind.land(FIRST, run_id="first")
        proxy.known = set(store.files.keys())
        store.land(SECOND, run_id="second", mode="overwrite")
        assert behind.reader.content() == (1, Counter([FIRST]))
        table = behind.table()
        seen = table.describe()["version"]
        assert rows(table.preview(version=seen)) == store.reader.content(seen)[1]
        found = rows(table.query("select key, value, part from t"))
        assert found in (Counter([FIRST]), Counter([SECOND]))
        behind.land(THIRD, run_id="third")
    assert store.reader.content() == (3, Counter([SECOND, THIRD]))
    assert [commit.step for commit in store.reader.commits()] == ["first", "second", "third"]
