"""What Parquet footers tell of a table's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.errors import SourceError
from lakeport.html.facts import ColumnFacts
from lakeport.schema.calendars import HybridCalendar
from lakeport.tables.overview.values import bounds, spelled
from lakeport.tables.views import type_word
from lakeport.writers.delta.stats import leaves

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lakeport.model import Storage

_CUT = 64  # bytes of a text that programs in Rust keep


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
            columns[".".join(leaf.path)] = _column(footer, leaf.index, leaf.type, calendar)
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
        found.append(ColumnFacts(name, there[-1].type, nulls=nulls, **_bounds(there)))
    return found


def _bounds(columns: Sequence[_Column]) -> dict[str, str]:
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
    if isinstance(bound, str) and len(bound.encode()) >= _CUT:
        return "long texts are cut in the statistics"
    return "the statistics leave out NaN" if isinstance(bound, float) else ""


def _column(
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
