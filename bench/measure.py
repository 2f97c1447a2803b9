"""A command as a whole process: wall seconds, processor seconds and memory of its process tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RUNNER = Path(__file__).with_name("runner.py")


@dataclass(frozen=True)
class Took:
    """What one run took.

    Attributes:
        seconds: wall time, start and exit included.
        cpu: processor seconds of the process tree.
        memory_mb: peak of the process tree, shared pages counted once (PSS).
        failure: why it failed; "" if it ended well.
        output: the end of what it printed.
    """

    seconds: float
    cpu: float
    memory_mb: float
    failure: str
    output: str


def run(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    limit: float = 900,
    linger: float = 60,
    beside: Sequence[int] = (),
    feed: tuple[Path, int] | None = None,
) -> Took:
    """Run a command to its end and measure it; bytecode is cached as on any user's machine.

    Args:
        command: what to run.
        env: what it has in its environment besides this process's.
        limit: seconds after which it is killed.
        linger: seconds that what it started may stay after it has ended.
        beside: processes that work for it: what they use counts, too.
        feed: a file for its standard input, and how many times over.
    """
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        asked = {"command": [*command], "limit": limit, "linger": linger, "log": log.name}
        asked |= {"beside": [*beside]}
        if feed:
            asked["stdin"] = {"path": str(feed[0]), "times": feed[1]}
        done = subprocess.run(
            [sys.executable, "-S", str(RUNNER), json.dumps(asked)],
            env=environment(env or {}),
            stdout=subprocess.PIPE,
            check=True,
        )
        output = Path(log.name).read_text(errors="replace").strip()[-4000:]
    found = json.loads(done.stdout)
    return Took(
        found["seconds"], found["cpu"], found["memory"], reason(found, limit, output), output
    )


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """What a command has in its environment: this process's, and more."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {**more}


def reason(found: Mapping[str, float | None], limit: float, output: str) -> str:
    """Why a run failed, in a line; "" if it did not."""
    if found["code"] is None:
        return f"stopped after {limit:g} s"
    if found["code"] == 0:
        return ""
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    return f"exit code {found['code']}: {last.strip()[:200]}"
