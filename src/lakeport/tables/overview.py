"""What pages show of tables: filled in from logs, footers, manifests and reports, without Spark.

The log holds numbers as numbers and all else as texts, so `"10"` of a text column is less than
`"9"`, and `10` of a whole number is not.

```
schema ─▶ leaves: name, path in the data files, type
files  ─▶ {"numRecords", "minValues", "maxValues", "nullCount"} ─▶ one sum and two bounds a leaf
```
Every file has to tell: one that doesn't may hold any value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from lakeport.delta_log.history import History, KnownFile, Version, read_history
from lakeport.delta_log.reader import Contents, DeltaLog, LogFiles
from lakeport.delta_log.state import TableState
from lakeport.delta_log.transactions import Mark
from lakeport.errors import SourceError
from lakeport.html.facts import (
    MOST_PARTITIONS,
    MOST_POINTS,
    Change,
    ColumnFacts,
    FileFacts,
    LakeFacts,
    LakeTableFacts,
    PartitionFacts,
    TableFacts,
    VersionFacts,
)
from lakeport.schema.calendars import HybridCalendar
from lakeport.schema.named import command
from lakeport.schema.sparktypes import NULL_FOLDER
from lakeport.tables.lake import SeenTable, see_tables
from lakeport.tables.versions import Versions
from lakeport.tables.views import (
    DeltaView,
    FilesView,
    declared,
    optimize_hint,
    size_facts,
    type_word,
)
from lakeport.writers.delta.optimize import SMALL_FILE_BYTES, target_bytes
from lakeport.writers.delta.plain import lacking_readers
from lakeport.writers.delta.stats import leaves
from lakeport.writers.files.writer import growth, loads

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lakeport.model import Storage, StoredObject


_OPERATIONS: Mapping[str, Change] = {
    "COPY INTO": Change.APPEND,
    "CONVERT": Change.APPEND,
    "MERGE": Change.MERGE,
    "UPDATE": Change.MERGE,
    "DELETE": Change.DELETE,
    "TRUNCATE": Change.DELETE,
    "OPTIMIZE": Change.OPTIMIZE,
    "REORG": Change.OPTIMIZE,
    "RESTORE": Change.RESTORE,
    "CREATE OR REPLACE TABLE AS SELECT": Change.OVERWRITE,
    "CREATE OR REPLACE TABLE": Change.OVERWRITE,
    "REPLACE TABLE AS SELECT": Change.OVERWRITE,
    "REPLACE TABLE": Change.OVERWRITE,
    "VACUUM START": Change.OTHER,
    "VACUUM END": Change.OTHER,
}
_MODES: Mapping[str, Change] = {
    "append": Change.APPEND,
    "errorifexists": Change.APPEND,
    "ignore": Change.APPEND,
    "overwrite": Change.OVERWRITE,
    "complete": Change.OVERWRITE,
    "update": Change.MERGE,
}


def change_of(version: Version) -> Change:
    """What a version did to the rows before it.

    >>> change_of(Version(0, {"operation": "WRITE", "operationParameters": {"mode": "Append"}}))
    <Change.APPEND: 'append'>
    """
    operation = str(version.info.get("operation") or "").upper()
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if operation in ("WRITE", "STREAMING UPDATE"):
        told: Any = version.info.get("operationParameters")
        parameters = told if isinstance(told, Mapping) else {}
        mode = str(parameters.get("mode") or parameters.get("outputMode") or "").lower()
        if mode in _MODES:
            return _MODES[mode]
    return _by_files(version)


def _by_files(version: Version) -> Change:
    match bool(version.added.files), bool(version.removed.files):
        case True, False:
            return Change.APPEND
        case False, True:
            return Change.DELETE
        case False, False:
            return (
                Change.SCHEMA
                if version.info.get("operation") or version.changes_metadata
                else Change.OTHER
            )
        case _:
            return Change.OTHER


def lake_facts(storage: Storage, folder: str) -> LakeFacts:
    """Tell a lake.

    Args:
        storage: where it is.
        folder: its key; empty when it is the storage's root.

    Raises:
        SourceError: there are too many folders to look into.
        DestinationError: the store refused.
    """
    seen = see_tables(storage, folder, MOST_POINTS)
    return LakeFacts(storage.uri(folder), tuple(map(_table, seen)))


def _table(seen: SeenTable) -> LakeTableFacts:
    table = seen.table
    return LakeTableFacts(
        name=table.name,
        uri=table.uri,
        format=table.format,
        rows=table.rows,
        bytes=table.bytes,
        files=table.files,
        small_files=seen.small_files,
        last_change=table.last_change,
        version=table.version,
        growth=tuple(seen.growth),
        problem=table.problem,
    )


_DEPTH = 4
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column, or a part of one.

    Attributes:
        name: as the table spells it; with dots for a part of a struct.
        path: its names in the data files.
        type: in Delta's JSON.
        told: the type in words.
    """

    name: str
    path: tuple[str, ...]
    type: Any
    told: str


def column_leaves(schema: str) -> list[Leaf]:
    """The columns of a schema, with the parts of structs in the place of these.

    Args:
        schema: Delta's JSON text.

    >>> inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "metadata": {}}]}
    >>> outer = {"fields": [{"name": "a", "type": inner, "metadata": {}}]}
    >>> [(leaf.name, leaf.path, leaf.told) for leaf in column_leaves(json.dumps(outer))]
    [('a.b', ('a', 'b'), 'integer')]
    """
    found = list(_walk(json.loads(schema)["fields"], "", ()))
    words = declared({"fields": [field for _, _, field in found]})
    return [
        Leaf(name, path, field["type"], word.type)
        for (name, path, field), word in zip(found, words, strict=True)
    ]


def _walk(
    fields: list[dict[str, Any]], above: str, path: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    for field in fields:
        name = f"{above}{field['name']}"
        inner = (*path, field.get("metadata", {}).get(_PHYSICAL, field["name"]))
        type_ = field["type"]
        if isinstance(type_, Mapping) and type_.get("type") == "struct" and len(inner) < _DEPTH:
            yield from _walk(type_["fields"], f"{name}.", inner)
        else:
            yield name, inner, field


UNREADABLE = (ValueError, TypeError, ArithmeticError)
"""What readers raise."""

_CUT = 32
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_TEXTS = "long texts are cut in the statistics"
_TIMES = "the statistics keep times to the millisecond"


def reader(type_: Any) -> Callable[[Any], Any] | None:
    """What reads a column's values, and raises one of `UNREADABLE` for what is none.

    Args:
        type_: a type of Delta's JSON.

    Returns:
        None for types without order.

    >>> reader("integer")("10"), reader("decimal(9,2)")("1.50"), reader("binary")
    (10, Decimal('1.50'), None)
    """
    if isinstance(type_, Mapping):
        return None
    starts = (read for start, read in _STARTS.items() if str(type_).startswith(start))
    return _READERS.get(type_) or next(starts, None)


def bounds(low: Collection[Any], high: Collection[Any]) -> tuple[Any, Any]:
    """The least and the greatest value; NaN is greater than all numbers, as for Spark.

    Args:
        low: the least values of some parts, at least one.
        high: the greatest ones.

    >>> bounds([1.0, math.nan], [math.nan, math.inf])
    (1.0, nan)
    """
    floats = all(isinstance(value, float) for value in (*islice(low, 1), *islice(high, 1)))
    key = _order if floats and math.isnan(sum(low) + sum(high)) else None
    return min(low, key=key), max(high, key=key)


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def spelled(value: Any, type_: Any = "string") -> str:
    """A value as text, a decimal with all digits of its type.

    >>> spelled(True), spelled(datetime(2024, 5, 1, 10, tzinfo=UTC))
    ('true', '2024-05-01T10:00:00Z')
    >>> spelled(Decimal("1E+2"), "decimal(9,2)")
    '100.00'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        scale = _SCALE.search(str(type_))
        return format(value, f".{scale[1]}f" if scale else "f")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat()
        text = text.rstrip("0") if "." in text else text
        return f"{text}Z" if value.tzinfo else text
    return str(value)


def cut_reason(value: Any) -> str:
    """Why a bound may be wider than the values; empty where it is not."""
    if isinstance(value, str):
        # Java counts a letter beyond 16 bits as two.
        return _TEXTS if len(value.encode("utf-16-le", "surrogatepass")) >= 2 * _CUT else ""
    if isinstance(value, datetime):
        return "" if value.microsecond % 1000 else _TIMES
    return ""


def _whole(value: Any) -> int:
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError(value)
    return number


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise ValueError(value)
    return str(value).lower() == "true"


def _date(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


def _moment(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if found.tzinfo is UTC:
        return found
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _local_moment(value: Any) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return found.replace(tzinfo=None)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_WHOLE, _whole),
    **dict.fromkeys(_FLOATING, float),
    "string": str,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _moment,
    "timestamp_ntz": _local_moment,
}
_STARTS: Mapping[str, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "varchar": str,
    "char": str,
}


_DELETED = "rows that are deleted still count in the log"
_EMPTY: Mapping[str, Any] = {}


def column_facts(
    files: Sequence[KnownFile],
    leaves: Sequence[Leaf],
    known: Sequence[frozenset[tuple[str, ...]]],
    partitions: Sequence[str],
    clusters: Sequence[str],
) -> list[ColumnFacts]:
    """Tell each column.

    Args:
        files: the table's.
        leaves: its columns.
        known: the leaves' paths of each schema that the files may be of.
        partitions: names of the partition columns.
        clusters: names of the columns by which the table is clustered.
    """
    told = _Told.of(files, decimals=any(str(leaf.type).startswith("decimal") for leaf in leaves))
    found = []
    for leaf in leaves:
        if leaf.name in partitions:
            facts = _partition_column(files, leaf)
        else:
            facts = _column(told, leaf, [leaf.path in paths for paths in known])
        role = "partition" if leaf.name in partitions else "cluster" * (leaf.name in clusters)
        found.append(ColumnFacts(leaf.name, leaf.told, role, **facts))
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """The statistics of each file."""

    files: Sequence[KnownFile]
    records: list[int | None]
    low: list[Mapping[str, Any]]
    high: list[Mapping[str, Any]]
    nulls: list[Mapping[str, Any]]
    deletes: bool

    @classmethod
    def of(cls, files: Sequence[KnownFile], *, decimals: bool) -> _Told:
        # A decimal keeps its digits only where it never was a float.
        hook = Decimal if decimals else None
        decode = msgspec.json.Decoder(float_hook=hook).decode
        each = [_statistics(known.file.stats, decode) for known in files]
        low, high, nulls = ([_tree(one.get(part)) for one in each] for part in _PARTS)
        deletes = any(known.file.deletion_vector is not None for known in files)
        return cls(files, [one.get("numRecords") for one in each], low, high, nulls, deletes)


_PARTS = ("minValues", "maxValues", "nullCount")


def _statistics(stats: Any, decode: Any) -> Mapping[str, Any]:
    if not isinstance(stats, str):
        return _tree(stats)
    try:
        found = decode(stats)
    except msgspec.DecodeError:
        return _EMPTY
    return _tree(found)


def _tree(told: Any) -> Mapping[str, Any]:
    return told if isinstance(told, dict) else _EMPTY


def _column(told: _Told, leaf: Leaf, known: Sequence[bool]) -> dict[str, Any]:
    counts = _each(told.nulls, leaf.path)
    if None in counts and not all(known):
        # A file from before the column has no value of it, and says nothing of it either.
        counts = [
            records if count is None and not known[one.schema] else count
            for count, records, one in zip(counts, told.records, told.files, strict=True)
        ]
    counts = [count if isinstance(count, int) else None for count in counts]
    # A file of nulls, or without rows, has no bounds.
    bounded = [
        place
        for place, (count, records) in enumerate(zip(counts, told.records, strict=True))
        if records != 0 and (count is None or count != records)
    ]
    low = _read([told.low[place] for place in bounded], leaf)
    high = _read([told.high[place] for place in bounded], leaf)
    found = _bounds(low, high, leaf, exact=False)
    if found and told.deletes:
        found["approximate"] = found["approximate"] or _DELETED
    return {"nulls": _nulls(told, counts), **found}


def _nulls(told: _Told, counts: Sequence[int | None]) -> int | None:
    if None in counts:
        return None
    total = sum(count for count in counts if count is not None)
    if not told.deletes:
        return total
    for known, count, records in zip(told.files, counts, told.records, strict=True):
        if count and known.file.deletion_vector is not None:
            # Which of the deleted rows were null, nothing tells, unless all were.
            if count != records or known.rows is None:
                return None
            total += known.rows - count
    return total


def _bounds(
    low: list[Any] | None, high: list[Any] | None, leaf: Leaf, *, exact: bool
) -> dict[str, Any]:
    if not low or not high:
        return {}
    found = bounds(low, high)
    reason = "" if exact else next(filter(None, map(cut_reason, found)), "")
    least, greatest = (spelled(value, leaf.type) for value in found)
    return {"minimum": least, "maximum": greatest, "approximate": reason}


def _partition_column(files: Sequence[KnownFile], leaf: Leaf) -> dict[str, Any]:
    """What the partitions tell of a column, exactly."""
    (name,) = leaf.path
    rows: dict[str, int | None] = {}
    for known in files:
        text = (known.file.partition_values or _EMPTY).get(name) or ""
        had = rows.get(text, 0)
        rows[text] = None if had is None or known.rows is None else had + known.rows
    nulls = rows.pop("", 0)
    values = _read([{name: text} for text, count in rows.items() if count != 0], leaf)
    return {"nulls": nulls, **_bounds(values, values, leaf, exact=True)}


def _read(trees: Sequence[Mapping[str, Any]], leaf: Leaf) -> list[Any] | None:
    """The values at a leaf; None where one is missing, or is no value of its type."""
    read = reader(leaf.type)
    values = _each(trees, leaf.path)
    if read is None or None in values:
        return None
    try:
        return [read(value) for value in values]
    except UNREADABLE:
        return None


def _each(trees: Sequence[Mapping[str, Any]], path: Sequence[str]) -> list[Any]:
    *above, last = path
    for name in above:
        trees = [_tree(tree.get(name)) for tree in trees]
    return [tree.get(last) for tree in trees]


_CUT_BYTES = 64  # bytes of a text that programs in Rust keep


@dataclass(frozen=True, slots=True)
class Footer:
    """What one file's footer tells.

    Attributes:
        rows: how many the file has.
        columns: dotted path -> its statistics.
    """

    rows: int
    columns: Mapping[str, _Column]


@dataclass(frozen=True, slots=True)
class _Column:
    type: str
    nulls: int | None
    low: Any = None
    high: Any = None
    empty: bool = False


def read_footer(storage: Storage, key: str) -> Footer:
    """Read one file's footer.

    Raises:
        DestinationError: the store refused.
        pyarrow.ArrowException: it is no Parquet file.
    """
    import pyarrow.parquet as pq

    with storage.open(key) as file:
        footer = pq.read_metadata(file)
    schema = footer.schema.to_arrow_schema()
    columns: dict[str, _Column] = {}
    calendar = HybridCalendar.of_parquet(footer)
    for leaf in leaves(schema):
        if leaf.repeated:
            name = leaf.path[0]
            columns.setdefault(name, _Column(type_word(schema.field(name).type), None))
        else:
            columns[".".join(leaf.path)] = _footer_column(footer, leaf.index, leaf.type, calendar)
    return Footer(footer.num_rows, columns)


def footer_columns(footers: Sequence[Footer]) -> list[ColumnFacts]:
    """The columns of files, in the order in which they are met; a file without one has nulls."""
    names = dict.fromkeys(name for footer in footers for name in footer.columns)
    found = []
    for name in names:
        each = [footer.columns.get(name) for footer in footers]
        there = [column for column in each if column is not None]
        absent = sum(f.rows for f, column in zip(footers, each, strict=True) if column is None)
        counts = [column.nulls for column in there]
        nulls = None if None in counts else absent + sum(count or 0 for count in counts)
        found.append(ColumnFacts(name, there[-1].type, nulls=nulls, **_footer_bounds(there)))
    return found


def _footer_bounds(columns: Sequence[_Column]) -> dict[str, str]:
    full = [column for column in columns if not column.empty]
    alike = len({column.type for column in columns}) == 1
    if not full or not alike or any(column.low is None for column in full):
        return {}
    found = bounds([column.low for column in full], [column.high for column in full])
    least, greatest = map(spelled, found)
    reason = next(filter(None, map(_reason, found)), "")
    return {"minimum": least, "maximum": greatest, "approximate": reason}


def _reason(bound: Any) -> str:
    """Why a bound may not be that of the values; empty where it is."""
    if isinstance(bound, str) and len(bound.encode()) >= _CUT_BYTES:
        return "long texts are cut in the statistics"
    return "the statistics leave out NaN" if isinstance(bound, float) else ""


def _footer_column(
    footer: pq.FileMetaData, index: int, type_: pa.DataType, calendar: HybridCalendar | None
) -> _Column:
    nulls: int | None = 0
    lows, highs = [], []
    unsure = False
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(index)
        stats = chunk.statistics
        count = stats.null_count if stats is not None and stats.has_null_count else None
        nulls = None if nulls is None or count is None else nulls + count
        if count == chunk.num_values:
            continue
        limits = _limits(stats, type_, calendar if calendar and index in calendar.leaves else None)
        if limits is None:
            unsure = True
            continue
        lows.append(limits[0])
        highs.append(limits[1])
    word = type_word(type_)
    if unsure or not lows:
        return _Column(word, nulls, empty=not unsure)
    return _Column(word, nulls, min(lows), max(highs))


def _limits(
    stats: pq.Statistics | None, type_: pa.DataType, calendar: HybridCalendar | None
) -> tuple[Any, Any] | None:
    """The least and the greatest value of a row group; None where nothing tells."""
    if stats is None or not stats.has_min_max:
        return None
    try:
        if calendar is None:
            return None if isinstance(stats.min, bytes) else (stats.min, stats.max)
        import pyarrow as pa

        count = pa.int32() if pa.types.is_date(type_) else pa.int64()
        raw = pa.array([stats.min_raw, stats.max_raw], count).view(type_)
        low, high = calendar.rebase_flat(raw, "").to_pylist()
    except (OverflowError, SourceError):  # no year of Python's, or no time zone
        return None
    return low, high


Values = Mapping[str, str | None]


class PartitionNames:
    """Names partitions as `column=value`, with `/` between.

    Args:
        columns: the partition columns.
    """

    def __init__(self, columns: Sequence[Leaf]) -> None:
        self._columns = {leaf.path[0]: leaf for leaf in columns}
        self._known: dict[tuple[str | None, ...], str] = {}

    def name(self, values: Values | None) -> str:
        """The name of one partition; empty for a table without partitions.

        Args:
            values: column in the data files -> value as the log spells it.
        """
        told = values or {}
        if told.keys() != self._columns.keys():  # of a time when the table had other columns
            return "/".join(f"{name}={text or 'null'}" for name, text in told.items())
        key = tuple(told[name] for name in self._columns)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._spell(key)
        return known

    def _spell(self, key: Iterable[str | None]) -> str:
        parts = []
        for text, leaf in zip(key, self._columns.values(), strict=True):
            value, read = text or "null", reader(leaf.type)
            if text and read is not None:
                with suppress(*UNREADABLE):
                    value = spelled(read(text), leaf.type)
            parts.append(f"{leaf.name}={value}")
        return "/".join(parts)


def partition_facts(
    files: Sequence[tuple[str, int, int | None]],
) -> tuple[list[FileFacts], list[PartitionFacts]]:
    """The files with their partitions, and the partitions, by name.

    Args:
        files: name of the partition, size and rows of each; a table without partitions has files
            with empty names only.
    """
    groups: dict[str, list[tuple[int, int | None]]] = {}
    for name, size, rows in files:
        groups.setdefault(name, []).append((size, rows))
    partitioned = sorted(groups) if groups.keys() - {""} else []
    places = {name: place for place, name in enumerate(partitioned)}
    told = [FileFacts(size, places.get(name, -1)) for name, size, _ in files]
    return told, [_partition(name, groups[name]) for name in partitioned]


def _partition(name: str, files: Sequence[tuple[int, int | None]]) -> PartitionFacts:
    rows = [count for _, count in files]
    return PartitionFacts(
        name=name,
        files=len(files),
        bytes=sum(size for size, _ in files),
        rows=None if None in rows else sum(count or 0 for count in rows),
        small_files=sum(size < SMALL_FILE_BYTES for size, _ in files),
    )


_LOG_BYTES = 128 << 20
_PROGRAMS = ("Athena", "delta-rs", "DuckDB", "Spark", "Trino")


def delta_history(storage: Storage, folder: str, log: LogFiles) -> History:
    """Read a Delta table's log.

    Args:
        storage: where it is.
        folder: its key.
        log: the files of its log.

    Raises:
        SourceError: its log does not tell what it holds.
        DestinationError: the store refused, or a file of the log is damaged.
    """
    history = read_history(log, most_bytes=_LOG_BYTES, most_partitions=MOST_PARTITIONS)
    if history is None:
        raise SourceError(
            f"the log of {storage.uri(folder)} lacks files, or is too large to be shown: "
            "it does not tell what the table holds",
            f"{command('table', 'show', storage.uri(folder))} reads a log of any size; files that "
            "are missing have to come back from a copy.",
        )
    return history


def delta_facts(
    storage: Storage, folder: str, name: str, log: LogFiles, history: History
) -> TableFacts:
    """Tell a Delta table.

    Args:
        storage: where it is.
        folder: its key.
        name: its name on the page.
        log: the files of its log.
        history: what these tell.
    """
    columns = [column_leaves(schema) for schema in history.schemas]
    newest = column_leaves(str(history.metadata["schemaString"]))
    names = PartitionNames(_partition_columns(history, newest))
    versions = [_version(version, names) for version in history.versions]
    files, partitions = partition_facts(
        [
            (names.name(known.file.partition_values), known.file.size or 0, known.rows)
            for known in history.files
        ]
    )
    rows = [known.rows for known in history.files]
    properties = dict(history.metadata.get("configuration") or {})
    protocol = history.protocol
    sizes = size_facts([file.bytes for file in files], optimize_hint(storage.uri(folder)))
    by = tuple(history.metadata.get("partitionColumns") or ())
    known = [frozenset(leaf.path for leaf in each) for each in columns]
    return TableFacts(
        name=name,
        uri=storage.uri(folder),
        format="delta",
        rows=None if None in rows else sum(count or 0 for count in rows),
        bytes=sizes["bytes"],
        files=files,
        small_files=sizes["small_files"],
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes(properties),
        warning=sizes.get("warning"),
        columns=column_facts(history.files, newest, known, by, history.cluster_columns),
        partitions=partitions,
        partition_columns=by,
        versions=versions,
        older_versions=log.newest + 1 - len(versions),
        schemas=[[(leaf.name, leaf.told) for leaf in each] for each in columns],
        protocol=f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}",
        features=_features(protocol),
        readers=_readers(protocol),
        properties=sorted(properties.items()),
        last_change=versions[-1].at if versions else None,
        notes=_notes(history, log),
    )


def _version(version: Version, names: PartitionNames) -> VersionFacts:
    info, held = version.info, version.held
    mark = Mark.parse(info.get("userMetadata"))
    state = mark.singer_state if mark else None
    return VersionFacts(
        number=version.number,
        at=version.at,
        change=change_of(version),
        operation=str(info.get("operation") or ""),
        rows=None if held is None else held.rows,
        bytes=None if held is None else held.bytes,
        files=None if held is None else held.files,
        rows_added=version.added.rows,
        rows_removed=version.removed.rows,
        bytes_added=version.added.known_bytes,
        bytes_removed=version.removed.bytes,
        files_added=version.added.files,
        files_removed=version.removed.files,
        schema=version.schema,
        partitions=tuple(dict.fromkeys(map(names.name, version.touched))),
        more_partitions=version.more_touched,
        run_id=(mark.run_id or mark.batch_id or None) if mark else None,
        writer=info.get("engineInfo"),
        state=None if state is None else state.decode("utf-8", "replace"),
    )


def _partition_columns(history: History, columns: list[Leaf]) -> list[Leaf]:
    by_name = {leaf.name: leaf for leaf in columns}
    return [by_name[name] for name in history.metadata.get("partitionColumns") or ()]


def _features(protocol: Mapping[str, Any]) -> tuple[str, ...]:
    listed = (protocol.get(f"{kind}Features") or () for kind in ("reader", "writer"))
    return tuple(sorted({str(name) for names in listed for name in names}))


def _readers(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Program -> why it can't read the table; empty where it can."""
    lacking = lacking_readers(protocol)
    programs = {*_PROGRAMS, *(name for names in lacking.values() for name in names)}
    told = []
    for program in sorted(programs, key=str.lower):
        features = [f"`{feature}`" for feature, names in lacking.items() if program in names]
        told.append((program, f"does not know {', '.join(features)}" if features else ""))
    return told


def _notes(history: History, log: LogFiles) -> tuple[str, ...]:
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


_FOOTERS = 1_000
_LOADS = 1_000
_THREADS = 16


def files_facts(storage: Storage, folder: str, name: str, view: FilesView) -> TableFacts:
    """Tell a folder of files.

    Args:
        storage: where it is.
        folder: its key.
        name: its name on the page.
        view: its files.

    Raises:
        SourceError: a file is damaged.
        DestinationError: the store refused.
    """
    found = loads(storage, folder, _LOADS)
    landed = {uri: rows for load in found for uri, rows in load.files.items()}
    footers = _footers(view)
    counts = [
        footers[item.key].rows if item.key in footers else landed.get(storage.uri(item.key))
        for item in view.files
    ]
    rows = None if None in counts else sum(count or 0 for count in counts)
    named = [_pairs(item.key.removeprefix(folder)) for item in view.files]
    partition_columns = tuple(dict.fromkeys(name for pairs in named for name, _ in pairs))
    names = ["/".join(f"{name}={value}" for name, value in pairs) for pairs in named]
    each = zip(names, (item.bytes for item in view.files), counts, strict=True)
    files, partitions = partition_facts(list(each))
    sizes = size_facts([item.bytes for item in view.files])
    last = max((item.modified for item in view.files), default=0.0)
    return TableFacts(
        name=name,
        uri=storage.uri(folder),
        format=view.kind,
        rows=rows,
        bytes=sizes["bytes"],
        files=files,
        small_files=sizes["small_files"],
        small_file_bytes=SMALL_FILE_BYTES,
        target_file_bytes=target_bytes({}),
        warning=sizes.get("warning"),
        columns=_columns(view, footers, partition_columns),
        partitions=partitions,
        partition_columns=partition_columns,
        growth=growth(found, rows)[-MOST_POINTS:],
        last_change=datetime.fromtimestamp(last, UTC) if last else None,
        notes=_file_notes(view, footers),
    )


def _footers(view: FilesView) -> dict[str, Footer]:
    """Key -> footer, of the files whose footers are read."""
    if view.kind != "parquet" or len(view.files) > _FOOTERS:
        return {}

    def read(item: StoredObject) -> Footer:
        with view.readable(item):
            return read_footer(view.storage, item.key)

    with ThreadPoolExecutor(_THREADS) as pool:
        keys = [item.key for item in view.files]
        return dict(zip(keys, pool.map(read, view.files), strict=True))


def _columns(
    view: FilesView, footers: Mapping[str, Footer], partition_columns: Sequence[str]
) -> list[ColumnFacts]:
    if footers:
        columns = footer_columns(list(footers.values()))
    else:
        columns = [ColumnFacts(item.name, type_word(item.type)) for item in view.preview(1).schema]
    kept = [column for column in columns if column.name not in partition_columns]
    return [*kept, *(ColumnFacts(name, "string", "partition") for name in partition_columns)]


def _pairs(path: str) -> tuple[tuple[str, str], ...]:
    """The folders of a path that name a partition's column and value.

    >>> _pairs("/day=2024-05-01/city=a%2Fb/part.parquet")
    (('day', '2024-05-01'), ('city', 'a/b'))
    """
    folders = (part.partition("=") for part in path.split("/")[:-1])
    return tuple(
        (unquote(name), "null" if value == NULL_FOLDER else unquote(value))
        for name, sign, value in folders
        if sign and name
    )


def _file_notes(view: FilesView, footers: Mapping[str, Footer]) -> tuple[str, ...]:
    if view.kind == "csv":
        return ("CSV files do not say how many rows and nulls they have, nor their bounds.",)
    if not footers:
        return (f"The footers of more than {_FOOTERS:,} files are not read.",)
    return ()


_FILES = 100
"""Files of a Delta table among which its first rows are."""


def table_facts(storage: Storage, folder: str, name: str) -> TableFacts:
    """Tell a Delta table by its log, or a folder of Parquet or CSV files by their footers.

    Args:
        storage: where it is.
        folder: its key; empty when it is the storage's root.
        name: its name on the page, such as `silver/flights`.

    Raises:
        SourceError: there is no table, it is several, or its log does not tell what it holds.
        DestinationError: the store refused, or a file of the log is damaged.
    """
    return table_and_rows(storage, folder, name)[0]


def table_and_rows(
    storage: Storage, folder: str, name: str
) -> tuple[TableFacts, DeltaView | FilesView]:
    """Tell a table, and what has its first rows; see `table_facts`."""
    versions = Versions.of(storage, folder)
    found = versions.files_or_version(None, None)
    if not isinstance(found, int):
        return files_facts(storage, folder, name, found), found
    history = delta_history(storage, folder, versions.files)
    facts = delta_facts(storage, folder, name, versions.files, history)
    return facts, DeltaView(storage, folder, _beginning(history, found))


def _beginning(history: History, version: int) -> Contents:
    """The table with its first files."""
    state = TableState(version, history.metadata, history.protocol)
    return Contents(state, tuple(known.file for known in history.files[:_FILES]))


_TYPES: Final = ("date", "timestamp", "timestamp_ntz")

Told = tuple["ColumnFacts | None", int | None]
"""What is told of a column, and the number of rows; None for what is not."""


def newest_moment(storage: Storage, folder: str, column: str) -> datetime | None:
    """The newest value of a column, to the millisecond; a date is its first moment in UTC.

    Args:
        storage: where the table is.
        folder: its key.
        column: its name in the table; case does not matter.

    Returns:
        None where there is no table, or none of its rows has a value.

    Raises:
        SourceError: statistics don't tell it.
        DestinationError: the store refused.
    """
    log = DeltaLog(storage, folder).files()
    if log.newest >= 0:
        facts, rows = _of_log(storage, folder, log, column)
    elif (files := FilesView.of(storage, folder)) is not None:
        facts, rows = _of_footers(files, column)
    else:
        return None
    if rows == 0 or (facts is not None and rows is not None and facts.nulls == rows):
        return None
    if facts is None or facts.maximum is None or facts.type not in _TYPES:
        raise SourceError(f"the files of {storage.uri(folder)} don't tell the newest {column!r}")
    found = datetime.fromisoformat(facts.maximum)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _of_log(storage: Storage, folder: str, log: LogFiles, column: str) -> Told:
    history = delta_history(storage, folder, log)
    if any(known.file.deletion_vector is not None for known in history.files):
        return None, None  # the row with the greatest value may be deleted
    known = [column_leaves(schema) for schema in history.schemas]
    newest = column_leaves(str(history.metadata["schemaString"]))
    wanted = [leaf for leaf in newest if leaf.name.lower() == column.lower()]
    paths = [frozenset(leaf.path for leaf in each) for each in known]
    by = tuple(history.metadata.get("partitionColumns") or ())
    rows = [file.rows for file in history.files]
    total = None if None in rows else sum(count or 0 for count in rows)
    return next(iter(column_facts(history.files, wanted, paths, by, ())), None), total


def _of_footers(view: FilesView, column: str) -> Told:
    if view.kind != "parquet":
        return None, None

    def read(item: StoredObject) -> Footer:
        with view.readable(item):
            return read_footer(view.storage, item.key)

    with ThreadPoolExecutor(_THREADS, "lakeport-look") as pool:
        footers = list(pool.map(read, view.files))
    found = (one for one in footer_columns(footers) if one.name.lower() == column.lower())
    return next(found, None), sum(footer.rows for footer in footers)
