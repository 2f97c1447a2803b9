"""The expectations of a stream: checked in the tasks that write, judged before the commit.

```
plan ─▶ sieve, in the tasks that write ─▶ findings ─▶ judged before the commit
```
Arrow tells what it can in the task that reads the rows; where it can't, or a frame is landed
anyway, Spark does, in the same run of the frame. `fresh` asks the table where a load brings none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.config.expectations import Expectation
from lakeport.destinations import read_delta_table
from lakeport.engine.failures import translate_errors
from lakeport.errors import ConfigError, SourceError
from lakeport.loading.batches import columns_of
from lakeport.loading.expect.arrow import (
    Findings,
    Sieve,
    mask_failures,
    needs_spark,
    seconds_of,
    split_mask,
)
from lakeport.loading.expect.conditions import add_failure_mask
from lakeport.loading.expect.judging import failure, no_column, result_of
from lakeport.model import Mode
from lakeport.schema.spark_schema import quote_identifier
from lakeport.schema.types import format_type
from lakeport.shape import apply_header_case
from lakeport.tables.overview import newest_moment
from lakeport.writers.naming import table_folder

if TYPE_CHECKING:
    from lakeport.engine.base import DataFrame
    from lakeport.loading.expect.judging import Judge
    from lakeport.loading.prepare import PreparedLoad
    from lakeport.model import Batch, ExpectationResult

_MOST: Final = 62
"""Expectations that a column of bits has room for."""


@dataclass(frozen=True)
class Checks:
    """The expectations of one stream's rows.

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
        return any(one.needs_whole_input for one in self.expected)

    def needs_spark(self, schema: pa.Schema) -> str:
        """Return the first expectation that only Spark can check; empty for none.

        Args:
            schema: the columns of the rows.
        """
        return next((one.title for one in self.expected if needs_spark(one, schema)), "")

    def by_arrow(self, batch: Batch, schema: pa.Schema) -> Sieve | None:
        """Return the sieve for a batch's rows, which a task reads; None for keys that are gone.

        Raises:
            ConfigError: an expectation names what is not there.
        """
        if batch.gone:
            return None
        check_columns(self.expected, schema, batch.untyped)
        return Sieve(batch.stream, self.expected, partial(mask_failures, self.expected))

    def by_spark(self, batch: Batch, frame: DataFrame) -> tuple[DataFrame, Sieve]:
        """Return a batch's frame with the column of bits that its sieve reads, and the sieve.

        Raises:
            ConfigError: an expectation names what is not there.
        """
        check_columns(self.expected, columns_of(batch), batch.untyped)
        grown = self.mode is Mode.APPEND and any(one.kind == "unique" for one in self.expected)
        known = self.table(self.own) if grown else None
        sieve = Sieve(batch.stream, self.expected, split_mask)
        return add_failure_mask(frame, self.expected, self._others(), known), sieve

    def judge_findings(
        self, batch: Batch, found: Iterable[Findings], *, counted_before: bool
    ) -> None:
        """Judge what the tasks found; returns where the batch may be committed.

        Args:
            batch: whose rows they are.
            found: each task's.
            counted_before: whether the batch's records count towards the run's already.

        Raises:
            ExpectationFailed: an expectation whose failure fails the load is not met.
            InputError: more rows were set aside than a run may.
        """
        if self.judge is None or batch.gone:
            return
        total = Findings()
        for one in found:
            total.add(one)
        failing = self._judged(self.judge, batch.stream, total)
        if failing:
            file = self.judge.samples(batch, total.samples) if total.samples else ""
            raise failure(batch.stream, failing, file)
        self.judge.set_aside(batch, total.set_aside, 0 if counted_before else total.rows)

    def judge_empty_load(self, stream: str, *, quiet: bool) -> None:
        """Judge a load whose source brings no batch, as `judge_findings` does.

        Args:
            stream: its stream.
            quiet: whether the source goes on from what was landed before, so that only the age of
                what the table has tells anything.

        Raises:
            ExpectationFailed: see `judge_findings`.
        """
        if self.judge is None:
            return
        failing = self._judged(self.judge, stream, Findings(), quiet=quiet)
        if failing:
            raise failure(stream, failing)

    def _judged(
        self, judge: Judge, stream: str, total: Findings, *, quiet: bool = False
    ) -> list[ExpectationResult]:
        """Report the results; return those for which the load fails."""
        results = []
        for number, one in enumerate(self.expected):
            newest = total.newest.get(number)
            if quiet and one.fresh is None:
                continue
            if one.fresh is not None and newest is None:
                try:
                    newest = self.newest(one.fresh.column)
                except SourceError as error:
                    judge.report.warn(f"{one.title} was not checked: {error.message}.", stream)
                    continue
            results.append(result_of(number, one, total, newest))
        judge.report_results(stream, results)
        return [one for one in results if one.failed and one.otherwise == "fail"]

    def _others(self) -> dict[str, DataFrame]:
        """Return the tables that `references` expectations name, those that exist."""
        names = {one.references_table for one in self.expected if one.kind == "references"}
        found = {name: self.views.get(name) or self.table(name) for name in names}
        return {name: frame for name, frame in found.items() if frame is not None}


@dataclass(frozen=True)
class NewestOfTable:
    """Tells the newest value of a column that a load leaves in its table.

    Attributes:
        prepared: the load.
        table: the table's name.
    """

    prepared: PreparedLoad
    table: str

    def __call__(self, column: str) -> float | None:
        """Return the newest value in seconds since 1970: by log or footers, or else by Spark.

        Args:
            column: as expectations name it, before `rename`.

        Returns:
            None where there is none, or the load replaces what the table has.

        Raises:
            SourceError: nothing tells.
            LakeportError: the store or Spark refused.
        """
        config, storage = self.prepared.config, self.prepared.storage
        if config.mode is Mode.OVERWRITE or self.prepared.original_mode:
            return None
        name = apply_header_case(config.rename.get(column, column), config.column_header_format)
        try:
            known = newest_moment(storage, table_folder(config.table_folder_name(self.table)), name)
            return None if known is None else known.timestamp()
        except SourceError:
            frame = read_delta_table(config, storage, self.prepared.engine, self.table)
            if frame is None or not _has_moments(frame, name):
                raise
        with translate_errors():
            value = frame.selectExpr(f"max({quote_identifier(name)}) AS newest").toArrow()[
                "newest"
            ][0]
        return seconds_of(value.as_py()) if value.is_valid else None


def _has_moments(frame: DataFrame, name: str) -> bool:
    types = {field.name.lower(): field.dataType.typeName() for field in frame.schema}
    return types.get(name.lower()) in ("date", "timestamp", "timestamp_ntz")


def check_columns(
    expected: Sequence[Expectation], schema: pa.Schema, untyped: Mapping[str, pa.DataType]
) -> None:
    """Raise ConfigError unless expectations name columns that exist, and `fresh` one of dates.

    Args:
        expected: the expectations.
        schema: the columns of the rows.
        untyped: those with places that never had a value -> their open types.

    Raises:
        ConfigError: there is no such column, or `fresh` names one of another type.
    """
    types = {field.name.lower(): field.type for field in schema}
    for one, name in ((each, name) for each in expected for name in each.columns):
        if name.lower() not in types:
            raise no_column(one, name, schema.names)
        if one.fresh is None:
            continue
        type_ = untyped.get(name, types[name.lower()])
        dated = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
        if not (dated or pa.types.is_null(type_)):
            raise ConfigError(
                f"expectation {one.title}: column {name!r} is of type {format_type(type_)}, which "
                "has no age",
                f"name a column of dates or times, or make it one in `sql`: "
                f"CAST({name} AS timestamp) AS {name}.",
            )
