"""Many inputs, in child processes: what kills one is found, kept and passed over."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.case import KINDS, Case, made
from tests.fuzz.shrinking import shrink

CHUNK = 2000
_PATIENCE = 60.0  # seconds for one input, by the clock: the machine may be busy with other things
_TRIES_OF_CRASHES = 40


@dataclass(frozen=True)
class Chunk:
    """Inputs `start` to `end` of one kind."""

    kind: str
    start: int
    end: int


@dataclass
class Soak:
    """One run over many inputs; what is done is kept in `folder`, so that it can be resumed.

    Attributes:
        seed: decides every input.
        folder: `findings/`, one file each, and `state.json`.
        tell: takes a line of progress.
    """

    seed: int
    folder: Path
    tell: Callable[[str], None] = print
    done: set[Chunk] = field(default_factory=set)
    findings: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def resumed(cls, folder: Path) -> Soak:
        """A run that was ended, with its seed."""
        state = json.loads((folder / "state.json").read_text())
        done = {Chunk(*chunk) for chunk in state["done"]}
        return cls(state["seed"], folder, done=done, findings=Counter(state["findings"]))

    def run(self, counts: dict[str, int], workers: int) -> bool:
        """Check that many inputs of each kind; return whether nothing was found."""
        self.findings_folder.mkdir(parents=True, exist_ok=True)
        begin, before = time.monotonic(), self.inputs()
        waiting = [chunk for chunk in _chunks(counts) if chunk not in self.done]
        with ThreadPoolExecutor(workers) as executor:
            for chunk in executor.map(self._one, waiting):
                rate = (self.inputs() - before) / (time.monotonic() - begin)
                self.tell(
                    f"seed {self.seed}: {self.inputs()} of {sum(counts.values())} inputs, "
                    f"{rate:.0f}/s, {len(self.findings)} findings, just did "
                    f"{chunk.kind} {chunk.start}-{chunk.end}"
                )
        for kind in counts:
            done = sum(c.end - c.start for c in self.done if c.kind == kind)
            self.tell(f"{kind:>12} {done:>9} inputs")
        for signature, times in self.findings.most_common():
            self.tell(f"found {times} times: {signature}")
        return not self.findings

    @property
    def findings_folder(self) -> Path:
        """Where the findings are kept."""
        return self.folder / "findings"

    def inputs(self) -> int:
        """Inputs checked so far."""
        return sum(chunk.end - chunk.start for chunk in self.done)

    def _one(self, chunk: Chunk) -> Chunk:
        start = chunk.start
        while start < chunk.end:
            start = self._child(chunk.kind, start, chunk.end)
        with self.lock:
            self.done.add(chunk)
            self._save()
        return chunk

    def _child(self, kind: str, start: int, end: int) -> int:
        """Run one child; return where to go on, behind the input that it died of if it did."""
        with tempfile.NamedTemporaryFile(prefix="fuzz-") as mark:
            mark.write(start.to_bytes(8, "little"))
            mark.flush()
            command = [sys.executable, "-m", "tests.fuzz.child", kind, str(self.seed)]
            command += [str(start), str(end), str(self.findings_folder), mark.name]
            ended, told, status = _watched(command, Path(mark.name))
            at = int.from_bytes(Path(mark.name).read_bytes(), "little")
        with self.lock:
            self.findings.update(signature for signature in told if signature is not None)
        if ended and None in told:
            return end
        if status.startswith("exit"):
            raise RuntimeError(f"the fuzzer itself failed at {kind} {at}: {status}")
        self._died(kind, at, status if ended else "no end")
        return at + 1

    def _died(self, kind: str, number: int, status: str) -> None:
        signature = f"{kind}: {status}"
        with self.lock:
            self.findings[signature] += 1
            if self.findings[signature] > 3:
                return
        case = made(kind, self.seed, number)
        path = self.findings_folder / f"{kind}-{self.seed}-{number}.json"
        told = {"kind": kind, "seed": self.seed, "number": number, "signature": signature}
        case.write(path, **told)
        if status != "no end":
            small = shrink(case, lambda c: _repeated(kind, c) == status, _TRIES_OF_CRASHES)
            small.write(path, **told)

    def _save(self) -> None:
        state = {
            "seed": self.seed,
            "done": [[c.kind, c.start, c.end] for c in self.done],
            "findings": self.findings,
        }
        path = self.folder / "state.json.new"
        path.write_text(json.dumps(state))
        path.replace(self.folder / "state.json")


def counts_of(total: int, kinds: list[str]) -> dict[str, int]:
    """How many inputs of each kind `total` is, by the kinds' shares."""
    shares = {kind: KINDS[kind] for kind in kinds}
    return {kind: round(total * share / sum(shares.values())) for kind, share in shares.items()}


def _chunks(counts: dict[str, int]) -> Iterator[Chunk]:
    """All chunks, so that every kind is as far as the others at any time."""
    cut = [
        (start / count, Chunk(kind, start, min(start + CHUNK, count)))
        for kind, count in counts.items()
        for start in range(0, count, CHUNK)
    ]
    yield from (chunk for _, chunk in sorted(cut, key=lambda pair: pair[0]))


def _watched(command: list[str], mark: Path) -> tuple[bool, list[str | None], str]:
    """Run a child; whether it ended by itself, what it told, and how it ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err)
        last, since = b"", time.monotonic()
        ended = True
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.2)
                break
            if (now := mark.read_bytes()) != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                child.kill()
                child.wait()
                ended = False
                break
        out.seek(0)
        err.seek(0)
        told = [json.loads(line) for line in out.read().splitlines() if line.endswith((b'"', b"l"))]
        return ended, told, _status(child.returncode, err.read())


def _status(code: int, err: bytes) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit {code}: {err.decode(errors='replace').strip().rpartition(chr(10))[2][:100]}"


def _repeated(kind: str, case: Case) -> str:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        case.write(Path(file.name), kind=kind)
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "--repeat", file.name], capture_output=True
        )
    return _status(done.returncode, done.stderr)
