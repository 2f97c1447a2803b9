"""What is expected of a stream's rows: how it is told of them, and what follows from it.

```
plan ─▶ sieve, in the tasks that write ─▶ findings ─▶ judged before the commit
```
Arrow tells what it can in the task that reads the rows; where it can't, or a frame is landed
anyway, Spark does, in the same run of the frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from lakeport.config.expectations import Expectation
from lakeport.errors import BadRecord, ConfigError, ExpectationFailed
from lakeport.loading.expect.arrow import arrow_mask
from lakeport.loading.expect.conditions import masked
from lakeport.loading.expect.result import ExpectationResult
from lakeport.loading.expect.sieve import Findings, Sieve, last_column
from lakeport.model import Mode
from lakeport.units import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.model import Batch

__all__ = ["Checks", "Judge"]

_MOST: Final = 62
"""Expectations that a column of bits has room for."""


class Judge(Protocol):
    """Takes what came of a batch's expectations, before it is committed."""

    def set_aside(self, batch: Batch, rows: Sequence[BadRecord], checked: int) -> None:
        """Keep rows that are not landed; raises when the run has too many."""

    def samples(self, batch: Batch, rows: Sequence[BadRecord]) -> str:
        """Keep some of the rows for which the load fails; gives the file's URI."""

    def told(self, batch: Batch, results: Sequence[ExpectationResult]) -> None:
        """Take down what was told of the expectations."""


@dataclass(frozen=True)
class Checks:
    """What is expected of one stream's rows.

    Attributes:
        expected: the expectations, whose place tells their bit.
        judge: hears of the findings; None where nothing is run.
        mode: what a load does with the rows that the table has.
        views: other tables by name, as the user gave them.
        table: gives the rows of a table of the lake, by its name; None where there is none.
        own: the name of the stream's table.
    """

    expected: tuple[Expectation, ...]
    judge: Judge | None = None
    mode: Mode = Mode.APPEND
    views: Mapping[str, DataFrame] = field(default_factory=dict)
    table: Callable[[str], DataFrame | None] = lambda _: None
    own: str = ""

    def __post_init__(self) -> None:
        """Refuse more than a column of bits can hold."""
        if len(self.expected) > _MOST:
            raise ConfigError(
                f"`expect` has {len(self.expected)} expectations, more than {_MOST}",
                "put several columns into one, or several conditions into one `check`.",
            )

    @property
    def at_once(self) -> bool:
        """Whether the whole input is landed at once."""
        return any(one.at_once for one in self.expected)

    def needs_spark(self, schema: pa.Schema) -> bool:
        """Whether it takes Spark to tell, for a source of these columns."""
        return bool(self.expected) and arrow_mask(self.expected, schema) is None

    def by_arrow(self, stream: str, schema: pa.Schema) -> Sieve | None:
        """The sieve for rows that a task reads; None without expectations."""
        mask = arrow_mask(self.expected, schema) if self.expected else None
        return None if mask is None else Sieve(stream, self.expected, mask)

    def by_spark(self, stream: str, frame: DataFrame) -> tuple[DataFrame, Sieve | None]:
        """A frame with what its rows' sieve needs, and the sieve; None without expectations.

        Raises:
            ConfigError: an expectation names what is not there.
        """
        if not self.expected:
            return frame, None
        grown = self.mode is Mode.APPEND and any(one.kind == "unique" for one in self.expected)
        known = self.table(self.own) if grown else None
        sieve = Sieve(stream, self.expected, last_column)
        return masked(frame, self.expected, self._others(), known), sieve

    def passed(self, batch: Batch, found: Iterable[Findings], *, counted_before: bool) -> None:
        """Judge what the tasks found; returns where the batch may be committed.

        Args:
            batch: whose rows they are.
            found: each task's.
            counted_before: whether the batch's records count towards the run's already.

        Raises:
            ExpectationFailed: an expectation whose failure fails the load is not met.
            InputError: more rows were set aside than a run may.
        """
        if not self.expected or self.judge is None:
            return
        total = Findings()
        for one in found:
            total.add(one)
        results = [_result(number, one, total) for number, one in enumerate(self.expected)]
        self.judge.told(batch, results)
        failing = [one for one in results if one.failed and one.otherwise == "fail"]
        if failing:
            file = self.judge.samples(batch, total.samples) if total.samples else ""
            raise _failure(batch.stream, failing, file)
        self.judge.set_aside(batch, total.set_aside, 0 if counted_before else total.rows)

    def _others(self) -> dict[str, DataFrame]:
        """The tables that `references` name, as far as there are any."""
        names = {one.references_table for one in self.expected if one.kind == "references"}
        found = {name: self.views.get(name) or self.table(name) for name in names}
        return {name: frame for name, frame in found.items() if frame is not None}


def _result(number: int, one: Expectation, total: Findings) -> ExpectationResult:
    failed, detail = total.failed.get(number, 0), ""
    if one.rows is not None:
        low, high = one.rows.at_least, one.rows.at_most
        short, many = (low or 0) > total.passed, high is not None and total.passed > high
        failed, detail = int(short or many), counted(total.passed, "row")
    elif one.fresh is not None:
        newest = total.newest.get(number)
        age = None if newest is None else time.time() - newest
        failed = int(age is None or age > one.fresh.within)
        detail = "no value" if age is None else f"the newest value is {_age(age)} old"
    return ExpectationResult(one.title, one.otherwise, total.rows, failed, detail)


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0, round(seconds))} seconds"


def _failure(stream: str, failing: Sequence[ExpectationResult], file: str) -> ExpectationFailed:
    words = "; ".join(one.in_words for one in failing)
    several = "expectations are" if len(failing) > 1 else "the expectation is"
    where = f"some of the rows are in {file}; " if file else ""
    rows = "" if any(one.detail for one in failing) else "`quarantine` sets such rows aside, "
    return ExpectationFailed(
        f"stream {stream!r}: {several} not met: {words}; nothing was committed",
        f"{where}correct the source, or the expectation's `otherwise`: {rows}`warn` lands them.",
    )
