"""kill -9 under two streams, at points that the disk shows from outside, until they get through."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.kit import Lake, Process, await_end, environment
from tests.streaming.kit import Inbox

FILES, ROWS = 10, 5
SCRIPT = """
import sys
from pathlib import Path
import lakeport
from tests.streaming.kit import Inbox

root = Path(sys.argv[1])
streams = [
    lakeport.land_stream(
        Inbox(root / "in").stream(), root / "lake", table=kind, file_type=kind,
        checkpoint=root / f"checkpoint-{kind}", available_now=True,
    )
    for kind in ("delta", "parquet")
]
assert all(stream.wait() for stream in streams)
"""
Count = Callable[[], int]


@contextmanager
def started(command: list[str], env: dict[str, str]) -> Iterator[Process]:
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as popen:
        process = Process(popen)
        process.follow()
        try:
            yield process
        finally:
            popen.kill()


def check(delta: Lake, files: Lake) -> int:
    """No row is there twice, and none is missing before one that is there."""
    seen = 0
    for lake, table in ((delta, "delta"), (files, "parquet")):
        ids = lake.ids(table)
        assert ids == list(range(len(ids)))
        assert len(ids) % ROWS == 0
        seen += len(ids)
    return seen


@pytest.mark.timeout(600)  # five processes, one after another
def test_killed_at_every_point(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "in")
    for start in range(0, FILES * ROWS, ROWS):
        inbox.add(range(start, start + ROWS))
    delta, files = Lake(tmp_path / "lake", "delta"), Lake(tmp_path / "lake", "parquet")
    entries = "[0-9].json", "[0-9][0-9].json"
    points: list[tuple[Count, float]] = [
        (lambda: len(delta.versions("delta")), 0),
        (lambda: len(files.journal("*.intent-0.json")), 0),
        (lambda: sum(len(files.journal(pattern)) for pattern in entries), 0),
        (lambda: len(list(tmp_path.glob("checkpoint-*/offsets/*"))), random.uniform(0, 0.5)),
    ]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    env = environment({"PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))})
    before = 0
    for count, later in points:
        known = count()
        with started(command, env) as process:
            assert process.wait_for(lambda c=count, k=known: c() > k), process.words
            time.sleep(later)
            family = process.family()
            process.send(signal.SIGKILL)
            assert process.end() == -signal.SIGKILL, process.words
        await_end(family)
        seen = check(delta, files)
        assert seen >= before
        before = seen
    assert 0 < before < 2 * FILES * ROWS
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert check(delta, files) == 2 * FILES * ROWS
    delta.check_log("delta")
    assert len(files.objects("parquet")) == FILES
