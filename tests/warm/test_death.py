"""Sessions that end, are killed or were never there: no run is lost, none lands twice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.kit import PATIENCE, Lake, users
from tests.faults.test_signals import BATCH, SIZES
from tests.warm.kit import Warm, land

GIVEN = users(40 * BATCH, BATCH)


@pytest.mark.soak
def test_idle_and_gone(own: Warm) -> None:
    """Whether or not its Spark has started by then."""
    assert own.run("warm", "start", "--idle", "1s").code == 0
    end = time.monotonic() + PATIENCE
    while own.traces():
        assert time.monotonic() < end, own.traces()
        time.sleep(0.05)
    assert own.status() == []
    assert [path.name for path in (own.cache / "warm").iterdir()] == ["lock"]
    assert list((own.cache / "tmp").iterdir()) == []


def test_first_load_starts_it(own: Warm, delta_lake: Lake) -> None:
    done = own.run(*land(delta_lake, "--warm"), given=GIVEN)
    assert done.code == 0, done.err
    assert delta_lake.ids() == list(range(40 * BATCH))
    assert own.served() == 1
    assert own.run("warm", "stop").code == 0
    own.await_end()
    assert own.run(*land(delta_lake), given=GIVEN).code == 0  # alone
    assert own.processes() == []


@pytest.mark.soak
def test_loads_of_files_use_it_from_the_first_on(own: Warm, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "parquet")
    done = own.run(*land(lake, "--warm"), given=GIVEN)
    assert done.code == 0, done.err
    assert own.served() == 1
    again = own.run(*land(lake, "--warm", "require"), given=GIVEN)
    assert again.code == 0, again.err
    assert own.served() == 2
    assert sorted(lake.ids()) == sorted([*range(40 * BATCH)] * 2)


def test_a_session_outlives_a_load_that_is_killed(own: Warm, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "parquet")
    with own.started(*land(lake, "--warm")) as process:
        process.feed(GIVEN[:1000], close=False)
        assert process.wait_for(lambda: bool(own.processes()))
        process.send(signal.SIGKILL)
        process.end()
    assert own.run(*land(lake, "--warm", "require"), given=GIVEN).code == 0
    assert lake.ids() == list(range(40 * BATCH))


def test_lost_in_the_middle(own: Warm, delta_lake: Lake, victim: str) -> None:
    own.start()
    command = land(delta_lake, *SIZES, "--run-id", "night")
    with own.started(*command) as process:
        process.feed(users(400 * BATCH, BATCH), close=False)
        assert process.wait_for(lambda: len(process.out) > 2)
        os.kill(own.java() if victim == "java" else own.processes()[0], signal.SIGKILL)
        assert process.end() == 7, process.words
        assert "Hint:" in process.words
        assert "Traceback" not in process.words
    seen = delta_lake.ids()
    assert seen == list(range(len(seen)))
    assert len(seen) % BATCH == 0
    rows = len(seen) + 2 * BATCH
    done = own.run(*command, given=users(rows, BATCH))
    assert done.code == 0, done.err
    assert delta_lake.ids() == list(range(rows))


def test_another_environment_has_another_session(shared: Warm, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id\n1\n")
    command = ("land", tmp_path / "people.csv", "--to", tmp_path / "lake", "--warm=require")
    refused = shared.run(*command, env={"TZ": "Asia/Tokyo"})
    assert refused.code == 2
    assert "`warm: require`" in refused.err
    assert shared.run(*command).code == 0
    told = shared.run("warm", "status", env={"TZ": "Asia/Tokyo"})
    assert b"no: another variable TZ" in b"".join(told.out)
