"""Expectations told by Arrow, in the task that reads the rows: where that says what Spark says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.config.expectations import Expectation
from lakeport.loading.expect.meaning import may_be_met, met
from lakeport.loading.expressions.select import Condition

__all__ = ["ArrowMask", "arrow_mask", "may_be_told"]

_OF_ALL: Final = frozenset({"rows", "fresh"})
"""Kinds that are of all rows together: no row fails one of these."""


@dataclass(frozen=True)
class ArrowMask:
    """Tells of each row of a batch which expectations it fails; pickled into Spark tasks.

    Attributes:
        conditions: when a row meets an expectation; bit 0 is the first one's, and so on. None for
            those of all rows together.
    """

    conditions: tuple[Condition | None, ...]

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The batch, and its rows' bits; None where no row fails."""
        bits = None
        for number, condition in enumerate(self.conditions):
            failing = None if condition is None else pc.invert(condition(batch))
            if failing is not None and pc.any(failing, min_count=0).as_py():
                mine = pc.if_else(pc.fill_null(failing, False), 1 << number, 0).cast(pa.int64())
                bits = mine if bits is None else pc.bit_wise_or(bits, mine)
        return batch, bits


def arrow_mask(expected: Sequence[Expectation], schema: pa.Schema) -> ArrowMask | None:
    """What tells of rows of these columns; None where it takes Spark to tell."""
    known = {name.lower() for name in schema.names}
    conditions: list[Condition | None] = []
    for one in expected:
        condition = None if one.kind in _OF_ALL else met(one, schema)
        told = known.issuperset(map(str.lower, one.columns)) if one.kind in _OF_ALL else condition
        if not told:
            return None
        conditions.append(condition)
    return ArrowMask(tuple(conditions))


def may_be_told(one: Expectation) -> bool:
    """Whether Arrow can tell of rows that have the columns for it."""
    return one.kind in _OF_ALL or may_be_met(one)
