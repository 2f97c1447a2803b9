"""What is expected of a stream's rows: how it is told of them, and what follows from it.

```
plan ─▶ sieve, in the tasks that write ─▶ findings ─▶ judged before the commit
```
Arrow tells what it can in the task that reads the rows; where it can't, or a frame is landed
anyway, Spark does, in the same run of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from lakeport.config.expectations import Expectation
from lakeport.errors import BadRecord, ConfigError, SourceError
from lakeport.loading.batches.columns import columns_of
from lakeport.loading.expect.arrow import marked, needs_spark
from lakeport.loading.expect.conditions import masked
from lakeport.loading.expect.newest import check_columns
from lakeport.loading.expect.sieve import Findings, Sieve, last_column
from lakeport.loading.expect.verdict import failure, result_of
from lakeport.model import Mode

if TYPE_CHECKING:
    from lakeport.engine.types import DataFrame
    from lakeport.loading.expect.result import ExpectationResult
    from lakeport.model import Batch

_MOST: Final = 62
"""Expectations that a column of bits has room for."""


class Judge(Protocol):
    """Takes what came of a batch's expectations, before it is committed."""

    def set_aside(self, batch: Batch, rows: Sequence[BadRecord], checked: int) -> None:
        """Keep rows that are not landed; raises when the run has too many."""

    def samples(self, batch: Batch, rows: Sequence[BadRecord]) -> str:
        """Keep some of the rows for which the load fails; gives the file's URI."""

    def told(self, stream: str, results: Sequence[ExpectationResult]) -> None:
        """Take down what was told of the expectations."""

    def warn(self, stream: str, text: str) -> None:
        """Take down what could not be told."""


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
        newest: gives the newest value that the load leaves of those that the table has in a
            column, in seconds since 1970; None where there is none.
    """

    expected: tuple[Expectation, ...]
    judge: Judge | None = None
    mode: Mode = Mode.APPEND
    views: Mapping[str, DataFrame] = field(default_factory=dict)
    table: Callable[[str], DataFrame | None] = lambda _: None
    own: str = ""
    newest: Callable[[str], float | None] = lambda _: None

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

    def needs_spark(self, schema: pa.Schema) -> str:
        """Return the first expectation that only Spark can check; empty for none.

        Args:
            schema: the columns of the rows.
        """
        return next((one.title for one in self.expected if needs_spark(one, schema)), "")

    def by_arrow(self, batch: Batch, schema: pa.Schema) -> Sieve | None:
        """The sieve for rows of these columns that a task reads; None without expectations.

        Raises:
            ConfigError: an expectation names what is not there.
        """
        if not self.expected or batch.gone:
            return None
        check_columns(self.expected, schema, batch.untyped)
        return Sieve(batch.stream, self.expected, partial(marked, self.expected))

    def by_spark(self, batch: Batch, frame: DataFrame) -> tuple[DataFrame, Sieve | None]:
        """A batch's frame with what its sieve needs, and the sieve; None without expectations.

        Raises:
            ConfigError: an expectation names what is not there.
        """
        if not self.expected:
            return frame, None
        check_columns(self.expected, columns_of(batch), batch.untyped)
        grown = self.mode is Mode.APPEND and any(one.kind == "unique" for one in self.expected)
        known = self.table(self.own) if grown else None
        sieve = Sieve(batch.stream, self.expected, last_column)
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
        if not self.expected or self.judge is None or batch.gone:
            return
        total = Findings()
        for one in found:
            total.add(one)
        failing = self._judged(self.judge, batch.stream, total)
        if failing:
            file = self.judge.samples(batch, total.samples) if total.samples else ""
            raise failure(batch.stream, failing, file)
        self.judge.set_aside(batch, total.set_aside, 0 if counted_before else total.rows)

    def without_rows(self, stream: str, *, quiet: bool) -> None:
        """Judge a load whose source brings no batch, as `passed` does.

        Args:
            stream: its stream.
            quiet: whether the source goes on from what was landed before, so that only the age of
                what the table has tells anything.

        Raises:
            ExpectationFailed: see `passed`.
        """
        if self.judge is None:
            return
        failing = self._judged(self.judge, stream, Findings(), quiet=quiet)
        if failing:
            raise failure(stream, failing)

    def _judged(
        self, judge: Judge, stream: str, total: Findings, *, quiet: bool = False
    ) -> list[ExpectationResult]:
        """Have the results taken down; gives those for which the load fails."""
        results = []
        for number, one in enumerate(self.expected):
            newest = total.newest.get(number)
            if quiet and one.fresh is None:
                continue
            if one.fresh is not None and newest is None:
                try:
                    newest = self.newest(one.fresh.column)
                except SourceError as error:
                    judge.warn(stream, f"{one.title} was not checked: {error.message}.")
                    continue
            results.append(result_of(number, one, total, newest))
        judge.told(stream, results)
        return [one for one in results if one.failed and one.otherwise == "fail"]

    def _others(self) -> dict[str, DataFrame]:
        """The tables that `references` name, as far as there are any."""
        names = {one.references_table for one in self.expected if one.kind == "references"}
        found = {name: self.views.get(name) or self.table(name) for name in names}
        return {name: frame for name, frame in found.items() if frame is not None}
