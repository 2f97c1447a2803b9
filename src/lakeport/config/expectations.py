"""Expectations: conditions on a load's rows, checked before the rows are committed.

As in SQL's own constraints, a row fails where the condition is false. Where a null makes it
unknown, the row passes; `not_null` refuses nulls.
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

from lakeport.config.sources import ConfigPart
from lakeport.config.values import parse_seconds

Value = bool | int | float | Decimal | datetime | date | str
"""A constant to compare a column's values with."""

_OF_VALUES: Final = ("in", "between", "matches", "check")
_OF_ALL_ROWS: Final = ("rows", "fresh", "columns")
_KINDS: Final = ("not_null", "unique", *_OF_VALUES, *_OF_ALL_ROWS, "references")
_FIELDS: Final = {"in": "one_of", "columns": "same_columns"}
"""Kind whose key is a keyword of Python, or another attribute -> the name of its field."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}),
]


def _parse_columns(value: object) -> object:
    """Return one column or a list of columns as a tuple, each once; other values unchanged."""
    value = (value,) if isinstance(value, str) else value
    return tuple(dict.fromkeys(value)) if isinstance(value, (list, tuple)) else value


def _check_names(value: Any) -> Any:
    """Return column names unchanged; raise ValueError if there are none, or one is empty."""
    if not value or not all(value):
        raise ValueError("names no column")
    return value


def _check_references(value: Mapping[str, str]) -> Mapping[str, str]:
    """Return `references` unchanged; ValueError unless all values are columns of one table."""
    parts = [name.partition(".") for name in value.values()]
    if not all(table and column for table, _, column in parts):
        raise ValueError("has to name another table's columns, such as customers.id")
    if len({table for table, _, _ in parts}) > 1:
        raise ValueError("has to name columns of one table")
    return value


def _check_choices(value: object) -> object:
    """Return the values of `in` unchanged; raise ValueError for none, or for a null in them."""
    if not isinstance(value, (list, tuple)) or not value or None in value:
        raise ValueError("has to list values, none of them null: a null passes in any case")
    return value


def _check_limits(value: object) -> object:
    """Return `between`'s [lowest, highest] unchanged; ValueError for no pair or wrong order."""
    if not isinstance(value, (list, tuple)) or len(value) != 2 or all(v is None for v in value):
        raise ValueError("has to be [lowest, highest], of which one may be null")
    low, high = value
    if type(low) is type(high) and type(low) in (int, float, Decimal, date) and low > high:
        raise ValueError(f"has the lowest value {low} above the highest {high}: no value is there")
    return value


Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_columns),
    AfterValidator(_check_names),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Limits = Annotated[tuple[Value | None, Value | None], BeforeValidator(_check_limits)]
ByColumn = AfterValidator(_check_names)


class RowCount(ConfigPart):
    """The smallest and largest number of rows that a load may bring; at least one is set."""

    label: ClassVar[str] = "`rows`"

    at_least: int | None = Field(default=None, ge=0, description="Smallest number of rows.")
    at_most: int | None = Field(default=None, ge=0, description="Largest number of rows.")

    @model_validator(mode="after")
    def _check_order(self) -> RowCount:
        """Raise ValueError if both limits are absent, or `at_least` is above `at_most`."""
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs `at_least`, `at_most` or both")
        if self.at_most is not None and (self.at_least or 0) > self.at_most:
            raise ValueError("asks for more rows than it permits")
        return self


class Freshness(ConfigPart):
    """The largest age of a column's newest value."""

    label: ClassVar[str] = "`fresh`"

    column: str = Field(min_length=1, description="A column of dates or times.")
    within: Seconds = Field(
        description="Largest age of its newest value: 2 days, 36h, 90 min, or seconds."
    )


def _require_one_kind(schema: dict[str, Any]) -> None:
    """Have a JSON schema ask for exactly one of the kinds."""
    schema["oneOf"] = [{"required": [kind]} for kind in _KINDS]


class Expectation(ConfigPart):
    """A condition on the rows of a load, of exactly one kind, such as `not_null` or `rows`.

    Example:
        >>> Expectation(not_null=["carrier", "flight"]).title
        'not_null(carrier, flight)'
        >>> Expectation(**{"in": {"size": ["S", "M"]}, "otherwise": "warn"}).kind
        'in'
    """

    model_config = ConfigDict(json_schema_extra=_require_one_kind)
    label: ClassVar[str] = "the expectation"

    not_null: Columns = Field(default=(), description="Columns without nulls.")
    unique: Columns = Field(
        default=(),
        description="Columns whose values, taken together, are unique; rows with a null are not "
        "compared.",
    )
    one_of: Annotated[
        Mapping[str, Annotated[tuple[Value, ...], BeforeValidator(_check_choices)]], ByColumn
    ] = Field(
        default_factory=dict, alias="in", description="Column -> the values that it may have."
    )
    between: Annotated[Mapping[str, Limits], ByColumn] = Field(
        default_factory=dict,
        description="Column -> lowest and highest value, both included; null for no limit.",
    )
    matches: Annotated[Mapping[str, str], ByColumn] = Field(
        default_factory=dict,
        description="Column -> Java regular expression that its whole text matches.",
    )
    check: str = Field(default="", description="Spark SQL condition; a row fails if it is false.")
    rows: RowCount | None = Field(default=None, description="Number of rows that a load brings.")
    fresh: Freshness | None = Field(
        default=None, description="Largest age of a column's newest value."
    )
    same_columns: Literal["same"] | None = Field(
        default=None,
        alias="columns",
        description="`same`: the load has the columns of the table, no more and no fewer.",
    )
    references: Annotated[Mapping[str, str], ByColumn, AfterValidator(_check_references)] = Field(
        default_factory=dict,
        description="Column -> column of another table, such as customers.id, that has each value.",
    )
    otherwise: Literal["fail", "quarantine", "warn"] = Field(
        default="fail",
        description="`fail` commits nothing, `quarantine` sets the failing rows aside, `warn` "
        "counts them.",
    )
    name: str = Field(default="", description="Name in reports; default: the kind and the columns.")

    @model_validator(mode="after")
    def _check_kind(self) -> Expectation:
        """Raise ValueError unless one kind is set, or if that kind can't `quarantine` rows."""
        given = self._given_kinds()
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
        """Key of the expectation's kind, such as `not_null`."""
        return self._given_kinds()[0]

    def _given_kinds(self) -> list[str]:
        """Return the kinds that were given; a valid expectation has one."""
        return [kind for kind in _KINDS if _FIELDS.get(kind, kind) in self.model_fields_set]

    @property
    def is_row_wise(self) -> bool:
        """Whether each row can be checked by itself."""
        return self.kind in ("not_null", *_OF_VALUES)

    @property
    def needs_whole_input(self) -> bool:
        """Whether the whole input has to be checked before any of it is committed."""
        return not self.is_row_wise or self.otherwise == "fail"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to check; empty for the kinds `rows`, `columns` and `check`, a SQL condition."""
        if self.fresh is not None:
            return (self.fresh.column,)
        named = self.one_of or self.between or self.matches or self.references
        return self.not_null or self.unique or tuple(named)

    @property
    def references_table(self) -> str:
        """Name of the other table of `references`; empty for other kinds."""
        return next(iter(self.references.values()), "").partition(".")[0]

    @property
    def references_columns(self) -> tuple[str, ...]:
        """The other table's columns for `references`, in the order of `columns`."""
        return tuple(name.partition(".")[2] for name in self.references.values())

    @property
    def title(self) -> str:
        """The expectation's name; default: its kind and subject, such as `not_null(id)`."""
        return self.name or f"{self.kind}({self._subject()})"

    def _subject(self) -> str:
        """Return the expectation's subject as text, for the title: columns, row limits or SQL."""
        if self.check:
            return " ".join(self.check.split())
        if self.rows is not None:
            limits = {"at_least": self.rows.at_least, "at_most": self.rows.at_most}
            return ", ".join(f"{name} {n}" for name, n in limits.items() if n is not None)
        if self.references:
            return ", ".join(f"{name} in {other}" for name, other in self.references.items())
        return self.same_columns or ", ".join(self.columns)


def parse_expectations(
    given: Sequence[Mapping[str, Any] | Expectation],
) -> tuple[Expectation, ...]:
    """Parse a load's expectations; a repeated title gets a number, such as `not_null(id) 2`.

    Raises:
        ConfigError: one is wrong.

    Example:
        >>> [one.title for one in parse_expectations([{"not_null": "id"}, {"not_null": ["id"]}])]
        ['not_null(id)', 'not_null(id) 2']
    """
    parsed: list[Expectation] = []
    counts: dict[str, int] = {}
    for each in given:
        expectation = each if isinstance(each, Expectation) else Expectation(**each)
        counts[expectation.title] = number = counts.get(expectation.title, 0) + 1
        if number > 1:
            expectation = expectation.model_copy(update={"name": f"{expectation.title} {number}"})
        parsed.append(expectation)
    return tuple(parsed)
