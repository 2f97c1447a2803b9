"""pyarrow's JSON reader, set to be strict: what it lets pass is exactly what was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

__all__ = ["below", "parse_lines", "tidy"]

_NEWLINE, _OPEN, _CLOSE = b"\n{}"


def tidy(text: bytes) -> tuple[bytes, int] | None:
    """Make sure that every line is an object of its own.

    Returns:
        The lines without blank ones and surrounding blanks, and how many they are; None if one
        of them is no object, or an object goes over several lines.

    Example:
        >>> tidy(b'{"a": 1}\\r\\n\\n{"a": 2}\\n')
        (b'{"a": 1}\\n{"a": 2}', 2)
    """
    rows = _objects(text)
    if rows:
        return text, rows
    stripped = (line.strip(b" \t\r") for line in text.split(b"\n"))
    text = b"\n".join(line for line in stripped if line)
    rows = _objects(text) if text else 0
    return None if rows is None else (text, rows)


def _objects(text: bytes) -> int | None:
    """Number of lines; None if one does not begin with `{` and end with `}`."""
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return None
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == _NEWLINE)
    if (codes[ends + 1] == _OPEN).all() and (codes[ends - 1] == _CLOSE).all():
        return len(ends) + 1
    return None


def parse_lines(
    text: bytes, rows: int, schema: pa.Schema | None, *, ignore: bool = False
) -> pa.Table | None:
    """Parse tidy lines.

    Args:
        text: lines as `tidy` gives them. (A first line that is no object would crash pyarrow.)
        rows: number of lines.
        schema: the columns; None to infer them.
        ignore: whether to pass over fields that the schema does not have, instead of giving up.

    Returns:
        A table of one chunk; None if anything is not as it should be.
    """
    unexpected = "infer" if schema is None else "ignore" if ignore else "error"
    # Checked at the end, only what was kept has to be read; a wrong key is no field of the schema.
    late = schema is not None and not ignore and not text.isascii()
    if not late and not is_unicode(text):
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior=unexpected
            ),
        )
        # Types that it infers itself, it makes invalid arrays of where a list begins with a null.
        if late or schema is None:
            table.validate(full=late)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table.combine_chunks() if table.num_rows == rows else None


def is_unicode(text: bytes) -> bool:
    """Whether bytes are UTF-8; at the speed of memory where they are ASCII."""
    if text.isascii():
        return True
    offsets = pa.array([0, len(text)], pa.int32()).buffers()[1]
    try:
        pa.StringArray.from_buffers(1, offsets, pa.py_buffer(text)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def below(array: Any, bound: int) -> bool:
    """Whether all numbers are smaller than `bound`, whatever their sign, and none is NaN."""
    if len(array) == array.null_count:
        return True
    if pa.types.is_integer(array.type):
        found = pc.min_max(array)
        return bool(-bound < found["min"].as_py() and found["max"].as_py() < bound)
    return bool(pc.all(pc.less(pc.abs(array), float(bound))).as_py())
