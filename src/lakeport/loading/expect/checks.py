"""The expectations of a stream: planned, checked in the tasks that write, enforced by the driver.

```
expectations ─▶ row checker, in the tasks that write ─▶ counts ─▶ report; raise before the commit
```
Arrow checks what it can in the task that reads the rows. Where it can't, or a frame is landed
anyway, Spark checks in the same run of the frame. Without rows, `fresh` looks at the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.config.expectations import Expectation
from lakeport.destinations import read_delta_table
from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import collect_arrow
from lakeport.errors import BadRecord, ConfigError, ExpectationFailed, SourceError
from lakeport.lake.facts import find_newest_time
from lakeport.loading.batches import Policies
from lakeport.loading.expect.arrow import (
    CheckCounts,
    RowChecker,
    mask_violations,
    needs_spark,
    seconds_since_epoch,
    split_mask,
)
from lakeport.loading.expect.spark import add_violation_mask, unknown_column_error
from lakeport.loading.quarantine import Quarantine, RejectedKind
from lakeport.model import ExpectationResult, Mode
from lakeport.schema.evolution import describe_changes
from lakeport.schema.spark_schema import columns_of, quote_identifier
from lakeport.schema.types import format_type
from lakeport.units import pluralize
from lakeport.writers.naming import table_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.loading.builder import ReportBuilder
    from lakeport.loading.prepare import PreparedLoad
    from lakeport.model import Batch
    from lakeport.schema.evolution import Evolution

_MOST_EXPECTATIONS: Final = 62
"""Bits of a violation mask."""


@dataclass(frozen=True)
class CheckRecorder:
    """Takes the results of a load's checks: its report, quarantine and `reject` callback.

    Attributes:
        quarantine: where samples of violating rows are kept.
        reject: quarantines rows of a batch; takes the batch, the rows, and how many records they
            are checked out of (0: these are counted already). Raises when the run has too many.
    """

    report: ReportBuilder
    quarantine: Quarantine
    reject: Callable[[Batch, Sequence[BadRecord], int], None]


@dataclass(frozen=True)
class Checks:
    """Expectations of one stream, with the tables that they refer to and a recorder of results.

    Attributes:
        expected: the expectations; the place of each is its bit in a row's mask.
        recorder: gets the results; None for a plan, which checks nothing.
        views: other tables by name, as the user gave them.
        read_table: returns the rows of a table of the lake by its name; None where there is none.
        table_column: returns the name that a column has in the load's table.
        newest_in_table: returns the newest value of a column among the table's rows that stay
            after the load, in seconds since 1970; None where there is none.
    """

    expected: tuple[Expectation, ...]
    recorder: CheckRecorder | None = None
    mode: Mode = Mode.APPEND
    views: Mapping[str, DataFrame] = field(default_factory=dict)
    read_table: Callable[[str], DataFrame | None] = lambda _: None
    table: str = ""
    table_column: Callable[[str], str] = str
    newest_in_table: Callable[[str], float | None] = lambda _: None

    def __post_init__(self) -> None:
        """Raise ConfigError for more expectations than a mask has bits."""
        if len(self.expected) > _MOST_EXPECTATIONS:
            raise ConfigError(
                f"`expect` has {len(self.expected)} expectations, more than {_MOST_EXPECTATIONS}",
                "put several columns into one, or several conditions into one `check`.",
            )

    @property
    def needs_whole_input(self) -> bool:
        """Whether all of the input has to land in one commit."""
        return any(expectation.needs_whole_input for expectation in self.expected)

    def needs_spark(self, schema: pa.Schema) -> str:
        """Return the title of the first expectation that only Spark can check; empty for none."""
        return next((one.title for one in self.expected if needs_spark(one, schema)), "")

    def arrow_checker(self, batch: Batch, schema: pa.Schema) -> RowChecker | None:
        """Return a checker of Arrow batches for tasks; None for a batch of deleted keys.

        ConfigError if an expectation names a column that does not exist.
        """
        if batch.has_deleted_keys:
            return None
        check_columns(self.expected, schema, batch.untyped)
        return RowChecker(batch.stream, self.expected, partial(mask_violations, self.expected))

    def spark_checker(self, batch: Batch, frame: DataFrame) -> tuple[DataFrame, RowChecker]:
        """Return the frame with a column of violation masks, and the checker that reads the masks.

        ConfigError if an expectation names a column or table that does not exist.
        """
        check_columns(self.expected, columns_of(batch), batch.untyped)
        unique = any(expectation.kind == "unique" for expectation in self.expected)
        table = self.read_table(self.table) if unique and self.mode is Mode.APPEND else None
        checker = RowChecker(batch.stream, self.expected, split_mask)
        others = self._referenced_tables()
        masked = add_violation_mask(frame, self.expected, others, table, self.table_column)
        return masked, checker

    def enforce(
        self,
        batch: Batch,
        counts: Iterable[CheckCounts],
        changes: Evolution,
        *,
        counted_before: bool,
    ) -> None:
        """Record a batch's results and quarantine its violating rows; raise if it must not commit.

        Args:
            counts: each task's.
            changes: the changes of the table's columns.
            counted_before: whether the batch's records count towards the run's already.

        Raises:
            ExpectationFailed: an expectation whose violation fails the load is violated.
            InputError: more rows were rejected than a run may have.
        """
        if self.recorder is None or batch.has_deleted_keys:
            return
        total = CheckCounts()
        for one in counts:
            total.add(one)
        different = describe_changes(replace(changes, respelled={}), self.mode)
        failed = self._record_results(self.recorder, batch.stream, total, different)
        if failed:
            file, samples = "", total.samples
            if samples:
                kind = RejectedKind.SAMPLES
                (file,) = self.recorder.quarantine.write(samples, batch.sequence, kind)
                self.recorder.report.add_quarantined((), [file])
            raise _violation_error(batch.stream, failed, file)
        self.recorder.reject(batch, total.rejected, 0 if counted_before else total.rows)

    def enforce_without_rows(self, stream: str, *, only_fresh: bool) -> None:
        """Record results of a stream without rows; ExpectationFailed if a check fails the load.

        `only_fresh`: check `fresh` alone, as a bookmark continues the source.
        """
        if self.recorder is None:
            return
        failed = self._record_results(self.recorder, stream, CheckCounts(), only_fresh=only_fresh)
        if failed:
            raise _violation_error(stream, failed)

    def _record_results(
        self,
        recorder: CheckRecorder,
        stream: str,
        total: CheckCounts,
        different: str = "",
        *,
        only_fresh: bool = False,
    ) -> list[ExpectationResult]:
        """Evaluate and report all expectations; return the results that fail the load.

        `different` says in words how the columns differ from the table's.
        """
        results = []
        for number, expectation in enumerate(self.expected):
            newest = total.newest.get(number)
            if only_fresh and expectation.fresh is None:
                continue
            if expectation.fresh is not None and newest is None:
                try:
                    newest = self.newest_in_table(expectation.fresh.column)
                except SourceError as error:
                    text = f"{expectation.title} was not checked: {error.message}."
                    recorder.report.add_warning(text, stream)
                    continue
            results.append(_evaluate(number, expectation, total, newest, different))
        recorder.report.add_results(stream, results)
        for result in results:
            if result.failed and result.otherwise == "warn":
                recorder.report.add_warning(
                    f"an expectation is not met: {result.in_words}.", stream
                )
        return [result for result in results if result.failed and result.otherwise == "fail"]

    def _referenced_tables(self) -> dict[str, DataFrame]:
        """Return name -> frame of tables in `references` expectations; skip missing tables."""
        names = {one.references_table for one in self.expected if one.kind == "references"}
        frames = {name: self.views.get(name) or self.read_table(name) for name in names}
        return {name: frame for name, frame in frames.items() if frame is not None}


def _evaluate(
    number: int,
    expectation: Expectation,
    total: CheckCounts,
    newest: float | None,
    different: str,
) -> ExpectationResult:
    """Evaluate an expectation from the counts of all rows; `number` is its bit in the masks.

    `newest` is, of `fresh`, the newest value in seconds since 1970; None where there is none.
    `different` is, of `columns`, how they differ from the table's.
    """
    failed, detail = total.violations.get(number, 0), ""
    if expectation.rows is not None:
        low, high = expectation.rows.at_least, expectation.rows.at_most
        too_few, too_many = (low or 0) > total.passed, high is not None and total.passed > high
        failed, detail = int(too_few or too_many), pluralize(total.passed, "row")
    elif expectation.same_columns:
        failed, detail = int(bool(different)), different
    elif expectation.fresh is not None:
        age = None if newest is None else time.time() - newest
        failed = int(age is None or age > expectation.fresh.within)
        of = "" if number in total.newest else " of the table"
        detail = "no value" if age is None else f"the newest value{of} is {_format_age(age)} old"
    return ExpectationResult(expectation.title, expectation.otherwise, total.rows, failed, detail)


def _format_age(seconds: float) -> str:
    """Format seconds as an age such as `2.5 days`, in the largest unit that it has twice."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0, round(seconds))} seconds"


def _violation_error(
    stream: str, failed: Sequence[ExpectationResult], file: str = ""
) -> ExpectationFailed:
    """Build the error for violated expectations; `file` is the URI of sample rows, or empty."""
    words = "; ".join(result.in_words for result in failed)
    several = "expectations are" if len(failed) > 1 else "the expectation is"
    where = f"some of the rows are in {file}; " if file else ""
    rows = "" if any(r.detail for r in failed) else "`quarantine` sets such rows aside, "
    return ExpectationFailed(
        f"stream {stream!r}: {several} not met: {words}; nothing was committed",
        f"{where}correct the source, or the expectation's `otherwise`: {rows}`warn` lands them.",
    )


def read_newest_time(prepared: PreparedLoad, table: str, column: str) -> float | None:
    """Return a table column's newest time in seconds since 1970; may run a Spark query.

    None where there is none, or the load replaces the table's rows. `column` is the name before
    `rename`.

    Raises:
        SourceError: neither log nor footers have it, and Spark can't compute it.
        LakeportError: the store or Spark refused.
    """
    config, storage = prepared.config, prepared.storage
    if config.mode is Mode.OVERWRITE or prepared.original_mode:
        return None
    name = Policies(config).name_in_table(column)
    try:
        known = find_newest_time(storage, table_folder(config.table_folder_name(table)), name)
        return None if known is None else known.timestamp()
    except SourceError:
        frame = read_delta_table(config, storage, prepared.engine, table)
        if frame is None or not _has_timestamps(frame, name):
            raise
    with translate_errors():
        found = frame.selectExpr(f"max({quote_identifier(name)}) AS newest")
        newest = collect_arrow(found)["newest"]
    value = newest[0].as_py()
    return None if value is None else seconds_since_epoch(value)


def _has_timestamps(frame: DataFrame, name: str) -> bool:
    """Whether a frame has a column of this name with dates or timestamps."""
    types = {field.name.lower(): field.dataType.typeName() for field in frame.schema}
    return types.get(name.lower()) in ("date", "timestamp", "timestamp_ntz")


def check_columns(
    expected: Sequence[Expectation], schema: pa.Schema, untyped: Mapping[str, pa.DataType]
) -> None:
    """Raise ConfigError if an expectation's column is unknown, or one of `fresh` has no times.

    `untyped` are columns that never had a value -> their open types; `fresh` may name them.
    """
    types = {field.name.lower(): field.type for field in schema}
    for expectation, name in ((one, name) for one in expected for name in one.columns):
        if name.lower() not in types:
            raise unknown_column_error(expectation, name, schema.names)
        if expectation.fresh is None:
            continue
        type_ = untyped.get(name, types[name.lower()])
        dated = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
        if not (dated or pa.types.is_null(type_)):
            raise ConfigError(
                f"expectation {expectation.title}: column {name!r} is of type "
                f"{format_type(type_)}, which has no age",
                f"name a column of dates or times, or make it one in `sql`: "
                f"CAST({name} AS timestamp) AS {name}.",
            )
