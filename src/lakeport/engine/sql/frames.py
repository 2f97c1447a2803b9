"""Spark frames and columns: build them, cast them to the types of tables, measure them.

All but `frame_digest` only build expressions: no query runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from lakeport.engine.base import is_connect
from lakeport.engine.failures import java_messages
from lakeport.engine.spark.jvm.calls import ensure_active, java_class
from lakeport.errors import SourceError
from lakeport.schema.casting import has_zoneless, normalise_schema, note_zoneless
from lakeport.schema.nested import find_untyped_columns, has_untyped
from lakeport.schema.spark_schema import (
    UNTYPED_KEY,
    apply_untyped_marks,
    from_spark_json,
    quote_identifier,
    to_spark_json,
)
from lakeport.schema.types import check_column_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

UNKNOWN_BYTES: Final = 1 << 60
"""From here on, Spark's estimate is that of a frame whose size nothing tells."""

_STORED_TYPES = {
    "BooleanType",
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "FloatType",
    "DoubleType",
    "DateType",
    "TimestampType",
    "DecimalType",
    "BinaryType",
}
_TEXT_TYPES = {"StringType", "CharType", "VarcharType", "NullType"}


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark StructType; raise if a type has no equivalent."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(to_spark_json(schema)))


def empty_frame(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return a Spark frame with a schema's columns and no rows."""
    ensure_active(spark)
    return spark.createDataFrame([], spark_schema(schema))


def cast_frame(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Cast columns to the types of the same names in `schema`, ignoring case; others stay."""
    known = {field.name.lower(): field.dataType for field in spark_schema(schema)}
    return frame.select(
        *(
            frame[quote_identifier(name)].cast(known[name.lower()]).alias(name)
            if name.lower() in known
            else frame[quote_identifier(name)]
            for name in frame.columns
        )
    )


def column(name: str) -> Column:
    """Return the column of a name, which may hold dots and backticks."""
    from pyspark.sql import functions as f

    return f.col(quote_identifier(name))


def literal(value: Any) -> Column:
    """Return a literal column; a datetime without a time zone counts as UTC."""
    from pyspark.sql import functions as f

    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return f.lit(value)


def expression(sql: str) -> Column:
    """Return a Spark SQL expression as a column."""
    from pyspark.sql import functions as f

    return f.expr(sql)


def count_per_key(names: Sequence[str]) -> Column:
    """Return a window column: how many rows share this row's values in the columns `names`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).over(Window.partitionBy(*map(quote_identifier, names)))


def failure_bits(conditions: Iterable[tuple[int, Column]]) -> Column:
    """Return a bigint bit mask per row: a bit is set where its condition is true."""
    from pyspark.sql import functions as f

    found = f.lit(0).cast("bigint")
    for bit, condition in conditions:
        found = found + f.when(condition, f.lit(1 << bit)).otherwise(f.lit(0)).cast("bigint")
    return found


def pattern_problem(spark: SparkSession, pattern: str) -> str:
    """Return Java's error message for an invalid regular expression; empty if it is valid."""
    try:
        java_class(spark._jvm, "java.util.regex.Pattern").compile(pattern)
    except Exception as error:
        words = next(iter(java_messages(error)), "").partition(": ")[2].partition("\n")[0]
        return words or pattern
    return ""


def count_partitions(frame: DataFrame) -> int:
    """Return the number of partitions of a frame; 2^31 if unknown, by Spark Connect."""
    if is_connect(frame):
        return 1 << 31
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def estimate_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a frame's size in bytes; UNKNOWN_BYTES or more if unknown."""
    if is_connect(frame):
        return UNKNOWN_BYTES
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Run a frame's query and return its rows as an Arrow table."""
    if not frame.sparkSession.version.startswith("3."):
        return frame.toArrow()
    before_spark_4: Any = frame
    batches = before_spark_4._collect_as_arrow()
    if not batches:
        return from_spark_json(frame.schema.json()).empty_table()
    return pa.Table.from_batches(batches)


class StoredFrame(NamedTuple):
    """A frame with the types that tables store, and what `Batch` has under the same names."""

    frame: DataFrame
    untyped: Mapping[str, pa.DataType] = MappingProxyType({})
    notes: tuple[str, ...] = ()


def normalise_frame(frame: DataFrame, stream: str) -> StoredFrame:
    """Cast columns to types that tables store, such as varchar to string; or SourceError.

    Char, varchar and void become text. A `timestamp_ntz` becomes a timestamp in UTC, whatever the
    session's time zone, also within lists, maps and structs.

    Raises:
        SourceError: a column's type has no equivalent, or the frame's session was stopped.
        InputError: two columns have the same name.
    """
    from pyspark.sql.types import StructField, StructType

    if not is_connect(frame) and frame.sparkSession.sparkContext._jsc is None:
        raise SourceError(
            "the frame's Spark session was stopped", "make the frame anew in one that runs."
        )
    check_column_names(stream, frame.columns, case_sensitive=False)
    targets = [StructField(f.name, _stored_type(f.dataType, f.name)) for f in frame.schema]
    changed = {
        f.name for f, to in zip(frame.schema, targets, strict=True) if f.dataType != to.dataType
    }
    if not changed:
        return StoredFrame(frame)
    stored = from_spark_json(StructType(targets).json())
    opened = [_open_type(f.dataType, to.type) for f, to in zip(frame.schema, stored, strict=True)]
    schema = pa.schema(list(zip(stored.names, opened, strict=True)))
    utc = frame.sparkSession.conf.get("spark.sql.session.timeZone") in {"UTC", "Etc/UTC", "Z"}
    columns = []
    for target, type_ in zip(spark_schema(stored), opened, strict=True):  # every part may be null
        column = frame[quote_identifier(target.name)]
        if target.name in changed:
            shifted = column if utc else _replace_parts(column, type_, has_zoneless, _read_as_utc)
            column = shifted.cast(target.dataType).alias(target.name)
        columns.append(column)
    untyped = find_untyped_columns(normalise_schema(schema, keep_untyped=True))
    return StoredFrame(frame.select(*columns), untyped, note_zoneless(schema))


def _open_type(spark: Any, stored: pa.DataType) -> pa.DataType:
    """Return the Arrow type `stored` as the frame has it: with void, and without zones."""
    name = type(spark).__name__
    if name == "NullType":
        return pa.null()
    if name == "TimestampNTZType":
        return pa.timestamp("us")
    if name == "ArrayType":
        return pa.list_(_open_type(spark.elementType, stored.value_type))
    if name == "MapType":
        key = _open_type(spark.keyType, stored.key_type)
        key = stored.key_type if has_untyped(key) else key  # Arrow has no null keys
        return pa.map_(key, _open_type(spark.valueType, stored.item_type))
    if name == "StructType":
        inner = stored if spark.fields else ()
        pairs = zip(spark.fields, inner, strict=True)
        return pa.struct([f.with_type(_open_type(one.dataType, f.type)) for one, f in pairs])
    return stored


def void_untyped(frame: DataFrame, columns: Mapping[str, pa.DataType]) -> DataFrame:
    """Return a frame in which `columns` of null type, also nested ones, are void again.

    Args:
        columns: columns with untyped parts -> their types (see `lakeport.schema.nested`).
    """
    if not columns:
        return frame
    return frame.select(
        *(
            _replace_parts(frame[quote_identifier(name)], columns[name], has_untyped, _void).alias(
                name
            )
            if name in columns
            else frame[quote_identifier(name)]
            for name in frame.columns
        )
    )


def void_marked(frame: DataFrame) -> DataFrame:
    """Make string columns void where the frame's schema metadata marks them as untyped."""
    text = frame.schema.json()
    if UNTYPED_KEY not in text:
        return frame
    columns = apply_untyped_marks(json.loads(text), from_spark_json(text))
    return void_untyped(frame, find_untyped_columns(columns))


def _replace_parts(
    column: Column,
    type_: pa.DataType,
    has_part: Callable[[pa.DataType], bool],
    replace: Callable[[Column], Column],
) -> Column:
    """Return `column` with each flat part replaced for whose Arrow type `has_part` is true."""
    from pyspark.sql import functions as f

    def inner(part: Column, of: pa.DataType) -> Column:
        return _replace_parts(part, of, has_part, replace)

    if not has_part(type_):
        return column
    if pa.types.is_list(type_):
        return f.transform(column, lambda item: inner(item, type_.value_type))
    if pa.types.is_map(type_):
        if has_part(type_.key_type):
            column = f.transform_keys(column, lambda key, _: inner(key, type_.key_type))
        return f.transform_values(column, lambda _, value: inner(value, type_.item_type))
    if not pa.types.is_struct(type_):
        return replace(column)
    members = (inner(column.getField(m.name), m.type).alias(m.name) for m in type_)
    return f.when(column.isNotNull(), f.struct(*members))


def _void(column: Column) -> Column:
    """Return a void column in place of any other."""
    from pyspark.sql import functions as f

    return f.lit(None)


def _read_as_utc(column: Column) -> Column:
    """Return a `timestamp_ntz` column as timestamps in UTC, whatever the session's time zone."""
    from pyspark.sql import functions as f

    return f.concat(column.cast("string"), f.lit("+00:00")).cast("timestamp")


def frame_digest(frame: DataFrame) -> str:
    """Hash a frame's schema and rows, in any order, by a Spark job; SourceError for maps.

    It runs the frame's query. A map has no order to compute with.
    """
    from pyspark.sql import functions as f

    if "map<" in frame.schema.simpleString():
        raise SourceError(
            "a frame with a map column can't be compared with what an earlier run landed",
            "leave `run_id` out, or turn the map into an array of structs.",
        )
    names = [quote_identifier(name) for name in frame.columns]
    row = f.xxhash64(*names)
    found = frame.select(
        f.count(f.lit(1)), f.sum(row.cast("decimal(38,0)")), f.bit_xor(row)
    ).first()
    text = f"{frame.schema.json()}|{found}"
    return hashlib.sha256(text.encode()).hexdigest()


def _stored_type(type_: Any, path: str) -> Any:
    """Return the Spark type in which tables store `type_`; SourceError if there is none.

    `path` is the column's path, for the error.
    """
    from pyspark.sql import types as t

    name = type(type_).__name__
    if name in _STORED_TYPES:
        return type_
    if name in _TEXT_TYPES or (name == "StructType" and not type_.fields):
        return t.StringType()
    if name == "TimestampNTZType":
        return t.TimestampType()
    if name == "ArrayType":
        item = _stored_type(type_.elementType, f"{path}.element")
        return t.ArrayType(item, type_.containsNull)
    if name == "MapType":
        key = _stored_type(type_.keyType, f"{path}.key")
        value = _stored_type(type_.valueType, f"{path}.value")
        return t.MapType(key, value, type_.valueContainsNull)
    if name == "StructType":
        return t.StructType(
            [
                t.StructField(x.name, _stored_type(x.dataType, f"{path}.{x.name}"), x.nullable)
                for x in type_.fields
            ]
        )
    raise SourceError(
        f"column {path!r} has the Spark type {type_.simpleString()}, which no table stores",
        "cast or drop the column first.",
    )
