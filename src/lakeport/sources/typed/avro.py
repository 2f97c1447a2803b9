"""Avro object container files: their blocks, their schemas, their records as Arrow batches.

https://avro.apache.org/docs/1.12.0/specification/#logical-types
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.host.packages import missing_extra_error
from lakeport.model import Split
from lakeport.schema.rebase import HybridCalendar
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import Footer, explain_read_errors, name_file_in_errors, open_split

_MAGIC = b"Obj\x01"
_SYNC = 16
_LONGEST = 10  # bytes of a long
_MOST_META = 64 << 20
_MOST_BLOCK = 1 << 30
_STEP = 1 << 20
_CRC = 4

_PRIMITIVE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_MOST_DIGITS = 76

_OWN = {"decimal": "lakeport-decimal", "uuid": "lakeport-uuid"}
_NAME = "Avro"
_PART = 1 << 20
_PIECE = 4 << 20  # bytes of records that are decoded at a time
_BUFFER = 1 << 18


class Opening(NamedTuple):
    """What a file begins with.

    Attributes:
        schema: of its records, as JSON.
        codec: what its blocks are compressed with.
        sync: what stands behind every block.
        end: where the blocks begin.
        metadata: what programs say in it of the file.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int
    metadata: Mapping[str, bytes]


class AvroBlock(NamedTuple):
    """A block of records.

    Attributes:
        start: where its header begins.
        data: where its records begin.
        size: bytes that they take, compressed.
        records: how many there are.
    """

    start: int
    data: int
    size: int
    records: int


def open_container(source: BinaryIO) -> Opening:
    """Read what stands before the first block.

    Raises:
        ValueError: it is no Avro file.
    """
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as an object container file")
    meta: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:  # then the size of this part follows
            count = -count
            _long(source)
        for _ in range(count):
            name = _bytes(source).decode()
            meta[name] = _bytes(source)
    codec = meta.get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is none of {', '.join(_CODECS)}")
    schema = json.loads(meta.get("avro.schema", b""))
    return Opening(schema, codec, _exactly(source, _SYNC), source.tell(), meta)


def find_blocks(source: BinaryIO, opening: Opening, start: int, end: int) -> Iterator[AvroBlock]:
    """Find the blocks before which a marker begins in a range of the file, without reading them.

    So every block is found in one of several ranges that cover the file.

    Raises:
        ValueError: there is something else, or the file is cut off.
    """
    at = _next_sync(source, opening.sync, max(start, opening.end - _SYNC), end)
    size = source.seek(0, io.SEEK_END)
    while at >= 0 and at < end and at + _SYNC < size:
        source.seek(start := at + _SYNC)
        records, length = _long(source), _long(source)
        block = AvroBlock(start, source.tell(), length, records)
        at = block.data + length
        if records < 0 or not 0 <= length <= _MOST_BLOCK:
            raise ValueError(f"at byte {start} stands no block")
        if at + _SYNC > size:
            raise ValueError("it is cut off")
        source.seek(at)
        if _exactly(source, _SYNC) != opening.sync:
            raise ValueError(f"the block at byte {start} does not end as it should")
        yield block


def _next_sync(source: BinaryIO, sync: bytes, start: int, end: int) -> int:
    """Where the first marker begins in a range; -1 if none does."""
    source.seek(start)
    held = b""
    while start < end and (data := source.read(_STEP)):
        held += data
        if (found := held.find(sync)) >= 0:
            return start + found if start + found < end else -1
        start += max(0, len(held) - _SYNC + 1)
        held = held[-_SYNC + 1 :]
    return -1


def unpack(source: BinaryIO, block: AvroBlock, codec: str, guard: ExpansionGuard) -> bytes:
    """A block's records, decompressed.

    Raises:
        ValueError: they are damaged.
        SourceError: they are too many bytes; see `ExpansionGuard`.
    """
    source.seek(block.data)
    data = _exactly(source, block.size)
    parts = []
    try:
        for part in _CODECS[codec](data):
            guard.add(len(part))
            parts.append(part)
    except (ValueError, SourceError):
        raise
    except Exception as error:  # each library has its own class
        raise ValueError(f"the block at byte {block.start} is damaged: {error}") from None
    return b"".join(parts)


def _inflated(new: Callable[[], Any], data: bytes) -> Iterator[bytes]:
    """What a decoder makes of data, a bounded part at a time."""
    decoder = new()
    while not decoder.eof:
        part = decoder.decompress(data, _STEP)
        data = getattr(decoder, "unconsumed_tail", b"")
        if not part and not decoder.eof:
            raise ValueError("a block's compression is cut off")
        yield part


def _zstandard(data: bytes) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as plain:
        while part := plain.read(_STEP):
            yield part


def _snappy(data: bytes) -> Iterator[bytes]:
    """Raw snappy, which begins with its size; behind it stands the checksum of what is in it."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MOST_BLOCK:
        raise ValueError(f"a block claims to be {size:,} bytes")
    plain = pa.decompress(data[:-_CRC], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-_CRC:], "big"):
        raise ValueError("a block's checksum is wrong")
    yield plain


_CODECS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "null": lambda data: iter((data,)),
    "deflate": partial(_inflated, partial(zlib.decompressobj, -15)),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": partial(_inflated, bz2.BZ2Decompressor),
    "xz": partial(_inflated, lzma.LZMADecompressor),
}


def _of(number: int) -> bytes:
    """A number as Avro writes a long, if it is not negative.

    >>> _of(64).hex()
    '8001'
    """
    number <<= 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _long(source: BinaryIO) -> int:
    number = 0
    for place in range(_LONGEST):
        byte = _exactly(source, 1)[0]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError(f"at byte {source.tell()} stands no number")


def _bytes(source: BinaryIO) -> bytes:
    size = _long(source)
    if not 0 <= size <= _MOST_META:
        raise ValueError(f"its header claims to hold {size:,} bytes")
    return _exactly(source, size)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    if len(data) < size:
        raise ValueError("it is cut off")
    return data


class AvroColumn(NamedTuple):
    """How an Avro type is read.

    Attributes:
        plain: the Arrow type of the values as they are decoded.
        type: the Arrow type that they mean, which `plain` can be cast to.
    """

    plain: pa.DataType
    type: pa.DataType


def columns_of(schema: Any) -> dict[str, AvroColumn]:
    """The columns of a file's records.

    Args:
        schema: parsed, with full names, as `fastavro.parse_schema` gives it.

    Raises:
        SourceError: it is no schema of records, or a column has no equivalent in a table.
    """
    if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
        raise SourceError("it holds no records, which rows are made of", "rows are Avro records.")
    known: dict[str, Any] = {}
    _learn(schema, known)
    name = schema["name"]
    if not schema["fields"]:
        raise SourceError("its records have no fields", "rows are made of columns.")
    return {f["name"]: _column(f["type"], f["name"], known, {name}) for f in schema["fields"]}


def _decodable(schema: Any) -> Any:
    """Return a schema whose values are decoded as they are stored, but for decimals and UUIDs.

    fastavro would round decimals, so these have logical types of our own; see `_fastavro`.
    """
    if isinstance(schema, list):
        return [_decodable(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {k: _decodable(v) for k, v in schema.items() if k != "logicalType"}
    own = schema.get("type") in ("bytes", "fixed") and _OWN.get(schema.get("logicalType", ""))
    return {**found, "logicalType": own} if own else found


def _learn(schema: Any, known: dict[str, Any]) -> None:
    """Note the types that have names, which a schema may name before or behind."""
    if isinstance(schema, list):
        for part in schema:
            _learn(part, known)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            known[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _learn(field["type"], known)
        for part in ("type", "items", "values"):
            _learn(schema.get(part), known)


def _column(schema: Any, path: str, known: Mapping[str, Any], within: set[str]) -> AvroColumn:
    if isinstance(schema, str) and schema in _PRIMITIVE:
        return AvroColumn(_PRIMITIVE[schema], _PRIMITIVE[schema])
    if isinstance(schema, str):
        if schema in within:
            raise SourceError(
                f"column {path!r} holds itself, which no table's column can",
                "leave it out where the file is written, or write it as JSON text.",
            )
        schema = known[schema]
    if isinstance(schema, list):
        return _union(schema, path, known, within)
    kind = schema["type"]
    if kind == "array":
        item = _column(schema["items"], f"{path}.element", known, within)
        return AvroColumn(pa.list_(item.plain), pa.list_(item.type))
    if kind == "map":
        value = _column(schema["values"], f"{path}.value", known, within)
        return AvroColumn(*(pa.map_(pa.string(), t) for t in value))
    if kind in ("record", "error"):
        return _record(schema, path, known, within | {schema["name"]})
    if kind == "enum":
        return AvroColumn(pa.string(), pa.string())
    return (
        _logical(kind, schema, path)
        if kind in (*_PRIMITIVE, "fixed")
        else _column(kind, path, known, within)
    )


def _record(schema: Any, path: str, known: Mapping[str, Any], within: set[str]) -> AvroColumn:
    columns = {
        f["name"]: _column(f["type"], f"{path}.{f['name']}", known, within)
        for f in schema["fields"]
    }
    return AvroColumn(
        pa.struct([(name, c.plain) for name, c in columns.items()]),
        pa.struct([(name, c.type) for name, c in columns.items()]),
    )


def _union(parts: list[Any], path: str, known: Mapping[str, Any], within: set[str]) -> AvroColumn:
    """One type and null; or several that are one in a table: int and long, float and double."""
    columns = [_column(part, path, known, within) for part in parts if part != "null"]
    if not columns:
        return AvroColumn(pa.null(), pa.null())
    for wide in columns:
        if all(_within(column, wide) for column in columns):
            return wide
    kinds = ", ".join(str(column.type) for column in columns)
    raise SourceError(
        f"column {path!r} may hold values of several types ({kinds}), which tables don't have",
        "write it as one of them, or each into a column of its own.",
    )


def _within(column: AvroColumn, wide: AvroColumn) -> bool:
    return column == wide or (column.type, wide.type) in (
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
    )


def _logical(kind: str, schema: Mapping[str, Any], path: str) -> AvroColumn:
    """A primitive type or bytes of a fixed size, with the logical type that it may have.

    One that is unknown, or does not fit, is ignored, as the specification has it.
    """
    logical = schema.get("logicalType", "")
    plain = pa.binary(schema["size"]) if kind == "fixed" else _PRIMITIVE[kind]
    if (kind, logical) in _LOGICAL:
        return AvroColumn(plain, _LOGICAL[kind, logical])
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision:
            wide = pa.decimal128 if precision <= 38 else pa.decimal256
            return AvroColumn(wide(precision, scale), wide(precision, scale))
        raise SourceError(
            f"column {path!r} holds decimals of {precision} digits, {scale} behind the point",
            "tables have decimals of at most 38 digits.",
        )
    if logical == "uuid" and kind == "fixed" and schema["size"] == 16:
        return AvroColumn(pa.string(), pa.string())
    return AvroColumn(plain, plain)


def _decimal(value: bytes, schema: Any, _: Any = None) -> Decimal:
    digits = int.from_bytes(value, "big", signed=True)
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -schema.get("scale", 0)))


def _uuid(value: bytes, *_: Any) -> Any:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value


def look(file: SourceFile, limits: UnpackLimits) -> Footer:
    """A file's columns; its parts are ranges of bytes, in which blocks are found by the tasks.

    Raises:
        SourceError: it is no Avro file, or does not hold the rows of a table.
        MissingDependency: `fastavro` is not installed.
    """
    with explain_read_errors(file.name, _NAME), file.open() as source:
        columns = _columns(open_container(source).schema, file.name)
    count = -(-file.bytes // _PART)
    return Footer(file, _arrow(columns), (_PART,) * count)


def batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Read the parts `split.start` to `split.end` of a file.

    Raises:
        SourceError: the file is damaged, or unpacks to too much.
    """
    guard = ExpansionGuard(split.uri, limits)
    with explain_read_errors(split.uri, _NAME), _buffered(split) as source:
        opening = open_container(source)
        columns = _columns(opening.schema, split.uri)
        schema = {"type": "array", "items": _decodable(opening.schema)}
        calendar = HybridCalendar.of_avro(opening.metadata, _arrow(columns))
        for records, data in _pieces(source, opening, split, guard):
            batch = _batch(_decoded(schema, records, data), columns)
            if calendar is not None:
                with name_file_in_errors(split.uri):
                    batch = calendar.rebase(batch)
            yield batch


def _buffered(split: Split) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, open_split(split)), _BUFFER)


def _pieces(
    source: BinaryIO, opening: Opening, split: Split, guard: ExpansionGuard
) -> Iterator[tuple[int, bytes]]:
    """Some blocks' records at a time, and how many they are."""
    records, size = 0, 0
    parts: list[bytes] = []
    for block in find_blocks(source, opening, split.start * _PART, split.end * _PART):
        guard.packed += block.size
        parts.append(unpack(source, block, opening.codec, guard))
        records += block.records
        size += len(parts[-1])
        if size >= _PIECE:
            yield records, b"".join(parts)
            records, size, parts = 0, 0, []
    if records:
        yield records, b"".join(parts)


def _columns(schema: Any, name: str) -> dict[str, AvroColumn]:
    fastavro = _fastavro()
    try:
        parsed = fastavro.parse_schema(schema, named_schemas={})
    except Exception as error:
        raise ValueError(f"its schema is none: {error}") from None
    with name_file_in_errors(name):
        return columns_of(parsed)


def _arrow(columns: Mapping[str, AvroColumn]) -> pa.Schema:
    return pa.schema([(name, column.type) for name, column in columns.items()])


def _decoded(schema: Any, records: int, data: bytes) -> list[dict[str, Any]]:
    """Records as the array that they are written as: their number, they, and a zero."""
    try:
        array = io.BytesIO(_of(records) + data + b"\0")
        found: list[dict[str, Any]] = _fastavro().schemaless_reader(array, schema, None)
        return found
    except Exception as error:  # what it meets in damaged data it does not foresee
        raise ValueError(f"its records are damaged: {error or type(error).__name__}") from None


def _batch(records: list[dict[str, Any]], columns: Mapping[str, AvroColumn]) -> pa.RecordBatch:
    arrays = []
    for name, column in columns.items():
        array = pa.array([record[name] for record in records], column.plain)
        arrays.append(array if column.plain == column.type else array.cast(column.type))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        problem = "the source is Avro, and the package `fastavro` is not installed"
        raise missing_extra_error(problem, "avro") from None
    readers = fastavro.read.LOGICAL_READERS
    readers["bytes-lakeport-decimal"] = readers["fixed-lakeport-decimal"] = _decimal
    readers["fixed-lakeport-uuid"] = _uuid
    return fastavro
