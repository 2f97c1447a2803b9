"""Names of types, as people write and read them: `decimal(10,2)` <-> what columns hold."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable

import pyarrow as pa

from lakeport.errors import ConfigError
from lakeport.schema.casting import TIMESTAMP
from lakeport.schema.types import MAX_PRECISION, FieldType, Kind, declared_type

_NAMES = {
    "string": Kind.STRING,
    "text": Kind.STRING,
    "integer": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "long": Kind.INTEGER,
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
_TOLD = {
    pa.int64(): "integer",
    pa.float64(): "double",
    pa.float32(): "float32",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "no value yet",
    pa.json_(): "json",
}
_MOST = 20


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
    close = difflib.get_close_matches(text, [*_NAMES, "decimal(10,2)"], n=1)
    raise ConfigError(
        f"column {column!r} is declared as {name!r}, which is no type"
        + (f"; did you mean {close[0]!r}?" if close else ""),
        "types: string, integer, number (or double), boolean, date, timestamp, json, "
        f"decimal(precision, scale) with a precision of 1 to {MAX_PRECISION}.",
    )


def type_name(type_: pa.DataType) -> str:
    """A column's type in words: where `named_type` has it, in words that it takes.

    >>> type_name(pa.int64()), type_name(pa.decimal128(10, 2)), type_name(pa.list_(pa.int64()))
    ('integer', 'decimal(10,2)', 'list of integer')
    """
    if type_ in _TOLD:
        return _TOLD[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"list of {type_name(declared_type(type_.value_field))}"
    if pa.types.is_struct(type_):
        return "object"
    return "map" if pa.types.is_map(type_) else str(type_)


def command(*words: str) -> str:
    """A command of lakeport as a shell takes it, in backticks.

    >>> command("table", "history", "lake/my people")
    "`lakeport table history 'lake/my people'`"
    """
    return f"`{shlex.join(['lakeport', *words])}`"


def alter_command(table: str, column: str, type_: str) -> str:
    """The command that gives a table's column another type, as a shell takes it.

    >>> alter_command("lake/my people", "price", "double")
    "`lakeport table alter 'lake/my people' --column price --type double`"
    """
    return command("table", "alter", table, "--column", column, "--type", type_)


def column_of(path: str, columns: Iterable[str]) -> str:
    """Return the column in which a dotted path names a part; empty if it leads into none.

    >>> column_of("o.p", ["id", "o"]), column_of("p", ["id", "o"])
    ('o', '')
    """
    return max((name for name in columns if path.startswith(f"{name}.")), key=len, default="")


def no_column(name: str, columns: Iterable[str], owner: str) -> str:
    """Return the hint about a declared column that `owner`, such as "the records have", lacks.

    >>> no_column("o.p", ["id", "o"], "the records have")
    "types are declared for whole columns: `--column o=json` lands all of 'o' as JSON."
    """
    columns = [*columns]
    whole = column_of(name, columns)
    if whole:
        option = shlex.quote(f"{whole}=json")
        return (
            f"types are declared for whole columns: `--column {option}` lands all of {whole!r} "
            "as JSON."
        )
    return f"{owner} {listed(like(name, columns))}."


def like(name: str, known: Iterable[str]) -> list[str]:
    """The known names, those that are spelt most like this one first.

    >>> like("prise", ["name", "price"])
    ['price', 'name']
    """

    def alike(other: str) -> float:
        return difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio()

    return sorted(known, key=alike, reverse=True)


def listed(names: Iterable[str]) -> str:
    """Quoted names with commas, no more than anyone reads.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    every = [repr(name) for name in names]
    more = len(every) - _MOST
    return ", ".join(every[:_MOST]) + (f" and {more} more" if more > 0 else "")
