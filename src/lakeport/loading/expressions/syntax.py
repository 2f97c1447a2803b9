"""What a text of Spark SQL says, as far as it is of one row: a tree of names and operators."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Between",
    "Case",
    "Cast",
    "Function",
    "In",
    "Infix",
    "Is",
    "Item",
    "Like",
    "Name",
    "Null",
    "Number",
    "Prefix",
    "Query",
    "Star",
    "Syntax",
    "Text",
    "Truth",
    "Typed",
]


@dataclass(frozen=True, slots=True)
class Name:
    """A column, a field of a struct, or one of them behind the table's name."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written, without its sign."""

    text: str
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    value: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A date or timestamp that is written out: `DATE '2020-01-31'`."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class Truth:
    """`TRUE` or `FALSE`."""

    value: bool


@dataclass(frozen=True, slots=True)
class Null:
    """`NULL`."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """An operator before its operand: `-`, `+`, `not`."""

    operator: str
    operand: Syntax


@dataclass(frozen=True, slots=True)
class Infix:
    """An operator between its operands."""

    operator: str
    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Is:
    """`IS [NOT] NULL`, `TRUE` or `FALSE`."""

    operand: Syntax
    what: str


@dataclass(frozen=True, slots=True)
class In:
    """`IN` a list."""

    operand: Syntax
    items: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """`BETWEEN` two ends, both included."""

    operand: Syntax
    low: Syntax
    high: Syntax


@dataclass(frozen=True, slots=True)
class Like:
    """`LIKE` a pattern without escapes."""

    operand: Syntax
    pattern: str


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(... AS type)`; `digits` are those in brackets behind a decimal."""

    operand: Syntax
    type: str
    digits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN`; of `CASE x WHEN y` the conditions are `x = y`."""

    branches: tuple[tuple[Syntax, Syntax], ...]
    otherwise: Syntax


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name in lower case."""

    name: str
    arguments: tuple[Syntax, ...]


Syntax = (
    Name
    | Number
    | Text
    | Typed
    | Truth
    | Null
    | Prefix
    | Infix
    | Is
    | In
    | Between
    | Like
    | Cast
    | Case
    | Function
)


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, or `source.*`, without some columns."""

    table: str = ""
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result; without a name, it is the one it stands for."""

    value: Syntax
    name: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """`SELECT items FROM source [alias] [WHERE condition]`.

    Attributes:
        items: the columns.
        alias: what the query calls `source`.
        condition: which rows it keeps; None for all.
    """

    items: tuple[Item | Star, ...]
    alias: str
    condition: Syntax | None
