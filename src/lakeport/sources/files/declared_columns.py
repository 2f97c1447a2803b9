"""Read the columns that a user declares: by a JSON schema, or as type names by column."""

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

ColumnDeclaration = Mapping[str, Any] | str | PathLike[str]
"""A JSON schema or column -> type name, or the path of a JSON or YAML file with either."""


def load_declaration(declaration: ColumnDeclaration | None) -> Mapping[str, Any] | None:
    """Return a column declaration as a mapping, from its file if it is a path; None for None.

    Raises:
        ConfigError: the file can't be read, or the declaration is neither a path nor a mapping.

    >>> load_declaration({"price": "decimal(10, 2)"})
    {'price': 'decimal(10, 2)'}
    """
    if isinstance(declaration, (str, PathLike)):
        return parse_text(read_text(Path(declaration)), f"schema file {str(declaration)!r}")
    if declaration is not None and not isinstance(declaration, Mapping):
        raise ConfigError(
            f"`schema` is of type {type(declaration).__name__}",
            "give a JSON schema or column -> type name as a mapping, or the path of a file.",
        )
    return declaration


def is_json_schema(declared: Mapping[str, Any]) -> bool:
    """Whether a declaration is a JSON schema, which declares all columns and not only some."""
    return isinstance(declared.get("properties"), Mapping)


def parse_declared_fields(
    stream: str, declared: Mapping[str, Any] | None, keys: tuple[str, ...] = ()
) -> tuple[Field, ...]:
    """Return the columns of a JSON schema or a column -> type mapping; empty for no declaration.

    Raises:
        ConfigError: a type name is unknown, or a column's name is no text.
        InputError: the JSON schema declares a type that can't be stored.
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


def add_declared_columns(
    fields: tuple[Field, ...], columns: Mapping[str, str], *, all_declared: bool
) -> tuple[Field, ...]:
    """Return the schema's columns and those of config key `columns`; ConfigError if one is in both.

    Args:
        fields: the columns that the source's schema declares.
        all_declared: whether `fields` come from a JSON schema, which declares all columns.

    Raises:
        ConfigError: a type name is unknown, or a column of `columns` is in the schema, too.
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
    return (*fields, *parse_declared_fields("", columns))


def column_types(columns: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return column -> Arrow type in tables; raise ConfigError for an unknown type name."""
    return {
        field.name: get_logical_type(to_arrow_field(field.name, field.type))
        for field in parse_declared_fields("", columns)
    }


def override_types(fields: tuple[Field, ...], columns: Mapping[str, str]) -> tuple[Field, ...]:
    """Return the columns, with types from `columns`; ConfigError for an unknown type name."""
    types = {field.name: field.type for field in parse_declared_fields("", columns)}
    return tuple(
        replace(field, type=get_json_type(types.get(field.name, field.type), field.type))
        for field in fields
    )


def get_json_type(declared: FieldType, schema_type: FieldType) -> FieldType:
    """Return the type to parse JSON as: `declared`, or `schema_type` to cast to text later.

    >>> get_json_type(FieldType(Kind.STRING), FieldType(Kind.INTEGER)).kind
    <Kind.INTEGER: 'integer'>
    """
    return (
        schema_type if declared.kind is Kind.STRING and schema_type.kind in _MADE_TEXT else declared
    )
