"""One writer, a process of its own: `python -m tests.histories.writer JOB`.

The job is a JSON file with the fields of `Job`. A writer that is started again goes on where its
journal ends; the step that was cut off is repeated under the same name, or left.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.histories.checker import Said
from tests.histories.journal import End, Journal
from tests.histories.plan import DELTA_RS, LAKEPORT, Step, draw
from tests.histories.stores import arrow

Act = Callable[[Step], End]

_POLL = 0.01
_REPEATED = 2 / 3  # of the steps that were cut off


@dataclass(frozen=True)
class Job:
    """What a writer is told.

    Attributes:
        seed: of the history.
        number: the writer's.
        kind: `lakeport` or `delta-rs`.
        steps: it does so many and ends.
        journal: where it says what it does.
        follows: journals of others: it does a step when these grow; without any, at once.
        stop: it ends before its next step when this file is there.
        config: how lakeport reaches the table.
        uri: how delta-rs names the table.
        options: what delta-rs needs to open it.
    """

    seed: str
    number: int
    kind: str
    steps: int
    journal: str
    follows: list[str]
    stop: str
    config: dict[str, Any]
    uri: str
    options: dict[str, str]

    def write(self, path: Path) -> None:
        """Write it for `read`."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read it from its file."""
        return cls(**json.loads(path.read_text()))


def lakeport_writer(job: Job) -> Act:
    """Does steps as a user of lakeport does."""
    import lakeport
    from lakeport.engine.base import SessionRequest
    from lakeport.engine.spark.session import DriverSession
    from lakeport.errors import CommitConflict, ConfigError, InputError, RunMismatch, SchemaConflict

    driver = DriverSession.acquire(SessionRequest({"delta", "s3a", "azure"}))
    driver.spark  # noqa: B018  # no step begins before it is there
    target = lakeport.Table(job.config["table"], job.config)
    refusals = (CommitConflict, ConfigError, InputError, RunMismatch, SchemaConflict)
    modes = {"append": "append", "merge": "merge", "replace": "overwrite"}

    def act(step: Step) -> End:
        try:
            if step.doing == "undo":
                return End("landed", target.undo(step.run).version)
            if step.doing == "optimize":
                return End("landed", words=str(target.optimize()))
            if step.doing == "vacuum":
                return End("landed", words=str(target.vacuum()))
            report = lakeport.land(
                arrow(step.rows), job.config, mode=modes[step.doing], run_id=step.name
            )
        except lakeport.LakeportError as error:
            said: Said = "refused" if isinstance(error, refusals) else "unknown"
            return End(said, words=f"{type(error).__name__}: {error.message}")
        return End("landed", report.streams[0].last_version, f"{report.rows} rows")

    return act


def delta_rs_writer(job: Job) -> Act:
    """Does steps with delta-rs. What it says after a failure is not taken for sure."""
    from deltalake import CommitProperties, DeltaTable, write_deltalake
    from deltalake.exceptions import DeltaError

    def do(step: Step) -> None:
        target = DeltaTable(job.uri, storage_options=job.options)
        told = {"step": step.name, "read": str(target.version())}
        properties = CommitProperties(custom_metadata=told)
        if step.doing == "merge":
            merger = target.merge(
                arrow(step.rows),
                "t.key = s.key",
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
        elif step.doing == "optimize":
            target.optimize.compact(commit_properties=properties)
        elif step.doing == "vacuum":
            target.vacuum(dry_run=False, commit_properties=properties)
        else:
            replaces = step.doing == "replace"
            write_deltalake(
                target,
                arrow(step.rows),
                mode="overwrite" if replaces else "append",
                predicate=f"part = '{step.rows[0].part}'" if replaces else None,
                commit_properties=properties,
            )

    def act(step: Step) -> End:
        try:
            do(step)
        except (DeltaError, OSError) as error:
            return End(words=f"{type(error).__name__}: {error}")
        return End("landed")

    return act


@dataclass(frozen=True)
class Writer:
    """Does a job's steps, and says so in its journal."""

    job: Job
    act: Act

    @property
    def ours(self) -> bool:
        """Whether it writes with lakeport."""
        return self.job.kind == "lakeport"

    @property
    def journal(self) -> Journal:
        """Where it says what it does."""
        return Journal(Path(self.job.journal))

    def work(self) -> None:
        """Do the steps that are left."""
        done = list(self.journal.attempts().values())
        if done and done[-1].cut_off and self.ours and self._repeats(done[-1].step):
            self.attempt(done[-1].step)
        for ordinal in range(len(done), self.job.steps):
            if not self._has_turn():
                return
            often = LAKEPORT if self.ours else DELTA_RS
            self.attempt(draw(self.job.seed, self.job.number, ordinal, often, self._undoable()))

    def _has_turn(self) -> bool:
        """Wait for the others to say a word, if it follows any; False when it is time to stop."""
        heard = self._words()
        while not Path(self.job.stop).exists():
            if not self.job.follows or self._words() != heard:
                return True
            time.sleep(_POLL)
        return False

    def _words(self) -> int:
        return sum(Journal(Path(path)).size() for path in self.job.follows)

    def attempt(self, step: Step) -> None:
        """Do a step."""
        self.journal.begin(step)
        try:
            end = self.act(step)
        except BaseException:
            self.journal.end(step, End(words=traceback.format_exc(), broken=True))
            raise
        self.journal.end(step, end)

    def _repeats(self, step: Step) -> bool:
        return Random(f"{self.job.seed} {step.name}").random() < _REPEATED

    def _undoable(self) -> str:
        """The run that landed last, if nobody has tried to undo it."""
        tried = self.journal.attempts().values()
        undone = {one.step.run for one in tried}
        landed = [one.step for one in tried if one.outcome().said == "landed"]
        runs = [step.name for step in landed if step.rows and step.name not in undone]
        return runs[-1] if runs else ""


def work(job: Job) -> None:
    """Do a job."""
    acts = {"lakeport": lakeport_writer, "delta-rs": delta_rs_writer}
    Writer(job, acts[job.kind](job)).work()


if __name__ == "__main__":
    work(Job.read(Path(sys.argv[1])))
