"""A table's columns as a JSON schema, by which records that are to join them are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

_NAMED: Final[dict[Any, dict[str, Any]]] = {
    pa.string(): {"type": ["null", "string"]},
    pa.bool_(): {"type": ["null", "boolean"]},
    pa.float32(): {"type": ["null", "number"]},
    pa.float64(): {"type": ["null", "number"]},
    pa.date32(): {"type": ["null", "string"], "format": "date"},
    pa.timestamp("us", "UTC"): {"type": ["null", "string"], "format": "date-time"},
    pa.binary(): {"type": ["null", "string"], "contentEncoding": "base64"},
}


def json_schema(fields: Iterable[pa.Field]) -> dict[str, Any]:
    """The JSON schema of records with these fields; those of types that it lacks are left out.

    Example:
        >>> json_schema(pa.schema([("n", pa.int64())]))
        {'type': 'object', 'properties': {'n': {'type': ['null', 'integer']}}}
    """
    found = {field.name: _declared(field.type) for field in fields}
    return {
        "type": "object",
        "properties": {name: declared for name, declared in found.items() if declared},
    }


def _declared(type_: pa.DataType) -> dict[str, Any] | None:
    if type_ in _NAMED:
        return _NAMED[type_]
    if pa.types.is_integer(type_):
        return {"type": ["null", "integer"]}
    if pa.types.is_decimal(type_):
        size = {"x-precision": type_.precision, "x-scale": type_.scale}
        return {"type": ["null", "number"], **size}
    if pa.types.is_struct(type_):
        inner = json_schema(type_.field(i) for i in range(type_.num_fields))
        return {**inner, "type": ["null", "object"]}
    if pa.types.is_list(type_):
        items = _declared(type_.value_type)
        return {"type": ["null", "array"], **({"items": items} if items else {})}
    return None
