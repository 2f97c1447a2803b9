"""A short history on each store: several writers, faults and kills; `make soak` plays long ones."""

from __future__ import annotations

from pathlib import Path

from tests.histories.driver import History
from tests.histories.stores import Store

SEED = "short"


def test_a_serial_order_explains_every_version(store: Store, tmp_path: Path) -> None:
    report = History(store, SEED, tmp_path, steps=6, steps_alive=3).play()
    assert report.anomalies == (), (SEED, report)
    assert report.versions > 1
