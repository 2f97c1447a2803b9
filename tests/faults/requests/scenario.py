"""An operation at a destination: what it asks of the store, and one case of it after another."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any

from lakeport.errors import RunMismatch
from tests.faults.requests.case import Case, Result
from tests.faults.requests.faults import FAULTS, FILE_FAULTS, KILLS
from tests.faults.requests.operations import OPERATIONS, RIVAL, Operation, Said, perform
from tests.faults.requests.oracle import judge, seen, told
from tests.faults.requests.proxy import Point
from tests.faults.requests.sites import Place, Site
from tests.faults.requests.steps import around_steps, is_step
from tests.faults.requests.victim import Victim

_SLOW = 300.0  # seconds, after which it is taken for hung
_roots = count()


def scenarios(sites: Iterable[Site]) -> list[Scenario]:
    """Every operation that each destination has, with and without a run id."""
    return [
        Scenario(site, operation, run_id)
        for site in sites
        for operation in OPERATIONS.values()
        if site.target.format == "delta" or not operation.delta
        for run_id in ([False, True] if operation.run_ids else [False])
    ]


@dataclass
class Scenario:
    """An operation at a destination, its table made once and copied for each case.

    Attributes:
        site: the destination.
        operation: what is done.
        run_id: whether it has a run id.
    """

    site: Site
    operation: Operation
    run_id: bool
    _began: int = -1

    def __str__(self) -> str:
        kind = "run-id" if self.run_id else "no-run-id"
        return f"{self.site.name}:{self.operation.name}:{kind}"

    def recording(self) -> list[Point]:
        """The requests and steps of a run in which nothing fails, and which is then repeated."""
        steps: Counter[str] = Counter()

        def note(name: str, go: Callable[[], Any]) -> Any:
            steps[name] += 1
            return go()

        with tempfile.TemporaryDirectory() as folder:
            place = self._fresh(folder)
            with self.site.proxy.script(place) as script, around_steps(note):
                said = self._perform(place, 0)
            step, wrong = self._judged(place, said)
            wrong = wrong or self._repeated(place, said, step)
            wrong = wrong or self._refused(place)
            if said.error is not None or wrong:
                raise AssertionError(f"a run without faults: {wrong}") from said.error
        passed = [Point(name, n) for name in steps for n in range(1, steps[name] + 1)]
        return [*script.seen, *passed]

    def _refused(self, place: Place) -> list[str]:
        """Whether a repeat with other content is refused, and changes nothing."""
        if not self.run_id or self.operation.other is None:
            return []
        said = perform(self.operation.other, place, self._run)
        step, wrong = judge(place, self.operation, self._began)
        if not isinstance(said.error, RunMismatch) or step != len(self.operation.contents) - 1:
            wrong.append(f"the run with other content was not refused: {said.error}")
        return wrong

    def cases(self) -> list[Case]:
        """Every fault at every request, and every kill at every request and step."""
        return [
            Case(self.site.name, self.operation.name, self.run_id, point, fault)
            for point in self.recording()
            for fault in self._faults(point)
        ]

    def _faults(self, point: Point) -> list[str]:
        """The names of what can be done at a point."""
        if is_step(point.name):
            return [*KILLS]
        if self.site.dialect == "local":
            return [*FILE_FAULTS, *KILLS]
        fitting = [
            fault.name
            for fault in FAULTS.values()
            if any(fnmatchcase(point.name, pattern) for pattern in fault.only)
            and (self.operation.rivals or not fault.passes)
        ]
        return [*fitting, *KILLS]

    def run(self, case: Case) -> Result:
        """Try a case."""
        with tempfile.TemporaryDirectory() as folder:
            place = self._fresh(folder)
            begin = time.monotonic()
            if case.fault in KILLS:
                said, met = self._killed(place, case)
            else:
                fault = {**FAULTS, **FILE_FAULTS}[case.fault]
                fault = (
                    fault.striking(lambda path: place.rival(RIVAL, path)) if fault.passes else fault
                )
                with self.site.proxy.script(place, case.point, fault) as script:
                    said = self._perform(place, 0)
                met = script.hit
            seconds = time.monotonic() - begin
            step, wrong = self._judged(place, said)
            if seconds > _SLOW:
                wrong.append(f"it took {seconds:.0f} s")
            if not wrong:
                wrong = self._repeated(place, said, step)
            words = f"{type(said.error).__name__}: {said.error}" if said.error else ""
            return Result(met, said.error is None, tuple(wrong), words, seconds)

    def _killed(self, place: Place, case: Case) -> tuple[Said, bool]:
        """Do it in a process that is killed; return what it said, and whether it was killed."""
        victim, fault = Victim(place, self.operation, self._run), KILLS[case.fault]
        at = None if is_step(case.point.name) else case.point
        with self.site.proxy.script(place, at, fault.striking(victim.kill)):
            said = victim.run(case.point, fault)
        return said, said.error is not None

    @property
    def _run(self) -> str:
        return "night/1" if self.run_id else ""

    def _repeated(self, place: Place, before: Said, step: int) -> list[str]:
        """Repeat it, now that the store is well; return what is wrong then."""
        if before.error is None and not self.run_id and self.operation.run_ids:
            return []  # it is done, and nothing would tell a repeat so
        again = self._perform(place, step)
        last, wrong = self._judged(place, again, step, before)
        if again.error is not None:
            wrong.append(f"the repeat fails: {type(again.error).__name__}: {again.error}")
        elif last != len(self.operation.contents) - 1:
            wrong.append(f"the repeat leaves content {last}")
        return [f"after the repeat: {text}" for text in wrong]

    def _judged(
        self, place: Place, said: Said, started: int = 0, before: Said | None = None
    ) -> tuple[int, list[str]]:
        step, wrong = judge(place, self.operation, self._began)
        repeatable = self.run_id or self.operation.continues
        return step, wrong or told(
            self.operation, said, step, started, before, repeatable=repeatable
        )

    def _perform(self, place: Place, step: int) -> Said:
        resumes = self.operation.resumes and not self.run_id
        rows = self.operation.rows * step // max(1, len(self.operation.contents) - 1)
        return perform(self.operation.run, place, self._run, rows if resumes else 0)

    def _fresh(self, folder: str) -> Place:
        """A root with the table that the operation is done to."""
        base = self.site.base(self.operation.base, Path(folder))
        if self._began < 0:
            self._began = len(seen(base, self.operation))
        place = self.site.place(f"case-{next(_roots)}", Path(folder))
        place.copy_from(base)
        return place
