"""JSON lines by the native kernel: it reads them up to the first that has to be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from lakeport.model import UnknownPolicy
from lakeport.native.arrays import array_of
from lakeport.schema.types import FieldType, Kind
from lakeport.sources.json.columns import RecordLayout, batch_of, schema_of
from lakeport.sources.singer.metadata import MESSAGE_KEYS

if TYPE_CHECKING:
    from lakeport.native import Kernel
    from lakeport.native._kernel import Spec

_MOST = 64

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


class NativeLines:
    """Converts lines of one layout as `RecordParser` would, or leaves them to it.

    Where it stops again and again, more and more lines are left to `RecordParser` at once: a
    stop costs as much as some lines there.

    Args:
        kernel: the compiled module.
        layout: how records are written, and what they are read as.
        survey: whether to tell undeclared fields instead of stopping at them.
    """

    def __init__(self, kernel: Kernel, layout: RecordLayout, *, survey: bool) -> None:
        columns = layout.columns
        self._schema = schema_of(columns)
        drop = layout.unknown is UnknownPolicy.DROP
        unknown: Literal["refuse", "drop", "tell"] = "drop" if drop else "refuse"
        keys = MESSAGE_KEYS if layout.envelope and layout.metadata else {}
        self._parser = kernel.parser(
            [_spec(c.name, c.type, mixed=c.mixed) for c in columns],
            [i for i, c in enumerate(columns) if c.required],
            layout.envelope,
            [(keys[c.name], i) for i, c in enumerate(columns) if c.name in keys],
            "tell" if survey else unknown,
            drop,
        )

    def read(self, data: bytes) -> Iterator[Converted | list[bytes]]:
        """Convert whole lines, the last newline left out, in order.

        Yields:
            Lines that were converted, and those that have to be looked at one by one.
        """
        at, few = 0, 1
        while True:
            rows, lines, columns, stop, told = self._parser.parse(data, at)
            if lines:
                arrays = [
                    array_of(t, parts) for t, parts in zip(self._schema.types, columns, strict=True)
                ]
                unknown = {name: (kind, count) for name, kind, count in told}
                yield Converted(batch_of(arrays, rows, self._schema), lines, unknown)
            if stop is None:
                return
            few = 1 if lines else min(2 * few, _MOST)
            left, at = _cut(data, stop[0], few)
            yield left


def _spec(name: str, t: FieldType, *, mixed: bool = False) -> Spec:
    """A column as the kernel takes it."""
    detail: Any = None
    if mixed:
        return name, "mixed", detail
    if t.kind is Kind.DECIMAL:
        detail = t.precision, t.scale
    elif t.kind is Kind.JSON:
        detail = "".join(sorted(t.opening))
    elif t.kind is Kind.LIST:
        detail = _spec("item", t.item or FieldType(Kind.JSON))
    elif t.kind is Kind.STRUCT:
        detail = [_spec(f.name, f.type) for f in t.fields]
    return name, t.kind.value, detail


def _cut(data: bytes, start: int, most: int) -> tuple[list[bytes], int]:
    """Some lines from `start` on, and where the next one begins."""
    lines: list[bytes] = []
    while len(lines) < most and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        lines.append(data[start:end])
        start = end + 1
    return lines, start
