"""On a Spark without a Delta, what takes it is refused by name before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport.engine.base import SessionRequest
from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.versions import installed_build
from lakeport.engine.spark.session import DriverSession
from lakeport.errors import MissingDependency


@pytest.fixture(autouse=True)
def no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"delta {installed_build().minor}"
    known = {name: found for name, found in jars.LOCKED.items() if not name.startswith(here)}
    monkeypatch.setattr(jars, "LOCKED", known)


def test_a_table_that_is_not_plain_is_refused_before_a_row_is_read(
    driver: DriverSession, tmp_path: Path
) -> None:
    read = tmp_path / "read"

    def watch(batches: Any, read: str = str(read)) -> Any:
        for batch in batches:
            Path(read).touch()
            yield batch

    def frame(column: str) -> Any:
        return driver.spark.range(3).mapInArrow(watch, "id long").toDF(column)

    with pytest.raises(MissingDependency, match="this takes delta-spark, and no version of it"):
        lakeport.land(frame("Order ID"), tmp_path / "lake", table="t")
    assert not read.exists()
    assert lakeport.land(frame("id"), tmp_path / "lake", table="t").rows == 3
    assert read.exists()


def test_the_session_goes_on_after_a_refusal(driver: DriverSession, tmp_path: Path) -> None:
    lakeport.land(driver.spark.range(3), tmp_path, table="t")
    with pytest.raises(MissingDependency, match="this takes delta-spark"):
        lakeport.Table(tmp_path / "t").optimize()
    assert driver.spark.range(3).count() == 3


def test_a_session_that_lacks_delta_alone_suits_every_load(
    driver: DriverSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "needs", frozenset[str]())
    wanted = SessionRequest(optional_needs={"delta"}, settings=driver._given)
    assert DriverSession.acquire(wanted) is driver
    with pytest.raises(MissingDependency, match="this takes delta-spark"):
        DriverSession.acquire(SessionRequest({"delta"}))
    assert DriverSession._current is driver
