"""Types of undeclared fields, by the kind of their values.

Two kinds meet in the next one to the right:

```
null ─┬─ boolean ──────────┬─ string ── json
      └─ integer ── number ┘
```
Text columns hold strings as they are, and anything else as its JSON text.
"""

from __future__ import annotations

import pyarrow as pa

from lakeport.schema.numbers import double

_TYPES: dict[str, pa.DataType] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "json": pa.string(),
}
_LONG = range(-(2**63), 2**63)


def number_kind(literal: str) -> str:
    """Tell the kind of a number as it was written.

    Example:
        >>> number_kind("9223372036854775808")
        'string'
    """
    if literal.removeprefix("-").isdecimal():
        return "integer" if len(literal) <= 20 and int(literal) in _LONG else "string"
    try:
        double(literal)
    except ValueError:
        return "string"
    return "number"


def merge_kinds(a: str, b: str) -> str:
    """Tell the kind of a field that has values of two kinds.

    Example:
        >>> merge_kinds("integer", "number"), merge_kinds("boolean", "number")
        ('number', 'string')
    """
    if a == b or b == "null":
        return a
    if a == "null":
        return b
    if {a, b} == {"integer", "number"}:
        return "number"
    return "json" if "json" in (a, b) else "string"


def type_of_kind(kind: str) -> pa.DataType:
    """Tell how a table stores an undeclared field.

    Example:
        >>> type_of_kind("number")
        DataType(double)
    """
    return _TYPES[kind]
