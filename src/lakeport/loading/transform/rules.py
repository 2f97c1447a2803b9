"""The rules for the rows of a load: their transform and their expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakeport.config.expectations import Expectation, parse_expectations
from lakeport.destinations import read_delta_table
from lakeport.engine.threads import require_spark
from lakeport.errors import BadRecord, ConfigError
from lakeport.loading.expect.arrow import needs_spark
from lakeport.loading.quarantine import Quarantine
from lakeport.model import Batch, Flush
from lakeport.schema.spark_schema import columns_of
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakeport.loading.builder import ReportBuilder
    from lakeport.loading.expect.checks import Checks
    from lakeport.loading.prepare import PreparedLoad
    from lakeport.loading.transform.transform import Transform
    from lakeport.sources.open import OpenedSource


@dataclass(frozen=True)
class PlannedBatch:
    """Plan of a batch after its transform: the columns, without a row read.

    Attributes:
        batch: the batch; with the frame that is run, where Spark makes its rows.
        how: how the rows are transformed, in words; empty where they land as they are.
    """

    batch: Batch
    columns: pa.Schema
    how: str = ""
    expected: tuple[Expectation, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a plan: how the transform runs, and each expectation."""
        transform = [f"transform: {self.how}"] if self.how else []
        expected = [f"expected: {one.title}, otherwise {one.otherwise}" for one in self.expected]
        return (*transform, *expected)


@dataclass(frozen=True)
class RowRules:
    """Transform and expectations of a load; falsy if there are neither.

    Attributes:
        transform: makes the rows that land; None: the source's rows land.
        views: other frames by the names that both may use.
    """

    transform: Transform | None = None
    expected: tuple[Expectation, ...] = ()
    views: Mapping[str, DataFrame] | None = None

    @classmethod
    def from_arguments(
        cls,
        prepared: PreparedLoad,
        sql: str,
        python: str | Callable[[DataFrame], DataFrame],
        views: Mapping[str, DataFrame] | None,
        expect: Sequence[Mapping[str, Any] | Expectation],
    ) -> RowRules:
        """Build the rules from a load's arguments; ConfigError if they lack Spark.

        Raises:
            ConfigError: an expectation is wrong, `once` does not go with it, or Spark is needed.
        """
        expected = parse_expectations(expect)
        engine, config = prepared.engine, prepared.config
        transform = None
        if sql or python:
            from lakeport.loading.transform.transform import Transform

            asks = "`sql`" if sql else "`python`"
            transform = Transform(require_spark(engine, asks), sql, python, views or {})
        rules = cls(transform, expected, views)
        by_spark = rules.needs_spark()
        if config.once and by_spark:
            raise ConfigError(
                f"`once` and {by_spark[0]} exclude each other: Spark does not tell which files "
                "have come to rows",
                "leave one of them out; a `run_id` has the same run land once.",
            )
        for what in by_spark:
            require_spark(engine, what)
        return rules

    def __bool__(self) -> bool:
        """Whether there is a transform or an expectation."""
        return bool(self.transform or self.expected)

    def needs_spark(self, schema: pa.Schema | None = None) -> list[str]:
        """Return the names of rules that need Spark; `schema` None ignores column types."""
        found = []
        if self.transform is not None:
            named = {"`sql`": self.transform.sql, "`python`": self.transform.python}
            found = [name for name, given in named.items() if given]
        if self.expected:
            found += [one.title for one in self.expected if needs_spark(one, schema)]
        return found

    def check(self) -> None:
        """Check the transform without the source; see `Transform.check`."""
        if self.transform is not None:
            self.transform.check()

    def bind(self, source: OpenedSource) -> tuple[RowRules, OpenedSource]:
        """Add the source's tables as views; join its flushes if a rule needs all rows at once.

        The source has a single flush where the rules need the whole input at once.
        """
        rules = self
        if self.transform is not None and self.transform.sql:
            views = {**source.frames(), **(self.views or {})}
            rules = replace(self, transform=replace(self.transform, views=views), views=views)
        return rules, _gather_flushes(source, rules._needs_whole_input) if rules else source

    def checks(
        self,
        prepared: PreparedLoad,
        stream: str,
        report: ReportBuilder | None = None,
        reject: Callable[[Batch, Sequence[BadRecord], int], None] = lambda *_: None,
    ) -> Checks | None:
        """Return the checks of one stream; None without expectations.

        The report gets the results; without one, as for a plan, nothing is checked.
        """
        if not self.expected:
            return None
        from lakeport.loading.batches import Policies
        from lakeport.loading.expect.checks import CheckRecorder, Checks, read_newest_time

        config, storage = prepared.config, prepared.storage
        recorder = None
        if report is not None:
            recorder = CheckRecorder(report, Quarantine(storage, report.run_id), reject)
        read_table = partial(read_delta_table, config, storage, prepared.engine)
        table = table_name(config.table_pattern, stream)
        newest = partial(read_newest_time, prepared, table)
        return Checks(
            self.expected,
            recorder,
            config.mode,
            self.views or {},
            read_table,
            table,
            Policies(config).name_in_table,
            newest,
        )

    def plan_batch(self, prepared: PreparedLoad, batch: Batch) -> PlannedBatch:
        """Plan a batch's columns without reading rows; ConfigError for unknown names in rules."""
        columns, how = columns_of(batch), ""
        if batch.has_deleted_keys:
            return PlannedBatch(batch, columns)
        checks = self.checks(prepared, batch.stream)
        if self.transform is not None:
            transformed = self.transform.plan_frame(batch)
            batch, columns = transformed.batch, columns_of(transformed.batch)
            how = transformed.how
        if checks is not None:
            if batch.frame is not None:
                checks.spark_checker(batch, batch.frame)
            elif expected := checks.needs_spark(columns):
                from lakeport.loading.transform.transform import Transform

                spark = require_spark(prepared.engine, expected)
                transformed = Transform(spark).plan_frame(batch)
                checks.spark_checker(transformed.batch, transformed.frame)
            else:
                checks.arrow_checker(batch, columns)
        return PlannedBatch(batch, columns, how, self.expected)

    def _needs_whole_input(self, batch: Batch) -> bool:
        """Whether the rules need all rows of the source at once; False for keys of deleted rows."""
        if batch.has_deleted_keys:
            return False
        if any(one.needs_whole_input for one in self.expected):
            return True
        return self.transform is not None and not self.transform.plan_frame(batch).row_wise


def _gather_flushes(source: OpenedSource, needs_all_rows: Callable[[Batch], bool]) -> OpenedSource:
    """Return the source with all flushes joined if `needs_all_rows` of its first batch.

    Its own flushes are discarded one by one once the joined one has landed.
    """
    kept: list[Flush] = []

    def flushes() -> Iterator[Flush]:
        at_once: bool | None = None
        for flush in source:
            for batch in flush.batches if at_once is None else ():
                at_once = needs_all_rows(batch)
                break
            if at_once:
                kept.append(flush)
            else:
                yield flush
        if kept:
            yield _join_flushes(kept)

    def discard(flush: Flush) -> None:
        for one in kept or [flush]:
            source.discard(one)

    return replace(source, flushes=flushes(), discard=discard)


def _join_flushes(flushes: list[Flush]) -> Flush:
    """Return one last flush with the batches, STATEs, bad lines and notes of all flushes."""
    return Flush(
        batches=tuple(chain.from_iterable(flush.batches for flush in flushes)),
        states=tuple(chain.from_iterable(flush.states for flush in flushes)),
        bad=tuple(chain.from_iterable(flush.bad for flush in flushes)),
        last=True,
        versions={name: number for flush in flushes for name, number in flush.versions.items()},
        notes={stream: note for flush in flushes for stream, note in flush.notes.items()},
        quiet=tuple(chain.from_iterable(flush.quiet for flush in flushes)),
    )
