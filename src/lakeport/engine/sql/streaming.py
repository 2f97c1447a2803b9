"""Streaming queries on a frame, each with a checkpoint that is bound to one table.

lakeport adds a file `lakeport.json` with the table's URI to Spark's checkpoint folder. Spark's
checkpoint knows which rows were read, and not their table: used for another table, the query would
skip all rows that were read before.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakeport.engine.failures import translate_errors
from lakeport.engine.spark.jvm.calls import java_class
from lakeport.errors import ConfigError, DestinationError, LakeportError, SparkFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FILE: Final = "lakeport.json"
_VERSION: Final = 1
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
        checkpoint: the folder, as `bind_checkpoint` returns it.
        output_mode: Spark's output mode, `append` or `update`.
        trigger: arguments of Spark's `trigger`; empty to run micro-batches without pauses.
        land: takes a micro-batch and its number, in a thread of Spark.

    Raises:
        ConfigError: the query can't be a stream, or the trigger is no interval.
        LakeportError: Spark refused.
    """
    from pyspark.errors import AnalysisException

    try:
        with translate_errors(secrets):
            writer = frame.writeStream.option("checkpointLocation", checkpoint)
            return _set_trigger(writer.outputMode(output_mode), trigger).foreachBatch(land).start()
    except LakeportError as error:
        if isinstance(error.__cause__, AnalysisException):
            hint = "rows of an aggregate that change later can be landed by `mode: merge`."
            raise ConfigError(error.message, hint if output_mode == "append" else "") from error
        raise


def _set_trigger(writer: DataStreamWriter, trigger: Mapping[str, Any]) -> DataStreamWriter:
    """Return the writer with this trigger, if any; ConfigError if it is no valid interval."""
    if not trigger:
        return writer
    try:
        return writer.trigger(**trigger)
    except Exception as error:
        raise ConfigError(
            f"`trigger` is {trigger.get('processingTime')!r}, which is no interval",
            "give seconds, or text such as '30 seconds' or '5 minutes'.",
        ) from error


def bind_checkpoint(spark: SparkSession, checkpoint: str | os.PathLike[str], table: str) -> str:
    """Reserve a checkpoint folder for `table`, and return its URI; ConfigError if it is another's.

    Args:
        checkpoint: path or URI of a folder on any file system that Spark reaches.
        table: the table's URI.

    Raises:
        ConfigError: it belongs to another table, or to a query that is not lakeport's, or lies
            among the table's own files; or Spark can't keep files there.
        DestinationError: its store refused.
    """
    name = os.fspath(checkpoint)
    with _name_checkpoint(name), translate_errors():
        folder = _HadoopFolder(spark, name)
        if is_among_table_files(folder.uri, table):
            raise ConfigError(
                f"the checkpoint {folder.uri} lies among the files of the table {table}",
                "readers would take it for rows, and `vacuum` would delete it: " + _OWN_FOLDER_HINT,
            )
        found = folder.read(_FILE)
        if found is None:
            if folder.holds("metadata") or folder.holds("offsets"):
                raise ConfigError(
                    f"the checkpoint {folder.uri} belongs to a query that is not lakeport's",
                    "it knows what that query has read, which would never land here: "
                    + _OWN_FOLDER_HINT,
                )
            folder.write(_FILE, json.dumps({"version": _VERSION, "table": table}))
            found = folder.read(_FILE)
        bound = _parse_binding(found, folder)
    if bound != table:
        raise ConfigError(
            f"the checkpoint {folder.uri} belongs to the table {bound}, not to {table}",
            "what was read for that table would never land in this one: " + _OWN_FOLDER_HINT,
        )
    return folder.uri


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


def _parse_binding(text: str | None, folder: _HadoopFolder) -> str:
    """Return the table's URI in a checkpoint's `lakeport.json`; ConfigError if malformed."""
    try:
        entry = json.loads(text or "")
        if entry["version"] == _VERSION:
            return str(entry["table"])
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError(
        f"{folder.uri}/{_FILE} was not written by this version of lakeport", _OWN_FOLDER_HINT
    )


def has_file_system(spark: SparkSession, scheme: str) -> bool:
    """Whether the session's Hadoop has a file system for a URI scheme, such as `s3a`."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        java_class(spark._jvm, "org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, conf)
    except Exception:
        return False
    return True


class _HadoopFolder:
    """Reads and writes small text files in a folder on any Hadoop file system."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._jvm: Any = spark._jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        make = java_class(self._jvm, "org.apache.hadoop.fs.Path")
        path = make(name)
        self._system = system = path.getFileSystem(conf)
        if path.toUri().getScheme() is None and system.getUri().getScheme() == "file":
            name = os.path.abspath(name)  # noqa: PTH100  # the JVM may have another current folder
        self._path = system.makeQualified(make(name))

    @property
    def uri(self) -> str:
        """URI of the folder."""
        return str(self._path.toString())

    def holds(self, name: str) -> bool:
        """Whether the folder has a file or folder of a name."""
        return bool(self._system.exists(self._child(name)))

    def read(self, name: str) -> str | None:
        """Return a file's text; None if there is none."""
        if not self.holds(name):
            return None
        stream = self._system.open(self._child(name))
        try:
            return str(
                java_class(self._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
            )
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a new text file by a rename; an existing file stays as it is."""
        temporary = self._child(f".{name}.{uuid.uuid4()}.tmp")
        stream = self._system.create(temporary, False)
        try:
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            if not self.holds(name):
                self._system.rename(temporary, self._child(name))
        finally:
            self._system.delete(temporary, False)

    def _child(self, name: str) -> Any:
        """Return Hadoop's path of a file in the folder."""
        return java_class(self._jvm, "org.apache.hadoop.fs.Path")(self._path, name)
