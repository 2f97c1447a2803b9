"""Rebase dates from the hybrid calendar of Spark 2: Julian before 1582-10-15, Gregorian after.

Spark 2, and later versions in their mode LEGACY, count days before 1582-10-15 by the Julian
calendar. Parquet and Avro store the count alone, so 1001-01-01 would be read as 1001-01-07.
Instants before 1900 depend on the writer's time zone as well, and are refused.

https://github.com/apache/spark/blob/v4.0.0/sql/api/src/main/scala/org/apache/spark/sql/catalyst/util/RebaseDateTime.scala
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError
from lakeport.schema.nested import change_child_types, list_children, rebuild_nested

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_SPARK = "org.apache.spark."
_ROW = f"{_SPARK}sql.parquet.row.metadata"
_LAST_SECOND = -2_208_988_800  # 1900-01-01 UTC: from here on the calendars agree in every zone
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAYS = np.array([-719164, -682945, -646420, -609895, -536845, -500320, -463795, -390745,
                  -354220, -317695, -244645, -208120, -171595, -141427])  # fmt: skip
"""First day, counted from 1970 by the Julian calendar, of each of `_AMOUNTS`."""
_AMOUNTS = np.array([*range(2, -11, -1), 0])
"""Days to add to a Julian count."""


@dataclass(frozen=True, slots=True)
class HybridCalendar:
    """Columns of one file with old dates in Spark 2's hybrid Julian and Gregorian calendar.

    Attributes:
        columns: name of a top-level column -> whether each of its flat parts is hybrid, in order.
        leaves: ordinals of the hybrid flat parts among all flat parts of the file.
    """

    columns: Mapping[str, tuple[bool, ...]]
    leaves: frozenset[int]

    @classmethod
    def of_parquet(cls, footer: FileMetaData) -> HybridCalendar | None:
        """Find the hybrid-calendar columns from a Parquet footer; None if there are none."""
        keys = _read_spark_keys(footer.metadata or {})
        dates, int96 = _is_legacy(keys, "3.0.0", "DateTime"), _is_legacy(keys, "3.1.0", "INT96")
        if not (dates or int96):
            return None
        leaves = iter([footer.schema.column(i) for i in range(len(footer.schema))])

        def is_hybrid(type_: pa.DataType) -> bool:
            if next(leaves).physical_type == "INT96":
                return int96
            return dates and _is_rebased_type(type_)

        return cls._from_types(footer.schema.to_arrow_schema(), is_hybrid)

    @classmethod
    def of_avro(cls, metadata: Mapping[str, bytes], schema: pa.Schema) -> HybridCalendar | None:
        """Find an Avro file's hybrid columns by its header; return None if there are none."""
        legacy = _is_legacy(_read_spark_keys(metadata), "3.0.0", "DateTime")
        return cls._from_types(schema, _is_rebased_type) if legacy else None

    @classmethod
    def _from_types(cls, schema: pa.Schema, is_hybrid: Any) -> HybridCalendar | None:
        """Find columns with a flat type for which `is_hybrid` is true; None if there are none."""
        found = {f.name: tuple(map(is_hybrid, _iterate_flat_types(f.type))) for f in schema}
        columns = {name: flags for name, flags in found.items() if any(flags)}
        leaves = frozenset(i for i, flag in enumerate(chain(*found.values())) if flag)
        return cls(columns, leaves) if columns else None

    def rebase(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert hybrid dates to the Gregorian calendar; SourceError for timestamps before 1900.

        Hybrid timestamps before 1900 are refused, by the name of their column.
        """
        arrays = [
            self._rebase_array(array, iter(self.columns[name]), name)
            if name in self.columns
            else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        fields = [f.with_type(a.type) for f, a in zip(batch.schema, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _rebase_array(self, array: Any, flags: Iterator[bool], path: str) -> Any:
        """Rebase a column or a part of it; `flags` say for each flat part if it is hybrid."""
        if isinstance(array.type, pa.BaseExtensionType):
            return self._rebase_array(array.storage, flags, path)
        if children := list_children(array):
            rebased = [
                self._rebase_array(child, flags, f"{path}.{name}") for name, child in children
            ]
            if all(new is old for new, (_, old) in zip(rebased, children, strict=True)):
                return array
            return rebuild_nested(
                array, rebased, change_child_types(array.type, [a.type for a in rebased])
            )
        return self._rebase_flat(array, path) if next(flags) else array

    def _rebase_flat(self, array: Any, path: str) -> Any:
        """Convert an array's hybrid dates to Gregorian; SourceError for old timestamps."""
        is_date = pa.types.is_date(array.type)
        counts = array.view(pa.int32() if is_date else pa.int64())
        last = int(_DAYS[-1]) if is_date else _LAST_SECOND * _PER_SECOND[array.type.unit]
        least = pc.min(counts).as_py()
        if least is None or least >= last:
            return array
        if not is_date:
            raise SourceError(
                f"column {path!r} holds timestamps before 1900, written in the calendar of Spark 2",
                "have Spark read the file in the time zone of the program that wrote it (`--conf "
                "spark.driver.extraJavaOptions=-Duser.timezone=...`), and land that frame.",
            )
        days = pc.fill_null(counts, 0).to_numpy()
        places = np.searchsorted(_DAYS, days, side="right") - 1
        mask = counts.is_null().to_numpy(zero_copy_only=False)
        plain = days + _AMOUNTS[np.maximum(places, 0)]
        return pa.array(plain, counts.type, mask=mask).view(array.type)


def _read_spark_keys(metadata: Mapping[Any, bytes]) -> dict[str, str]:
    """Return Spark's own keys in a file's metadata, as text."""
    pairs = ((k.decode() if isinstance(k, bytes) else k, v) for k, v in metadata.items())
    return {k: v.decode(errors="replace") for k, v in pairs if k.startswith(_SPARK)}


def _is_legacy(spark_keys: Mapping[str, str], first_modern: str, kind: str) -> bool:
    """Whether Spark wrote `kind` in the hybrid calendar: an old Spark, or in legacy mode.

    A Parquet file with Spark's schema and without a version is of Spark 2.4.5 or older.
    """
    version = spark_keys.get(f"{_SPARK}version", "" if _ROW in spark_keys else None)
    asked = f"{_SPARK}legacy{kind}" in spark_keys
    return version is not None and (version < first_modern or asked)


def _is_rebased_type(t: Any) -> bool:
    """Whether Spark rebases a type: dates, and timestamps with a zone."""
    return bool(pa.types.is_date(t) or (pa.types.is_timestamp(t) and t.tz is not None))


def _iterate_flat_types(t: Any) -> Iterable[Any]:
    """Yield the flat types within a nested type, in order; a flat type yields itself."""
    if isinstance(t, pa.BaseExtensionType):
        yield from _iterate_flat_types(t.storage_type)
    elif t.num_fields:
        for i in range(t.num_fields):
            yield from _iterate_flat_types(t.field(i).type)
    else:
        yield t
