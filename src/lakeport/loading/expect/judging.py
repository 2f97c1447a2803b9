"""What a run does with the findings of its expectations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from lakeport.errors import BadRecord
from lakeport.loading.quarantine import Of, Quarantine

if TYPE_CHECKING:
    from lakeport.loading.builder import ReportBuilder
    from lakeport.loading.expect.result import ExpectationResult
    from lakeport.model import Batch


@dataclass(frozen=True)
class RunJudge:
    """A `Judge` that writes the report, and quarantine files beside the lake.

    Attributes:
        report: the run's.
        quarantine: where rows are kept.
        keep: sets rows of a batch aside, of so many that count towards the run's.
        lock: is held while the report changes.
    """

    report: ReportBuilder
    quarantine: Quarantine
    keep: Callable[[Batch, Sequence[BadRecord], int], None]
    lock: Lock

    def set_aside(self, batch: Batch, rows: Sequence[BadRecord], checked: int) -> None:
        """Keep rows that are not landed; raises when the run has too many."""
        self.keep(batch, rows, checked)

    def samples(self, batch: Batch, rows: Sequence[BadRecord]) -> str:
        """Keep some of the rows for which the load fails; gives the file's URI."""
        (uri,) = self.quarantine.write(rows, batch.sequence, Of.SAMPLES)
        with self.lock:
            self.report.quarantined((), [uri])
        return uri

    def told(self, stream: str, results: Sequence[ExpectationResult]) -> None:
        """Take down what was told of the expectations."""
        with self.lock:
            self.report.expected(stream, results)
            for one in results:
                if one.failed and one.otherwise == "warn":
                    text = f"an expectation is not met: {one.in_words}."
                    self.report.warn(text, stream)

    def warn(self, stream: str, text: str) -> None:
        """Take down what could not be told."""
        with self.lock:
            self.report.warn(text, stream)
