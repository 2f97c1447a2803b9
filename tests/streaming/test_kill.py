"""kill -9 under two streams, at points that the disk shows from outside, until they get through.

Streams that are to be killed have no end of their own, and each one finds files that are new: so
its point comes, and nothing is over before the kill, however late that is.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest

from tests.faults.kit import Lake, Process, await_end, environment
from tests.streaming.kit import Inbox

FILES, ROWS = 2, 5  # new ones for each run
SCRIPT = """
import sys
from pathlib import Path
import lakeport
from tests.streaming.kit import Inbox

root = Path(sys.argv[1])
streams = [
    lakeport.land_stream(
        Inbox(root / "in").stream(), root / "lake", table=kind, file_type=kind,
        checkpoint=root / f"checkpoint-{kind}", available_now=sys.argv[2] == "to the end",
    )
    for kind in ("delta", "parquet")
]
assert all(stream.wait() for stream in streams)
"""


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
            process.end()


def check(delta: Lake, files: Lake) -> int:
    """No row is there twice, and none is missing before one that is there."""
    seen = 0
    for lake, table in ((delta, "delta"), (files, "parquet")):
        ids = lake.ids(table)
        assert ids == list(range(len(ids)))
        assert len(ids) % ROWS == 0
        seen += len(ids)
    return seen


def micro_batches(checkpoint: Path) -> int:
    """How many Spark has committed.

    A file that its source has noted, killed before the batch itself was, comes again together
    with the next one: so there can be fewer micro-batches than files.
    """
    return len(list((checkpoint / "commits").glob("[0-9]*")))


@pytest.mark.timeout(1200)  # up to six processes, one after another
def test_killed_at_every_point(tmp_path: Path, soak: bool) -> None:
    inbox, ids = Inbox(tmp_path / "in"), count()

    def more() -> None:
        for _ in range(FILES):
            inbox.add(islice(ids, ROWS))

    delta, files = Lake(tmp_path / "lake", "delta"), Lake(tmp_path / "lake", "parquet")
    entries = "[0-9].json", "[0-9][0-9].json"
    points: list[tuple[Callable[[], int], float]] = [
        (lambda: len(delta.versions("delta")), 0),
        (lambda: len(list(tmp_path.glob("checkpoint-*/offsets/*"))), random.uniform(0, 0.5)),
    ]
    if soak:
        points += [
            (lambda: sum(len(files.journal(pattern)) for pattern in entries), 0),
            (lambda: len(files.journal("*.intent-0.json")), 0),
            (lambda: len(list(tmp_path.glob("checkpoint-*/sources/0/*"))), 0),
        ]
    else:
        points = random.sample(points, 1)  # another one with another seed
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    env = environment({"PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))})
    before = 0
    for seen, later in points:
        known = seen()
        more()
        with started([*command, "without end"], env) as process:
            assert process.wait_for(lambda s=seen, k=known: s() > k), process.words
            time.sleep(later)
            family = process.family()
            process.send(signal.SIGKILL)
            assert process.end() == -signal.SIGKILL, process.words
        await_end(family)
        rows = check(delta, files)
        assert rows >= before
        before = rows
    more()
    done = subprocess.run(
        [*command, "to the end"], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    total = (len(points) + 1) * FILES
    assert check(delta, files) == 2 * total * ROWS
    delta.check_log("delta")
    assert len(files.objects("parquet")) == micro_batches(tmp_path / "checkpoint-parquet")
