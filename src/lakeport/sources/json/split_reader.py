"""One pass over one split: by the native kernel, or line by line what that leaves to us."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeport.errors import BadRecord
from lakeport.model import Split
from lakeport.native import kernel
from lakeport.schema.types import merge_kinds
from lakeport.schema.width import count_leaves
from lakeport.sources.json.blocks import Block, LineNumbers, LongLine, read_blocks
from lakeport.sources.json.columns import RecordLayout, batch_of_rows, schema_of
from lakeport.sources.json.decoding import Fault
from lakeport.sources.json.native import Converted, NativeLines, Unknown
from lakeport.sources.json.record import RecordParser
from lakeport.sources.singer.metadata import Received

_BLANK = b" \t\r"
_CELLS = 16 << 20

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
        self._on_bad = on_bad
        self._on_unknown = on_unknown
        self._metadata = layout.metadata
        self._schema = schema_of(layout.columns)
        self._most = max(1, _CELLS // max(1, count_leaves(self._schema)))
        native = kernel()
        self._native = None if native is None else NativeLines(native, layout, survey=survey)
        self._parser = RecordParser(layout)

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the good records, one batch for each block that has any."""
        numbers, self._file = LineNumbers(split), split.file
        if self._metadata is not None:
            self._received = Received(split, self._metadata.batched)
        for block in _by_lines(read_blocks(split, self._limit), self._most):
            if isinstance(block, LongLine):
                reason = f"longer than the limit of {self._limit >> 20} MB"
                self._bad(numbers[block.first], Fault("", reason), block.head)
                continue
            parts = [part for part in self._convert(block, numbers) if len(part)]
            if parts:
                yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _convert(self, block: Block, numbers: LineNumbers) -> Iterator[pa.RecordBatch]:
        first = block.first
        if self._native is None:
            yield from self._line_by_line(block.data.split(b"\n"), first, numbers)
            return
        for piece in self._native.read(block.data):
            if isinstance(piece, Converted):
                if piece.unknown:
                    self._on_unknown(piece.unknown, 0)
                yield self._stamped(piece.batch, range(first, first + len(piece.batch)))
                first += piece.lines
            else:
                yield from self._line_by_line(piece, first, numbers)
                first += len(piece)

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
            yield self._stamped(batch_of_rows(rows, self._schema), good)

    def _stamped(self, batch: pa.RecordBatch, ordinals: Sequence[int]) -> pa.RecordBatch:
        if self._metadata is None:
            return batch
        return self._metadata.stamp(batch, self._received.of(ordinals))

    def _bad(self, line: int, fault: Fault, raw: bytes) -> None:
        self._on_bad(BadRecord(self._stream, line, fault.column, fault.reason, raw, self._file))


def _by_lines(blocks: Iterable[Block | LongLine], most: int) -> Iterator[Block | LongLine]:
    """Cut blocks to some of no more lines: each record takes room for every column."""
    for block in blocks:
        if isinstance(block, LongLine) or block.data.count(b"\n") < most:
            yield block
            continue
        lines = block.data.split(b"\n")
        for start in range(0, len(lines), most):
            yield Block(b"\n".join(lines[start : start + most]), block.first + start)


def merge_unknown(into: Unknown, more: Unknown) -> None:
    """Add what was found undeclared in some records to what was found before."""
    for name, (kind, count) in more.items():
        known, before = into.get(name, ("null", 0))
        into[name] = merge_kinds(known, kind), before + count
