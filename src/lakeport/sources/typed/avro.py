"""Read Avro object container files: headers, blocks, schemas, and records as Arrow batches.

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
_SYNC_BYTES = 16
_MAX_LONG_BYTES = 10
_MAX_HEADER_BYTES = 64 << 20
_MAX_BLOCK_BYTES = 1 << 30
_READ_BYTES = 1 << 20
_CRC_BYTES = 4

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
_MAX_DIGITS = 76

_OWN = {"decimal": "lakeport-decimal", "uuid": "lakeport-uuid"}
_NAME = "Avro"
_PART_BYTES = 1 << 20
_PIECE_BYTES = 4 << 20  # bytes of records that are decoded at a time
_BUFFER_BYTES = 1 << 18


class AvroHeader(NamedTuple):
    """The header of an Avro object container file.

    Attributes:
        sync: the marker behind every block.
        metadata: key -> value, of the programs that wrote the file.
    """

    schema: Any
    codec: str
    sync: bytes
    end: int
    metadata: Mapping[str, bytes]


class AvroBlock(NamedTuple):
    """A block's offsets of header (`start`) and records (`data`), compressed size, record count."""

    start: int
    data: int
    size: int
    records: int


def read_header(source: BinaryIO) -> AvroHeader:
    """Read an Avro file's header; ValueError if it is no Avro file, or the codec is unknown."""
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as an object container file")
    meta: dict[str, bytes] = {}
    while count := _read_long(source):
        if count < 0:  # then the size of this part follows
            count = -count
            _read_long(source)
        for _ in range(count):
            name = _read_bytes(source).decode()
            meta[name] = _read_bytes(source)
    codec = meta.get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is none of {', '.join(_CODECS)}")
    schema = json.loads(meta.get("avro.schema", b""))
    return AvroHeader(schema, codec, _read_exactly(source, _SYNC_BYTES), source.tell(), meta)


def find_blocks(source: BinaryIO, header: AvroHeader, start: int, end: int) -> Iterator[AvroBlock]:
    """Yield the blocks whose preceding sync marker begins in bytes `start` to `end`, exclusive.

    Ranges that cover the file find each block once.

    Raises:
        ValueError: no block follows a marker, or the file is cut off.
    """
    at = _find_sync(source, header.sync, max(start, header.end - _SYNC_BYTES), end)
    size = source.seek(0, io.SEEK_END)
    while at >= 0 and at < end and at + _SYNC_BYTES < size:
        source.seek(start := at + _SYNC_BYTES)
        records, length = _read_long(source), _read_long(source)
        block = AvroBlock(start, source.tell(), length, records)
        at = block.data + length
        if records < 0 or not 0 <= length <= _MAX_BLOCK_BYTES:
            raise ValueError(f"at byte {start} stands no block")
        if at + _SYNC_BYTES > size:
            raise ValueError("it is cut off")
        source.seek(at)
        if _read_exactly(source, _SYNC_BYTES) != header.sync:
            raise ValueError(f"the block at byte {start} does not end as it should")
        yield block


def _find_sync(source: BinaryIO, sync: bytes, start: int, end: int) -> int:
    """Return the offset of the first sync marker that begins in `start` to `end`; -1 if none."""
    source.seek(start)
    held = b""
    while start < end and (data := source.read(_READ_BYTES)):
        held += data
        if (found := held.find(sync)) >= 0:
            return start + found if start + found < end else -1
        start += max(0, len(held) - _SYNC_BYTES + 1)
        held = held[-_SYNC_BYTES + 1 :]
    return -1


def decompress_block(
    source: BinaryIO, block: AvroBlock, codec: str, guard: ExpansionGuard
) -> bytes:
    """Read and decompress a block's records; SourceError if they exceed the guard's limits.

    Raises:
        ValueError: they are damaged.
        SourceError: they are too many bytes; see `ExpansionGuard`.
    """
    source.seek(block.data)
    data = _read_exactly(source, block.size)
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


def _decompress(create_decoder: Callable[[], Any], data: bytes) -> Iterator[bytes]:
    """Decompress by the standard library, in parts of at most 1 MiB; ValueError if cut off."""
    decoder = create_decoder()
    while not decoder.eof:
        part = decoder.decompress(data, _READ_BYTES)
        data = getattr(decoder, "unconsumed_tail", b"")
        if not part and not decoder.eof:
            raise ValueError("a block's compression is cut off")
        yield part


def _decompress_zstandard(data: bytes) -> Iterator[bytes]:
    """Decompress zstandard data, in parts of at most 1 MiB."""
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as plain:
        while part := plain.read(_READ_BYTES):
            yield part


def _decompress_snappy(data: bytes) -> Iterator[bytes]:
    """Decompress an Avro snappy block; ValueError if over 1 GiB or the checksum is wrong."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MAX_BLOCK_BYTES:
        raise ValueError(f"a block claims to be {size:,} bytes")
    plain = pa.decompress(data[:-_CRC_BYTES], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-_CRC_BYTES:], "big"):
        raise ValueError("a block's checksum is wrong")
    yield plain


_CODECS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "null": lambda data: iter((data,)),
    "deflate": partial(_decompress, partial(zlib.decompressobj, -15)),
    "snappy": _decompress_snappy,
    "zstandard": _decompress_zstandard,
    "bzip2": partial(_decompress, bz2.BZ2Decompressor),
    "xz": partial(_decompress, lzma.LZMADecompressor),
}


def _encode_long(number: int) -> bytes:
    """Encode a number >= 0 as an Avro long, a zigzag varint.

    >>> _encode_long(64).hex()
    '8001'
    """
    number <<= 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_long(source: BinaryIO) -> int:
    """Read an Avro long, a zigzag varint; raise ValueError if it is over ten bytes long."""
    number = 0
    for place in range(_MAX_LONG_BYTES):
        byte = _read_exactly(source, 1)[0]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError(f"at byte {source.tell()} stands no number")


def _read_bytes(source: BinaryIO) -> bytes:
    """Read bytes with their length before them; raise ValueError if they are over 64 MiB."""
    size = _read_long(source)
    if not 0 <= size <= _MAX_HEADER_BYTES:
        raise ValueError(f"its header claims to hold {size:,} bytes")
    return _read_exactly(source, size)


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    """Read `size` bytes; raise ValueError if the file ends before."""
    data = source.read(size)
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    if len(data) < size:
        raise ValueError("it is cut off")
    return data


class AvroColumn(NamedTuple):
    """A column's Arrow types: `decoded` for fastavro's values, `type` to which they are cast."""

    decoded: pa.DataType
    type: pa.DataType


def resolve_avro_columns(schema: Any) -> dict[str, AvroColumn]:
    """Return name -> Arrow types for the fields of a record schema; SourceError if unsupported.

    Args:
        schema: parsed, with full names, as `fastavro.parse_schema` returns it.

    Raises:
        SourceError: it is no schema of records, or no Arrow type can hold a column.
    """
    if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
        raise SourceError("it holds no records, which rows are made of", "rows are Avro records.")
    named_types: dict[str, Any] = {}
    _collect_named_types(schema, named_types)
    name = schema["name"]
    if not schema["fields"]:
        raise SourceError("its records have no fields", "rows are made of columns.")
    return {
        f["name"]: _resolve_type(f["type"], f["name"], named_types, {name})
        for f in schema["fields"]
    }


def _prepare_schema(schema: Any) -> Any:
    """Return a schema without logical types, so that fastavro decodes values as they are stored.

    Decimals, which fastavro would round, and UUIDs get logical types of our own; see
    `_import_fastavro`.
    """
    if isinstance(schema, list):
        return [_prepare_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {k: _prepare_schema(v) for k, v in schema.items() if k != "logicalType"}
    own = schema.get("type") in ("bytes", "fixed") and _OWN.get(schema.get("logicalType", ""))
    return {**found, "logicalType": own} if own else found


def _collect_named_types(schema: Any, named_types: dict[str, Any]) -> None:
    """Add a schema's named types, nested ones included, to `named_types`."""
    if isinstance(schema, list):
        for part in schema:
            _collect_named_types(part, named_types)
    elif isinstance(schema, Mapping):
        if "name" in schema:
            named_types[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _collect_named_types(field["type"], named_types)
        for part in ("type", "items", "values"):
            _collect_named_types(schema.get(part), named_types)


def _resolve_type(
    schema: Any, path: str, named_types: Mapping[str, Any], outer_records: set[str]
) -> AvroColumn:
    """Return the Arrow types for an Avro type; SourceError if there are none, or it is recursive.

    Args:
        outer_records: names of the records around it.
    """
    if isinstance(schema, str) and schema in _PRIMITIVE:
        return AvroColumn(_PRIMITIVE[schema], _PRIMITIVE[schema])
    if isinstance(schema, str):
        if schema in outer_records:
            raise SourceError(
                f"column {path!r} holds itself, which no table's column can",
                "leave it out where the file is written, or write it as JSON text.",
            )
        schema = named_types[schema]
    if isinstance(schema, list):
        return _resolve_union(schema, path, named_types, outer_records)
    kind = schema["type"]
    if kind == "array":
        item = _resolve_type(schema["items"], f"{path}.element", named_types, outer_records)
        return AvroColumn(pa.list_(item.decoded), pa.list_(item.type))
    if kind == "map":
        value = _resolve_type(schema["values"], f"{path}.value", named_types, outer_records)
        return AvroColumn(*(pa.map_(pa.string(), t) for t in value))
    if kind in ("record", "error"):
        return _resolve_record(schema, path, named_types, outer_records | {schema["name"]})
    if kind == "enum":
        return AvroColumn(pa.string(), pa.string())
    return (
        _resolve_primitive(kind, schema, path)
        if kind in (*_PRIMITIVE, "fixed")
        else _resolve_type(kind, path, named_types, outer_records)
    )


def _resolve_record(
    schema: Any, path: str, named_types: Mapping[str, Any], outer_records: set[str]
) -> AvroColumn:
    """Return the Arrow struct types for a record; SourceError as in `_resolve_type`."""
    columns = {
        f["name"]: _resolve_type(f["type"], f"{path}.{f['name']}", named_types, outer_records)
        for f in schema["fields"]
    }
    return AvroColumn(
        pa.struct([(name, c.decoded) for name, c in columns.items()]),
        pa.struct([(name, c.type) for name, c in columns.items()]),
    )


def _resolve_union(
    parts: list[Any], path: str, named_types: Mapping[str, Any], outer_records: set[str]
) -> AvroColumn:
    """Return the Arrow types that hold all non-null members of a union; SourceError if none do."""
    columns = [
        _resolve_type(part, path, named_types, outer_records) for part in parts if part != "null"
    ]
    if not columns:
        return AvroColumn(pa.null(), pa.null())
    for wide in columns:
        if all(_fits_in(column, wide) for column in columns):
            return wide
    kinds = ", ".join(str(column.type) for column in columns)
    raise SourceError(
        f"column {path!r} may hold values of several types ({kinds}), which tables don't have",
        "write it as one of them, or each into a column of its own.",
    )


def _fits_in(column: AvroColumn, wide: AvroColumn) -> bool:
    """Whether `wide` equals `column`, or is a number type that holds its values exactly."""
    return column == wide or (column.type, wide.type) in (
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
    )


def _resolve_primitive(kind: str, schema: Mapping[str, Any], path: str) -> AvroColumn:
    """Return the Arrow types for a primitive or fixed; SourceError for decimals over 76 digits.

    A logical type that is unknown, or does not fit, is ignored, as the specification demands.
    """
    logical = schema.get("logicalType", "")
    plain = pa.binary(schema["size"]) if kind == "fixed" else _PRIMITIVE[kind]
    if (kind, logical) in _LOGICAL:
        return AvroColumn(plain, _LOGICAL[kind, logical])
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if 0 < precision <= _MAX_DIGITS and 0 <= scale <= precision:
            wide = pa.decimal128 if precision <= 38 else pa.decimal256
            return AvroColumn(wide(precision, scale), wide(precision, scale))
        raise SourceError(
            f"column {path!r} holds decimals of {precision} digits, {scale} behind the point",
            "tables have decimals of at most 38 digits.",
        )
    if logical == "uuid" and kind == "fixed" and schema["size"] == 16:
        return AvroColumn(pa.string(), pa.string())
    return AvroColumn(plain, plain)


def _decode_decimal(value: bytes, schema: Any, _: Any = None) -> Decimal:
    """Return the decimal of unscaled big-endian bytes; fastavro calls this."""
    digits = int.from_bytes(value, "big", signed=True)
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -schema.get("scale", 0)))


def _decode_uuid(value: bytes, *_: Any) -> Any:
    """Return a UUID's 16 bytes as text, other bytes unchanged; fastavro calls this."""
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value


def read_footer(file: SourceFile, limits: UnpackLimits) -> Footer:
    """Read an Avro file's schema, and divide the file into parts of 1 MiB for tasks.

    Raises:
        SourceError: it is no Avro file, or no table can hold its records.
        MissingDependency: `fastavro` is not installed.
    """
    with explain_read_errors(file.name, _NAME), file.open() as source:
        columns = _parse_columns(read_header(source).schema, file.name)
    count = -(-file.bytes // _PART_BYTES)
    return Footer(file, _to_arrow_schema(columns), (_PART_BYTES,) * count)


def read_batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Yield the records in 1 MiB parts `split.start` up to `split.end`; SourceError if damaged."""
    guard = ExpansionGuard(split.uri, limits)
    with (
        explain_read_errors(split.uri, _NAME),
        io.BufferedReader(cast(io.RawIOBase, open_split(split)), _BUFFER_BYTES) as source,
    ):
        header = read_header(source)
        columns = _parse_columns(header.schema, split.uri)
        schema = {"type": "array", "items": _prepare_schema(header.schema)}
        calendar = HybridCalendar.of_avro(header.metadata, _to_arrow_schema(columns))
        for records, data in _read_pieces(source, header, split, guard):
            batch = _create_batch(_decode_records(schema, records, data), columns)
            if calendar is not None:
                with name_file_in_errors(split.uri):
                    batch = calendar.rebase(batch)
            yield batch


def _read_pieces(
    source: BinaryIO, header: AvroHeader, split: Split, guard: ExpansionGuard
) -> Iterator[tuple[int, bytes]]:
    """Decompress a split's blocks; yield record count and bytes, for about 4 MiB at a time."""
    records, size = 0, 0
    parts: list[bytes] = []
    for block in find_blocks(source, header, split.start * _PART_BYTES, split.end * _PART_BYTES):
        guard.packed += block.size
        parts.append(decompress_block(source, block, header.codec, guard))
        records += block.records
        size += len(parts[-1])
        if size >= _PIECE_BYTES:
            yield records, b"".join(parts)
            records, size, parts = 0, 0, []
    if records:
        yield records, b"".join(parts)


def _parse_columns(schema: Any, file_name: str) -> dict[str, AvroColumn]:
    """Return the columns of an Avro schema; `file_name` is the file's, for error messages.

    Raises:
        ValueError: the schema is invalid.
        SourceError: no Arrow type can hold a column.
    """
    fastavro = _import_fastavro()
    try:
        parsed = fastavro.parse_schema(schema, named_schemas={})
    except Exception as error:
        raise ValueError(f"its schema is none: {error}") from None
    with name_file_in_errors(file_name):
        return resolve_avro_columns(parsed)


def _to_arrow_schema(columns: Mapping[str, AvroColumn]) -> pa.Schema:
    return pa.schema([(name, column.type) for name, column in columns.items()])


def _decode_records(schema: Any, count: int, data: bytes) -> list[dict[str, Any]]:
    """Decode `count` records from their bytes; raise ValueError if the bytes are damaged."""
    try:
        array = io.BytesIO(_encode_long(count) + data + b"\0")
        found: list[dict[str, Any]] = _import_fastavro().schemaless_reader(array, schema, None)
        return found
    except Exception as error:  # what it meets in damaged data it does not foresee
        raise ValueError(f"its records are damaged: {error or type(error).__name__}") from None


def _create_batch(
    records: list[dict[str, Any]], columns: Mapping[str, AvroColumn]
) -> pa.RecordBatch:
    """Make a record batch of decoded records, with values cast to the columns' final types."""
    arrays = []
    for name, column in columns.items():
        array = pa.array([record[name] for record in records], column.decoded)
        arrays.append(array if column.decoded == column.type else array.cast(column.type))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _import_fastavro() -> Any:
    """Import fastavro and register our decoders in it; MissingDependency if not installed."""
    try:
        import fastavro
    except ImportError:
        problem = "the source is Avro, and the package `fastavro` is not installed"
        raise missing_extra_error(problem, "avro") from None
    readers = fastavro.read.LOGICAL_READERS
    readers["bytes-lakeport-decimal"] = readers["fixed-lakeport-decimal"] = _decode_decimal
    readers["fixed-lakeport-uuid"] = _decode_uuid
    return fastavro
