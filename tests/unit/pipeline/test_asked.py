"""A real load that another thread asks to end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import lakeport
from lakeport.loading.cancellation import Cancellation, EndRequested
from tests.contract.targets import INTEGER, record, schema, singer


class AsksBehind(io.RawIOBase):
    """Singer records without end; asks the load that reads them to end once a batch has landed."""

    def __init__(self, stop: Cancellation, lake: Path) -> None:
        self._stop = stop
        self._log = lake / "t" / "_delta_log"
        self._held = singer(schema("t", {"id": INTEGER}))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if any(self._log.glob("*.json")):
            self._stop.request_end()
        self._held = self._held or singer(record("t", id=1))
        part, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.timeout(120)
def test_what_has_landed_stays_and_nothing_lands_any_more(tmp_path: Path) -> None:
    stop = Cancellation()
    with pytest.raises(EndRequested), stop.activate():
        lakeport.land(
            AsksBehind(stop, tmp_path / "lake"),
            tmp_path / "lake",
            file_type="delta",
            maximum_batch_rows=10,
        )
    table = DeltaTable(tmp_path / "lake" / "t")
    rows = table.to_pyarrow_table().num_rows
    assert rows >= 10
    assert rows % 10 == 0
