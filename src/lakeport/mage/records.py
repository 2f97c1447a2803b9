"""Converts Python records to Singer messages of a known schema, or to an Arrow table."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lakeport.errors import InputError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.mage.running import StreamSchemas
    from lakeport.sources.singer.messages import SchemaMessage


_ENVELOPE_KEYS = {"record", "schema", "stream", "tags"}
_PLAIN = frozenset({bool, float, int, str, type(None)})


def unwrap_records(
    record_data: Sequence[Mapping[str, Any]], stream: str, schemas: StreamSchemas
) -> list[Mapping[str, Any]]:
    """Return records without Mage's wrapper `{"record": ...}`; store a wrapper's schema.

    Names become text. Values of numpy and pandas become Python's, their NaN, NaT and NA null.

    Raises:
        InputError: a record is no mapping, has two keys with the same text, or a time with
            nanoseconds.
    """
    records = []
    for number, item in enumerate(record_data, 1):
        if not isinstance(item, Mapping):
            raise InputError(
                f"record {number} of stream {stream!r} has type {type(item).__name__!r}, "
                "and is no mapping",
                "give a list of dictionaries; frames are for `export`.",
            )
        wrapped = item.get("record")
        if isinstance(wrapped, Mapping) and item.keys() <= _ENVELOPE_KEYS:
            schema = item.get("schema")
            if isinstance(schema, Mapping) and schemas.get(stream) is None:
                schemas.declare(stream, schema, {})
            item = wrapped
        record = _to_python(item)
        if len(record) < len(item):
            raise InputError(
                f"record {number} of stream {stream!r} has two keys of one name",
                "columns are named by text: 1 and '1' are the same.",
            )
        records.append(record)
    return records


def to_singer_lines(
    records: Sequence[Mapping[str, Any]], stream: str, schema: SchemaMessage | None
) -> bytes:
    """Encode records as Singer messages, one a line, after a SCHEMA message if given.

    Example:
        >>> to_singer_lines([{"id": 1}], "users", None)
        b'{"type": "RECORD", "stream": "users", "record": {"id":1}}\\n'
    """
    lines = []
    if schema is not None:
        message = {
            "type": "SCHEMA",
            "stream": stream,
            "schema": schema.schema,
            "key_properties": schema.key_properties,
            "partition_keys": schema.partition_keys,
        }
        lines.append(json.dumps(message).encode())
    head = f'{{"type": "RECORD", "stream": {json.dumps(stream)}, "record": '.encode()
    lines += [head + _to_json(record) + b"}" for record in records]
    return b"\n".join(lines) + b"\n"


def to_arrow_table(records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return records as an Arrow table with inferred types, columns in order of appearance.

    Example:
        >>> table = to_arrow_table([{"a": 1, "b": {"x": 1}}, {"a": 2.5, "b": "text"}])
        >>> [str(t) for t in table.schema.types], table["b"].to_pylist()
        (['double', 'string'], ['{"x":1}', 'text'])
    """
    import pyarrow as pa

    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: _build_array(name, [record.get(name) for record in records]) for name in names}
    return pa.table(columns)


def _build_array(name: str, values: list[Any]) -> pa.Array:
    """Return values as an Arrow array of their common type, as JSON text if there is none.

    Raises:
        InputError: a text is not valid Unicode.
    """
    import pyarrow as pa

    from lakeport.schema.casting import normalise_schema
    from lakeport.sources.records import RecordOptions, check_values

    kinds = {type(value) for value in values if value is not None}
    try:
        if len(kinds) > 1 and (bool in kinds or not kinds <= {int, float}):
            raise pa.ArrowInvalid("more than one kind")
        check_values(name, values, RecordOptions(max_columns=sys.maxsize))
        array = pa.array(values)
        normalise_schema(pa.schema([(name, array.type)]))
        return array
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        SourceError,
    ):
        texts = [v if v is None or isinstance(v, str) else _to_json(v).decode() for v in values]
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        raise InputError(
            f"column {name!r} has a text with half of a surrogate pair, which is no Unicode",
            "correct the text in the source.",
        ) from None


def _to_python(value: Any) -> Any:
    """Convert nested numpy and pandas values to Python's: NaN to None, keys to text."""
    kind = type(value)
    if kind in _PLAIN:  # most are, and the checks below cost several times as much
        return value if value == value else None
    if isinstance(value, Mapping):
        return {str(name): _to_python(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_to_python(item) for item in value]
    library = kind.__module__.partition(".")[0]
    if library == "pandas":
        value = _from_pandas(value)
    elif library == "numpy":
        return _to_python((_to_micros(value) if value.dtype.kind in "mM" else value).tolist())
    return None if isinstance(value, float) and value != value else value


def _from_pandas(value: Any) -> Any:
    """Convert a pandas scalar to Python, NA to None; raise InputError for nanoseconds."""
    import pandas as pd

    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False) if not value.nanosecond else _refuse_nanoseconds()
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta() if not value.nanoseconds else _refuse_nanoseconds()
    return value


def _to_micros(value: Any) -> Any:
    """Convert numpy times to microseconds; raise InputError if that loses nanoseconds."""
    import numpy as np

    found = value.astype(f"{value.dtype.kind}8[us]")
    same = (found.astype(value.dtype) == value) | np.isnat(value)
    return found if np.all(same) else _refuse_nanoseconds()


def _refuse_nanoseconds() -> NoReturn:
    """Raise InputError for a time with nanoseconds."""
    raise InputError(
        "a record holds a time that microseconds can't hold",
        "round it in the source, for example with `floor('us')`.",
    )


def _to_json(value: Any) -> bytes:
    """Encode Python values as JSON: decimals as numbers, dates and times as ISO 8601 text.

    An infinite number becomes `Infinity`, which a reader of JSON refuses; msgspec alone would
    write null.
    """
    import msgspec

    try:
        text = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode(value)
        if b"null" not in text or not _has_infinity(value):
            return text
    except (OverflowError, ValueError, TypeError):  # a long number, or invalid Unicode
        pass
    return json.dumps(value, default=str, separators=(",", ":")).encode()


def _has_infinity(value: Any) -> bool:
    """Whether a value is, or contains, an infinite number."""
    if isinstance(value, Mapping):
        return any(map(_has_infinity, value.values()))
    if isinstance(value, list):
        return any(map(_has_infinity, value))
    return isinstance(value, float) and math.isinf(value)
