"""Declared columns of a file source: a JSON schema, or type names by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeport.config.files import parse_text, read_text
from lakeport.errors import ConfigError
from lakeport.schema.jsonschema import parse_schema
from lakeport.schema.types import (
    Field,
    FieldType,
    Kind,
    get_logical_type,
    parse_type_name,
    to_arrow_field,
)

if TYPE_CHECKING:
    import pyarrow as pa

_MADE_TEXT = (Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DECIMAL, Kind.JSON)

Declared = Mapping[str, Any] | str | PathLike[str]
"""A JSON schema or column -> type name, or the path of a JSON or YAML file that holds one."""


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
    return tuple(Field(name, parse_type_name(str(t), name)) for name, t in declared.items())


def with_columns(
    fields: tuple[Field, ...], columns: Mapping[str, str], *, all_declared: bool
) -> tuple[Field, ...]:
    """Declared columns, and those that `columns` declares.

    Raises:
        ConfigError: a type's name is unknown, or `columns` says what a schema says already.
    """
    if columns and all_declared:
        raise ConfigError(
            f"column {next(iter(columns))!r} is declared by `columns` (`--column`) beside a JSON "
            "schema, which declares all columns",
            "write its type into the schema, or leave the schema out.",
        )
    known = {field.name for field in fields}
    twice = [name for name in columns if name in known]
    if twice:
        raise ConfigError(
            f"column {twice[0]!r} is declared by `schema` and by `columns` (`--column`)",
            "declare it in one of them.",
        )
    return (*fields, *declared_fields("", columns))


def column_types(columns: Mapping[str, str]) -> dict[str, pa.DataType]:
    """How declared columns are stored in a table.

    Raises:
        ConfigError: a type's name is unknown.
    """
    return {
        field.name: get_logical_type(to_arrow_field(field.name, field.type))
        for field in declared_fields("", columns)
    }


def retyped(fields: tuple[Field, ...], columns: Mapping[str, str]) -> tuple[Field, ...]:
    """A stream's own columns, with the types that `columns` declares for some.

    Raises:
        ConfigError: a type's name is unknown.
    """
    types = {field.name: field.type for field in declared_fields("", columns)}
    return tuple(
        replace(field, type=read_type(types.get(field.name, field.type), field.type))
        for field in fields
    )


def read_type(declared: FieldType, own: FieldType) -> FieldType:
    """The type as which JSON values are read: numbers that are declared as text become it later.

    >>> read_type(FieldType(Kind.STRING), FieldType(Kind.INTEGER)).kind
    <Kind.INTEGER: 'integer'>
    """
    return own if declared.kind is Kind.STRING and own.kind in _MADE_TEXT else declared
