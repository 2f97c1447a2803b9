"""Results of expectations: how a run reports them, and the errors of those that are not met."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.config.expectations import Expectation
from lakeport.config.explain import closest_match
from lakeport.errors import BadRecord, ConfigError, ExpectationFailed
from lakeport.loading.quarantine import Quarantine, RejectedKind
from lakeport.model import ExpectationResult
from lakeport.units import pluralize

if TYPE_CHECKING:
    from lakeport.loading.builder import ReportBuilder
    from lakeport.loading.expect.arrow import Findings
    from lakeport.model import Batch


@dataclass(frozen=True)
class Judge:
    """Writes the results of a batch's expectations to report and quarantine, before the commit.

    Attributes:
        report: the run's.
        quarantine: where rows are kept.
        set_aside: keeps rows of a batch that are not landed, of so many that count towards the
            run's; raises when the run has too many.
    """

    report: ReportBuilder
    quarantine: Quarantine
    set_aside: Callable[[Batch, Sequence[BadRecord], int], None]

    def samples(self, batch: Batch, rows: Sequence[BadRecord]) -> str:
        """Keep some of the rows for which the load fails; return the file's URI."""
        (uri,) = self.quarantine.write(rows, batch.sequence, RejectedKind.SAMPLES)
        self.report.quarantined((), [uri])
        return uri

    def report_results(self, stream: str, results: Sequence[ExpectationResult]) -> None:
        """Report the results of a stream's expectations, and a warning for each `warn` not met."""
        self.report.expected(stream, results)
        for one in results:
            if one.failed and one.otherwise == "warn":
                self.report.warn(f"an expectation is not met: {one.in_words}.", stream)


def result_of(
    number: int, one: Expectation, total: Findings, newest: float | None
) -> ExpectationResult:
    """Return the result of an expectation.

    Args:
        number: its place.
        one: it.
        total: what was found of all rows.
        newest: of `fresh`, the newest value, in seconds since 1970; None where there is none.
    """
    failed, detail = total.failed.get(number, 0), ""
    if one.rows is not None:
        low, high = one.rows.at_least, one.rows.at_most
        short, many = (low or 0) > total.passed, high is not None and total.passed > high
        failed, detail = int(short or many), pluralize(total.passed, "row")
    elif one.fresh is not None:
        age = None if newest is None else time.time() - newest
        failed = int(age is None or age > one.fresh.within)
        of = "" if number in total.newest else " of the table"
        detail = "no value" if age is None else f"the newest value{of} is {_age(age)} old"
    return ExpectationResult(one.title, one.otherwise, total.rows, failed, detail)


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0, round(seconds))} seconds"


def failure(stream: str, failing: Sequence[ExpectationResult], file: str = "") -> ExpectationFailed:
    """Return the error of a load whose expectations are not met.

    Args:
        stream: its stream.
        failing: the expectations that are not met.
        file: the URI of some of the rows; empty where none was kept.
    """
    words = "; ".join(one.in_words for one in failing)
    several = "expectations are" if len(failing) > 1 else "the expectation is"
    where = f"some of the rows are in {file}; " if file else ""
    rows = "" if any(one.detail for one in failing) else "`quarantine` sets such rows aside, "
    return ExpectationFailed(
        f"stream {stream!r}: {several} not met: {words}; nothing was committed",
        f"{where}correct the source, or the expectation's `otherwise`: {rows}`warn` lands them.",
    )


def no_column(one: Expectation, name: str, columns: Sequence[str]) -> ConfigError:
    """Return the error of an expectation on a column that does not exist."""
    close = closest_match(name, columns)
    return ConfigError(
        f"expectation {one.title}: there is no column {name!r}"
        + (f"; did you mean `{close}`?" if close else ""),
        f"the columns are {', '.join(columns)}.",
    )
