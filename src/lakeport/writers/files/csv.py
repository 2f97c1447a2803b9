"""How values are written in CSV: RFC 4180 quoting, LF, UTF-8 without a byte-order mark.

| value | text |
|---|---|
| null | nothing, unquoted |
| empty string | `""` |
| string | as it is, NUL included; quoted if it has a comma, a quote, CR or LF |
| boolean | `true`, `false` |
| integer, decimal | plain digits, never an exponent |
| floating point | shortest that reads back the same: `1.0`, `1e+300`, `NaN`, `Infinity` |
| date | `2024-03-04` |
| timestamp | `2024-03-04T15:30:45.123456+00:00` |
| binary | base64 |
| list, struct, map | compact JSON; nested values as above, NaN and infinities null, JSON as it is |

A null in a file of one column is an empty line: read it with blank lines kept. Everything is done
on whole columns, so that no Python code runs per value (binary and rare decimals excepted).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InputError
from lakeport.schema.types import JSON_TEXT

__all__ = ["header", "json_text", "lines", "plain_text"]

_SLICE_BYTES = 32 << 20
_FIRST_DAY = -719_162
_LAST_DAY = 2_932_896
_DAY_US = 86_400_000_000
_ESCAPES = (
    ("\\", "\\\\"),
    ('"', '\\"'),
    *((chr(code), f"\\u{code:04x}") for code in range(0x20) if chr(code) not in "\b\t\n\f\r"),
    ("\b", "\\b"),
    ("\t", "\\t"),
    ("\n", "\\n"),
    ("\f", "\\f"),
    ("\r", "\\r"),
)
_CSV_SPECIAL = (b'"', b",", b"\n", b"\r")
_JSON_SPECIAL = tuple(char.encode() for char, _ in _ESCAPES)


def header(names: Sequence[str]) -> bytes:
    """Return the header row.

    >>> header(["id", "a,b"])
    b'id,"a,b"\\n'
    """
    return (",".join(_quoted(pa.array(names, pa.string())).to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yield the rows of a batch as bytes, in pieces that never reach Arrow's 2 GB limit.

    Raises:
        InputError: a date or timestamp outside the years 1 to 9999.
    """
    rows = batch.num_rows
    step = max(1, rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
    for start in range(0, rows, step):
        part = batch.slice(start, step)
        cells = [
            pc.fill_null(_cell(column, field.name), "")
            for column, field in zip(part.columns, part.schema, strict=True)
        ]
        cells[-1] = pc.binary_join_element_wise(cells[-1], "\n", "")
        yield _content(pc.binary_join_element_wise(*cells, ","))


def _cell(array: pa.Array, column: str) -> pa.Array:
    text, kind = plain_text(array, column), array.type
    free = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    return _quoted(text) if free else text


def plain_text(array: pa.Array, column: str = "") -> pa.Array:
    """Return a column as strings, unquoted; nulls stay null.

    Args:
        array: the column's values, of any type that a table may have.
        column: its name, for errors.

    Raises:
        InputError: a date or timestamp outside the years 1 to 9999.

    >>> plain_text(pa.array([1.0, None, float("inf")])).to_pylist()
    ['1.0', None, 'Infinity']
    """
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_floating(kind):
        return _float_text(array)
    if pa.types.is_timestamp(kind):
        return _timestamp_text(array, column)
    if pa.types.is_date32(kind):
        _check_years(array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY, column)
        return array.cast(pa.string())
    if pa.types.is_decimal(kind):
        return _decimal_text(array)
    if pa.types.is_binary(kind):
        return pa.array(
            [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()],
            pa.string(),
        )
    if pa.types.is_nested(kind):
        text = json_text(array, column)
        return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))
    return array.cast(pa.string())


def json_text(array: pa.Array, column: str = "") -> pa.Array:
    """Return a column as JSON texts; nulls become `null`.

    Raises:
        InputError: a date or timestamp outside the years 1 to 9999.

    >>> json_text(pa.array([{"a": [1, None], "b": 'x"'}])).to_pylist()
    ['{"a":[1,null],"b":"x\\\\""}']
    """
    kind = array.type
    if pa.types.is_struct(kind):
        text = _struct_json(array, column)
    elif pa.types.is_map(kind):
        names = _json_string(plain_text(_within(array, array.keys), column))
        values = json_text(_within(array, array.items), column)
        text = _joined(array, pc.binary_join_element_wise(names, values, ":"), "{", "}")
    elif pa.types.is_list(kind):
        items = _part_json(kind.value_field, _within(array, array.values), column)
        text = _joined(array, items, "[", "]")
    elif pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(array), array, pa.scalar(None, kind))
        text = _float_text(finite)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        text = plain_text(array, column)
    else:
        text = _json_string(plain_text(array, column))
    return pc.fill_null(pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())), "null")


def _struct_json(array: pa.Array, column: str) -> pa.Array:
    parts = []
    for field, child in zip(array.type, array.flatten(), strict=True):
        name = _json_string(pa.array([field.name], pa.string()))[0].as_py()
        text = _part_json(field, child, column)
        parts.append(pc.binary_join_element_wise(f"{name}:", text, ""))
    if not parts:
        return pa.repeat(pa.scalar("{}"), len(array))
    body = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("{", body, "}", "")


def _part_json(part: pa.Field, values: pa.Array, column: str) -> pa.Array:
    """The items of a list or the members of a struct as JSON, which some are already."""
    if part.metadata == JSON_TEXT:
        return pc.fill_null(values, "null")
    return json_text(values, column)


def _within(array: pa.Array, children: pa.Array) -> pa.Array:
    """Those of a list array's children that its (perhaps sliced) rows point to."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return children.slice(first, last - first)


def _joined(array: pa.Array, texts: pa.Array, left: str, right: str) -> pa.Array:
    """Join the texts of each list's children, as `_within` gives them."""
    offsets = pc.subtract(array.offsets, array.offsets[0])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.binary_join_element_wise(left, joined, right, "")


def _json_string(text: pa.Array) -> pa.Array:
    if _holds(text, _JSON_SPECIAL):
        for char, escape in _ESCAPES:
            text = pc.replace_substring(text, char, escape)
    return pc.binary_join_element_wise('"', text, '"', "")


def _quoted(text: pa.Array) -> pa.Array:
    if _holds(text, _CSV_SPECIAL):
        special = pc.match_substring_regex(text, '[",\\r\\n]|^$')
        text_inside = pc.replace_substring(text, '"', '""')
    else:
        special = pc.equal(pc.binary_length(text), 0)
        text_inside = text
    if not pc.any(special).as_py():
        return text
    return pc.if_else(special, pc.binary_join_element_wise('"', text_inside, '"', ""), text)


def _holds(text: pa.Array, special: tuple[bytes, ...]) -> bool:
    """Whether any of the bytes occurs: far cheaper on the whole column than row by row."""
    content = _content(text).to_pybytes()
    return any(byte in content for byte in special)


def _float_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    if pc.any(pc.equal(array, pc.trunc(array))).as_py():
        text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    if not pc.all(pc.is_finite(array)).as_py():
        text = pc.replace_substring_regex(text, "^-?nan$", "NaN")
        text = pc.replace_substring_regex(text, "inf$", "Infinity")
    return text


def _timestamp_text(array: pa.Array, column: str) -> pa.Array:
    _check_years(
        array.cast(pa.int64()), _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1, column
    )
    text = array.cast(pa.timestamp("us")).cast(pa.string())
    between = len("2024-03-04")
    text = pc.utf8_replace_slice(text, between, between + 1, "T")
    return pc.binary_join_element_wise(text, "+00:00", "")


def _decimal_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())


def _check_years(numbers: pa.Array, first: int, last: int, column: str) -> None:
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and (low < first or high > last):
        raise InputError(
            f"column {column!r} has a date outside the years 1 to 9999, which ISO 8601 text in CSV "
            "does not have",
            "correct the source, or write Parquet.",
        )


def _content(text: pa.Array) -> pa.Buffer:
    """The strings of an array back to back, without copying them."""
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return pa.py_buffer(b"")
    bounds = memoryview(offsets).cast("i")
    start, end = bounds[text.offset], bounds[text.offset + len(text)]
    return data.slice(start, end - start)
