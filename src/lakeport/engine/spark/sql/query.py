"""One query on named frames, in a session of its own: parsed, analysed, and refused in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.spark.active import active
from lakeport.engine.spark.failures import translated
from lakeport.engine.spark.jvm.classes import java_class
from lakeport.engine.spark.quoting import quoted
from lakeport.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_query", "named", "query", "refused", "session_like"]

_DATASET: Final = "org.apache.spark.sql.classic.Dataset"
_HINT: Final = "`sql` is one query in Spark SQL, such as SELECT * FROM source WHERE id IS NOT NULL."
_NOISE: Final = re.compile(r"^\[[\w.]+\] |\s*SQLSTATE: \w+|\s*;? ?\(?line \d+,? pos \d+\)?;?")
_PLACE: Final = re.compile(r"line (\d+),? pos (\d+)")


def session_like(spark: SparkSession) -> SparkSession:
    """A session with the same views, functions and settings, in which more can be named."""
    from pyspark.sql import SparkSession

    with translated():
        made = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        # `${env:NAME}` in a query would become the variable's value.
        made.conf.set("spark.sql.variable.substitute", "false")
    return made


def named(session: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Let queries of a session read frames, also those of other sessions, by names."""
    with active(session), translated():
        for name, frame in frames.items():
            plan = frame._jdf.queryExecution().analyzed()
            _frame(session, plan).createOrReplaceTempView(quoted(name))


def check_query(session: SparkSession, sql: str) -> Any:
    """The parser's plan of one query; nothing is looked up for it.

    Raises:
        ConfigError: it is empty, more than one, no query, or not in Spark SQL.
    """
    from pyspark.errors import ParseException

    text = sql.rstrip().removesuffix(";")
    parser: Any = session._jsparkSession.sessionState().sqlParser()
    with active(session):
        try:
            return parser.parseQuery(text)
        except ParseException as error:
            failure = error
        try:
            kind = str(parser.parsePlan(text).getClass().getSimpleName())
        except ParseException:
            raise refused(failure) from None
    raise ConfigError(f"`sql` is a command ({kind}), and only queries are run", _HINT)


def query(session: SparkSession, sql: str, columns: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """One query as a frame that has not run yet.

    Args:
        session: a session of its own, which knows the frames by name.
        sql: one query.
        columns: the frames that it is meant to read -> their columns, for the error.

    Raises:
        ConfigError: the text is no query, or names what is not there.
    """
    from pyspark.errors import AnalysisException

    plan = check_query(session, sql)
    with active(session), translated():
        try:
            return _frame(session, plan)
        except AnalysisException as error:
            known = (f"`{name}` has {', '.join(names)}" for name, names in columns.items())
            problem = refused(error, f"{'; '.join(known)}.")
    raise problem


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame

    jvm: Any = session._jvm
    return DataFrame(java_class(jvm, _DATASET).ofRows(session._jsparkSession, plan), session)


def refused(error: PySparkException, hint: str = _HINT, subject: str = "`sql`") -> ConfigError:
    """The parser's and the analyser's words, without codes, plans and traces."""
    said = str(error).strip()
    place = _PLACE.search(said)
    where = f" (line {place[1]}, column {int(place[2]) + 1})" if place else ""
    sentence = _NOISE.sub("", said.partition("\n")[0]).strip().rstrip(".;")
    return ConfigError(f"{subject}: {sentence}{where}", hint)
