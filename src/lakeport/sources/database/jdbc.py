"""Databases without an ADBC driver: Spark reads them by a JDBC driver of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeport.config.inputs import DatabaseSource
from lakeport.engine.failures import translate
from lakeport.engine.sql.frames import normalised
from lakeport.errors import ConfigError, LakeportError, MissingDependency, SourceError
from lakeport.model import Batch, Flush
from lakeport.schema.named import like, listed
from lakeport.schema.sparktypes import quoted

if TYPE_CHECKING:
    from lakeport.engine.types import DataFrame, SparkEngine

_ABSENT: Final = ("No suitable driver", "ClassNotFoundException", "CLASS_NOT_FOUND")
_DIVISIBLE: Final = ("ByteType", "ShortType", "IntegerType", "LongType", "DecimalType", "DateType",
                     "TimestampType", "TimestampNTZType")  # fmt: skip


@dataclass(frozen=True)
class JdbcFlushes:
    """Iterates exactly one flush with one batch, a Spark DataFrame.

    Args:
        source: what to read; its URI begins with `jdbc:`.
        stream: the stream's name.
        engine: Spark.
        digest: whether the batch is to be known again by what was asked for.

    Raises:
        ConfigError: a key of the source needs an ADBC driver.
        MissingDependency: Spark has no driver for the URI.
        SourceError: the database can't be reached, or refuses.
    """

    source: DatabaseSource
    stream: str
    engine: SparkEngine
    digest: bool = False

    def __post_init__(self) -> None:
        wanted = {"cursor": self.source.cursor, "deletes": self.source.deletes != "none"}
        for key, value in wanted.items():
            if value:
                raise ConfigError(
                    f"`{key}` works with ADBC drivers, and the URI begins with `jdbc:`",
                    "put the condition into a `query`, or read the database by ADBC.",
                )

    def __iter__(self) -> Iterator[Flush]:
        """Have Spark look at the columns, and hand out the frame."""
        self.engine.secrets |= set(self.source.secrets())
        frame = self._opened({})
        if self.source.split_by:
            frame = self._opened(self._ranges(frame))
        asked = f"{self.source.table}\n{self.source.query}"
        yield Flush(
            (
                Batch(
                    self.stream,
                    0,
                    frame=normalised(frame, self.stream),
                    digest=hashlib.sha256(asked.encode()).hexdigest() if self.digest else "",
                ),
            ),
            last=True,
        )

    def _opened(self, more: dict[str, str]) -> DataFrame:
        source = self.source
        relation = source.table or f"(\n{source.query.strip().rstrip(';')}\n) lakeport_query"
        options = {"url": source.database.get_secret_value(), "dbtable": relation}
        spark = self.engine.spark
        try:
            return spark.read.format("jdbc").options(**options, **more, **source.options).load()
        except Exception as error:
            problem = _problem(error, self.engine.secrets)
        raise problem  # outside the handler: the foreign error may hold the URI

    def _ranges(self, frame: DataFrame) -> dict[str, str]:
        """Spark's options for reading side by side, by ranges from the least value to the most."""
        name = self.source.split_by
        kinds = {field.name: type(field.dataType).__name__ for field in frame.schema}
        if name not in kinds:
            raise ConfigError(
                f"`split_by` names the column {name!r}, which the source does not have",
                f"its columns are {listed(like(name, kinds))}.",
            )
        if kinds[name] not in _DIVISIBLE:
            raise ConfigError(
                f"`split_by` names the column {name!r}, which is {kinds[name]}",
                "name a column of numbers, dates or timestamps.",
            )
        low, high = self._bounds(frame, name)
        if low is None:
            return {}
        return {
            "partitionColumn": name,
            "lowerBound": str(low).partition(".")[0],  # of a decimal Spark takes no fraction
            "upperBound": str(high).partition(".")[0],
            "numPartitions": str(self.source.splits or 2 * self.engine.cores),
        }

    def _bounds(self, frame: DataFrame, name: str) -> tuple[Any, Any]:
        ends = [f"CAST({end}({quoted(name)}) AS STRING)" for end in ("min", "max")]
        try:
            row = frame.selectExpr(*ends).first()
        except Exception as error:
            problem = _problem(error, self.engine.secrets)
        else:
            return (row[0], row[1]) if row is not None else (None, None)
        raise problem


def _problem(error: Exception, secrets: set[str]) -> LakeportError:
    text = str(error)
    if any(word in text for word in _ABSENT):
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
