"""Records as Python values -> Singer lines of a known schema, or columns with types by rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeport.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.mage.schemas import SchemaNotes
    from lakeport.sources.messages import Schema

__all__ = ["bare_records", "batch_lines", "batch_table"]

_WRAPPING = {"record", "schema", "stream", "tags"}


def bare_records(
    record_data: Sequence[Mapping[str, Any]], stream: str, schemas: SchemaNotes
) -> list[Mapping[str, Any]]:
    """The records without what Mage puts around them; a schema beside one of them is taken.

    Raises:
        InputError: something else than a mapping.
    """
    records = []
    for number, item in enumerate(record_data, 1):
        if not isinstance(item, Mapping):
            raise InputError(
                f"record {number} of stream {stream!r} is a {type(item).__name__}, not a mapping"
            )
        wrapped = item.get("record")
        if isinstance(wrapped, Mapping) and item.keys() <= _WRAPPING:
            schema = item.get("schema")
            if isinstance(schema, Mapping) and schemas.get(stream) is None:
                schemas.declare(stream, schema, {})
            item = wrapped
        records.append(item)
    return records


def batch_lines(records: Sequence[Mapping[str, Any]], stream: str, schema: Schema | None) -> bytes:
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

    names = dict.fromkeys(str(name) for record in records for name in record)
    columns = {name: _column([record.get(name) for record in records]) for name in names}
    return pa.table(columns)


def _column(values: list[Any]) -> pa.Array:
    """One type for all values, none of them changed; JSON text where there is none."""
    import pyarrow as pa

    values = [None if _is_nan(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    try:
        if len(kinds) > 1 and (bool in kinds or not kinds <= {int, float}):
            raise pa.ArrowInvalid("more than one kind")
        array = pa.array(values)
        if pa.types.is_null(array.type):
            return array.cast(pa.string())
        return array
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        texts = [v if v is None or isinstance(v, str) else _json(v).decode() for v in values]
        return pa.array(texts, pa.string())


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _json(value: Any) -> bytes:
    """JSON of Python values: decimals as numbers, dates and times in ISO 8601, NaN as null."""
    import msgspec

    try:
        return msgspec.json.encode(value, enc_hook=str, decimal_format="number")  # type: ignore[call-arg]
    except (OverflowError, msgspec.ValidationError, TypeError):
        return json.dumps(value, default=str, separators=(",", ":")).encode()
