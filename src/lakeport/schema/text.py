"""Format columns as text: each value as CSV has it, or as JSON.

Everything is done on whole columns, so that no Python code runs per value (binary, rare decimals
and JSON strings that are read back excepted).
"""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import InputError
from lakeport.schema.casting import InexactError, convert_exactly, has_storable_years
from lakeport.schema.nested import is_json, list_children
from lakeport.schema.types import TIMESTAMP

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
_JSON_SPECIAL = tuple(char.encode() for char, _ in _ESCAPES)


def to_plain_text(array: pa.Array, column: str = "") -> pa.Array:
    """Format a column as unquoted strings, binary as base64, nested values as JSON; nulls stay.

    InputError, which names `column`, for dates outside the years 1 to 9999.

    >>> to_plain_text(pa.array([1.0, None, float("inf")])).to_pylist()
    ['1.0', None, 'Infinity']
    """
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_floating(kind):
        return _format_floats(array)
    if pa.types.is_timestamp(kind):
        return _format_timestamps(array, column)
    if pa.types.is_date32(kind):
        _check_years(array, column)
        return array.cast(pa.string())
    if pa.types.is_decimal(kind):
        return _format_decimals(array)
    if pa.types.is_binary(kind):
        return pa.array(
            [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()],
            pa.string(),
        )
    if pa.types.is_nested(kind):
        text = to_json_text(array, column)
        return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))
    return array.cast(pa.string())


def to_json_text(array: pa.Array, column: str = "") -> pa.Array:
    """Format a column as JSON texts; nulls, NaN and infinities become the text `null`.

    InputError, which names `column`, for dates outside the years 1 to 9999.

    >>> to_json_text(pa.array([{"a": [1, None], "b": 'x"'}])).to_pylist()
    ['{"a":[1,null],"b":"x\\\\""}']
    """
    kind = array.type
    if pa.types.is_struct(kind):
        text = _struct_to_json(array, column)
    elif pa.types.is_map(kind):
        names = _quote_json(to_plain_text(_slice_children(array, array.keys), column))
        values = to_json_text(_slice_children(array, array.items), column)
        text = _join_children(array, pc.binary_join_element_wise(names, values, ":"), "{", "}")
    elif pa.types.is_list(kind):
        items = _part_to_json(kind.value_field, _slice_children(array, array.values), column)
        text = _join_children(array, items, "[", "]")
    elif pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(array), array, pa.scalar(None, kind))
        text = _format_floats(finite)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        text = to_plain_text(array, column)
    else:
        text = _quote_json(to_plain_text(array, column))
    return pc.fill_null(pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())), "null")


def to_json_column(array: pa.Array, part: pa.Field, column: str = "") -> pa.Array:
    """Format a column as JSON texts; leave nulls, and texts of a JSON column, as they are.

    Raises:
        InputError: a number is infinite or NaN, or a date outside the years 1 to 9999.

    >>> to_json_column(pa.array(["a", None]), pa.field("v", pa.string())).to_pylist()
    ['"a"', None]
    """
    if is_json(part):
        return array
    if not _is_finite(array):
        raise InputError(
            f"column {column!r} holds JSON in the table, and the source has a number for it that "
            "JSON lacks (NaN or infinity)",
            "make it null or a text in the source, or land it in another column.",
        )
    return pc.if_else(array.is_valid(), to_json_text(array, column), pa.scalar(None, pa.string()))


def cast_to_declared(array: pa.Array, part: pa.Field, type_: pa.DataType) -> pa.Array:
    """Cast a source's column to its declared type; InexactError if a value would change.

    Declared as JSON, texts stay as they are, and other values become JSON; declared as another
    type, JSON texts become plain ones first.

    Raises:
        InexactError: a value has no equal there, or a text is no JSON.
        TypeError: no value of the column's type has one.
    """
    if not isinstance(type_, pa.JsonType):
        return convert_exactly(unquote_json(array) if is_json(part) else array, type_)
    if is_json(part) or not pa.types.is_string(array.type):
        return to_json_column(array, part, part.name)
    for index, text in enumerate(array.to_pylist()):
        if text is not None and not is_json_text(text):
            raise InexactError(index, text)
    return array


def unquote_json(array: pa.Array) -> pa.Array:
    """Turn JSON texts into plain ones: unquote strings, leave other values as JSON.

    >>> unquote_json(pa.array(['"a"', "7", None])).to_pylist()
    ['a', '7', None]
    """
    quoted = pc.fill_null(pc.match_substring_regex(array, r'^\s*"'), False)
    if not pc.any(quoted).as_py():
        return array
    import msgspec

    strings = [msgspec.json.decode(text, type=str) for text in array.filter(quoted).to_pylist()]
    return pc.replace_with_mask(array, quoted, pa.array(strings, pa.string()))


def is_json_text(text: str) -> bool:
    """Whether a text is exactly one valid JSON value.

    >>> is_json_text('{"a": 1}'), is_json_text("a")
    (True, False)
    """
    import msgspec

    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _is_finite(array: pa.Array) -> bool:
    """Whether a column has no NaN or infinity, at any depth; ignores keys of maps."""
    kind = array.type
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.fill_null(pc.is_finite(array), True), min_count=0).as_py())
    children = list_children(array)[1:] if pa.types.is_map(kind) else list_children(array)
    return all(_is_finite(child) for _, child in children)


def _struct_to_json(array: pa.Array, column: str) -> pa.Array:
    """Format each row of a struct as a JSON object."""
    parts = []
    for field, child in zip(array.type, array.flatten(), strict=True):
        name = _quote_json(pa.array([field.name], pa.string()))[0].as_py()
        text = _part_to_json(field, child, column)
        parts.append(pc.binary_join_element_wise(f"{name}:", text, ""))
    if not parts:
        return pa.repeat(pa.scalar("{}"), len(array))
    body = pc.binary_join_element_wise(*parts, ",")
    return pc.binary_join_element_wise("{", body, "}", "")


def _part_to_json(part: pa.Field, values: pa.Array, column: str) -> pa.Array:
    """Format list items or struct members as JSON; leave JSON texts, but for nulls."""
    if is_json(part):
        return pc.fill_null(values, "null")
    return to_json_text(values, column)


def _slice_children(array: pa.Array, children: pa.Array) -> pa.Array:
    """Return the children of a list or map that lie within the array's slice."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return children.slice(first, last - first)


def _join_children(array: pa.Array, texts: pa.Array, left: str, right: str) -> pa.Array:
    """Join each row's child texts with commas, between the brackets `left` and `right`."""
    offsets = pc.subtract(array.offsets, array.offsets[0])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return pc.binary_join_element_wise(left, joined, right, "")


def _quote_json(text: pa.Array) -> pa.Array:
    """Format texts as JSON strings, escaped and in quotes."""
    if contains_any(text, _JSON_SPECIAL):
        for char, escape in _ESCAPES:
            text = pc.replace_substring(text, char, escape)
    return pc.binary_join_element_wise('"', text, '"', "")


def contains_any(text: pa.Array, special: tuple[bytes, ...]) -> bool:
    """Whether any of these bytes occurs in a column's texts."""
    every = get_string_bytes(text).to_pybytes()
    return any(byte in every for byte in special)


def _format_floats(array: pa.Array) -> pa.Array:
    """Format floats with a point or an exponent, and as `NaN`, `Infinity` or `-Infinity`."""
    text = array.cast(pa.string())
    if pc.any(pc.equal(array, pc.trunc(array))).as_py():
        text = pc.replace_substring_regex(text, r"^(-?[0-9]+)$", r"\1.0")
    if not pc.all(pc.is_finite(array)).as_py():
        text = pc.replace_substring_regex(text, "^-?nan$", "NaN")
        text = pc.replace_substring_regex(text, "inf$", "Infinity")
    return text


def _format_timestamps(array: pa.Array, column: str) -> pa.Array:
    """Format timestamps as ISO 8601 in UTC; raise InputError beyond the years 1 to 9999."""
    _check_years(array.cast(TIMESTAMP), column)
    text = array.cast(pa.timestamp("us")).cast(pa.string())
    between = len("2024-03-04")
    text = pc.utf8_replace_slice(text, between, between + 1, "T")
    return pc.binary_join_element_wise(text, "+00:00", "")


def _format_decimals(array: pa.Array) -> pa.Array:
    """Format decimals without an exponent."""
    text = array.cast(pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())


def _check_years(array: pa.Array, column: str) -> None:
    """Raise InputError if a date or timestamp lies outside the years 1 to 9999."""
    if not has_storable_years(array):
        raise InputError(
            f"column {column!r} has a date outside the years 1 to 9999, which ISO 8601 text in CSV "
            "does not have",
            "correct the source, or write Parquet.",
        )


def get_string_bytes(text: pa.Array) -> pa.Buffer:
    """Return the bytes of a column's strings back to back, without copying them."""
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return pa.py_buffer(b"")
    bounds = memoryview(offsets).cast("i")
    start, end = bounds[text.offset], bounds[text.offset + len(text)]
    return data.slice(start, end - start)
