"""What a writer does and says, as JSON lines that are on the disk before it goes on.

A writer that is killed leaves the step that it was in without an end: its outcome is unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.histories.checker import Outcome, Said
from tests.histories.plan import Step


@dataclass(frozen=True)
class End:
    """How an attempt ended: what the writer said, in which words, and of which version."""

    said: Said = "unknown"
    version: int = -1
    words: str = ""
    broken: bool = False


@dataclass
class Attempts:
    """A step and the ends of all attempts at it; one that was killed has none."""

    step: Step
    begun: int = 0
    ends: list[End] = field(default_factory=list)

    @property
    def cut_off(self) -> bool:
        """Whether an attempt has no end."""
        return self.begun > len(self.ends)

    def outcome(self) -> Outcome:
        """What is known of the step."""
        landed = [end.version for end in self.ends if end.said == "landed"]
        if landed:
            return Outcome(self.step.intent, "landed", max(landed))
        refused = [end for end in self.ends if end.said == "refused"]
        return Outcome(self.step.intent, "refused" if len(refused) == self.begun else "unknown")


@dataclass(frozen=True)
class Journal:
    """The journal of one writer, through all its lives."""

    path: Path

    def begin(self, step: Step) -> None:
        """Say that a step begins, perhaps once more."""
        self._write({"begin": step.as_json()})

    def end(self, step: Step, end: End) -> None:
        """Say how it ended."""
        self._write({"end": step.name, **vars(end)})

    def size(self) -> int:
        """Its length in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def _write(self, entry: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def attempts(self) -> dict[str, Attempts]:
        """What was begun and how it ended, by step, in the order in which they came first."""
        found: dict[str, Attempts] = {}
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for entry in map(json.loads, lines):
            if "begin" in entry:
                step = Step.from_json(entry["begin"])
                found.setdefault(step.name, Attempts(step)).begun += 1
            else:
                found[entry.pop("end")].ends.append(End(**entry))
        return found


def outcomes(journals: Iterable[Journal]) -> dict[str, Outcome]:
    """What became of every writer's steps."""
    return {
        name: attempts.outcome()
        for journal in journals
        for name, attempts in journal.attempts().items()
    }
