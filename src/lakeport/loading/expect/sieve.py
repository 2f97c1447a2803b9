"""What tells, in the tasks, which rows fail an expectation, and lets the others pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.expectations import Expectation
from lakeport.errors import BadRecord

_SAMPLES: Final = 5  # of the rows that fail a load, from each task
_encode = msgspec.json.Encoder(decimal_format="number").encode

Mask = Callable[[pa.RecordBatch], tuple[pa.RecordBatch, pa.Array | None]]


def last_column(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """A batch, and the bits that are its last column."""
    bits = batch.column(batch.num_columns - 1)
    columns = batch.schema.names[:-1]
    rest = batch.select(columns) if columns else batch
    return rest, bits if pc.any(pc.not_equal(bits, 0), min_count=0).as_py() else None


@dataclass
class Findings:
    """What the rows of one task, or of a batch, came to.

    Attributes:
        rows: how many there were.
        passed: how many are landed.
        failed: number of an expectation -> rows that fail it.
        set_aside: the rows that are set aside.
        samples: some of those for which the load fails.
        newest: number of an expectation -> newest value of its column, in seconds since 1970.
    """

    rows: int = 0
    passed: int = 0
    failed: dict[int, int] = field(default_factory=dict)
    set_aside: list[BadRecord] = field(default_factory=list)
    samples: list[BadRecord] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)

    def add(self, other: Findings) -> None:
        """Add another task's."""
        self.rows += other.rows
        self.passed += other.passed
        for number, count in other.failed.items():
            self.failed[number] = self.failed.get(number, 0) + count
        self.set_aside += other.set_aside
        self.samples += other.samples
        for number, moment in other.newest.items():
            self.newest[number] = max(moment, self.newest.get(number, moment))


@dataclass(frozen=True)
class Sieve:
    """Holds back the rows that are to be set aside, and counts what fails.

    Attributes:
        stream: the stream's name.
        expected: what is expected of its rows.
        mask: takes a batch apart into rows and their bits.
    """

    stream: str
    expected: tuple[Expectation, ...]
    mask: Mask

    def __call__(
        self, batches: Iterator[pa.RecordBatch], found: Findings
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass, lazily; `found` gets what there is to tell."""
        for batch in batches:
            rows, bits = self.mask(batch)
            found.rows += rows.num_rows
            if bits is not None:
                rows = self._held_back(rows, bits, found)
            found.passed += rows.num_rows
            self._age(rows, found)
            yield rows

    def _held_back(self, rows: pa.RecordBatch, bits: pa.Array, found: Findings) -> pa.RecordBatch:
        held: list[tuple[pa.Array, Expectation]] = []
        for number, one in enumerate(self.expected):
            failing = pc.not_equal(pc.bit_wise_and(bits, 1 << number), 0)
            count = failing.true_count
            if not count:
                continue
            found.failed[number] = found.failed.get(number, 0) + count
            if one.otherwise == "quarantine":
                held.append((failing, one))
            elif one.otherwise == "fail" and len(found.samples) < _SAMPLES:
                some = rows.filter(failing).slice(0, _SAMPLES - len(found.samples))
                found.samples += self._records(some, one)
        passing = None
        for failing, one in held:  # a row is set aside once, for the first reason
            mine = failing if passing is None else pc.and_(failing, passing)
            found.set_aside += self._records(rows.filter(mine), one)
            passing = pc.invert(failing) if passing is None else pc.and_not(passing, failing)
        return rows if passing is None else rows.filter(passing)

    def _records(self, rows: pa.RecordBatch, one: Expectation) -> list[BadRecord]:
        column = one.columns[0] if len(one.columns) == 1 else ""
        return [
            BadRecord(self.stream, 0, column, one.title, _encode(row)) for row in rows.to_pylist()
        ]

    def _age(self, rows: pa.RecordBatch, found: Findings) -> None:
        for number, one in enumerate(self.expected):
            if one.kind == "fresh" and rows.num_rows:
                at = {name.lower(): i for i, name in enumerate(rows.schema.names)}
                newest = pc.max(rows.column(at[one.columns[0].lower()])).as_py()
                if newest is not None:
                    moment = seconds_of(newest)
                    found.newest[number] = max(moment, found.newest.get(number, moment))


def seconds_of(value: date) -> float:
    """Seconds since 1970 of a time, or of a date's first moment, in UTC where it has no zone.

    >>> seconds_of(date(1970, 1, 2))
    86400.0
    """
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return value.timestamp()
