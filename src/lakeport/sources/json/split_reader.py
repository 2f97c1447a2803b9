"""One pass over one split: blocks go the fast way, what that refuses is parsed line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeport.errors import BadRecord
from lakeport.model import Split, UnknownPolicy
from lakeport.schema.kinds import merge_kinds
from lakeport.sources.json.blocks import LineNumbers, LongLine, read_blocks
from lakeport.sources.json.columns import RecordLayout
from lakeport.sources.json.decoding import Fault
from lakeport.sources.json.fast import FastPath
from lakeport.sources.json.record import RecordParser
from lakeport.sources.json.undeclared import Refused, Unknown
from lakeport.sources.singer.envelopes import has_known_keys
from lakeport.sources.singer.metadata import Received

__all__ = ["SplitReader", "merge_unknown"]

_FEW = 64
_PARTS = 8
_BLANK = b" \t\r"

OnBad = Callable[[BadRecord], None]
OnUnknown = Callable[[Unknown, int], None]


class SplitReader:
    """Reads one split once.

    Args:
        stream: the stream's name.
        layout: how records are written, and what they are read as.
        limit: bytes that a line may have.
        on_bad: takes every bad record; may raise.
        on_unknown: takes the undeclared fields of good records, and the line number where that is
            known (0 else); may raise.
        survey: whether undeclared fields are expected, so that finding them must be fast.
    """

    def __init__(
        self,
        stream: str,
        layout: RecordLayout,
        limit: int,
        on_bad: OnBad,
        on_unknown: OnUnknown,
        *,
        survey: bool = False,
    ) -> None:
        self._stream = stream
        self._limit = limit
        self._survey = survey
        self._envelope = layout.envelope
        self._on_bad = on_bad
        self._on_unknown = on_unknown
        self._metadata = layout.metadata
        self._fast = FastPath(layout)
        self._parser = RecordParser(layout)
        mixed = any(column.mixed for column in layout.columns)
        self._lenient = survey or layout.unknown is UnknownPolicy.DROP or mixed
        self._undeclared = any(column.raw for column in layout.columns)
        self._foreign = False

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the good records, one batch for each block that has any."""
        numbers = LineNumbers(split)
        if self._metadata is not None:
            self._received = Received(split, self._metadata.batched)
        begun = False
        for block in read_blocks(split, self._limit):
            if isinstance(block, LongLine):
                reason = f"longer than the limit of {self._limit >> 20} MB"
                self._bad(numbers[block.first], Fault("", reason), block.head)
                continue
            if self._envelope and not begun and (line := _first_line(block.data)):
                self._foreign = not has_known_keys(line)
                begun = True
            parts = list(self._convert(block.data, block.first, numbers))
            if parts:
                yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _convert(self, data: bytes, first: int, numbers: LineNumbers) -> Iterator[pa.RecordBatch]:
        try:
            batch = self._attempt(data)
            yield self._stamped(batch, range(first, first + len(batch)))
            return
        except Refused:
            lines = data.split(b"\n")
        if len(lines) <= _FEW:
            yield from self._line_by_line(lines, first, numbers)
            return
        size = -(-len(lines) // _PARTS)
        for start in range(0, len(lines), size):
            part = b"\n".join(lines[start : start + size])
            yield from self._convert(part, first + start, numbers)

    def _attempt(self, data: bytes) -> pa.RecordBatch:
        if not self._undeclared:
            try:
                return self._fast.strict(data, foreign=self._foreign)
            except Refused:
                if not self._lenient:
                    raise
        batch, unknown = self._fast.undeclared(data, foreign=self._foreign, survey=self._survey)
        self._undeclared = True
        if unknown:
            self._on_unknown(unknown, 0)
        return batch

    def _line_by_line(
        self, lines: Sequence[bytes], first: int, numbers: LineNumbers
    ) -> Iterator[pa.RecordBatch]:
        rows: list[list[Any]] = []
        good: list[int] = []
        for ordinal, line in enumerate(lines, first):
            text = line.strip(_BLANK)
            if not text:
                continue
            try:
                row = self._parser.record(text)
            except Fault as fault:
                self._bad(numbers[ordinal], fault, line.removesuffix(b"\r"))
                continue
            if self._parser.unknown:
                found = {name: (kind, 1) for name, kind in self._parser.unknown.items()}
                self._on_unknown(found, numbers[ordinal])
            rows.append(row)
            good.append(ordinal)
        if rows:
            yield self._stamped(self._fast.built(rows), good)

    def _stamped(self, batch: pa.RecordBatch, ordinals: Sequence[int]) -> pa.RecordBatch:
        if self._metadata is None:
            return batch
        return self._metadata.stamp(batch, self._received.of(ordinals))

    def _bad(self, line: int, fault: Fault, raw: bytes) -> None:
        self._on_bad(BadRecord(self._stream, line, fault.column, fault.reason, raw))


def merge_unknown(into: Unknown, more: Unknown) -> None:
    """Add what was found undeclared in some records to what was found before."""
    for name, (kind, count) in more.items():
        known, before = into.get(name, ("null", 0))
        into[name] = merge_kinds(known, kind), before + count


def _first_line(data: bytes) -> bytes:
    return data.strip(_BLANK + b"\n").partition(b"\n")[0]
