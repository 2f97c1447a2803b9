"""Facts of a table for its page, from its log, Parquet footers and manifests, without Spark.

The log holds numbers as numbers and all else as texts, so `"10"` of a text column is less than
`"9"`, and `10` of a whole number is not. What footers tell is put into the log's form.

```
schema ─▶ leaves: name, path in the data files, type
files  ─▶ {"numRecords", "minValues", "maxValues", "nullCount"} ─▶ one sum and two bounds a leaf
```
Every file has to tell: one that doesn't may hold any value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from lakeport.delta_log.actions import DataFile, parse_partition_value
from lakeport.delta_log.history import LogHistory, TableVersion, VersionFile, read_history
from lakeport.delta_log.reader import Contents, DeltaLog, LogFiles
from lakeport.delta_log.transactions import CommitMark
from lakeport.errors import SchemaConflict, SourceError
from lakeport.html.facts import MOST_POINTS
from lakeport.lake.records import ColumnFacts, PartitionFacts, TableFacts, VersionFacts
from lakeport.lake.snapshots import (
    DeltaSnapshot,
    FilesSnapshot,
    describe_contents,
    describe_field_type,
    format_arrow_type,
    summarise_file_sizes,
)
from lakeport.lake.versions import MAINTENANCE, TableVersions
from lakeport.schema.hints import format_command
from lakeport.schema.rebase import HybridCalendar
from lakeport.schema.spark_schema import NULL_FOLDER, to_spark_json
from lakeport.schema.types import is_number
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES, target_bytes
from lakeport.writers.delta.plain import lacking_readers
from lakeport.writers.delta.stats import list_leaves, make_stats
from lakeport.writers.files.manifests import count_rows_after, read_manifests

if TYPE_CHECKING:
    from lakeport.model import Storage


_DEPTH = 4
_PHYSICAL = "delta.columnMapping.physicalName"

_UNREADABLE = (ValueError, TypeError, ArithmeticError)
_KINDS = (
    (pa.types.is_string, str),
    (pa.types.is_boolean, bool),
    (pa.types.is_date, date),
    (pa.types.is_timestamp, datetime),
)
_CUT = 32
_TEXTS = "long texts are cut in the statistics"
_TIMES = "the statistics keep times to the millisecond"

_DELETED = "rows that are deleted still count in the log"
_EMPTY: Mapping[str, Any] = {}

_LOG_BYTES = 128 << 20
_PROGRAMS = ("Athena", "delta-rs", "DuckDB", "Spark", "Trino")

_FOOTERS = 1_000
_UNREAD = {
    "csv": "CSV files do not say how many rows and nulls they have, nor their bounds.",
    "parquet": f"The footers of more than {_FOOTERS:,} files are not read.",
}
_NANS = "the statistics leave out NaN"
_LOADS = 1_000

_FILES = 100
"""Number of data files that a page's preview may read."""

_TYPES: Final = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A column that is no struct, or a member of a struct column, with its dotted name.

    `path` has its names in the data files; `type` is None if statistics have no bounds for it.
    """

    name: str
    path: tuple[str, ...]
    type: pa.DataType | None
    type_name: str


def parse_leaf_columns(schema: str) -> list[LeafColumn]:
    """Parse a Delta schema's JSON text to its columns; a struct's members take its place.

    >>> inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "metadata": {}}]}
    >>> outer = {"fields": [{"name": "a", "type": inner, "metadata": {}}]}
    >>> [(leaf.name, leaf.path, leaf.type_name) for leaf in parse_leaf_columns(json.dumps(outer))]
    [('a.b', ('a', 'b'), 'integer')]
    """
    found = []
    for name, path, field in _iterate_leaf_fields(json.loads(schema)["fields"], "", ()):
        type_, type_name = describe_field_type(field)
        found.append(LeafColumn(name, path, type_ if _has_order(type_) else None, type_name))
    return found


def _has_order(type_: pa.DataType | None) -> bool:
    """Whether statistics can have bounds for a type: number, text, boolean, date or timestamp."""
    if type_ is None:
        return False
    return is_number(type_) or any(is_kind(type_) for is_kind, _ in _KINDS)


def _iterate_leaf_fields(
    fields: list[dict[str, Any]], above: str, path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Yield (dotted name, physical path, Delta field) of each leaf; a path has at most 4 parts."""
    for field in fields:
        name = f"{above}{field['name']}"
        inner = (*path, field.get("metadata", {}).get(_PHYSICAL, field["name"]))
        type_ = field["type"]
        if isinstance(type_, Mapping) and type_.get("type") == "struct" and len(inner) < _DEPTH:
            yield from _iterate_leaf_fields(type_["fields"], f"{name}.", inner)
        else:
            yield name, inner, field


def parse_log_value(value: Any, type_: pa.DataType) -> Any:
    """Parse a partition value or statistics value of the log; raise ValueError or TypeError.

    `_UNREADABLE` has the errors' classes.

    >>> parse_log_value("10", pa.int32()), parse_log_value("1.50", pa.decimal128(9, 2))
    (10, Decimal('1.50'))
    """
    if pa.types.is_floating(type_):
        return float(value)
    if pa.types.is_decimal(type_):
        return Decimal(str(value))
    if pa.types.is_integer(type_):
        whole = int(value)
        if not isinstance(value, str) and whole != value:
            raise ValueError(value)
        return whole
    kind = next(kind for is_kind, kind in _KINDS if is_kind(type_))
    found = (
        parse_partition_value(value, type_) if isinstance(value, str) and kind is not str else value
    )
    if not isinstance(found, kind):
        raise TypeError(value)
    if isinstance(found, datetime):
        if pa.types.is_timestamp(type_) and type_.tz:
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        return found.replace(tzinfo=None)
    return found


def find_bounds(minima: Collection[Any], maxima: Collection[Any]) -> tuple[Any, Any]:
    """Return the least minimum and the greatest maximum; NaN is greatest. Both must have values.

    >>> find_bounds([1.0, math.nan], [math.nan, math.inf])
    (1.0, nan)
    """
    key = _sort_nan_last if isinstance(next(iter(minima)), float) else None
    return min(minima, key=key), max(maxima, key=key)


def _sort_nan_last(value: float) -> tuple[bool, float]:
    """Return a sort key that puts NaN after all numbers."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def format_value(value: Any, type_: pa.DataType | None = None) -> str:
    """Format a column value as text; a decimal gets all digits of its type.

    >>> format_value(True), format_value(datetime(2024, 5, 1, 10, tzinfo=UTC))
    ('true', '2024-05-01T10:00:00Z')
    >>> format_value(Decimal("1E+2"), pa.decimal128(9, 2))
    '100.00'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f" if type_ is None else f".{type_.scale}f")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat()
        text = text.rstrip("0") if "." in text else text
        return f"{text}Z" if value.tzinfo else text
    return str(value)


def explain_cut_bound(value: Any) -> str:
    """Return why a bound may be inexact (text cut, time rounded); empty if it is exact."""
    if isinstance(value, str):
        # Java counts a character beyond 16 bits as two.
        return _TEXTS if len(value.encode("utf-16-le", "surrogatepass")) >= 2 * _CUT else ""
    if isinstance(value, datetime):
        return "" if value.microsecond % 1000 else _TIMES
    return ""


def build_column_facts(
    files: Sequence[VersionFile],
    leaves: Sequence[LeafColumn],
    schema_paths: Sequence[frozenset[tuple[str, ...]]],
    partition_columns: Sequence[str],
    cluster_columns: Sequence[str],
    inexact_floats: str = "",
) -> list[ColumnFacts]:
    """Return null counts and bounds of each leaf column, from the data files' statistics.

    Args:
        files: the table's data files.
        leaves: the table's columns.
        schema_paths: the leaves' paths in each schema; a file has the schema's index.
        partition_columns: names of the partition columns.
        cluster_columns: names of the columns by which the table is clustered.
        inexact_floats: the reason why bounds of floats may be inexact; empty if they are exact.
    """
    types = [leaf.type for leaf in leaves if leaf.type is not None]
    statistics = _FileStatistics.of(files, decimals=any(map(pa.types.is_decimal, types)))
    found = []
    for leaf in leaves:
        role = "cluster" if leaf.name in cluster_columns else ""
        if leaf.name in partition_columns:
            role = "partition"
            facts = _summarise_partition_column(files, leaf)
        else:
            in_schema = [leaf.path in paths for paths in schema_paths]
            facts = _summarise_column(statistics, leaf, in_schema)
            if facts.get("minimum") and pa.types.is_floating(leaf.type):
                facts["approximate"] = facts["approximate"] or inexact_floats
        found.append(ColumnFacts(leaf.name, leaf.type_name, role, **facts))
    return found


@dataclass(frozen=True, slots=True)
class _FileStatistics:
    """Parsed statistics of a table's data files; each list has one entry for each file."""

    files: Sequence[VersionFile]
    records: list[int | None]
    low: list[Mapping[str, Any]]
    high: list[Mapping[str, Any]]
    nulls: list[Mapping[str, Any]]
    deletes: bool

    @classmethod
    def of(cls, files: Sequence[VersionFile], *, decimals: bool) -> _FileStatistics:
        """Parse the statistics of data files; with `decimals` numbers become exact decimals."""
        # A decimal keeps its digits only where it never was a float.
        each = [known.file.statistics(decimals=decimals) for known in files]
        low = [one.min_values or _EMPTY for one in each]
        high = [one.max_values or _EMPTY for one in each]
        nulls = [one.null_count or _EMPTY for one in each]
        deletes = any(known.file.deletion_vector is not None for known in files)
        return cls(files, [one.num_records for one in each], low, high, nulls, deletes)


def _to_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value of the statistics if it is a struct's; else an empty mapping."""
    return value if isinstance(value, dict) else _EMPTY


def _summarise_column(
    statistics: _FileStatistics, leaf: LeafColumn, in_schema: Sequence[bool]
) -> dict[str, Any]:
    """Return a column's null count (None: unknown), and its bounds if all statistics have them.

    `in_schema` says for each schema whether it has the column.
    """
    counts = _values_at(statistics.nulls, leaf.path)
    if None in counts and not all(in_schema):
        # A file older than the column has no value of it, and no statistics.
        counts = [
            records if count is None and not in_schema[one.schema] else count
            for count, records, one in zip(
                counts, statistics.records, statistics.files, strict=True
            )
        ]
    counts = [count if isinstance(count, int) else None for count in counts]
    # A file with nulls alone, or without rows, has no bounds.
    bounded = [
        place
        for place, (count, records) in enumerate(zip(counts, statistics.records, strict=True))
        if records != 0 and (count is None or count != records)
    ]
    low = _parse_values([statistics.low[place] for place in bounded], leaf)
    high = _parse_values([statistics.high[place] for place in bounded], leaf)
    found = _format_bounds(low, high, leaf, exact=False)
    if found and statistics.deletes:
        found["approximate"] = found["approximate"] or _DELETED
    return {"nulls": _count_nulls(statistics, counts), **found}


def _count_nulls(statistics: _FileStatistics, counts: Sequence[int | None]) -> int | None:
    """Sum a column's null counts over files, without deleted rows; None if a count is unknown."""
    if None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    if not statistics.deletes:
        return total
    for known, count, records in zip(statistics.files, counts, statistics.records, strict=True):
        if count and known.file.deletion_vector is not None:
            # Nothing tells which of the deleted rows were null, unless all rows were.
            if count != records or known.rows is None:
                return None
            total += known.rows - count
    return total


def _format_bounds(
    minima: list[Any] | None, maxima: list[Any] | None, leaf: LeafColumn, *, exact: bool
) -> dict[str, Any]:
    """Return `minimum`, `maximum` and `approximate` as texts in a dict; empty without values."""
    if not minima or not maxima:
        return {}
    found = find_bounds(minima, maxima)
    reason = "" if exact else next(filter(None, map(explain_cut_bound, found)), "")
    least, greatest = (format_value(value, leaf.type) for value in found)
    return {"minimum": least, "maximum": greatest, "approximate": reason}


def _summarise_partition_column(files: Sequence[VersionFile], leaf: LeafColumn) -> dict[str, Any]:
    """Return a partition column's null count and exact bounds, from its files' partition values."""
    (name,) = leaf.path
    rows: dict[str, int | None] = {}
    for known in files:
        text = (known.file.partition_values or _EMPTY).get(name) or ""
        had = rows.get(text, 0)
        rows[text] = None if had is None or known.rows is None else had + known.rows
    nulls = rows.pop("", 0)
    values = _parse_values([{name: text} for text, count in rows.items() if count != 0], leaf)
    return {"nulls": nulls, **_format_bounds(values, values, leaf, exact=True)}


def _parse_values(trees: Sequence[Mapping[str, Any]], leaf: LeafColumn) -> list[Any] | None:
    """Return a leaf column's values in nested statistics; None if one is missing or invalid."""
    values = _values_at(trees, leaf.path)
    if leaf.type is None or None in values:
        return None
    try:
        return [parse_log_value(value, leaf.type) for value in values]
    except _UNREADABLE:
        return None


def _values_at(trees: Sequence[Mapping[str, Any]], path: Sequence[str]) -> list[Any]:
    """Return the value at a path in each nested mapping; None where a mapping lacks it."""
    *above, last = path
    for name in above:
        trees = [_to_mapping(tree.get(name)) for tree in trees]
    return [tree.get(last) for tree in trees]


def format_partition(values: Mapping[str, str | None], columns: Iterable[LeafColumn]) -> str:
    """Format a partition as `column=value` pairs with `/` between; empty without partitions.

    `values` maps physical columns to values as the log spells them.
    """
    return "/".join(
        f"{leaf.name}={_format_log_value(values.get(leaf.path[0]) or 'null', leaf.type)}"
        for leaf in columns
    )


@lru_cache(100_000)
def _format_log_value(text: str, type_: pa.DataType | None) -> str:
    """Normalise a log's partition value as text; unchanged if it can't be parsed. Cached."""
    with suppress(*_UNREADABLE):
        return text if type_ is None else format_value(parse_log_value(text, type_), type_)
    return text


def build_partition_facts(files: Iterable[tuple[str, int, int | None]]) -> list[PartitionFacts]:
    """Sum (partition name, bytes, rows) of files by name, sorted; empty if all names are empty."""
    groups: dict[str, list[tuple[int, int | None]]] = {}
    for name, size, rows in files:
        groups.setdefault(name, []).append((size, rows))
    return [
        PartitionFacts(
            name=name,
            files=len(groups[name]),
            bytes=sum(size for size, _ in groups[name]),
            rows=_sum_known(count for _, count in groups[name]),
            small_files=sum(size < SMALL_FILE_BYTES for size, _ in groups[name]),
        )
        for name in (sorted(groups) if groups.keys() - {""} else ())
    ]


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is unknown."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def read_log_history(files: LogFiles) -> LogHistory:
    """Read a Delta table's history; raise SourceError if log files are missing or over 128 MiB."""
    history = read_history(files, max_bytes=_LOG_BYTES)
    if history is None:
        uri = files.log.uri
        raise SourceError(
            f"the log of {uri} lacks files, or is too large to be shown: "
            "it does not tell what the table holds",
            f"{format_command('table', 'show', uri)} reads a log of any size; "
            "files that are missing have to come back from a copy.",
        )
    return history


def build_delta_facts(name: str, log: LogFiles, history: LogHistory) -> TableFacts:
    """Return a Delta table's facts for its page, from its log; `name` is the page's title."""
    state, uri = history.state, log.log.uri
    newest = parse_leaf_columns(str(state.metadata["schemaString"]))
    columns = [leaf for name in state.partition_columns for leaf in newest if leaf.name == name]
    versions, since = _build_versions(history), _find_versions_of_columns(history)
    partitions = build_partition_facts(
        (format_partition(known.file.partition, columns), known.file.bytes, known.rows)
        for known in history.files
    )
    files = tuple(known.file for known in history.files)
    return TableFacts(
        **describe_contents(Contents(state, files), uri),
        name=name,
        uri=uri,
        columns=tuple(
            replace(column, since=since.get(column.name))
            for column in _build_log_columns(history, newest)
        ),
        file_sizes=[file.bytes for file in files],
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes(state.properties),
        partitions=len(partitions),
        by_partition=partitions,
        versions=versions,
        older_versions=log.newest + 1 - len(versions),
        readers=_list_readers(state.protocol),
        last_change=versions[-1].at if versions else None,
        last_writer=history.versions[-1].info.get("engineInfo") if versions else None,
        notes=_list_notes(history, log),
    )


def _build_log_columns(history: LogHistory, leaves: Sequence[LeafColumn]) -> list[ColumnFacts]:
    """Return null counts and bounds of leaf columns, from the newest version's data files."""
    schema_paths = [
        frozenset(leaf.path for leaf in parse_leaf_columns(each)) for each in history.schemas
    ]
    state = history.state
    partition_columns = state.metadata.get("partitionColumns") or ()
    return build_column_facts(
        history.files, leaves, schema_paths, partition_columns, state.clustering
    )


def _find_versions_of_columns(history: LogHistory) -> dict[str, int]:
    """Return leaf column -> the version that added it, without those older than known versions."""
    names = [[leaf.name for leaf in parse_leaf_columns(schema)] for schema in history.schemas]
    known = [version for version in history.versions if version.schema >= 0]
    since: dict[str, int] = {}
    for version in known:
        since = {name: since.get(name, version.number) for name in names[version.schema]}
    return {name: n for name, n in since.items() if n == 0 or n > known[0].number}


def _build_versions(history: LogHistory) -> list[VersionFacts]:
    """Return the facts of each version in the history, oldest first, with its column changes."""
    schemas = [
        {leaf.name: leaf.type_name for leaf in parse_leaf_columns(s)} for s in history.schemas
    ]
    versions, before = [], -1
    for version in history.versions:
        known = before >= 0 and version.schema >= 0
        changes = _list_column_changes(schemas[before], schemas[version.schema]) if known else ()
        versions.append(_build_version(version, tuple(changes)))
        before = version.schema
    return versions


def _list_column_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each changed, new or dropped column; `old` and `new` map names to types.

    >>> list(_list_column_changes({"a": "integer", "b": "text"}, {"a": "float", "c": "date"}))
    ['a: integer became float', 'new: c, date', 'gone: b, text']
    """
    kept = ((name, type_) for name, type_ in new.items() if name in old)
    yield from (f"{name}: {old[name]} became {now}" for name, now in kept if old[name] != now)
    yield from (f"new: {name}, {type_}" for name, type_ in new.items() if name not in old)
    yield from (f"gone: {name}, {type_}" for name, type_ in old.items() if name not in new)


def _build_version(version: TableVersion, columns: tuple[str, ...]) -> VersionFacts:
    """Return the facts of one version; `columns` are texts about columns that it changed."""
    info, totals = version.info, version.totals
    mark = CommitMark.parse(info.get("userMetadata"))
    state = mark.singer_state if mark else None
    return VersionFacts(
        number=version.number,
        at=version.committed_at,
        operation=_format_operation(info),
        rows=None if totals is None else totals.rows,
        bytes=None if totals is None else totals.bytes,
        files=None if totals is None else totals.files,
        rows_added=version.added.rows,
        rows_removed=version.removed.rows,
        files_added=version.added.files,
        files_removed=version.removed.files,
        columns=columns,
        run_id=(mark.run_id or mark.batch_id or None) if mark else None,
        state=None if state is None else state.decode("utf-8", "replace"),
        changed=bool(version.added.files or version.removed.files or columns)
        and info.get("operation") not in MAINTENANCE,
    )


def _format_operation(info: Mapping[str, Any]) -> str:
    """Format a commit's operation and mode; empty if it has neither.

    >>> _format_operation({"operation": "WRITE", "operationParameters": {"mode": "Append"}})
    'WRITE, Append'
    >>> _format_operation({"operation": "VACUUM END"})
    'VACUUM, end'
    """
    parameters = _to_mapping(info.get("operationParameters"))
    mode = parameters.get("mode") or parameters.get("outputMode")
    operation = str(info.get("operation") or "")
    if operation.startswith("VACUUM "):  # each makes two versions
        operation, mode = "VACUUM", operation.removeprefix("VACUUM ").lower()
    return ", ".join(str(word) for word in (operation, mode) if word)


def _list_readers(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (program, reason) pairs: why a program can't read the table, empty if it can."""
    lacking = lacking_readers(protocol)
    programs = {*_PROGRAMS, *(name for names in lacking.values() for name in names)}
    readers = []
    for program in sorted(programs, key=str.lower):
        features = [f"`{feature}`" for feature, names in lacking.items() if program in names]
        readers.append((program, f"does not know {', '.join(features)}" if features else ""))
    return readers


def _list_notes(history: LogHistory, log: LogFiles) -> tuple[str, ...]:
    """Return sentences on what the log can't tell, such as row counts; empty if all is known."""
    notes = []
    silent = sum(known.rows is None for known in history.files)
    if silent:
        notes.append(
            f"{silent:,} of {len(history.files):,} data files have no statistics: how many rows "
            "the table has, the log does not tell."
        )
    read, there = len(history.versions), sum(1 for number in log.commits if number <= log.newest)
    if there > read:
        notes.append(
            f"The log has {there - read:,} further commits, which are too old, too many or too "
            "torn to be shown."
        )
    return tuple(notes)


def build_files_facts(
    storage: Storage, folder: str, name: str, snapshot: FilesSnapshot
) -> TableFacts:
    """Return a file table's facts for its page, from up to 1,000 footers and load manifests.

    `name` is the page's title. A damaged file raises SourceError.
    """
    found = read_manifests(storage, folder, _LOADS)
    landed = {file.uri: file.rows for load in found for file in load.files}
    read = snapshot.kind == "parquet" and len(snapshot.files) <= _FOOTERS
    known, columns = _read_footer_columns(snapshot) if read else ([], [])
    if not read:
        columns = [
            ColumnFacts(item.name, format_arrow_type(item.type))
            for item in snapshot.preview(1).schema
        ]
    uris = (storage.uri(item.key) for item in snapshot.files)
    counts = [one.rows for one in known] if read else [landed.get(uri) for uri in uris]
    rows = _sum_known(counts)
    named = [_parse_partition_folders(item.key.removeprefix(folder)) for item in snapshot.files]
    partition_columns = tuple(dict.fromkeys(name for pairs in named for name, _ in pairs))
    names = ["/".join(f"{name}={value}" for name, value in pairs) for pairs in named]
    file_sizes = [item.bytes for item in snapshot.files]
    last = max((item.modified for item in snapshot.files), default=0.0)
    return TableFacts(
        name=name,
        uri=storage.uri(folder),
        format=snapshot.kind,
        rows=rows,
        **summarise_file_sizes(file_sizes),
        file_sizes=file_sizes,
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes({}),
        columns=(
            *(column for column in columns if column.name not in partition_columns),
            *(ColumnFacts(name, "string", "partition") for name in partition_columns),
        ),
        by_partition=build_partition_facts(zip(names, file_sizes, counts, strict=True)),
        partition_columns=partition_columns,
        growth=count_rows_after(found, rows)[-MOST_POINTS:],
        last_change=datetime.fromtimestamp(last, UTC) if last else None,
        notes=() if read else (_UNREAD[snapshot.kind],),
    )


def _read_footer_columns(snapshot: FilesSnapshot) -> tuple[list[VersionFile], list[ColumnFacts]]:
    """Read Parquet footers; return the files with statistics, and facts about the columns.

    A column of a type that tables don't have, or of the calendar of Spark 2, has no bounds.
    """
    files: list[VersionFile] = []
    schemas: list[frozenset[tuple[str, ...]]] = []
    wanted: dict[str, LeafColumn] = {}
    for item, footer in zip(snapshot.files, snapshot.iterate_footers(), strict=True):
        schema = footer.schema.to_arrow_schema()
        calendar = HybridCalendar.of_parquet(footer)
        known = {column.name: _list_arrow_leaves(column) for column in schema}
        untold = set(calendar.leaves if calendar else ())
        types = {leaf.path: leaf.type for each in known.values() for leaf in each}
        untold |= {leaf.index for leaf in list_leaves(schema) if types.get(leaf.path) is None}
        stats = make_stats(footer, schema, nans=untold, indexed=-1)
        file = DataFile(item.key, item.bytes, {}, stats)
        files.append(VersionFile(file, footer.num_rows, len(files)))
        own = [leaf for each in known.values() for leaf in each]
        schemas.append(frozenset(leaf.path for leaf in own))
        for leaf in own:
            alike = leaf.name not in wanted or wanted[leaf.name].type_name == leaf.type_name
            wanted[leaf.name] = leaf if alike else replace(leaf, type=None)
    return files, build_column_facts(files, list(wanted.values()), schemas, (), (), _NANS)


def _list_arrow_leaves(column: pa.Field) -> list[LeafColumn]:
    """Return an Arrow column's leaf columns; one without a type if Delta has no such type."""
    try:
        return parse_leaf_columns(to_spark_json(pa.schema([column])))
    except SchemaConflict:
        return [LeafColumn(column.name, (column.name,), None, format_arrow_type(column.type))]


def _parse_partition_folders(path: str) -> tuple[tuple[str, str], ...]:
    """Return (column, value) of each `column=value` folder in a file's path; `null` for nulls.

    >>> _parse_partition_folders("/day=2024-05-01/city=a%2Fb/part.parquet")
    (('day', '2024-05-01'), ('city', 'a/b'))
    """
    folders = (part.partition("=") for part in path.split("/")[:-1])
    return tuple(
        (unquote(name), "null" if value == NULL_FOLDER else unquote(value))
        for name, sign, value in folders
        if sign and name
    )


def read_table_facts(
    storage: Storage, folder: str, name: str
) -> tuple[TableFacts, DeltaSnapshot | FilesSnapshot]:
    """Read a table's facts for its page; return them with a snapshot to preview its first rows.

    Raises SourceError if there is no table, several, or an incomplete log.
    """
    versions = TableVersions.of(storage, folder)
    found = versions.find_version_or_files(None, None)
    if not isinstance(found, int):
        return build_files_facts(storage, folder, name, found), found
    history = read_log_history(versions.files)
    facts = build_delta_facts(name, versions.files, history)
    first = Contents(history.state, tuple(known.file for known in history.files[:_FILES]))
    return facts, DeltaSnapshot(versions.log, first)


def find_newest_time(storage: Storage, folder: str, column: str) -> datetime | None:
    """Return a date or time column's maximum in UTC; None without a table, or without values.

    The column's case does not matter. Raises SourceError if the statistics lack the value.
    """
    log = DeltaLog(storage, folder).list_files()
    files: Sequence[VersionFile] | None = None
    columns: Sequence[ColumnFacts] = ()
    if log.newest >= 0:
        history = read_log_history(log)
        # The row with the greatest value may be a deleted one.
        if not any(known.file.deletion_vector is not None for known in history.files):
            leaves = parse_leaf_columns(str(history.state.metadata["schemaString"]))
            named = [leaf for leaf in leaves if leaf.name.lower() == column.lower()]
            files, columns = history.files, _build_log_columns(history, named)
    elif (snapshot := FilesSnapshot.of(storage, folder)) is None:
        return None
    elif snapshot.kind == "parquet":
        files, columns = _read_footer_columns(snapshot)
    facts = next((one for one in columns if one.name.lower() == column.lower()), None)
    rows = None if files is None else _sum_known(known.rows for known in files)
    if rows == 0 or (facts is not None and rows is not None and facts.nulls == rows):
        return None
    if facts is None or facts.maximum is None or facts.type not in _TYPES:
        raise SourceError(f"the files of {storage.uri(folder)} don't tell the newest {column!r}")
    found = datetime.fromisoformat(facts.maximum)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
