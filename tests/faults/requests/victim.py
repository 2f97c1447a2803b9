"""An operation as a process of its own, which is killed in the middle.

`Victim` is the killer's side; the module as a program does the operation, reading from standard
input what it is, and writes a line for each STATE that it lets out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeport.errors import OutcomeUnknown
from tests.faults.kit import Process, await_end, of_the_tests
from tests.faults.requests.faults import Fault
from tests.faults.requests.files import FileCalls, dying
from tests.faults.requests.operations import OPERATIONS, TABLE, Operation, Said
from tests.faults.requests.proxy import Point
from tests.faults.requests.sites import Place
from tests.faults.requests.steps import around_steps, is_step


@dataclass
class Victim:
    """An operation that is to be killed.

    Attributes:
        place: where it is done.
        operation: what is done.
        run_id: its run id; empty for none.
    """

    place: Place
    operation: Operation
    run_id: str
    _process: Process | None = None
    _family: set[int] = field(default_factory=set)

    def run(self, point: Point, fault: Fault) -> Said:
        """Do it to its end; return what it said before that.

        Args:
            point: a step or call of the file system at which it kills itself; it does so at no
                request.
            fault: how.
        """
        proxy = self.place.site.proxy
        calls = str(proxy.folder) if isinstance(proxy, FileCalls) else ""
        task = {
            "operation": self.operation.name,
            "config": self.place.config(table=TABLE),
            "folder": str(self.place.folder),
            "run_id": self.run_id,
            "calls": "" if is_step(point.name) else calls,
            "step": point.name if is_step(point.name) else "",
            "ordinal": point.ordinal,
            "after": fault.forwarded,
        }
        path = os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))
        with subprocess.Popen(
            [sys.executable, "-m", "tests.faults.requests.victim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=of_the_tests({"PYTHONPATH": path, "LAKEPORT_CDS": "use"}),
        ) as popen:
            self._process = process = Process(popen)
            process.follow()
            process.feed(json.dumps(task).encode())
            code = process.end()
            await_end(self._family)
        said = Said(states=[int(line) for line in process.out])
        if code != 0:
            said.error = OutcomeUnknown("it was killed")
            if code != -signal.SIGKILL:
                said.error = AssertionError(process.words[-500:])
        return said

    def kill(self, _path: str = "") -> None:
        """Kill it; what it has started ends by itself, and is waited for."""
        if self._process is not None:
            self._family = self._process.family()
            self._process.send(signal.SIGKILL)


@dataclass(frozen=True)
class _Place:
    """What an operation needs of its place."""

    keys: dict[str, Any]
    folder: Path

    def config(self, *, table: str, **keys: Any) -> dict[str, Any]:
        return {**self.keys, **keys}


class _Telling(Said):
    """Writes STATEs out as they come."""

    def on_state(self, state: bytes) -> None:
        super().on_state(state)
        print(self.states[-1], flush=True)


def _dying(step: str, ordinal: int, *, after: bool) -> Callable[[str, Callable[[], Any]], Any]:
    """Kill this process at the nth time of a step."""
    counts: Counter[str] = Counter()

    def call(name: str, go: Callable[[], Any]) -> Any:
        counts[name] += 1
        fatal = name == step and counts[name] == ordinal
        if fatal and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = go()
        if fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def main() -> None:
    """Do the operation that standard input names."""
    task = json.load(sys.stdin)
    place: Any = _Place(task["config"], Path(task["folder"]))
    operation = OPERATIONS[task["operation"]]
    with ExitStack() as stack:
        stack.enter_context(
            around_steps(_dying(task["step"], task["ordinal"], after=task["after"]))
        )
        if task["calls"]:
            stack.enter_context(dying(Path(task["calls"])))
        operation.run(place, _Telling(), 0, task["run_id"])


if __name__ == "__main__":
    main()
