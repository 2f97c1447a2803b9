"""Streaming queries on a frame, each with a checkpoint that is bound to one table.

lakeport adds `lakeport.json` with the table's URI to Spark's checkpoint folder, as Spark writes
text: a folder of it. Spark's checkpoint knows which rows were read, and not their table: used for
another table, the query would skip all rows that were read before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import translate_errors
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.engine.sql.frames import literal
from lakeport.errors import (
    ConfigError,
    DestinationError,
    LakeportError,
    MissingDependency,
    SparkFailure,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FILE: Final = "lakeport.json"
_METADATA: Final = "metadata"  # Spark's, with the query's id
_VERSION: Final = 1
_MOST_STARTS: Final = 5
_SLOW_START: Final = "Python worker failed to connect back"  # to a Spark Connect server, in 10 s
_ABSENT_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_GLOB: Final = re.compile(r"[\[\]{}*?\\]")
_NO_INTERVAL: Final = re.compile(r"to interval|interval of trigger|processingTime")  # Spark's words
_OWN_FOLDER_HINT: Final = "give each table a checkpoint folder of its own."


def start_query(
    frame: DataFrame,
    checkpoint: str,
    output_mode: str,
    trigger: Mapping[str, Any],
    land: Callable[[DataFrame, int], None],
    secrets: Collection[str],
) -> StreamingQuery:
    """Start a Spark streaming query that calls `land` with each micro-batch and its number.

    Args:
        checkpoint: the folder, which `bind_checkpoint` has reserved.
        output_mode: Spark's output mode, `append` or `update`.
        trigger: arguments of Spark's `trigger`; empty to run micro-batches without pauses.
        land: takes a micro-batch and its number, in a thread of Spark.

    Raises:
        ConfigError: the query can't be a stream, or the trigger is no interval.
        MissingDependency: the Python beside a Spark Connect server's driver lacks lakeport.
        LakeportError: Spark refused.
    """
    from pyspark.errors import AnalysisException

    def start(attempt: int) -> StreamingQuery:
        try:
            with translate_errors(secrets):
                writer = frame.writeStream.option("checkpointLocation", checkpoint)
                writer = writer.outputMode(output_mode)
                writer = writer.trigger(**trigger) if trigger else writer
                return writer.foreachBatch(land).start()
        except SparkFailure as error:
            if _SLOW_START not in str(error.__cause__) or attempt == _MOST_STARTS:
                raise
            return start(attempt + 1)

    try:
        return start(1)
    except LakeportError as error:
        if isinstance(error.__cause__, AnalysisException):
            hint = "rows of an aggregate that change later can be landed by `mode: merge`."
            raise ConfigError(error.message, hint if output_mode == "append" else "") from error
        if absent := _ABSENT_MODULE.search(str(error.__cause__)):
            raise MissingDependency(
                "the Python in which the Spark Connect server runs a stream's function lacks the "
                f"package {absent[1]}",
                "install lakeport on the server's machine, for the Python that its PYSPARK_PYTHON "
                "names: what a session ships reaches its workers alone.",
            ) from error
        if "processingTime" in trigger and _NO_INTERVAL.search(str(error.__cause__)):
            raise ConfigError(
                f"`trigger` is {trigger.get('processingTime')!r}, which is no interval",
                "give seconds, or text such as '30 seconds' or '5 minutes'.",
            ) from error
        raise


def bind_checkpoint(spark: SparkSession, checkpoint: str, table: str) -> None:
    """Reserve a checkpoint folder for `table`; ConfigError if it is another's.

    Args:
        checkpoint: path or URI of a folder on any file system that Spark reaches.
        table: the table's URI.

    Raises:
        ConfigError: it belongs to another table, or to a query that is not lakeport's, or lies
            among the table's own files; or Spark can't keep files there.
        DestinationError: its store refused.
    """
    if is_among_table_files(checkpoint, table):
        raise ConfigError(
            f"the checkpoint {checkpoint} lies among the files of the table {table}",
            "readers would take it for rows, and `vacuum` would delete it: " + _OWN_FOLDER_HINT,
        )
    with _name_checkpoint(checkpoint), translate_errors():
        found = _read_lines(spark, f"{checkpoint}/{_FILE}")
        if not found:
            if _read_lines(spark, f"{checkpoint}/{_METADATA}"):
                raise ConfigError(
                    f"the checkpoint {checkpoint} belongs to a query that is not lakeport's",
                    "it knows what that query has read, which would never land here: "
                    + _OWN_FOLDER_HINT,
                )
            text = json.dumps({"version": _VERSION, "table": table})
            line = spark.range(0, 1, 1, 1).select(literal(text))
            line.write.mode("append").text(f"{checkpoint}/{_FILE}")
            found = _read_lines(spark, f"{checkpoint}/{_FILE}")
    bound = _parse_binding(min(found, default=""), checkpoint)
    if bound != table:
        raise ConfigError(
            f"the checkpoint {checkpoint} belongs to the table {bound}, not to {table}",
            "what was read for that table would never land in this one: " + _OWN_FOLDER_HINT,
        )


def read_query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query whose checkpoint this is; the query has to have begun."""
    return str(json.loads(_read_lines(spark, f"{checkpoint}/{_METADATA}")[0])["id"])


def _read_lines(spark: SparkSession, path: str) -> list[str]:
    """Return the lines of a text file, or of a folder's files; none if it does not exist."""
    from pyspark.errors import AnalysisException

    literally = _GLOB.sub(r"\\\g<0>", path)
    try:
        lines = spark.read.text(literally).select("value").collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return []
    return [str(line[0]) for line in lines]


def is_among_table_files(folder: str, table: str) -> bool:
    """Whether `folder` lies in `table` where readers and VACUUM see it: no `_` in front.

    They ignore names with an underscore in front, except the log's folder.

    >>> is_among_table_files("file:/lake/events/progress", "/lake/events")
    True
    >>> is_among_table_files("/lake/events2", "/lake/events")
    False
    >>> is_among_table_files("s3a://lake/events/_progress", "s3://lake/events")
    False
    """
    place, root = (_normalise_uri(uri) for uri in (folder, table))
    if place != root and not place.startswith(f"{root}/"):
        return False
    first = place.removeprefix(root).strip("/").partition("/")[0]
    return not first.startswith("_") or first == "_delta_log"


def _normalise_uri(uri: str) -> str:
    """Return a URI in a form to compare: a path for local files, `s3:` for `s3a:`."""
    scheme, mark, path = uri.partition(":")
    if not mark or scheme == "file":
        return "/" + (path if mark else uri).strip("/")
    return f"{scheme.replace('s3a', 's3')}:{path.rstrip('/')}"


@contextmanager
def _name_checkpoint(name: str) -> Iterator[None]:
    """Context manager that adds the checkpoint's name to errors of Spark and of the store."""
    try:
        yield
    except (SparkFailure, DestinationError) as error:
        kind = ConfigError if isinstance(error, SparkFailure) else type(error)
        hint = "name a folder that Spark can write, on a file system that it has the jars for."
        raise kind(
            f"the checkpoint {name} can't be used: {error.message}",
            hint if kind is ConfigError else error.hint,
        ) from error


def _parse_binding(text: str, checkpoint: str) -> str:
    """Return the table's URI in a line of `lakeport.json`; ConfigError if malformed."""
    try:
        entry = json.loads(text)
        if entry["version"] == _VERSION:
            return str(entry["table"])
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError(
        f"{checkpoint}/{_FILE} was not written by this version of lakeport", _OWN_FOLDER_HINT
    )


def has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Whether the session's Hadoop has a file system for a URI scheme, such as `s3a`."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        java_class(spark._jvm, "org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, conf)
    except Exception:
        return False
    return True
