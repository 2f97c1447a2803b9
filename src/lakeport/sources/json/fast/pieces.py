"""What a fast path makes of a block of lines, and what it leaves to the slow path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

__all__ = ["Converted", "FastPath", "Unknown"]

Unknown = dict[str, tuple[str, int]]
"""Undeclared field -> kind of its values, number of records that have it."""


class Converted(NamedTuple):
    """Lines whose records were converted.

    Attributes:
        batch: the records.
        lines: how many lines they are, blank ones counted.
        unknown: the undeclared fields that they have, if asked for.
    """

    batch: pa.RecordBatch
    lines: int
    unknown: Unknown


class FastPath(Protocol):
    """A way to convert most lines quickly; it gives what the slow path would give, or gives up."""

    def read(self, data: bytes) -> Iterator[Converted | list[bytes]]:
        """Convert whole lines, the last newline left out, in order.

        Yields:
            Lines that were converted, and those that have to be looked at one by one.
        """
