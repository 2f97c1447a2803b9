"""Sources that break off while they are read: named, nothing half landed, other loads unaffected.

The run after it lands everything, once.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from tests.faults.kit import Process, started
from tests.faults.wire import Wire
from tests.faults.worlds import Inbox, Tables, Tap, World
from tests.postgres import Postgres

pytestmark = pytest.mark.by_threads
WELL = {"well": '{from: {files: "inbox/*.jsonl", new_only: true}}'}


@pytest.fixture
def shop(postgres: Postgres) -> Tables:
    return Tables(postgres, f"s{secrets.token_hex(6)}")


def told(process: Process) -> str:
    """What a run has said that failed as the source did."""
    assert process.end() == 3, process.words
    assert "Traceback" not in process.words
    return " ".join((b"".join(process.out).decode() + process.words).split())


@pytest.mark.timeout(600)
def test_connections_that_are_cut_or_ended(tmp_path: Path, shop: Tables) -> None:
    with Wire(shop.server.port, 60_000) as wire:
        loads = {
            "cut": f"{{from: {shop.load(port=wire.port, cursor='at')}}}",
            "split": f"{{from: {shop.load(port=wire.port, split_by='id', splits=3, cursor='at')}}}",
            "ended": f"{{from: {shop.load('slow', cursor='at')}}}",
        }
        world = World(tmp_path, loads | WELL, [shop, Inbox(tmp_path)])
        world.grow(10_000)
        with started(*world.run("--parallel", "4")) as process:
            assert process.wait_for(lambda: shop.reading(process)), process.words
            assert process.wait_for(wire.broken.is_set), process.words
            while process.popen.poll() is None:
                shop.end_readers()
                time.sleep(0.1)
            words = told(process)
        assert "terminating connection due to administrator command" in words
        assert words.count("server closed the connection unexpectedly") == 2
        assert "nothing of this load has landed; repeat it when the database is there" in words
        assert not any(map(world.lake.exists, loads))
        world.check("well")
        wire.mend()
        shop.server.sql(
            f"CREATE OR REPLACE FUNCTION {shop.name}.late(t text) RETURNS text "
            "LANGUAGE sql AS 'SELECT t'"
        )
        world.ended_well()
    world.check(*loads, "well")


@pytest.mark.timeout(600)
def test_a_server_that_is_restarted(tmp_path: Path, shop: Tables) -> None:
    loads = {"orders": f"{{from: {shop.load('slow', cursor='at', split_by='id', splits=2)}}}"}
    world = World(tmp_path, loads | WELL, [shop, Inbox(tmp_path)])
    world.grow(500)
    with started(*world.run()) as process:
        assert process.wait_for(lambda: shop.reading(process)), process.words
        shop.server.restart()
        assert "load 'orders' failed: postgresql://127.0.0.1" in told(process)
    assert not world.lake.exists("orders")
    world.check("well")
    world.ended_well()
    world.check("orders", "well")


@pytest.mark.timeout(600)
def test_taps_that_end_badly(tmp_path: Path) -> None:
    """What they sent before their last STATE lands where that is a flush; nothing else does."""
    tap = Tap(tmp_path)
    how = {
        "fails": ("sys.exit(7)", "failed with exit code 7; its last lines: the service hung up"),
        "dies": ("import os; os.kill(os.getpid(), 9)", "failed with signal 9"),
        "babbles": ("print('\\x00 no message', flush=True)", "line 30: not a JSON object"),
        "stops": ('sys.stdout.write(\'{"type": "REC\'); sys.exit()', "last line is incomplete"),
    }
    loads = {name: f"{{from: {tap.load(name)}, maximum_batch_rows: 15}}" for name in how}
    world = World(tmp_path, loads | WELL, [tap, Inbox(tmp_path)])
    for name, (code, _) in how.items():
        tap.breaks(name, code)
    world.grow()
    with started(*world.run()) as process:
        words = told(process)
    for name, (_, said) in how.items():
        assert said in words, name
        assert world.lake.ids(name) in ([], list(range(20)))
        tap.breaks(name, "")
    world.check("well")
    world.ended_well()
    world.check(*loads, "well")
