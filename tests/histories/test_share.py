"""A share of the histories for `make test`: in one process, without kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories.driver import History
from tests.histories.stores import Store

SEED = "700"  # each kind of step but vacuum comes early


@pytest.mark.usefixtures("one_spark")
def test_a_serial_order_explains_every_version(store: Store, tmp_path: Path) -> None:
    history = History(store, SEED, tmp_path, writers=("lakeport", "delta-rs"), steps=5)
    report = history.play_here()
    assert report.anomalies == (), (SEED, report)
    assert report.versions > 1
