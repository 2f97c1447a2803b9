"""VACUUM beside a writer whose files are not committed yet."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.requests.faults import Fault
from tests.histories.chaos import ChaosProxy
from tests.histories.checker import Row
from tests.histories.stores import PUBLICATION, Store, arrow

OLD, NEW, LATE = Row(1, "old", "p1"), Row(1, "new", "p1"), Row(2, "late", "p2")
COMMIT = r"PUT \S*/_delta_log/\.?\d{20}\.json"
PATIENCE = 240
FORCED = {"retain_hours": 0, "force": True}


class Gate(ChaosProxy):
    """Holds the first request of a kind until it is let through."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.endpoint, store.dialect, "")
        self.held = ""
        self.come = threading.Event()
        self.open = threading.Event()

    def fault_of(self, method: str, target: str, headers: Mapping[str, str]) -> Fault | None:
        if self.held and re.match(self.held, f"{method} {target}"):
            self.held = ""
            self.come.set()
            self.open.wait(PATIENCE)
        return None


def land(store: Store) -> None:
    """Land the late row with lakeport."""
    store.land(LATE, run_id="late")


def merge(store: Store) -> None:
    """Merge the late row with lakeport."""
    store.land(LATE, run_id="late", mode="merge")


def write(store: Store) -> None:
    """Land the late row with delta-rs."""
    from deltalake import write_deltalake

    options = {**store.options, "timeout": f"{PATIENCE}s"}
    write_deltalake(store.uri, arrow([LATE]), mode="append", storage_options=options)


@pytest.fixture(autouse=True)
def with_spark(one_spark: None) -> None:
    """One session for the module; `land` takes it up."""


@pytest.mark.parametrize(
    ("held", "writer", "how"),
    [
        pytest.param(COMMIT, land, {}, id="published"),
        pytest.param(COMMIT, land, FORCED, id="published, by force"),
        pytest.param(COMMIT, merge, FORCED, id="merged, by force"),
        pytest.param(COMMIT, write, FORCED, id="of delta-rs, by force"),
        pytest.param(PUBLICATION, land, FORCED, id="staged, by force"),
    ],
)
def test_files_of_a_writer_at_work_survive(
    store: Store, held: str, writer: Callable[[Store], None], how: Mapping[str, Any]
) -> None:
    store.create_table()
    with Gate(store) as gate, ThreadPoolExecutor(1) as pool:
        behind = store.through(gate.endpoint)
        behind.land(OLD, run_id="old")
        behind.land(NEW, run_id="new", mode="overwrite")
        gate.held = held
        writing = pool.submit(writer, behind)
        try:
            assert gate.come.wait(PATIENCE)
            deleted = behind.table().vacuum(**how).deleted
        finally:
            gate.open.set()
        writing.result(PATIENCE)
    assert deleted == (1 if how else 0)
    assert store.reader.content()[1] == Counter([NEW, LATE])
