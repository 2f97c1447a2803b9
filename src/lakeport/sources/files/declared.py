"""Declared columns of a file source: a JSON schema, or type names by column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from lakeport.config.files import parse_text, read_text
from lakeport.errors import ConfigError
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.types import MAX_PRECISION, Field, FieldType, Kind

__all__ = ["Declared", "declaration", "declared_fields", "is_json_schema", "named_type"]

Declared = Mapping[str, Any] | str | PathLike[str]
"""A JSON schema or column -> type name, or the path of a JSON or YAML file that holds one."""

_NAMES = {
    "string": Kind.STRING,
    "text": Kind.STRING,
    "integer": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "int64": Kind.INTEGER,
    "number": Kind.NUMBER,
    "double": Kind.NUMBER,
    "float64": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "datetime": Kind.TIMESTAMP,
    "json": Kind.JSON,
}
_DECIMAL = re.compile(r"decimal\((\d+)(?:,(\d+))?\)")


def named_type(name: str, column: str) -> FieldType:
    """Look up a type by its name.

    Args:
        name: `string`, `integer`, `number`, `boolean`, `date`, `timestamp`, `json` or
            `decimal(precision, scale)`.
        column: for the message.

    Raises:
        ConfigError: there is no such type.

    >>> named_type("decimal(10, 2)", "price").scale
    2
    """
    text = name.lower().replace(" ", "")
    if text in _NAMES:
        return FieldType(_NAMES[text])
    match = _DECIMAL.fullmatch(text)
    if match:
        precision, scale = int(match[1]), int(match[2] or 0)
        if 0 < precision <= MAX_PRECISION and scale <= precision:
            return FieldType(Kind.DECIMAL, precision, scale)
    raise ConfigError(
        f"column {column!r} is declared as {name!r}, which is no type",
        "types: string, integer, number, boolean, date, timestamp, json, "
        f"decimal(precision, scale) with a precision of 1 to {MAX_PRECISION}.",
    )


def declaration(given: Declared | None) -> Mapping[str, Any] | None:
    """The declared columns that the user gave, or named a file of.

    Raises:
        ConfigError: the file can't be read, or it is neither a file nor a mapping.

    >>> declaration({"price": "decimal(10, 2)"})
    {'price': 'decimal(10, 2)'}
    """
    if isinstance(given, (str, PathLike)):
        return parse_text(read_text(Path(given)), f"schema file {str(given)!r}")
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"`schema` is of type {type(given).__name__}",
            "give a JSON schema or column -> type name as a mapping, or the path of a file.",
        )
    return given


def is_json_schema(declared: Mapping[str, Any]) -> bool:
    """Whether a declaration is a JSON schema, which declares all columns, not some."""
    return isinstance(declared.get("properties"), Mapping)


def declared_fields(
    stream: str, declared: Mapping[str, Any] | None, keys: tuple[str, ...] = ()
) -> tuple[Field, ...]:
    """The columns that a declaration names, in its order.

    Raises:
        ConfigError: a type's name is unknown, or a column's is no text.
        InputError: the JSON schema declares what can't be stored.
    """
    if not declared:
        return ()
    if is_json_schema(declared):
        return parse_schema(stream, declared, keys)
    for name in declared:
        if not isinstance(name, str):
            raise ConfigError(
                f"a column is declared under a name of type {type(name).__name__}",
                "write the columns' names as strings.",
            )
    return tuple(Field(name, named_type(str(t), name)) for name, t in declared.items())
