"""Snapshots of tables: describe them and read first rows without Spark, or all rows with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.delta_log.actions import count_rows, parse_partition_value
from lakeport.delta_log.reader import Contents, DeltaLog
from lakeport.engine.failures import translate_errors
from lakeport.engine.sql.frames import collect_arrow
from lakeport.engine.sql.policy import TABLE_SCOPE, QueryScope
from lakeport.errors import ConfigError, DestinationError, SchemaConflict, SourceError
from lakeport.lake.records import TableColumn, TableDescription
from lakeport.model import Storage, StoredObject
from lakeport.schema.hints import format_command
from lakeport.schema.rebase import HybridCalendar
from lakeport.schema.spark_schema import from_spark_json
from lakeport.schema.types import format_type
from lakeport.writers.delta.optimize import MANY_SMALL_FILES, SMALL_FILE_BYTES, group_by_partition
from lakeport.writers.delta.plain import lacking_readers

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

_THREADS = 16

_LOST = (
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "FileNotFoundException",
    "PathNotFound",
    "DELTA_FILE_NOT_FOUND",
)

_BEGINNING = re.compile(r"(?:[\s(]|--(?:\\\n|[^\n])*)*([A-Za-z]\w*|$)?")
_QUERIES = frozenset({"select", "with", "from", "values", "table"})
_COMMANDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    r"optimize\b": (
        "optimize",
        {
            "--where": r"\bwhere\s+(.+?)(?:\s+zorder\b.*|\s*;?\s*)$",
            "--zorder": r"\bzorder\s+by\s*\(?\s*([^();]+?)\s*\)?\s*;?\s*$",
        },
    ),
    r"vacuum\b": ("vacuum", {"--retain": r"\bretain\s+(\d+)\s", "--dry-run": r"\bdry\s+run\b"}),
    r"restore\b.*\bversion\b": ("restore", {"--version": r"\bversion\s+as\s+of\s+(\d+)"}),
    r"desc(?:ribe)?\s+history\b": ("history", {}),
    r"desc(?:ribe)?\b": ("show", {}),
}
"""Beginning of a statement -> name of the command, and its options with their patterns."""


@dataclass(frozen=True)
class DeltaSnapshot:
    """A Delta table at one version: its log, state and data files."""

    log: DeltaLog
    contents: Contents

    def describe(self) -> TableDescription:
        """Describe the table at this version; the fields about its last change stay None."""
        state = self.contents.state
        return TableDescription(
            columns=tuple(
                TableColumn(field["name"], describe_field_type(field)[1])
                for field in state.schema_json["fields"]
            ),
            partitions=len(group_by_partition(self.contents)) if state.partition_columns else 0,
            **describe_contents(self.contents, self.log.uri),
        )

    def preview(self, limit: int) -> pa.Table | None:
        """Read up to `limit` rows; None if only Spark can, SourceError if a data file is gone."""
        state = self.contents.state
        if state.protocol["minReaderVersion"] > 1:
            return None
        batches: list[pa.Table] = []
        for file in self.contents.files:
            missing = limit - sum(map(len, batches))
            if missing <= 0:
                break
            key = self.log.file_key(file.path)
            try:
                batches.append(self._read_rows(key, file.partition, missing))
            except pa.ArrowInvalid:
                return None
        return pa.concat_tables([state.schema.empty_table(), *batches])

    def _read_rows(self, key: str, partition: Mapping[str, str | None], limit: int) -> pa.Table:
        """Read a data file's first rows, cast to the table's columns; SourceError if it is gone."""
        storage = self.log.storage
        try:
            rows = _read_first_rows(storage, key, limit)
        except DestinationError as error:
            if storage.get(key) is not None:
                raise
            raise missing_files_error(self.log.uri, self.contents.state.version) from error
        columns = []
        for item in self.contents.state.schema:
            if item.name in partition:
                value = pa.scalar(parse_partition_value(partition[item.name], item.type), item.type)
                columns.append(pa.repeat(value, len(rows)))
            elif item.name in rows.column_names:
                columns.append(_cast_column(rows.column(item.name), item.type))
            else:
                columns.append(pa.nulls(len(rows), item.type))
        return pa.table(columns, schema=self.contents.state.schema)


@dataclass(frozen=True)
class FilesSnapshot:
    """A table of plain files in a folder, all of one kind: `parquet` or `csv`."""

    storage: Storage
    files: Sequence[StoredObject]
    kind: str

    @classmethod
    def of(cls, storage: Storage, folder: str) -> FilesSnapshot | None:
        """List a folder's Parquet or CSV files; None if it has none, SourceError if it has both."""
        found: dict[str, list[StoredObject]] = {"parquet": [], "csv": []}
        for item in storage.list(folder):
            kind = classify_data_file(item.key.removeprefix(f"{folder}/"))
            if kind:
                found[kind].append(item)
        kinds = [kind for kind, files in found.items() if files]
        if len(kinds) > 1:
            raise SourceError(
                f"{storage.uri(folder)} holds Parquet and CSV files", "name a folder with one kind."
            )
        return cls(storage, found[kinds[0]], kinds[0]) if kinds else None

    def describe(self) -> TableDescription:
        """Describe columns, sizes and, for Parquet, rows; SourceError if a file is damaged."""
        rows, schema = None, self.preview(1).schema
        if self.kind == "parquet":
            rows, fields = 0, {item.name.lower(): item for item in schema}
            for footer in self.iterate_footers():
                rows += footer.num_rows
                # A file lacks columns that had no value yet, or are newer.
                for item in footer.schema.to_arrow_schema():
                    fields.setdefault(item.name.lower(), item)
            schema = pa.schema(fields.values())
        columns = tuple(TableColumn(item.name, format_arrow_type(item.type)) for item in schema)
        sizes = summarise_file_sizes([item.bytes for item in self.files])
        return TableDescription(format=self.kind, columns=columns, rows=rows, **sizes)

    def preview(self, limit: int) -> pa.Table:
        """Read up to `limit` rows; SourceError if a file is damaged, or its column types differ."""
        read = _read_first_rows if self.kind == "parquet" else _read_first_lines
        rows = pa.table({})
        for item in self.files:
            if len(rows) >= limit:
                break
            with self._explain_damage(item):
                found = read(self.storage, item.key, limit)
            try:
                rows = pa.concat_tables([rows, found], promote_options="permissive")
            except pa.ArrowException as error:  # names columns and types, and no value
                raise SourceError(
                    f"{self.storage.uri(item.key)} does not fit the files before it: {error}",
                    "name a folder whose files have the same columns.",
                ) from error
        return rows.slice(0, limit)

    def iterate_footers(self) -> Iterator[pq.FileMetaData]:
        """Read Parquet footers in threads; yield them in file order, SourceError if damaged."""
        import pyarrow.parquet as pq

        def read(item: StoredObject) -> pq.FileMetaData:
            with self._explain_damage(item), self.storage.open(item.key) as file:
                return pq.read_metadata(file)

        with ThreadPoolExecutor(_THREADS, "lakeport-look") as pool:
            yield from pool.map(read, self.files)

    @contextmanager
    def _explain_damage(self, item: StoredObject) -> Iterator[None]:
        """Context manager: raise Arrow's errors and OSError as a SourceError about this file."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            kind = {"parquet": "Parquet", "csv": "CSV"}[self.kind]
            raise SourceError(
                f"{self.storage.uri(item.key)} is damaged, or no {kind} file",
                "bring it back from a copy, or take it out of the folder.",
            ) from error


def describe_contents(contents: Contents, uri: str) -> dict[str, Any]:
    """Return `TableDescription` fields of a Delta version, without columns and partition count."""
    state, protocol = contents.state, contents.state.protocol
    lacking = lacking_readers(protocol).items()
    return {
        "format": "delta",
        "version": state.version,
        "partition_columns": state.partition_columns,
        "cluster_columns": state.clustering,
        "rows": count_rows(contents.files),
        **summarise_file_sizes([file.bytes for file in contents.files], uri),
        "protocol": f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}",
        "features": tuple(sorted(state.features)),
        "not_readable_by": {name: ", ".join(readers) for name, readers in lacking},
        "properties": state.properties,
    }


def classify_data_file(path: str) -> str:
    """Return a data file's kind by its relative path: `parquet`, `csv`, or empty if neither.

    >>> [classify_data_file(path) for path in ("day=1/a.csv.gz", "_old/a.parquet", "read.me")]
    ['csv', '', '']
    """
    parts = path.split("/")
    if any(part.startswith(("_", ".")) for part in parts):
        return ""
    kinds = ("parquet", "csv")
    return next((k for k in kinds if parts[-1].endswith(f".{k}") or f".{k}." in parts[-1]), "")


def _read_first_rows(storage: Storage, key: str, limit: int) -> pa.Table:
    """Read up to `limit` first rows of a Parquet file; dates of Spark 2's calendar are rebased."""
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        source = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")  # as Spark reads INT96
        calendar = HybridCalendar.of_parquet(source.metadata)
        groups, left = list[int](), limit
        while left > 0 and len(groups) < source.metadata.num_row_groups:
            left -= source.metadata.row_group(len(groups)).num_rows
            groups.append(len(groups))
        # Only these row groups: Arrow reads ahead whatever it is asked for.
        batch = next(source.iter_batches(batch_size=limit, row_groups=groups), None)
        table = source.schema_arrow.empty_table()
        if batch is not None and calendar is not None:
            batch = calendar.rebase(batch)
    return table if batch is None else pa.Table.from_batches([batch])


def _read_first_lines(storage: Storage, key: str, limit: int) -> pa.Table:
    """Read up to `limit` first records of a CSV file, with every column as text."""
    from pyarrow import csv

    def head(options: csv.ConvertOptions) -> pa.Table:
        with storage.open(key) as file:
            source = pa.input_stream(file, compression=_find_codec(key))
            lines = csv.ParseOptions(newlines_in_values=True)
            reader = csv.open_csv(source, parse_options=lines, convert_options=options)
            return pa.Table.from_batches([reader.read_next_batch()], reader.schema)

    # All columns are text: nothing tells 007 from a number.
    names = head(csv.ConvertOptions()).column_names
    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return head(texts).slice(0, limit)


def _find_codec(key: str) -> str | None:
    """Return Arrow's name for a file's compression by its suffix; None if there is none."""
    return {"gz": "gzip", "zst": "zstd"}.get(key.rsplit(".", 1)[-1])


def _cast_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Cast an Arrow column to the table's type, also if it is nested."""
    if column.type.equals(type_):
        return column
    if pa.types.is_nested(type_):
        return pa.chunked_array([pa.array(column.to_pylist(), type_)], type_)
    return column.cast(type_)


def list_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values for Python; all as text if one is a date outside Python's years."""
    values: list[Any]
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        values = column.cast(pa.string()).to_pylist()
    return values


def describe_field_type(field: Mapping[str, Any]) -> tuple[pa.DataType | None, str]:
    """Return a Delta field's Arrow type and type name; None and Spark's name if unsupported."""
    try:
        type_ = from_spark_json(json.dumps({"type": "struct", "fields": [field]})).types[0]
    except SchemaConflict:
        return None, _format_spark_type(field["type"])
    return type_, format_arrow_type(type_)


def format_arrow_type(type_: pa.DataType) -> str:
    """Return a type's name as reports have it; nested types are written as Arrow does."""
    return str(type_) if pa.types.is_nested(type_) else format_type(type_)


def _format_spark_type(type_: Any) -> str:
    """Format a Delta type's JSON as Spark SQL writes it, such as `array<variant>`.

    >>> _format_spark_type({"type": "array", "elementType": "variant"})
    'array<variant>'
    """
    if not isinstance(type_, Mapping):
        return str(type_)
    if type_["type"] == "struct":
        inside = (f"{item['name']}: {_format_spark_type(item['type'])}" for item in type_["fields"])
        return f"struct<{', '.join(inside)}>"
    parts = ("elementType",) if type_["type"] == "array" else ("keyType", "valueType")
    return f"{type_['type']}<{', '.join(_format_spark_type(type_[part]) for part in parts)}>"


def summarise_file_sizes(sizes: Sequence[int], uri: str = "") -> dict[str, Any]:
    """Return number, bytes and small files of `sizes` in a dict; a `warning` if most are small.

    The warning names `optimize` for the Delta table `uri`; empty for plain files.
    """
    small = sum(size < SMALL_FILE_BYTES for size in sizes)
    facts: dict[str, Any] = {"files": len(sizes), "bytes": sum(sizes), "small_files": small}
    remedy = f", or run {format_command('table', 'optimize', uri)}" if uri else ""
    if are_mostly_small(small, len(sizes)):
        facts["warning"] = (
            f"{small} of {len(sizes)} files are smaller than {SMALL_FILE_BYTES >> 20} MB: "
            f"land larger batches{remedy}."
        )
    return facts


def are_mostly_small(small: int, files: int) -> bool:
    """Whether more than half of a table's files are small, and so many that it matters."""
    return small >= MANY_SMALL_FILES and small * 2 > files


def missing_files_error(uri: str, version: int) -> SourceError:
    """Return the SourceError for a version whose data files were deleted, as by `vacuum`."""
    return SourceError(
        f"version {version} of {uri} lacks data files that it had",
        "`vacuum`, or somebody else, has deleted them: such a version can't be read again. Newer "
        "ones can, back to the retention of the last `vacuum`.",
    )


def check_query_start(sql: str, *table: str, scope: QueryScope = TABLE_SCOPE) -> None:
    """Raise ConfigError if a SQL text is empty, or its first word can't begin a query.

    Args:
        table: words that name the table on the command line; the hint has the command for it.

    >>> check_query_start("-- the newest\\n(SELECT max(id) FROM t)", "./lake/flights")
    """
    found = _BEGINNING.match(sql)
    word = found[1] if found else None
    if word == "":
        raise ConfigError("this is not one query: it is empty", scope.hint)
    if word is not None and word.lower() not in _QUERIES:
        command = _find_command(sql[sql.index(word) :], table) if table else ""
        raise ConfigError(
            f"{scope.verdict}: it begins with {word!r}",
            f"{command} does that; here, {scope.hint}" if command else scope.hint,
        )


def _find_command(sql: str, table: Sequence[str]) -> str:
    """Return the command that does what a statement of Spark SQL does, or "" if none does.

    >>> _find_command("OPTIMIZE t ZORDER BY (user_id, day)", ["./lake/users"])
    "`lakeport table optimize ./lake/users --zorder 'user_id, day'`"
    >>> _find_command("DROP TABLE t", ["./lake/users"])
    ''
    """
    for beginning, (name, options) in _COMMANDS.items():
        if not re.match(beginning, sql, re.IGNORECASE):
            continue
        words = []
        for option, pattern in options.items():
            if found := re.search(pattern, sql, re.IGNORECASE | re.DOTALL):
                words += [option, *found.groups()]
        return format_command("table", name, *table, *words)
    return ""


def read_table(spark: SparkSession, uri: str, version_or_files: FilesSnapshot | int) -> DataFrame:
    """Return a lazy Spark DataFrame of a Delta version (`version_or_files`: int) or of plain files.

    `uri` is for Spark. Spark's errors are raised as LakeportError.
    """
    with translate_errors():
        if isinstance(version_or_files, int):
            return spark.read.format("delta").option("versionAsOf", version_or_files).load(uri)
        if version_or_files.kind == "csv":
            return spark.read.options(header=True, escape='"', multiLine=True).csv(uri)
        return spark.read.option("mergeSchema", "true").parquet(uri)


def fetch_rows(frame: DataFrame, tables: Mapping[str, FilesSnapshot | int]) -> pa.Table:
    """Collect a DataFrame's rows as Arrow; raise SourceError if a version's data files are gone.

    Spark's other errors are raised as LakeportError.

    Args:
        tables: URI of each table that is read, as users write it -> its version, or its files.
    """
    with translate_errors():
        try:
            return collect_arrow(frame)
        except Exception as error:
            said = str(error)
            lost = any(word in said for word in _LOST) and "/_delta_log/" not in said
            versions = {uri: n for uri, n in tables.items() if lost and isinstance(n, int)}
            named = (uri for uri in versions if uri.rpartition("://")[2] in said)
            if uri := next(named, next(iter(versions), "")):
                raise missing_files_error(uri, versions[uri]) from error
            raise
