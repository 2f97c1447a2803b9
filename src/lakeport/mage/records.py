"""Records as Python values -> Singer lines of a known schema, or columns with types by rules."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lakeport.errors import InputError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.mage.running import SchemaNotes
    from lakeport.sources.singer.messages import SchemaMessage


_WRAPPING = {"record", "schema", "stream", "tags"}
_PLAIN = frozenset({bool, float, int, str, type(None)})


def bare_records(
    record_data: Sequence[Mapping[str, Any]], stream: str, schemas: SchemaNotes
) -> list[Mapping[str, Any]]:
    """The records without what Mage puts around them; a schema beside one of them is taken.

    Names are text, and values are Python's own: what numpy and pandas have for them is not told
    apart from them, and their NaN, NaT and NA are null.

    Raises:
        InputError: something else than a mapping, keys that are one name as text, or a time in
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
        if isinstance(wrapped, Mapping) and item.keys() <= _WRAPPING:
            schema = item.get("schema")
            if isinstance(schema, Mapping) and schemas.get(stream) is None:
                schemas.declare(stream, schema, {})
            item = wrapped
        record = _plain(item)
        if len(record) < len(item):
            raise InputError(
                f"record {number} of stream {stream!r} has two keys of one name",
                "columns are named by text: 1 and '1' are the same.",
            )
        records.append(record)
    return records


def batch_lines(
    records: Sequence[Mapping[str, Any]], stream: str, schema: SchemaMessage | None
) -> bytes:
    """Singer lines: the schema, unless the catalog has it, and the records.

    Example:
        >>> batch_lines([{"id": 1}], "users", None)
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
    lines += [head + _json(record) + b"}" for record in records]
    return b"\n".join(lines) + b"\n"


def batch_table(records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Columns of records without a schema, in the order in which they first came.

    Example:
        >>> table = batch_table([{"a": 1, "b": {"x": 1}}, {"a": 2.5, "b": "text"}])
        >>> [str(t) for t in table.schema.types], table["b"].to_pylist()
        (['double', 'string'], ['{"x":1}', 'text'])
    """
    import pyarrow as pa

    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: _column(name, [record.get(name) for record in records]) for name in names}
    return pa.table(columns)


def _column(name: str, values: list[Any]) -> pa.Array:
    """One type for all values, none of them changed; JSON text where tables have none.

    Raises:
        InputError: a text that is no Unicode.
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
        texts = [v if v is None or isinstance(v, str) else _json(v).decode() for v in values]
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        raise InputError(
            f"column {name!r} has a text with half of a surrogate pair, which is no Unicode",
            "correct the text in the source.",
        ) from None


def _plain(value: Any) -> Any:
    """A value as Python's own types have it; NaN is null, and names in mappings are text."""
    kind = type(value)
    if kind in _PLAIN:  # most are, and the tests below cost several times as much
        return value if value == value else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    library = kind.__module__.partition(".")[0]
    if library == "pandas":
        value = _of_pandas(value)
    elif library == "numpy":
        return _plain((_micros(value) if value.dtype.kind in "mM" else value).tolist())
    return None if isinstance(value, float) and value != value else value


def _of_pandas(value: Any) -> Any:
    import pandas as pd

    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False) if not value.nanosecond else _too_fine()
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta() if not value.nanoseconds else _too_fine()
    return value


def _micros(value: Any) -> Any:
    """numpy's times in the one unit that become Python's own; others become bare numbers."""
    import numpy as np

    found = value.astype(f"{value.dtype.kind}8[us]")
    same = (found.astype(value.dtype) == value) | np.isnat(value)
    return found if np.all(same) else _too_fine()


def _too_fine() -> NoReturn:
    raise InputError(
        "a record holds a time that microseconds can't hold",
        "round it in the source, for example with `floor('us')`.",
    )


def _json(value: Any) -> bytes:
    """JSON of Python values: decimals as numbers, dates and times in ISO 8601.

    An infinite number is the word that Python has for it, which is bad where JSON is read: msgspec
    alone would make it null.
    """
    import msgspec

    try:
        text = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode(value)
        if b"null" not in text or not _infinite(value):
            return text
    except (OverflowError, ValueError, TypeError):  # a long number, or a text that is no Unicode
        pass
    return json.dumps(value, default=str, separators=(",", ":")).encode()


def _infinite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_infinite, value.values()))
    if isinstance(value, list):
        return any(map(_infinite, value))
    return isinstance(value, float) and math.isinf(value)
