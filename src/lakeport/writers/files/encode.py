"""Encoders: record batches of one schema -> the bytes of one Parquet or CSV file.

An encoder is a small picklable value; `open` begins a file on a `model.StageWriter`. Memory per
file is bounded by one row group, and bytes go to the stage writer as soon as a group is encoded.

| value | text |
|---|---|
| null | nothing, unquoted |
| empty string | `""` |
| string | as it is, NUL included; quoted if it has a comma, a quote, CR or LF |
| boolean | `true`, `false` |
| integer, decimal | plain digits, never an exponent |
| floating point | shortest that reads back the same: `1.0`, `1e+300`, `NaN`, `Infinity` |
| date | `2024-03-04` |
| timestamp | `2024-03-04T15:30:45.123456+00:00` |
| binary | base64 |
| list, struct, map | compact JSON; nested values as above, NaN and infinities null, JSON as it is |

A null in a file of one column is an empty line: read it with blank lines kept. Everything is done
on whole columns, so that no Python code runs per value (binary and rare decimals excepted).

```
_lakeport/schemas/<table>/00000000.json   the columns that the first load wrote
_lakeport/schemas/<table>/00000001.json   one was added, or got its first value
```
Objects are only ever created, so that of two loads that change the columns at once one is refused
and plans again. A table without such a record, made by another tool or an earlier version, has the
columns of its newest Parquet file. Reading costs a listing and a small object a load.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import (
    ConfigError,
    LakeportError,
    ObjectExists,
    PermissionRefused,
    SchemaConflict,
)
from lakeport.model import StageWriter
from lakeport.schema.text import content, holds, plain_text
from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

    from lakeport.model import Storage, StoredObject
    from lakeport.schema.evolution import Evolution


_SLICE_BYTES = 32 << 20
_CSV_SPECIAL = (b'"', b",", b"\n", b"\r")


def header(names: Sequence[str]) -> bytes:
    """Return the header row.

    >>> header(["id", "a,b"])
    b'id,"a,b"\\n'
    """
    return (",".join(_quoted(pa.array(names, pa.string())).to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yield the rows of a batch as bytes, in pieces that never reach Arrow's 2 GB limit.

    Raises:
        InputError: a date or timestamp outside the years 1 to 9999.
    """
    rows = batch.num_rows
    step = max(1, rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
    for start in range(0, rows, step):
        part = batch.slice(start, step)
        cells = [
            pc.fill_null(_cell(column, field.name), "")
            for column, field in zip(part.columns, part.schema, strict=True)
        ]
        cells[-1] = pc.binary_join_element_wise(cells[-1], "\n", "")
        yield content(pc.binary_join_element_wise(*cells, ","))


def _cell(array: pa.Array, column: str) -> pa.Array:
    text, kind = plain_text(array, column), array.type
    free = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    return _quoted(text) if free else text


def _quoted(text: pa.Array) -> pa.Array:
    if holds(text, _CSV_SPECIAL):
        special = pc.match_substring_regex(text, '[",\\r\\n]|^$')
        text_inside = pc.replace_substring(text, '"', '""')
    else:
        special = pc.equal(pc.binary_length(text), 0)
        text_inside = text
    if not pc.any(special).as_py():
        return text
    return pc.if_else(special, pc.binary_join_element_wise('"', text_inside, '"', ""), text)


FileType = Literal["parquet", "csv"]
Compression = Literal["snappy", "zstd", "gzip", "none"]

_ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 64 << 20
_CSV_SUFFIX = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_CSV_TYPE = {
    "none": "text/csv; charset=utf-8",
    "gzip": "application/gzip",
    "zstd": "application/zstd",
}


class EncodedFile(Protocol):
    """One file that is being encoded."""

    @property
    def bytes_written(self) -> int:
        """Bytes that have left the encoder; what it still collects is not counted."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's schema."""
        ...

    def abandon(self) -> None:
        """Give the file up: what the encoder still writes, such as when it is freed, is dropped."""
        ...

    def close(self) -> FileMetaData | None:
        """Write what is left and the footer; Parquet returns its metadata, statistics included.

        The stage writer stays open: to finish it is up to the caller.
        """
        ...


class Encoder(Protocol):
    """A file format with its options. Pickled into Spark tasks."""

    @property
    def extension(self) -> str:
        """What follows the dot of an object's name."""
        ...

    @property
    def content_type(self) -> str:
        """Media type of the objects."""
        ...

    @property
    def has_types(self) -> bool:
        """Whether files of the format say what type a column has."""
        ...

    def open(self, schema: pa.Schema, out: StageWriter) -> EncodedFile:
        """Begin a file."""
        ...


def encoder_for(file_type: str, compression: str | None = None) -> ParquetEncoder | CsvEncoder:
    """Return the encoder for configured names; None is Snappy for Parquet, none for CSV.

    Raises:
        ConfigError: an unknown file type, or a compression that the type does not have.

    >>> encoder_for("csv", "gzip").extension
    'csv.gz'
    """
    if file_type == "parquet":
        return ParquetEncoder(_one_of("compression", compression or "snappy", Compression))
    if file_type == "csv":
        if compression == "snappy":
            raise ConfigError(
                "`compression` is 'snappy', which CSV files do not have",
                "use gzip, zstd or none.",
            )
        return CsvEncoder(_one_of("compression", compression or "none", Compression))
    raise ConfigError(f"`file_type` is {file_type!r}", "use parquet or csv.")


@dataclass(frozen=True)
class ParquetEncoder:
    """Parquet 2.6: timestamps as INT64 microseconds in UTC, statistics for every column.

    Attributes:
        compression: Snappy unless said otherwise.
        row_group_rows: rows that make a row group.
        row_group_bytes: bytes in memory that make a row group before it has those rows.
    """

    compression: Compression = "snappy"
    row_group_rows: int = _ROW_GROUP_ROWS
    row_group_bytes: int = _ROW_GROUP_BYTES

    @property
    def extension(self) -> str:
        """Always `parquet`."""
        return "parquet"

    @property
    def content_type(self) -> str:
        """Media type registered for Parquet."""
        return "application/vnd.apache.parquet"

    @property
    def has_types(self) -> bool:
        """Always."""
        return True

    def open(self, schema: pa.Schema, out: StageWriter) -> EncodedFile:
        """Begin a file."""
        return _ParquetFile(self, schema, out)


@dataclass(frozen=True)
class CsvEncoder:
    """CSV with a header row; `lakeport.writers.files.encode` tells how values are written.

    Attributes:
        compression: how the whole file is compressed: none, gzip or zstd.
    """

    compression: Compression = "none"

    @property
    def extension(self) -> str:
        """`csv`, `csv.gz` or `csv.zst`."""
        return f"csv{_CSV_SUFFIX[self.compression]}"

    @property
    def content_type(self) -> str:
        """Media type of the text or of the compressed file."""
        return _CSV_TYPE[self.compression]

    @property
    def has_types(self) -> bool:
        """Never."""
        return False

    def open(self, schema: pa.Schema, out: StageWriter) -> EncodedFile:
        """Begin a file."""
        return _CsvFile(self.compression, schema, out)


class _ParquetFile:
    """Collects batches to row groups, since small ones cost time and readers' patience."""

    def __init__(self, encoder: ParquetEncoder, schema: pa.Schema, out: StageWriter) -> None:
        self._encoder = encoder
        self._schema = schema
        self._out = _Stream(out)
        self._writer: Any = None
        self._metadata: list[FileMetaData] = []
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    @property
    def bytes_written(self) -> int:
        return self._out.written

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        full = self._rows >= self._encoder.row_group_rows
        if full or self._bytes >= self._encoder.row_group_bytes:
            self._write_group()

    def close(self) -> FileMetaData:
        if self._batches or self._writer is None:
            self._write_group()
        self._writer.close()
        return self._metadata[0]

    def abandon(self) -> None:
        self._out.abandon()
        if self._writer is not None:
            self._writer.is_open = False  # else it writes a footer when it is freed

    def _write_group(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._batches, self._schema)
        if self._writer is None:
            self._writer = self._open(table)
        rows = max(1, table.num_rows * self._encoder.row_group_bytes // max(1, self._bytes))
        self._writer.write_table(table, row_group_size=min(rows, 4 * self._encoder.row_group_rows))
        self._batches, self._rows, self._bytes = [], 0, 0

    def _open(self, first: pa.Table) -> Any:
        import pyarrow.parquet as pq

        from lakeport.writers.base import repeating_columns

        return pq.ParquetWriter(
            self._out,
            self._schema,
            version="2.6",
            compression=self._encoder.compression,
            use_dictionary=repeating_columns(first),
            metadata_collector=self._metadata,
        )


class _CsvFile:
    """Writes the header at once and each batch as it comes."""

    def __init__(self, compression: Compression, schema: pa.Schema, out: StageWriter) -> None:

        self._raw = _Stream(out)
        self._out: Any = self._raw
        if compression == "gzip":
            self._out = _Gzip(self._raw)
        elif compression == "zstd":
            import pyarrow as pa

            self._out = pa.CompressedOutputStream(pa.PythonFile(self._raw, "w"), compression)
        self._out.write(header(schema.names))

    @property
    def bytes_written(self) -> int:
        return self._raw.written

    def write(self, batch: pa.RecordBatch) -> None:

        for text in lines(batch):
            self._out.write(text)

    def abandon(self) -> None:
        self._raw.abandon()

    def close(self) -> None:
        self._out.close()


class _Gzip:
    """Gzip at level 6, since Arrow's stream only knows the slow level 9."""

    def __init__(self, out: _Stream) -> None:
        self._out = out
        self._packer = zlib.compressobj(6, wbits=16 + zlib.MAX_WBITS)

    def write(self, data: Any) -> None:
        self._out.write(self._packer.compress(data))

    def close(self) -> None:
        self._out.write(self._packer.flush())


class _Stream(io.RawIOBase):
    """A stage writer as a Python file whose `close` leaves the stage writer open."""

    def __init__(self, out: StageWriter) -> None:
        self._stage: StageWriter | None = out
        self.written = 0

    def writable(self) -> bool:
        return True

    def abandon(self) -> None:
        self._stage = None

    def write(self, data: Any, /) -> int:
        if self._stage is not None:
            self._stage.write(data)
        self.written += memoryview(data).nbytes
        return memoryview(data).nbytes


def _one_of(setting: str, value: str, choices: Any) -> Any:
    if value not in get_args(choices):
        raise ConfigError(f"`{setting}` is {value!r}", f"use {', '.join(get_args(choices))}.")
    return value


_VERSION = 1
_LISTED = 1000  # files among which the newest is looked for


@dataclass(frozen=True)
class RecordedColumns:
    """The columns that a table of files has had so far.

    Attributes:
        schema: with the type null where no value came yet; None where nothing is on record.
        number: the newest record's; -1 for none.
        readable: whether the store let lakeport look.
        modified: when the record was made, in seconds since 1970; 0 if that is unknown.
        pending: whether files may still have text where it has another type; see `retype`.
    """

    schema: pa.Schema | None = None
    number: int = -1
    readable: bool = True
    modified: float = 0.0
    pending: bool = False


@dataclass(frozen=True)
class ColumnLog:
    """The records of one table's columns.

    Attributes:
        storage: where the lake is.
        table: the table's folder below the root, date folders not included.
    """

    storage: Storage
    table: str

    @property
    def uri(self) -> str:
        """The folder of the records, as users name it."""
        return self.storage.uri(self.folder)

    def read(self) -> RecordedColumns:
        """Return the newest record, else the columns of the newest Parquet file.

        Raises:
            DestinationError: the store fails; where it refuses, `readable` is false instead.
        """
        try:
            found = {self._number(item.key): item for item in self.storage.list(self.folder)}
            newest = max(found, default=-1)
            data = self.storage.get(self._key(newest)) if newest >= 0 else None
        except PermissionRefused:
            return self._read_by_name()
        record = _decode_record(data)
        if record is None:
            return self._read_footer(newest)
        return replace(record, number=newest, modified=found[newest].modified)

    def write(self, number: int, schema: pa.Schema, *, pending: bool = False) -> None:
        """Put columns on record; the same ones again are no conflict.

        Raises:
            ObjectExists: another load has put others on record under this number.
            DestinationError: the store refuses.
        """
        data = _encode_record(schema, pending)
        try:
            self.storage.put(self._key(number), data, create_only=True)
        except ObjectExists:
            if self.storage.get(self._key(number)) != data:
                raise

    def has_files(self) -> bool:
        """Whether the table has an object, so that what is on record is about something."""
        return next(iter(self.storage.list(self.table)), None) is not None

    @property
    def folder(self) -> str:
        """The folder of the records below the root."""
        return f"{HOME}/schemas/{safe_segment(self.table)}"

    def _key(self, number: int) -> str:
        return f"{self.folder}/{number:08d}.json"

    def _number(self, key: str) -> int:
        text = key.rpartition("/")[2].partition(".")[0]
        return int(text) if text.isdecimal() else -1

    def _read_by_name(self) -> RecordedColumns:
        """Find the newest record by name where listing is refused: a store may tell nothing of
        what is absent, so the first one has to be there."""
        found, number = RecordedColumns(readable=False), 0
        try:
            while (data := self.storage.get(self._key(number))) is not None:
                record = _decode_record(data) or RecordedColumns()
                found, number = replace(record, number=number), number + 1
        except PermissionRefused:
            pass
        return found

    def _read_footer(self, number: int) -> RecordedColumns:
        """Read the columns from the footer of the newest Parquet file, if there is one."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from lakeport.schema.casting import normalise

        try:
            listed = islice(self.storage.list(self.table), _LISTED)
            files = [item for item in listed if self._is_data(item)]
            direct = [item for item in files if "/" not in item.key[len(self.table) + 1 :]]
            newest = max(direct or files, key=lambda item: (item.modified, item.key), default=None)
            if newest is None:
                return RecordedColumns(number=number)
            with self.storage.open(newest.key) as file:
                footer = pq.ParquetFile(file)
                schema = normalise(footer.schema_arrow)
                return RecordedColumns(_without_nulls(schema, footer.metadata), number)
        except PermissionRefused:
            return RecordedColumns(number=number, readable=False)
        except (LakeportError, pa.ArrowException, OSError):  # damaged, or with types of no table
            return RecordedColumns(number=number)

    def _is_data(self, item: StoredObject) -> bool:
        path = item.key[len(self.table) + 1 :]
        hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
        return path.endswith(".parquet") and not hidden and item.bytes > 0


def plan_columns(
    known: pa.Schema | None, incoming: pa.Schema, policy: str, *, typed: bool
) -> tuple[Evolution, pa.Schema, tuple[str, ...]]:
    """Plan a table's columns; see `plan_evolution`, whose rules these are.

    Args:
        known: what the table has; None where there is none.
        incoming: the batch's columns.
        policy: `loose` lets a batch's files have other types than the table.
        typed: whether the format has types. Without them names and their order are all.

    Returns:
        The columns of the batch's files, those of the table, and what of the two differs.

    Raises:
        SchemaConflict: as `plan_evolution`.
    """
    import pyarrow as pa

    from lakeport.schema.evolution import EvolutionPolicy, plan_evolution
    from lakeport.schema.named import type_name

    rule = EvolutionPolicy.STRICT if policy == "strict" else EvolutionPolicy.EVOLVE
    if known is None or (typed and policy != "loose"):
        plan = plan_evolution(known, incoming, rule)
        return plan, plan.schema, ()
    coming = {field.name.lower(): field for field in incoming}
    own: dict[str, pa.Field] = {}
    for field in known:
        new = coming.get(field.name.lower())
        if new is not None and not (typed and _fits(field, new)):
            own[field.name] = new.with_name(field.name)
    plan = plan_evolution(_replace_fields(known, own), incoming, rule)
    told = [
        f"column {name!r} is {type_name(known.field(name).type)} in the table and "
        f"{type_name(field.type)} in these files, and few readers take the two for one table."
        for name, field in own.items()
        if typed
    ]
    kept = {f.name: f for f in known if f.name in own and not pa.types.is_null(f.type)}
    return plan, _replace_fields(plan.schema, kept), tuple(told)


def file_columns(table: pa.Schema, *, typed: bool = True) -> pa.Schema:
    """Return the columns that files have of a table's: those of the type null only if all are."""
    import pyarrow as pa

    from lakeport.schema.nested import stored_field

    kept = [field for field in table if not (typed and pa.types.is_null(field.type))]
    return pa.schema([stored_field(field) for field in (kept or table)])


def _fits(field: pa.Field, new: pa.Field) -> bool:
    import pyarrow as pa

    from lakeport.schema.evolution import plan_evolution

    try:
        plan_evolution(pa.schema([field]), pa.schema([new]))
    except SchemaConflict:
        return False
    return True


def _replace_fields(schema: pa.Schema, fields: Mapping[str, pa.Field]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([fields.get(field.name, field) for field in schema])


def _without_nulls(schema: pa.Schema, footer: Any) -> pa.Schema:
    """Leave the types of columns open that have no value in the file: others may have theirs."""
    import pyarrow as pa

    empty: dict[str, bool] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            stats = chunk.statistics
            nulls = stats.null_count if stats is not None and stats.has_null_count else -1
            path = chunk.path_in_schema
            empty[path] = empty.get(path, True) and nulls == chunk.num_values
    open_ = {name: pa.field(name, pa.null()) for name in schema.names if empty.get(name)}
    return _replace_fields(schema, open_)


def _encode_record(schema: pa.Schema, pending: bool) -> bytes:
    content = {
        "version": _VERSION,
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "arrow": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        **({"pending": True} if pending else {}),
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def _decode_record(data: bytes | None) -> RecordedColumns | None:
    """Read a record; None for what is none of this version."""
    import pyarrow as pa

    try:
        content = json.loads(data or b"")
        if content["version"] != _VERSION:
            return None
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["arrow"])))
        return RecordedColumns(schema, pending=content.get("pending", False))
    except (ValueError, KeyError, TypeError, pa.ArrowException, OSError):
        return None
