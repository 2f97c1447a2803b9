"""CSV as bytes: where records begin and end, without parsing fields.

A quote opens a quoted field only at the field's start; a quote elsewhere in an unquoted field is
an ordinary character (`5" pipe`). Newlines inside quoted fields belong to the field. Behind the
closing quote the field has ended (RFC 4180, section 2): text there, even a space, makes the record
bad.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import Flag
from typing import BinaryIO, NamedTuple, cast

from lakeport.errors import BadRecord, BadRecords, SourceError
from lakeport.host.activity import advance
from lakeport.model import Split
from lakeport.native import kernel
from lakeport.sources.csv.dialect import Dialect

BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""


MAX_RECORD_BYTES = 100 << 20
BLOCK_BYTES = 4 << 20


class Block(NamedTuple):
    """Whole records.

    Attributes:
        data: the bytes; they end at a record's end or at the end of the input.
        line: line number of the first one, from 1.
        torn: whether the input ends inside a quoted field, which begins in `data`.
        stray: whether text stands behind a closing quote.
    """

    data: bytes
    line: int
    torn: bool
    stray: bool = False


class Joints(Flag):
    """Traces in a CSV file of several that were joined into it."""

    MARK = 1
    """A byte order mark at the beginning of a record."""
    HEADER = 2
    """A record that repeats the header."""
    HEADER_MARKED = 4
    """The same, behind a byte order mark."""


class End(NamedTuple):
    """Where the last record of some bytes ends.

    Attributes:
        offset: one past it; 0 if no record ends.
        torn: whether the bytes end inside quotes.
        stray: whether text stands between a closing quote and the end of its field.
        lines: how many line breaks are before `offset`.
    """

    offset: int
    torn: bool
    stray: bool
    lines: int


def record_end(data: bytes, dialect: Dialect) -> End:
    r"""Find the last record that ends in `data`, which starts at a record's start.

    >>> record_end(b'a,"x\ny"\nb,"z\n', Dialect())
    End(offset=8, torn=True, stray=False, lines=2)
    """
    native = kernel()
    if native is not None and dialect.native:
        delimiter = ord(dialect.delimiter)
        return End(*native.csv_end(data, delimiter, ord(dialect.quote) if dialect.quote else None))
    offset, torn, stray = _end(_masked(data, dialect), dialect)
    return End(offset, torn, stray, data.count(b"\n", 0, offset))


def _end(data: bytes, dialect: Dialect) -> tuple[int, bool, bool]:
    quote = dialect.quote.encode()
    if not quote or quote not in data:
        return data.rfind(b"\n") + 1, False, False
    spans = _quotes(data, dialect)
    torn, stray = len(spans) % 2 == 1, _stray(data, spans, dialect)
    inside = torn
    upper = len(data)
    for position in reversed(spans):
        if not inside and (found := data.rfind(b"\n", position, upper)) >= 0:
            return found + 1, torn, stray
        inside, upper = not inside, position
    return data.rfind(b"\n", 0, upper) + 1, torn, stray


def _stray(data: bytes, spans: Sequence[int], dialect: Dialect) -> bool:
    """Whether anything but a field's end, or the other half of a doubled quote, closes quotes."""
    import numpy as np

    behind = np.asarray(spans[1::2], np.intp) + 1
    array = np.frombuffer(data, np.uint8)
    found = array[behind[behind < len(array)]].tobytes()
    ends = (dialect.quote + dialect.delimiter + "\r\n").encode()
    return bool(found.translate(None, ends))


def _quotes(data: bytes, dialect: Dialect) -> Sequence[int]:
    """Positions of the quotes that open and close fields, in turn (a doubled one closes and opens).

    All quotes are taken for such at first, every other one for an opening one. That is right if
    each of those stands where a field begins, or right behind the one that closed, where both are
    a doubled quote. A quote inside an unquoted field (`5" pipe`) shifts the turns of all behind it:
    only then are they looked at one by one, which takes 18 times as long.
    """
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    positions = np.flatnonzero(array == ord(dialect.quote))
    opening = positions[0::2]
    before = array[opening - 1]
    before[opening == 0] = ord("\n")
    closed = np.zeros(len(opening), bool)
    closed[1:] = positions[1::2][: len(opening) - 1] == opening[1:] - 1
    delimiter = ord(dialect.delimiter)
    regular = closed | (before == delimiter) | (before == ord("\n")) | (before == ord("\r"))
    if regular.all():
        return cast("Sequence[int]", positions)
    return list(_quotes_one_by_one(data, dialect))


def _quotes_one_by_one(data: bytes, dialect: Dialect) -> Iterator[int]:
    quote = dialect.quote.encode()
    starts = b"\r\n" + dialect.delimiter.encode()
    position = data.find(quote)
    while position >= 0:
        if position and data[position - 1] not in starts:
            position = data.find(quote, position + 1)
            continue
        yield position
        position = data.find(quote, position + 1)
        while position >= 0 and data[position + 1 : position + 2] == quote:
            position = data.find(quote, position + 2)
        if position >= 0:
            yield position
            position = data.find(quote, position + 1)


def _masked(data: bytes, dialect: Dialect) -> bytes:
    """The same bytes but for comments, and for what an escape takes literally, and it."""
    if dialect.comment:
        data = re.sub(_comments(dialect), lambda line: b"_" * len(line[0]), data)
    if not dialect.escape:
        return data
    return re.sub(re.escape(dialect.escape.encode()) + rb"(?s:.)", b"__", data)


def _comments(dialect: Dialect) -> bytes:
    return rb"(?m)^" + re.escape(dialect.comment.encode()) + rb"[^\r\n]*"


def without_comments(data: bytes, dialect: Dialect) -> bytes:
    """Leave out the lines that begin as comments do, wherever they stand."""
    if not dialect.comment or dialect.comment.encode() not in data:
        return data
    return re.sub(_comments(dialect) + rb"(?:\r?\n|\r|\Z)", b"", data)


def records(data: bytes, dialect: Dialect, *, blank: bool = False) -> Iterator[tuple[bytes, int]]:
    r"""Cut whole records apart; comments are none.

    Args:
        blank: whether a line without content is a record, as it is where records have one field;
            it is left out otherwise.

    Yields:
        The record's bytes without its line break, and how many lines are before it.

    >>> list(records(b'a\n\n"b\nc"\nd', Dialect()))
    [(b'a', 0), (b'"b\nc"', 2), (b'd', 4)]
    """
    masked = _masked(data, dialect)
    edges = _quotes(masked, dialect) if dialect.quote else []
    quoted = [*zip(edges[0::2], edges[1::2], strict=False)]
    if len(edges) % 2:
        quoted.append((edges[-1], len(data)))
    start = lines = index = 0
    for match in re.finditer(rb"\r\n|\n|\r|\Z", masked):
        while index < len(quoted) and quoted[index][1] < match.start():
            index += 1
        if index < len(quoted) and quoted[index][0] < match.start() < len(data):
            continue
        comment = bool(dialect.comment) and data.startswith(dialect.comment.encode(), start)
        content = match.start() > start or (blank and match.start() < len(data))
        if content and not comment:
            yield data[start : match.start()], lines
        lines += data.count(b"\n", start, match.end())
        start = match.end()


def without_joints(
    block: Block,
    dialect: Dialect,
    headers: Collection[bytes],
    *,
    marks: bool = True,
    blank: bool = False,
) -> tuple[Block, Joints]:
    r"""Leave out what stands where files were joined: byte order marks and repeated headers.

    A repeated header becomes a line without content, so that the numbers of lines stay.

    Args:
        block: some records.
        dialect: how the file is written.
        headers: the header in the ways in which programs write it.
        marks: whether to leave out the marks before other records, too.
        blank: whether a line without content is a record; see `records`.

    Returns:
        The other records, and what was found.

    >>> block, joints = without_joints(Block(b"1\na,b\n", 1, False), Dialect(), [b"a,b"])
    >>> block.data, joints
    (b'1\n\n', <Joints.HEADER: 2>)
    """
    data = block.data
    marked = b"\xef" in data and any(data.find(end + BOM) >= 0 for end in (b"\n", b"\r"))
    if not (marked or data.startswith(BOM) or any(header in data for header in headers)):
        return block, Joints(0)
    found, kept, at = Joints(0), list[bytes](), 0
    for record, _ in records(data, dialect, blank=blank):
        start = data.index(record, at)
        end = start + len(record)
        text = record
        while text.startswith(BOM):
            text = text.removeprefix(BOM)
        kept.append(data[at:start])
        if text in headers:
            found |= Joints.HEADER if text == record else Joints.HEADER_MARKED
            if blank:
                end += 2 if data.startswith(b"\r\n", end) else 1
        else:
            found |= Joints.MARK if text != record else Joints(0)
            kept.append(text if marks else record)
        at = end
    kept.append(data[at:])
    return block._replace(data=b"".join(kept)), found


def blocks(
    source: BinaryIO,
    split: Split,
    dialect: Dialect,
    stream: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Block]:
    """Read a split, which begins and ends between two records, block by block.

    Args:
        source: the split's file, standing at the split's start.
        split: the part of a plain UTF-8 file that a task reads.
        dialect: how the file is written.
        stream: the stream's name, for messages.
        block_bytes: about how much to read at a time.
        max_record_bytes: the longest record.

    Raises:
        BadRecords: a record is longer than `max_record_bytes`.
        SourceError: the file is shorter than the split says.
    """
    position, end, line = split.start, split.end, split.first_line
    rest = b""
    while True:
        want = max(block_bytes, len(rest))  # doubles, so that a long record is not read over again
        data = source.read(want if end < 0 else min(want, end - position))
        position += len(data)
        advance(len(data))
        if not data:
            break
        rest += data
        cut, torn, stray, lines = record_end(rest, dialect)
        if cut:
            yield Block(rest[:cut], line, False, stray)
            line += lines
            rest = rest[cut:]
        elif len(rest) > max_record_bytes:
            reason = f"the record is longer than {max_record_bytes >> 20} MB"
            reason += ": a quote is not closed" if torn else ""
            raise BadRecords((BadRecord(stream, line, "", reason, rest[:1000]),))
    if position < end:
        raise SourceError(
            "a CSV file became shorter while it was read", "load it when it is complete."
        )
    if rest:
        _, torn, stray, _ = record_end(rest, dialect)
        yield Block(rest, line, torn, stray)
