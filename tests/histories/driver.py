"""Plays a history: starts writers, kills them, starts them again, and checks what they made."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deltalake.exceptions import DeltaError

from tests.faults.kit import Process, await_end
from tests.histories.chaos import ChaosProxy
from tests.histories.checker import Content, anomalies
from tests.histories.journal import Journal, outcomes
from tests.histories.stores import Store
from tests.histories.writer import Job, work

_ROOT = Path(__file__).parent.parent.parent
_NO_END = 1_000_000  # steps
_PATIENCE = 400.0  # seconds without a new word in a journal: the writer is taken for hung
_POLL = 0.05
_LATEST_KILL = 2.0  # seconds after a step has begun: it and one or two more may be done by then


class Player:
    """One writer's process, through all its lives.

    Args:
        job: what it does.
        random: when it is killed.
        kills: how often.
        steps_alive: it is killed in one of so many steps after its start.
    """

    def __init__(self, job: Job, random: Random, kills: int, steps_alive: int) -> None:
        self.job = job
        self.journal = Journal(Path(job.journal))
        self.log = Path(job.journal).with_suffix(".log")
        self.kills = 0
        self._random = random
        self._kills_left = kills
        self._steps_alive = steps_alive
        self._file = Path(job.journal).with_suffix(".job")
        job.write(self._file)
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "tests.histories.writer", self._file],
                cwd=_ROOT,
                env={**os.environ, "LAKEPORT_CDS": "use", "TMPDIR": str(self._file.parent)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._last_step = self._begun() + self._random.randint(1, self._steps_alive)
        self._kill_at = 0.0
        self._heard = (0, time.monotonic())

    def alive(self) -> bool:
        """Whether it still has something to do; kills it and starts it again when it is time."""
        if self._process.poll() is None:
            self._kill_if_due()
            self._listen()
            return True
        if self._process.returncode != -signal.SIGKILL:
            return False
        self._start()
        return True

    def _kill_if_due(self) -> None:
        now = time.monotonic()
        if self._kills_left and not self._kill_at and self._begun() >= self._last_step:
            self._kill_at = now + self._random.uniform(0, _LATEST_KILL)
        if self._kill_at and now >= self._kill_at:
            self._kills_left -= 1
            self.kills += 1
            if self._random.random() < 1 / 2:
                self._process.kill()  # its JVM goes on for a while, with a commit, too
                self._process.wait()
            else:
                self.end()

    def _listen(self) -> None:
        said, since = self.journal.size(), time.monotonic()
        if said != self._heard[0]:
            self._heard = (said, since)
        elif since - self._heard[1] > _PATIENCE:
            self._process.send_signal(signal.SIGABRT)  # has it show every thread's stack
            self._process.wait()
            raise AssertionError(f"writer {self.job.number} hung: {self.last_words()}")

    def _begun(self) -> int:
        return sum(tried.begun for tried in self.journal.attempts().values())

    def last_words(self) -> str:
        """The end of what it and its JVM printed."""
        return self.log.read_text(errors="replace")[-3000:]

    def broken(self) -> Iterator[str]:
        """Errors that should never have come out of it."""
        for name, tried in self.journal.attempts().items():
            for end in tried.ends:
                if end.broken:
                    yield f"{name} ({tried.step.doing}) broke: {end.words}"
        if self._process.returncode not in (0, -signal.SIGKILL):
            yield f"writer {self.job.number} ended with {self._process.returncode}"

    def end(self) -> None:
        """Kill it at once if it runs, with its JVM and the JVM's workers."""
        if self._process.poll() is None:
            family = Process(self._process).family()
            for pid in (self._process.pid, *family):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            await_end(family)


@dataclass(frozen=True)
class Report:
    """What came of a history.

    Attributes:
        anomalies: what no serial order explains, and errors that should never come out.
        versions: how many the table has.
        said: number of steps by what was done and how it ended.
        kills: of writers.
        failed: requests.
    """

    anomalies: tuple[str, ...]
    versions: int
    said: dict[str, int]
    kills: int
    failed: int


@dataclass(frozen=True)
class History:
    """Several writers and one table.

    Attributes:
        store: where the table is; it must not be there yet.
        seed: of all that is random but the machine.
        folder: for journals and logs.
        writers: what each is: `lakeport` or `delta-rs`.
        steps: that each of ours does at most; the others go on as long as these do.
        kills: of each writer at most.
        steps_alive: a writer is killed in one of so many steps after its start.
        often: how often a request fails, from 0 to 1.
        seconds: after the first step, when no step is begun any more.
    """

    store: Store
    seed: str
    folder: Path
    writers: Sequence[str] = ("lakeport", "lakeport", "delta-rs")
    steps: int = 12
    kills: int = 1
    steps_alive: int = 10
    often: float = 0.01
    seconds: float = 3600.0

    def play(self) -> Report:
        """Play it with processes, and check it."""
        self.store.create_table()
        with self._proxies() as proxies:
            players = [
                Player(job, Random(f"{self.seed} kill {job.number}"), self.kills, self.steps_alive)
                for job in self._jobs(proxies)
            ]
            try:
                self._watch(players)
            finally:
                for player in players:
                    player.end()
            broken = [text for player in players for text in player.broken()]
            kills = sum(player.kills for player in players)
            return self._checked(broken, kills, sum(proxy.failed for proxy in proxies))

    def play_here(self) -> Report:
        """Play it with threads of this process, of which nobody is killed, and check it.

        Ours share the process's Spark session, which reaches a store in one way at a time: there
        must be one of them only.
        """
        self.store.create_table()
        with self._proxies() as proxies, ThreadPoolExecutor(len(proxies)) as pool:
            jobs = self._jobs(proxies)
            ends = {pool.submit(work, job): job for job in jobs}
            wait([end for end, job in ends.items() if not job.follows])
            self._stop.touch()
            broken = [repr(error) for end in ends if (error := end.exception()) is not None]
            return self._checked(broken, 0, sum(proxy.failed for proxy in proxies))

    @contextmanager
    def _proxies(self) -> Iterator[list[ChaosProxy]]:
        """One for each writer; what delta-rs takes for lost has to be lost."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    ChaosProxy(
                        self.store.endpoint,
                        self.store.dialect,
                        f"{self.seed} {number}",
                        often=self.often,
                        harsh=kind == "lakeport",
                    )
                )
                for number, kind in enumerate(self.writers)
            ]

    def _jobs(self, proxies: Sequence[ChaosProxy]) -> list[Job]:
        leading = [n for n, kind in enumerate(self.writers) if kind == self.writers[0]]
        jobs = []
        for number, (kind, proxy) in enumerate(zip(self.writers, proxies, strict=True)):
            store = self.store.through(proxy.endpoint)
            follows = [] if number in leading else [self._journal(n) for n in leading]
            steps, journal = _NO_END if follows else self.steps, self._journal(number)
            job = Job(
                self.seed,
                number,
                kind,
                steps,
                journal,
                follows,
                str(self._stop),
                store.config,
                store.uri,
                store.options,
            )
            jobs.append(job)
        return jobs

    def _journal(self, number: int) -> str:
        return str(self.folder / f"w{number}.jsonl")

    @property
    def _stop(self) -> Path:
        return self.folder / "stop"

    def _watch(self, players: Sequence[Player]) -> None:
        end = math.inf
        while alive := [player for player in players if player.alive()]:
            if end == math.inf and any(player.journal.size() for player in players):
                end = time.monotonic() + self.seconds  # whatever Spark's start took
            leading = [player for player in alive if not player.job.follows]
            if time.monotonic() > end or not leading:
                self._stop.touch()
            time.sleep(_POLL)

    def _checked(self, broken: Sequence[str], kills: int, failed: int) -> Report:
        journals = (Journal(Path(self._journal(number))) for number in range(len(self.writers)))
        told = outcomes(journals)
        reader = self.store.reader
        found = list(broken)
        contents: list[Content] = []
        try:
            commits = reader.commits()
            contents += (reader.content(version)[1] for version in range(reader.newest() + 1))
        except (DeltaError, OSError) as error:
            found.append(f"version {len(contents)} can't be read: {error}")
        else:
            found += anomalies(commits, contents, told)
        said = Counter(f"{one.intent.kind} {one.said}" for one in told.values())
        return Report(tuple(found), len(contents), dict(sorted(said.items())), kills, failed)
