"""Expectations as expressions of Spark's, which tell of each row whether it fails.

A frame gets one more column of bits, one bit for each expectation that the row does not meet. Keys
of other rows and tables are joined to it, so that all of them are told in one run of the frame.
Where a value can't be computed, the error names the expectation, or the `sql`, that asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.expectations import Expectation
from lakeport.engine.failures import mask_causes
from lakeport.engine.sql.frames import (
    column,
    count_of_key,
    expression,
    failure_bits,
    literal,
    pattern_problem,
)
from lakeport.engine.sql.query import Uncomputed, find_uncomputed, translate_sql_errors
from lakeport.errors import ConfigError, InputError
from lakeport.loading.expect.judging import no_column
from lakeport.schema.spark_schema import quote_identifier
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.engine.base import Column, DataFrame
    from lakeport.loading.batches import Part
    from lakeport.loading.expect.checks import Checks
    from lakeport.loading.transform.transform import Transform

MASK: Final = "lakeport failed expectations"
"""The column of bits, the last one."""

_CALLS: Final = {"in": ("isin",), "between": ("lt", "gt")}
_CALLED: Final = "compare columns with values of their own type; `sql` can cast them before."
_LONGEST: Final = 200


def add_failure_mask(
    frame: DataFrame,
    expected: Sequence[Expectation],
    others: Mapping[str, DataFrame],
    known: DataFrame | None,
) -> DataFrame:
    """Add a column of bits that tells which expectations each row fails; return the frame.

    Args:
        frame: not run yet.
        expected: bit 0 is the first one's, and so on.
        others: the tables that `references` name.
        known: the rows that the table has, among which keys are to be unique, too.

    Raises:
        ConfigError: an expectation names what is not there, or is no expression.
    """
    columns = frame.columns
    told: list[tuple[int, Column]] = []
    for number, one in enumerate(expected):
        if one.kind in ("unique", "references"):
            frame, failing = _by_keys(frame, one, number, others, known)
        elif one.is_row_wise:
            failing = _checked(frame, one)
        else:
            continue
        told.append((number, failing))
    return frame.select(*map(quote_identifier, columns), failure_bits(told).alias(MASK))


def _failing(one: Expectation) -> Column:
    """Whether a row fails; null where nothing tells."""
    match one.kind:
        case "not_null":
            return reduce(or_, [column(name).isNull() for name in one.not_null])
        case "in":
            return reduce(
                or_,
                [~column(n).isin(*map(literal, values)) for n, values in one.one_of.items()],
            )
        case "between":
            return reduce(or_, [_outside(column(n), *ends) for n, ends in one.between.items()])
        case "matches":
            return reduce(
                or_,
                [~column(n).rlike(rf"\A(?:{pattern})\z") for n, pattern in one.matches.items()],
            )
        case _:
            return ~expression(one.check)


def _outside(value: Column, low: Any, high: Any) -> Column:
    ends = [] if low is None else [value < literal(low)]
    ends += [] if high is None else [value > literal(high)]
    return reduce(or_, ends)


def _by_keys(
    frame: DataFrame,
    one: Expectation,
    number: int,
    others: Mapping[str, DataFrame],
    known: DataFrame | None,
) -> tuple[DataFrame, Column]:
    """The frame with what is needed to tell of a key, and whether a row fails by its key."""
    complete = reduce(lambda a, b: a & b, [column(name).isNotNull() for name in one.columns])
    if one.kind == "references":
        if one.references_table not in others:
            raise ConfigError(
                f"expectation {one.title}: there is no table {one.references_table!r}",
                f"the tables that it can name are {', '.join(sorted(others)) or 'none'}.",
            )
        frame, found = _joined(frame, one, number, others[one.references_table])
        return frame, complete & found.isNull()
    count = f"{MASK} {number}"
    frame = frame.withColumn(count, count_of_key(one.columns))
    failing = column(count) > 1
    if known is not None and all(_has(known, name) for name in one.columns):
        frame, found = _joined(frame, one, number, known)
        failing = failing | found.isNotNull()
    return frame, complete & failing


def _joined(
    frame: DataFrame, one: Expectation, number: int, other: DataFrame
) -> tuple[DataFrame, Column]:
    """The frame beside another one's keys, and a column that is null where there is none."""
    found = f"{MASK} {number} found"
    keys = [f"{found} {i}" for i in range(len(one.columns))]
    theirs = one.references_columns or one.columns
    for name in theirs:
        if not _has(other, name):
            raise no_column(one, name, other.columns)
    there = other.select(*[column(n).alias(k) for n, k in zip(theirs, keys, strict=True)])
    there = there.distinct().withColumn(found, literal(True))
    on = [column(n) == column(k) for n, k in zip(one.columns, keys, strict=True)]
    return frame.join(there, on, "left"), column(found)


def _checked(frame: DataFrame, one: Expectation) -> Column:
    """Whether a row fails, an expression that Spark can make sense of."""
    subject = f"expectation {one.title}"
    for pattern in one.matches.values():
        if problem := pattern_problem(frame.sparkSession, pattern):
            raise ConfigError(
                f"{subject}: it is no regular expression of Java's: {problem}",
                "its whole text is to match, such as [A-Z]{3}.",
            )
    known = ", ".join(name for name in frame.columns if not name.startswith(MASK))
    with translate_sql_errors(f"the columns are {known}.", subject):
        failing = _failing(one)
        frame.where(failing)  # where nothing can stand that is not of one row
        if one.check:
            _need_boolean(frame, one.check, subject)
        return failing


def _need_boolean(frame: DataFrame, check: str, subject: str) -> None:
    """Refuse texts, which Spark would take for booleans until one is none."""
    kind = frame.selectExpr(check).schema[0].dataType.typeName()
    if kind not in ("boolean", "void"):
        raise ConfigError(
            f"{subject}: it gives a value of type {kind}, not true or false",
            "compare it with something, such as `id > 0`.",
        )


def _has(frame: DataFrame, name: str) -> bool:
    return name.lower() in {column.lower() for column in frame.columns}


@contextmanager
def name_failed_sql(
    transform: Transform | None, checks: Checks | None, part: Part, secrets: Iterable[str]
) -> Iterator[None]:
    """Name the SQL or expectation that failed where the body can't compute a value.

    Args:
        transform: what makes the rows.
        checks: what is expected of them.
        part: whose frame the body runs.
        secrets: values that must not be in the message.

    Raises:
        InputError: with the name of what has failed, or all that may have.
    """
    try:
        yield
    except InputError as error:
        found = find_uncomputed(error)
        if found is None:
            raise
        ours = part.made is not None and part.made.reading is not None
        others = [] if ours else ["the frame that is landed"]
        if transform is not None and transform.function is not None:
            others.append("`python`")
        sql, expected = transform.sql if transform else "", checks.expected if checks else ()
        made = _failure_error(found, _suspects(found, sql, expected, others), secrets)
        made.__cause__ = error.__cause__
        mask_causes(made, secrets)
        raise made from made.__cause__


def _failure_error(
    found: Uncomputed, suspects: Sequence[str], secrets: Iterable[str]
) -> InputError:
    suspects = suspects or ["the frame"]
    who = suspects[0] if len(suspects) == 1 else f"one of {', '.join(suspects)}"
    what = " ".join(found.fragment.split()) if found.line else ""
    what = what if len(what) <= _LONGEST else what[: _LONGEST - 1] + "…"
    where = f": `{what}` (line {found.line}, column {found.column})" if what else ""
    hint = _CALLED if found.fragment and not found.line else found.hint
    return InputError(scrub(f"{who}{where} fails for some row: {found.reason}", secrets), hint)


def _suspects(
    found: Uncomputed, sql: str, expected: Sequence[Expectation], others: Sequence[str]
) -> list[str]:
    """What may have computed the value: what has just that SQL, else by how it was computed."""
    texts = {f"expectation {one.title}": one.check for one in expected if one.check}
    if sql:
        texts = {"`sql`": sql.rstrip().removesuffix(";"), **texts}
    if found.text:
        return [name for name, text in texts.items() if text == found.text][:1] or [*others]
    call = found.fragment
    calls = {f"expectation {one.title}": _CALLS[one.kind] for one in expected if one.kind in _CALLS}
    called = [name for name, by in calls.items() if not call or call in by]
    return [*([] if call else texts), *called, *others]
