"""Check expectations by Spark: expressions that say of each row whether it violates them.

A frame gets one more column of masks, with one bit for each expectation that the row violates. Keys
of other rows and tables are joined to the frame, so that one run of it checks all expectations.
Where a value can't be computed, the error names the expectation, or the `sql`, that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.expectations import Expectation
from lakeport.config.explain import closest_match
from lakeport.engine.failures import mask_causes
from lakeport.engine.sql.frames import (
    column,
    count_per_key,
    expression,
    failure_bits,
    literal,
    pattern_problem,
)
from lakeport.engine.sql.query import UncomputedValue, find_uncomputed_value, translate_sql_errors
from lakeport.errors import ConfigError, InputError
from lakeport.loading.expect.arrow import is_portable
from lakeport.schema.spark_schema import quote_identifier
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MASK: Final = "lakeport failed expectations"
"""Name of the column of violation masks, the last one of a checked frame."""

_SPARK_CALLS: Final = {"in": ("isin",), "between": ("lt", "gt")}
"""Kind of an expectation -> the functions by which Spark's errors name its comparison."""
_COMPARISON_HINT: Final = (
    "compare columns with values of their own type; `sql` can cast them before."
)
_MOST_SQL: Final = 200  # characters of an SQL fragment that an error quotes


def add_violation_mask(
    frame: DataFrame,
    expected: Sequence[Expectation],
    referenced_tables: Mapping[str, DataFrame],
    target_table: DataFrame | None,
    table_column: Callable[[str], str] = str,
) -> DataFrame:
    """Add a column of bit masks to a frame: bit n is set if a row violates expectation n.

    `referenced_tables` are those that `references` name. `unique` keys must not clash with rows of
    `target_table` either, where `table_column` returns a column's name; None: only with each other.

    Raises:
        ConfigError: an expectation names what is not there, or is no expression.
    """
    columns = frame.columns
    violations: list[tuple[int, Column]] = []
    for number, expectation in enumerate(expected):
        if expectation.kind in ("unique", "references"):
            frame, violates = _join_keys(
                frame, expectation, number, referenced_tables, target_table, table_column
            )
        elif expectation.is_row_wise:
            violates = _checked_condition(frame, expectation)
        else:
            continue
        violations.append((number, violates))
    return frame.select(*map(quote_identifier, columns), failure_bits(violations).alias(MASK))


def _violation_condition(expectation: Expectation) -> Column:
    """Build the Spark condition that is true for violating rows; a null may make it null."""
    match expectation.kind:
        case "not_null":
            each = [column(name).isNull() for name in expectation.not_null]
        case "in":
            allowed = expectation.one_of.items()
            each = [~column(name).isin(*map(literal, values)) for name, values in allowed]
        case "between":
            each = [_is_outside(column(n), *ends) for n, ends in expectation.between.items()]
        case "matches":
            patterns = expectation.matches.items()
            each = [~column(name).rlike(rf"\A(?:{pattern})\z") for name, pattern in patterns]
        case _:
            each = [~expression(expectation.check)]
    return reduce(or_, each)


def _is_outside(value: Column, low: Any, high: Any) -> Column:
    """Build the condition `value < low OR value > high`; leave out a limit that is None."""
    ends = [] if low is None else [value < literal(low)]
    ends += [] if high is None else [value > literal(high)]
    return reduce(or_, ends)


def _join_keys(
    frame: DataFrame,
    expectation: Expectation,
    number: int,
    referenced_tables: Mapping[str, DataFrame],
    target_table: DataFrame | None,
    table_column: Callable[[str], str],
) -> tuple[DataFrame, Column]:
    """Join keys for `unique` or `references`; return the frame, and its violation condition.

    ConfigError for an unknown table or column.
    """
    complete = reduce(and_, [column(name).isNotNull() for name in expectation.columns])
    if expectation.kind == "references":
        if expectation.references_table not in referenced_tables:
            existing = ", ".join(sorted(referenced_tables))
            raise ConfigError(
                f"expectation {expectation.title}: there is no table "
                f"{expectation.references_table!r}",
                f"the tables that it can name are {existing or 'none'}.",
            )
        other = referenced_tables[expectation.references_table]
        names = expectation.references_columns
        frame, match = _join_table(frame, expectation, number, other, names)
        return frame, complete & match.isNull()
    count = f"{MASK} {number}"
    frame = frame.withColumn(count, count_per_key(expectation.columns))
    violates = column(count) > 1
    names = tuple(map(table_column, expectation.columns))
    if target_table is not None and all(_has_column(target_table, name) for name in names):
        frame, match = _join_table(frame, expectation, number, target_table, names)
        violates = violates | match.isNotNull()
    return frame, complete & violates


def _join_table(
    frame: DataFrame,
    expectation: Expectation,
    number: int,
    other: DataFrame,
    names: Sequence[str],
) -> tuple[DataFrame, Column]:
    """Left-join the keys `names` of `other`; return the frame and a column, null without match."""
    mark = f"{MASK} {number} found"
    keys = [f"{mark} {i}" for i in range(len(expectation.columns))]
    for name in names:
        if not _has_column(other, name):
            raise unknown_column_error(expectation, name, other.columns)
    known = other.select(*[column(n).alias(k) for n, k in zip(names, keys, strict=True)])
    known = known.distinct().withColumn(mark, literal(True))
    on = [column(n) == column(k) for n, k in zip(expectation.columns, keys, strict=True)]
    return frame.join(known, on, "left"), column(mark)


def _checked_condition(frame: DataFrame, expectation: Expectation) -> Column:
    """Build the condition of violating rows; ConfigError if Spark finds it invalid."""
    subject = f"expectation {expectation.title}"
    for pattern in expectation.matches.values():
        if is_portable(pattern):
            continue  # it is valid; and Spark Connect, which gets no other one, has no Java
        if problem := pattern_problem(frame.sparkSession, pattern):
            raise ConfigError(
                f"{subject}: it is no regular expression of Java's: {problem}",
                "its whole text is to match, such as [A-Z]{3}.",
            )
    known = ", ".join(name for name in frame.columns if not name.startswith(MASK))
    with translate_sql_errors(f"the columns are {known}.", subject):
        violates = _violation_condition(expectation)
        frame.where(violates)  # Spark refuses here what is not about a single row
        if expectation.check:
            _check_boolean(frame, expectation.check, subject)
        return violates


def _check_boolean(frame: DataFrame, check: str, subject: str) -> None:
    """Raise ConfigError unless the SQL expression `check` gives a boolean, or only NULL."""
    kind = frame.selectExpr(check).schema[0].dataType.typeName()
    if kind not in ("boolean", "void"):
        raise ConfigError(
            f"{subject}: it gives a value of type {kind}, not true or false",
            "compare it with something, such as `id > 0`.",
        )


def _has_column(frame: DataFrame, name: str) -> bool:
    """Whether a frame has a column of this name, in any case of letters."""
    return name.lower() in {column.lower() for column in frame.columns}


def unknown_column_error(
    expectation: Expectation, name: str, columns: Sequence[str]
) -> ConfigError:
    """Build the error for an expectation's unknown column; suggest the closest name."""
    close = closest_match(name, columns)
    return ConfigError(
        f"expectation {expectation.title}: there is no column {name!r}"
        + (f"; did you mean `{close}`?" if close else ""),
        f"the columns are {', '.join(columns)}.",
    )


@contextmanager
def name_failed_sql(
    sql: str, expected: Sequence[Expectation], other_names: Sequence[str], secrets: Iterable[str]
) -> Iterator[None]:
    """Turn a failed computation in the body into an InputError that names the SQL or check.

    The new InputError names what failed, or all that may have. `other_names` are
    the names of what else may compute values. `secrets` are masked in the message.
    """
    try:
        yield
    except InputError as error:
        failure = find_uncomputed_value(error)
        if failure is None:
            raise
        named = _failure_error(
            failure, _find_suspects(failure, sql, expected, other_names), secrets
        )
        named.__cause__ = error.__cause__
        mask_causes(named, secrets)
        raise named from named.__cause__


def _failure_error(
    failure: UncomputedValue, suspects: Sequence[str], secrets: Iterable[str]
) -> InputError:
    """Build the error: the queries or expectations that may have failed, the SQL, the reason."""
    suspects = suspects or ["the frame"]
    who = suspects[0] if len(suspects) == 1 else f"one of {', '.join(suspects)}"
    sql = " ".join(failure.fragment.split()) if failure.line else ""
    sql = sql if len(sql) <= _MOST_SQL else sql[: _MOST_SQL - 1] + "…"
    where = f": `{sql}` (line {failure.line}, column {failure.column})" if sql else ""
    hint = _COMPARISON_HINT if failure.fragment and not failure.line else failure.hint
    return InputError(scrub(f"{who}{where} fails for some row: {failure.reason}", secrets), hint)


def _find_suspects(
    failure: UncomputedValue, sql: str, expected: Sequence[Expectation], other_names: Sequence[str]
) -> list[str]:
    """Return names of queries and expectations that may have failed; the only one if known."""
    texts = {f"expectation {one.title}": one.check for one in expected if one.check}
    if sql:
        texts = {"`sql`": sql.rstrip().removesuffix(";"), **texts}
    if failure.text:
        return [name for name, text in texts.items() if text == failure.text][:1] or [*other_names]
    call = failure.fragment
    calls = {
        f"expectation {one.title}": _SPARK_CALLS[one.kind]
        for one in expected
        if one.kind in _SPARK_CALLS
    }
    callers = [name for name, functions in calls.items() if not call or call in functions]
    return [*([] if call else texts), *callers, *other_names]
