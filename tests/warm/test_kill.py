"""kill -9 at points that the disk shows: of the client or of the session, in a chain.

Each run of a chain has the same run id. Every point is as harmless as in `tests.faults.test_kill`,
of which the points and the readers are. A run that loses its session says so.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.kit import Lake, await_end, users
from tests.faults.test_kill import BATCH, INPUT, REST, ROWS, RUN, check_readers, points
from tests.warm.kit import Warm, land

LOST = 7


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each format with `--soak`, one of them else."""
    formats = ["delta", "parquet"]
    metafunc.parametrize("format_", formats if metafunc.config.getoption("soak") else formats[:1])


@pytest.mark.timeout(1800)  # up to ten runs, one after another
def test_killed_at_every_point(
    own: Warm, tmp_path: Path, victim: str, format_: str, soak: bool
) -> None:
    lake, spool = Lake(tmp_path / "lake", format_), tmp_path / "spool"
    spool.mkdir()
    command = land(lake, *RUN, "--set", f"spool_dir={spool}", "--warm=auto")
    before = 0
    for point in points(format_, soak=soak):
        for left in spool.iterdir():
            left.rename(tmp_path / left.name)  # a killed run leaves its spool
        own.start()
        first, session = own.processes()[0], set(own.family())
        with own.started(*command) as process:
            process.feed(INPUT, close=False)
            assert process.wait_for(lambda p=point, q=process: p(lake, q, spool)), point.__name__
            family = set(own.family())
            os.kill(process.popen.pid if victim == "client" else first, signal.SIGKILL)
            ended = -signal.SIGKILL if victim == "client" else LOST
            assert process.end() == ended, (point.__name__, process.words)
            await_end(family - session if victim == "client" else family)
            seen = check_readers(lake, process.states())
        assert seen >= before, point.__name__
        before = seen
    assert 0 < before < ROWS
    total = before + REST
    own.start()
    with own.started(*command) as process:
        process.feed(users(total, BATCH))
        assert process.end() == 0, process.words
        assert process.states()[-1] == {"bookmarks": {"users": total}}
    assert check_readers(lake, process.states()) == total
    if format_ == "delta":
        lake.check_log()
