"""Query a table, or the tables of a lake by their names, in a Spark session of the query's own."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from lakeport.config.explain import closest_match
from lakeport.config.load import load_target
from lakeport.engine.sql.policy import LAKE_SCOPE, QueryScope, query_tables
from lakeport.engine.threads import require_spark
from lakeport.errors import SourceError, SparkFailure
from lakeport.lake.location import TableLocation, locate_table
from lakeport.lake.snapshots import FilesSnapshot, check_query_start, fetch_rows, read_table
from lakeport.lake.tables import find_tables, format_names, open_lake, several_tables_error
from lakeport.lake.versions import TableVersions
from lakeport.schema.hints import format_command, sort_by_similarity
from lakeport.schema.spark_schema import quote_identifier
from lakeport.storage.base import clean_prefix

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import StoreKeys, Target
    from lakeport.model import Storage

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def sql(
    to: Target | DestinationConfig,
    query: str,
    *,
    limit: int = 1000,
    timeout: float = 600,
    **keys: Unpack[StoreKeys],
) -> pa.Table:
    """Run a Spark SQL query on a lake's tables by their names, which may join them.

    A table is opened if the query names it. Names that are no plain words stand in backticks:
    `silver/flights` is the table in the folder `silver`.

    Args:
        to: a folder, a URI, a config file or a config, as `land` takes it.
        query: a SELECT, with or without WITH.
        limit: at most so many rows come back.
        timeout: after so many seconds, not counting Spark's start, the query is cancelled.
        keys: further keys of the config, such as `aws_endpoint`.

    Raises:
        ConfigError: the text is not one query, or Spark can't make sense of it.
        SourceError: the lake has no table of a name in the query.
        SparkFailure: the query took longer than `timeout`.
    """
    check_query_start(query, scope=LAKE_SCOPE)
    config = load_target(to, keys)
    storage, folder = open_lake(config)

    def find(parts: tuple[str, ...]) -> QueriedTable:
        name = clean_prefix("/".join(parts), "table")
        place = locate_table(storage.uri(f"{folder}/{name}".strip("/")), config)
        is_there = next(iter(place.storage.list(place.folder)), None) is not None
        if len(parts) == 1 and is_there and not several_tables_error(place.storage, place.folder):
            return QueriedTable.newest(place)
        raise _missing_table_error(storage, folder, ".".join(parts))

    place = locate_table(storage.uri(folder), config)
    return run_query(place, find, query, LAKE_SCOPE, limit=limit, timeout=timeout)


@dataclass(frozen=True)
class QueriedTable:
    """A table that a query reads: a version of a Delta table, or plain files."""

    place: TableLocation
    version_or_files: FilesSnapshot | int

    @classmethod
    def newest(cls, place: TableLocation) -> QueriedTable:
        """Return the newest version of the table at a place; SourceError if there is none."""
        versions = TableVersions.of(place.storage, place.folder)
        return cls(place, versions.find_version_or_files(None, None))


def run_query(
    place: TableLocation,
    find: Callable[[tuple[str, ...]], QueriedTable | None],
    text: str,
    scope: QueryScope,
    *,
    limit: int,
    timeout: float,
) -> pa.Table:
    """Run a query on tables of one store; return its rows, at most `limit`.

    Args:
        place: any place in the store.
        find: returns the table of a name in the query; None for one that the query may not read.
        timeout: seconds from when Spark is there.

    Raises:
        ConfigError: the text is not one query, or Spark can't make sense of it.
        SparkFailure: the query took longer than `timeout`.
    """
    with place.open_engine() as engine:
        by_spark = require_spark(engine, "a query")
        spark = place.session(engine).spark.newSession()

        def read(table: QueriedTable) -> DataFrame:
            at, found = table.place, table.version_or_files
            if isinstance(found, int):
                at.check_files(at.session(engine), found)
            return read_table(spark, at.log.hadoop_uri, found)

        def job() -> pa.Table:
            frame, tables = query_tables(spark, find, read, text, scope)
            versions = {one.place.uri: one.version_or_files for one in tables}
            return fetch_rows(frame.limit(limit), versions)

        seconds = min(timeout, threading.TIMEOUT_MAX)
        try:
            return by_spark.run_job("query a table", job, timeout_seconds=seconds)
        except TimeoutError:
            raise SparkFailure(
                f"the query took longer than {timeout:g} s, and was cancelled",
                "have it read or join fewer rows, or give it more time (`--timeout`).",
            ) from None


def _missing_table_error(storage: Storage, folder: str, name: str) -> SourceError:
    """Return the SourceError for a name that is none of a lake's tables; its hint lists them."""
    uri = storage.uri(folder)
    names = [key.removeprefix(folder).strip("/") for key, _ in find_tables(storage, folder)]
    if names == [""]:
        return SourceError(
            f"{uri} is a table, and no lake with a table {name!r}",
            f"{format_command('table', 'query', uri, 'TABLE t')} reads it.",
        )
    near = [_quote(each) for each in sort_by_similarity(name, names)]
    close = closest_match(name, names)
    guess = f"; did you mean {_quote(close)}?" if close else ""
    return SourceError(
        f"there is no table {name!r} in {uri}{guess}",
        f"its tables are {format_names(near)}."
        if near
        else "the lake has none; `lakeport land` makes tables.",
    )


def _quote(name: str) -> str:
    """Return a table's name as a query has it: in backticks unless it is a plain word."""
    return name if _WORD.fullmatch(name) else quote_identifier(name)
