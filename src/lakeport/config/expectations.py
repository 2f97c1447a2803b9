"""What is expected of the rows that a load lands, checked before they are committed.

As in SQL's own constraints, a row fails where the answer is *no*: where a null makes it unknown,
the row passes. `not_null` says that there are no nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from lakeport.config.inputs import Input
from lakeport.config.keys import seconds

Value = bool | int | float | Decimal | datetime | date | str
"""A value that a column's is compared with."""

_OF_VALUES: Final = ("in", "between", "matches", "check")
_OF_ALL_ROWS: Final = ("rows", "fresh")
_KINDS: Final = ("not_null", "unique", *_OF_VALUES, *_OF_ALL_ROWS, "references")
_FIELDS: Final = {"in": "one_of"}
"""Kind whose key is no name in Python -> its field."""

Seconds = Annotated[
    float,
    BeforeValidator(seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}),
]


def _columns(value: object) -> object:
    """One column, or a list of them, each once."""
    value = (value,) if isinstance(value, str) else value
    return tuple(dict.fromkeys(value)) if isinstance(value, (list, tuple)) else value


def _complete(value: Any) -> Any:
    """Refuse an empty list or mapping, and empty names in it."""
    if not value or not all(value):
        raise ValueError("names no column")
    return value


def _keys(value: Mapping[str, str]) -> Mapping[str, str]:
    """Columns of one other table."""
    parts = [name.partition(".") for name in value.values()]
    if not all(table and column for table, _, column in parts):
        raise ValueError("has to name another table's columns, such as customers.id")
    if len({table for table, _, _ in parts}) > 1:
        raise ValueError("has to name columns of one table")
    return value


def _values(value: object) -> object:
    """Values to choose from: with a null among them, SQL would not refuse any value."""
    if not isinstance(value, (list, tuple)) or not value or None in value:
        raise ValueError("has to list values, none of them null: a null passes in any case")
    return value


def _limits(value: object) -> object:
    if not isinstance(value, (list, tuple)) or len(value) != 2 or all(v is None for v in value):
        raise ValueError("has to be [lowest, highest], of which one may be null")
    low, high = value
    if type(low) is type(high) and type(low) in (int, float, Decimal, date) and low > high:
        raise ValueError(f"has the lowest value {low} above the highest {high}: no value is there")
    return value


Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(_columns),
    AfterValidator(_complete),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Limits = Annotated[tuple[Value | None, Value | None], BeforeValidator(_limits)]
ByColumn = AfterValidator(_complete)


class RowCount(Input):
    """How many rows there have to be."""

    what: ClassVar[str] = "`rows`"

    at_least: int | None = Field(default=None, ge=0, description="No fewer rows than this.")
    at_most: int | None = Field(default=None, ge=0, description="No more rows than this.")

    @model_validator(mode="after")
    def _in_order(self) -> RowCount:
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs `at_least`, `at_most` or both")
        if self.at_most is not None and (self.at_least or 0) > self.at_most:
            raise ValueError("asks for more rows than it permits")
        return self


class Freshness(Input):
    """How old the newest value of a column may be."""

    what: ClassVar[str] = "`fresh`"

    column: str = Field(min_length=1, description="A column of dates or times.")
    within: Seconds = Field(
        description="The age of its newest value at most: 2 days, 36h, 90 min, or seconds."
    )


def _one_kind(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [kind]} for kind in _KINDS]


class Expectation(Input):
    """One thing that is expected of the rows of a load: exactly one of its kinds.

    Example:
        >>> Expectation(not_null=["carrier", "flight"]).title
        'not_null(carrier, flight)'
        >>> Expectation(**{"in": {"size": ["S", "M"]}, "otherwise": "warn"}).kind
        'in'
    """

    model_config = ConfigDict(json_schema_extra=_one_kind)
    what: ClassVar[str] = "the expectation"

    not_null: Columns = Field(default=(), description="Columns that have a value in every row.")
    unique: Columns = Field(
        default=(),
        description="Columns whose values, taken together, no two rows share; keys with a null are "
        "left out.",
    )
    one_of: Annotated[
        Mapping[str, Annotated[tuple[Value, ...], BeforeValidator(_values)]], ByColumn
    ] = Field(
        default_factory=dict, alias="in", description="Column -> the values that it may have."
    )
    between: Annotated[Mapping[str, Limits], ByColumn] = Field(
        default_factory=dict,
        description="Column -> lowest and highest value, both included; null for no limit.",
    )
    matches: Annotated[Mapping[str, str], ByColumn] = Field(
        default_factory=dict,
        description="Column -> regular expression (Java's) that its whole text matches.",
    )
    check: str = Field(default="", description="Spark SQL that is not false for any row.")
    rows: RowCount | None = Field(default=None, description="How many rows a load brings.")
    fresh: Freshness | None = Field(
        default=None, description="How old the newest value of a column may be."
    )
    references: Annotated[Mapping[str, str], ByColumn, AfterValidator(_keys)] = Field(
        default_factory=dict,
        description="Column -> another table's, such as customers.id: each value is there.",
    )
    otherwise: Literal["fail", "quarantine", "warn"] = Field(
        default="fail",
        description="`fail` commits nothing, `quarantine` sets the failing rows aside, `warn` "
        "counts them.",
    )
    name: str = Field(
        default="", description="What reports call it; default: its kind and columns."
    )

    @model_validator(mode="after")
    def _one_of_all(self) -> Expectation:
        given = self._given()
        if len(given) != 1:
            kinds = ", ".join(f"`{kind}`" for kind in _KINDS)
            seen = f", not {' and '.join(f'`{kind}`' for kind in given)}" if given else ""
            raise ValueError(f"needs one of {kinds}{seen}")
        if self.kind == "check" and not self.check.strip():
            raise ValueError("has an empty `check`")
        if self.otherwise == "quarantine" and self.kind in _OF_ALL_ROWS:
            raise ValueError(
                f"is of all rows together (`{self.kind}`), of which none can be set aside: "
                "`otherwise` is fail or warn"
            )
        return self

    @property
    def kind(self) -> str:
        """Which one it is, as its key is called."""
        return self._given()[0]

    def _given(self) -> list[str]:
        """The keys that were given, of those that are kinds."""
        return [kind for kind in _KINDS if _FIELDS.get(kind, kind) in self.model_fields_set]

    @property
    def is_row_wise(self) -> bool:
        """Whether a row alone tells if it fails."""
        return self.kind in ("not_null", *_OF_VALUES)

    @property
    def needs_whole_input(self) -> bool:
        """Whether the whole input has to be looked at before any of it is committed."""
        return not self.is_row_wise or self.otherwise == "fail"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names; those of a `check` are in its SQL."""
        if self.fresh is not None:
            return (self.fresh.column,)
        named = self.one_of or self.between or self.matches or self.references
        return self.not_null or self.unique or tuple(named)

    @property
    def references_table(self) -> str:
        """The other table of `references`; empty for other kinds."""
        return next(iter(self.references.values()), "").partition(".")[0]

    @property
    def references_columns(self) -> tuple[str, ...]:
        """The other table's columns, in the order of `columns`."""
        return tuple(name.partition(".")[2] for name in self.references.values())

    @property
    def title(self) -> str:
        """Its name, or one made of its kind and what it is about."""
        return self.name or f"{self.kind}({self._about()})"

    def _about(self) -> str:
        if self.check:
            return " ".join(self.check.split())
        if self.rows is not None:
            limits = {"at_least": self.rows.at_least, "at_most": self.rows.at_most}
            return ", ".join(f"{name} {n}" for name, n in limits.items() if n is not None)
        if self.references:
            return ", ".join(f"{name} in {other}" for name, other in self.references.items())
        return ", ".join(self.columns)


def expectations(given: Sequence[Mapping[str, Any] | Expectation]) -> tuple[Expectation, ...]:
    """Expectations as the user wrote them, checked; names that several have are numbered.

    Raises:
        ConfigError: one is wrong.

    Example:
        >>> [one.title for one in expectations([{"not_null": "id"}, {"not_null": ["id"]}])]
        ['not_null(id)', 'not_null(id) 2']
    """
    found: list[Expectation] = []
    taken: dict[str, int] = {}
    for one in given:
        made = one if isinstance(one, Expectation) else Expectation(**one)
        taken[made.title] = number = taken.get(made.title, 0) + 1
        if number > 1:
            made = made.model_copy(update={"name": f"{made.title} {number}"})
        found.append(made)
    return tuple(found)
