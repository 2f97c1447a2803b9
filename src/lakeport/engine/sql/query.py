"""One SQL query on named frames, in its own session: parse it, analyse it, explain its errors.

Where SQL could not compute a value, `find_uncomputed_value` says where and why, by Spark's error
conditions and the query context that its exceptions carry under ANSI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import java_causes, translate_errors
from lakeport.engine.spark.jvm.calls import active_session, iterate_seq, java_class
from lakeport.errors import ConfigError, walk_causes
from lakeport.schema.spark_schema import quote_identifier

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_HINT: Final = "`sql` is one query in Spark SQL, such as SELECT * FROM source WHERE id IS NOT NULL."
_CODES: Final = re.compile(r"^\[[\w.]+\] |\s*SQLSTATE: \w+|\s*;? ?\(?line \d+,? pos \d+\)?;?")
_POSITION: Final = re.compile(r"line (\d+),? pos (\d+)")
_NARROW_ROWS: Final = 1 << 14
_NO_BYTE_LIMIT: Final = (1 << 31) - 1
"""Limit at which Spark does not measure batches."""

_ROW_BY_ROW: Final = frozenset(
    {
        "CTERelationDef",
        "CTERelationRef",
        "Filter",
        "Generate",
        "Project",
        "SubqueryAlias",
        "WithCTE",
    }
)

_NULL: Final = "gives null in its place"
_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "CAST_INVALID_INPUT": (
        "a value of type {sourceType} is none of type {targetType}",
        f"`try_cast` {_NULL}, as `try_to_date` and `try_to_timestamp` do.",
    ),
    "CAST_OVERFLOW": (
        "a value of type {sourceType} does not fit into {targetType}",
        f"take a wider type, or `try_cast`, which {_NULL}.",
    ),
    "NUMERIC_VALUE_OUT_OF_RANGE": (
        "a value does not fit into decimal({precision},{scale})",
        f"take a wider type, or `try_cast`, which {_NULL}.",
    ),
    "ARITHMETIC_OVERFLOW": (
        "the result does not fit into its type",
        f"cast to a wider type before, such as decimal(38,0), or take `{{try_}}`, which {_NULL}.",
    ),
    "DIVIDE_BY_ZERO": (
        "it divides by zero",
        f"`try_divide(a, b)` {_NULL}, as `a / nullif(b, 0)` does.",
    ),
    "REMAINDER_BY_ZERO": ("it divides by zero", f"`try_mod(a, b)` {_NULL}."),
    "INVALID_ARRAY_INDEX": (
        "an array has no element at that index",
        f"`get(array, index)` {_NULL}.",
    ),
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": (
        "an array has no element at that index",
        f"`try_element_at(array, index)` {_NULL}.",
    ),
    "CANNOT_PARSE_TIMESTAMP": (
        "a text is no date or time in that format",
        f"`try_to_timestamp` {_NULL}.",
    ),
    "USER_RAISED_EXCEPTION": (
        "it raised an error of its own (`raise_error`, `assert_true`)",
        "correct the rows, or the condition.",
    ),
}


def clone_session(spark: SparkSession, *, narrow_rows: bool = False) -> SparkSession:
    """Clone a session with its views, functions and settings, without `${...}` substitution.

    Args:
        narrow_rows: whether Arrow batches are cut at 16,384 rows. Otherwise Spark cuts them by
            bytes, for which it adds up the batch's buffers at each row.
    """
    from pyspark.sql import SparkSession

    with translate_errors():
        clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        # `${env:NAME}` in a query would become the variable's value.
        clone.conf.set("spark.sql.variable.substitute", "false")
        if narrow_rows:
            clone.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_NARROW_ROWS))
            clone.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_NO_BYTE_LIMIT))
    return clone


def name_frames(session: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Register each frame, also one of another session, as a temporary view by its name."""
    with active_session(session), translate_errors():
        for name, frame in frames.items():
            plan = frame._jdf.queryExecution().analyzed()
            frame_of_plan(session, plan).createOrReplaceTempView(quote_identifier(name))


def parse_query(session: SparkSession, sql: str) -> Any:
    """Parse one SQL query to a logical plan, not analysed; ConfigError for anything else.

    A command, several queries and empty text are refused.
    """
    from pyspark.errors import ParseException

    text = sql.rstrip().removesuffix(";")
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    query, failure = None, None
    with active_session(session):
        try:
            query = parser.parseQuery(text)
        except ParseException as error:
            failure = error
        try:
            # The whole text: in Spark 3.5, `parseQuery` leaves out what comes behind a query.
            kind = str(parser.parsePlan(text).getClass().getSimpleName())
        except ParseException as error:
            raise _sql_error(failure or error) from None
    if query is not None:
        return query
    raise ConfigError(f"`sql` is a command ({kind}), and only queries are run", _HINT)


def query_frames(
    session: SparkSession, sql: str, columns: Mapping[str, tuple[str, ...]]
) -> DataFrame:
    """Return the lazy frame of one SQL query on the session's views; ConfigError if invalid.

    Args:
        columns: view's name -> its columns, for the error.

    Raises:
        ConfigError: the text is no query, or names a column or table that does not exist.
    """
    plan = parse_query(session, sql)
    known = (f"`{name}` has {', '.join(names)}" for name, names in columns.items())
    with active_session(session), translate_sql_errors(f"{'; '.join(known)}."):
        return frame_of_plan(session, plan)


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """Analyse a parsed plan and return its frame, which has not run yet."""
    from pyspark.sql import DataFrame

    of_java = session._jsparkSession
    package = str(of_java.getClass().getName()).rpartition(".")[0]  # Spark 4.0 moved both classes
    dataset = java_class(session._jvm, f"{package}.Dataset")
    return DataFrame(dataset.ofRows(of_java, plan), session)


@contextmanager
def translate_sql_errors(hint: str, subject: str = "`sql`") -> Iterator[None]:
    """Context manager that raises Spark's parse and analysis errors as ConfigErrors.

    Args:
        subject: the key or option with the SQL, for the message.
    """
    from pyspark.errors import AnalysisException, ParseException

    with translate_errors():
        try:
            yield
            return
        except (AnalysisException, ParseException) as error:
            problem = _sql_error(error, hint, subject)
    raise problem from None


def _sql_error(error: PySparkException, hint: str = _HINT, subject: str = "`sql`") -> ConfigError:
    """Return the ConfigError for an error of Spark's parser or analyser."""
    return ConfigError(f"{subject}: {sql_error_sentence(error)}", hint)


def sql_error_sentence(error: PySparkException) -> str:
    """Return the first sentence of Spark's SQL error, with line and column if known."""
    words = str(error).strip()
    place = _POSITION.search(words)
    where = f" (line {place[1]}, column {int(place[2]) + 1})" if place else ""
    return _CODES.sub("", words.partition("\n")[0]).strip().rstrip(".;") + where


def is_row_wise(frame: DataFrame, view_name: str) -> bool:
    """Whether a query on one view maps or filters single rows, so that parts can run alone.

    True for projections, filters and the unfolding of lists. Other operations, such as an
    aggregate, window, join, limit, subquery or random number, may need all rows.
    """
    reads = 0
    for node in _walk_plan(frame._jdf.queryExecution().analyzed()):
        if _is_view(node, view_name):
            reads += 1
        elif node.getClass().getSimpleName() not in _ROW_BY_ROW or not _is_plain(node):
            return False
    return reads == 1


def _walk_plan(plan: Any) -> Iterator[Any]:
    """Yield a logical plan's nodes from the top, but none below a view."""
    yield plan
    if plan.getClass().getSimpleName() != "View":
        for child in iterate_seq(plan.children()):
            yield from _walk_plan(child)


def _is_view(node: Any, view_name: str) -> bool:
    """Whether a logical plan node is the temporary view `view_name`, ignoring case."""
    if node.getClass().getSimpleName() != "View":
        return False
    return str(node.desc().identifier().table()).lower() == view_name.lower()


def _is_plain(node: Any) -> bool:
    """Whether a plan node has only deterministic expressions and no subqueries."""
    return bool(node.subqueries().isEmpty()) and all(
        expression.deterministic() for expression in iterate_seq(node.expressions())
    )


@dataclass(frozen=True, slots=True)
class UncomputedValue:
    """Spark's failure to compute a value, such as a bad cast; never holds the value itself.

    Attributes:
        condition: Spark's name of the error, such as `CAST_INVALID_INPUT`.
        text: the whole SQL; empty if Spark does not name it.
        fragment: the failing part of the SQL, or the frame's function; may be empty.
        line, column: where the fragment begins, from 1; 0 without SQL.
        parameters: values for the message by their names.
    """

    condition: str
    text: str = ""
    fragment: str = ""
    line: int = 0
    column: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The reason in words, without the value: such as `it divides by zero`."""
        reason, _ = _REASONS.get(self.condition, (f"Spark says {self.condition}", ""))
        return reason.format_map(_ErrorParameters(self.parameters))

    @property
    def hint(self) -> str:
        """Hint to correct the expression, such as `try_cast`."""
        default = "", "correct the expression; `--debug` shows Spark's own words."
        _, hint = _REASONS.get(self.condition, default)
        found = re.search(r"try_\w+", self.parameters.get("alternative", ""))
        return hint.replace("{try_}", found[0] if found else "try_cast")


class _ErrorParameters(dict[str, str]):
    """Spark's error parameters without double quotes; a missing one reads `…`."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__({name: value.strip('"') for name, value in given.items()})

    def __missing__(self, name: str) -> str:
        return "…"


def find_uncomputed_value(error: BaseException) -> UncomputedValue | None:
    """Return details of a failed cast or computation among an error's causes, or None."""
    for cause in walk_causes(error):
        for java in java_causes(cause):
            found = _read_java_exception(java)
            if found is not None:
                return found
    return None


def _read_java_exception(java: Any) -> UncomputedValue | None:
    """Return details of a failed cast or computation; None for other Java exceptions."""
    try:
        condition, state = str(java.getErrorClass()), str(java.getSqlState())
        parameters = dict(java.getMessageParameters())
        contexts = list(java.getQueryContext())
    except Exception:  # no exception of Spark's
        return None
    condition = condition.partition(".")[0]
    if not (state.startswith("22") or condition in _REASONS):
        return None
    for context in contexts:
        fragment = str(context.fragment())
        if not fragment:
            continue
        if context.getClass().getSimpleName() != "SQLQueryContext":
            return UncomputedValue(condition, fragment=fragment, parameters=parameters)
        place = int(context.line().get()), int(context.startPosition().get()) + 1
        text = str(context.sqlText().get())
        return UncomputedValue(condition, text, fragment, *place, parameters)
    return UncomputedValue(condition, parameters=parameters)
