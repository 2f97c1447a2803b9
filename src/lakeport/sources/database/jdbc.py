"""Read databases that have no ADBC driver by Spark, with the user's JDBC driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.sources import DatabaseSource
from lakeport.engine.failures import translate
from lakeport.engine.sql.frames import normalise_frame
from lakeport.errors import ConfigError, LakeportError, MissingDependency, SourceError
from lakeport.model import Batch, Flush
from lakeport.schema.hints import quote_names, sort_by_similarity
from lakeport.schema.spark_schema import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.engine.spark.engine import SparkEngine

_NO_DRIVER: Final = ("No suitable driver", "ClassNotFoundException", "CLASS_NOT_FOUND")
_DIVISIBLE: Final = ("ByteType", "ShortType", "IntegerType", "LongType", "DecimalType", "DateType",
                     "TimestampType", "TimestampNTZType")  # fmt: skip


def jdbc_flushes(
    source: DatabaseSource, stream: str, engine: SparkEngine, *, add_digest: bool = False
) -> Iterator[Flush]:
    """Return an iterator of one flush whose batch is a Spark DataFrame, read by JDBC.

    Args:
        add_digest: whether the batch gets a digest of the table and query, to detect repetitions.

    Raises:
        ConfigError: a key of the source needs an ADBC driver.
        MissingDependency: (while iterating) Spark has no driver for the URI.
        SourceError: (while iterating) the database can't be reached, or refuses the query.
    """
    unsupported = {"cursor": source.cursor, "deletes": source.deletes != "none"}
    for key, value in unsupported.items():
        if value:
            raise ConfigError(
                f"`{key}` works with ADBC drivers, and the URI begins with `jdbc:`",
                "put the condition into a `query`, or read the database by ADBC.",
            )
    request = hashlib.sha256(f"{source.table}\n{source.query}".encode()).hexdigest()

    def flushes() -> Iterator[Flush]:
        engine.secrets |= set(source.secrets())
        frame = _load_frame(source, engine, {})
        if source.split_by:
            frame = _load_frame(source, engine, _plan_ranges(source, engine, frame))
        plain, _, notes = normalise_frame(frame, stream)
        digest = request if add_digest else ""
        yield Flush((Batch(stream, 0, frame=plain, digest=digest, notes=notes),), last=True)

    return flushes()


def _load_frame(
    source: DatabaseSource, engine: SparkEngine, range_options: dict[str, str]
) -> DataFrame:
    """Return the table or query as a DataFrame; SourceError or MissingDependency if Spark fails."""
    relation = source.table or f"(\n{source.query.strip().rstrip(';')}\n) lakeport_query"
    options = {"url": source.database.get_secret_value(), "dbtable": relation}
    reader = engine.spark.read.format("jdbc")
    try:
        return reader.options(**options, **range_options, **source.options).load()
    except Exception as error:
        problem = _translate_error(error, engine.secrets)
    raise problem  # outside the handler: the foreign error may hold the URI


def _plan_ranges(source: DatabaseSource, engine: SparkEngine, frame: DataFrame) -> dict[str, str]:
    """Return JDBC options to partition by `split_by`, empty if all null; ConfigError if unfit."""
    name = source.split_by
    kinds = {field.name: type(field.dataType).__name__ for field in frame.schema}
    if name not in kinds:
        raise ConfigError(
            f"`split_by` names the column {name!r}, which the source does not have",
            f"its columns are {quote_names(sort_by_similarity(name, kinds))}.",
        )
    if kinds[name] not in _DIVISIBLE:
        raise ConfigError(
            f"`split_by` names the column {name!r}, which is {kinds[name]}",
            "name a column of numbers, dates or timestamps.",
        )
    low, high = _find_bounds(engine, frame, name)
    if low is None:
        return {}
    return {
        "partitionColumn": name,
        "lowerBound": str(low).partition(".")[0],  # of a decimal Spark takes no fraction
        "upperBound": str(high).partition(".")[0],
        "numPartitions": str(source.splits or 2 * engine.cores),
    }


def _find_bounds(engine: SparkEngine, frame: DataFrame, name: str) -> tuple[Any, Any]:
    """Run a Spark job for a column's minimum and maximum, as text; (None, None) without values."""
    ends = [f"CAST({end}({quote_identifier(name)}) AS STRING)" for end in ("min", "max")]
    engine.name_jobs(f"find the lowest and highest {name}")
    try:
        row = frame.selectExpr(*ends).first()
    except Exception as error:
        problem = _translate_error(error, engine.secrets)
    else:
        return (row[0], row[1]) if row is not None else (None, None)
    raise problem


def _translate_error(error: Exception, secrets: set[str]) -> LakeportError:
    """Return MissingDependency for a missing JDBC driver, SourceError for other Spark failures."""
    text = str(error)
    if any(word in text for word in _NO_DRIVER):
        return MissingDependency(
            "Spark has no JDBC driver for this URI",
            "give its jar as `spark: {spark.jars: /path/driver.jar}` (`--spark "
            "spark.jars=/path/driver.jar`), and its class as the option `driver`, if it does not "
            "register itself.",
        )
    found = translate(error, secrets)
    message = found.message.removeprefix("Spark failed: ")
    return SourceError(
        f"the database can't be read by JDBC: {message}",
        "see that the URI, the user and the table are right.",
    )
