"""Encoders: record batches of one schema -> the bytes of one Parquet or CSV file.

An encoder is a small picklable value; `open` begins a file on a `model.StageWriter`. Memory per
file is bounded by one row group, and bytes go to the stage writer as soon as a group is encoded.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from lakeport.errors import ConfigError
from lakeport.model import StageWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

    from lakeport.writers.parquet import Stream

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


def encoder_for(file_type: str, compression: str | None = None) -> Encoder:
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
        extension: what follows the dot of an object's name.
        content_type: media type of the objects.
        has_types: whether files of the format say what type a column has.
    """

    extension: ClassVar[str] = "parquet"
    content_type: ClassVar[str] = "application/vnd.apache.parquet"
    has_types: ClassVar[bool] = True
    compression: Compression = "snappy"
    row_group_rows: int = _ROW_GROUP_ROWS
    row_group_bytes: int = _ROW_GROUP_BYTES

    def open(self, schema: pa.Schema, out: StageWriter) -> ParquetFile:
        """Begin a file."""
        return ParquetFile(self, schema, out)


@dataclass(frozen=True)
class CsvEncoder:
    """CSV with a header row; `lakeport.writers.files.csv` tells how values are written.

    Attributes:
        compression: how the whole file is compressed: none, gzip or zstd.
        has_types: whether files of the format say what type a column has.
    """

    has_types: ClassVar[bool] = False
    compression: Compression = "none"

    @property
    def extension(self) -> str:
        """`csv`, `csv.gz` or `csv.zst`."""
        return f"csv{_CSV_SUFFIX[self.compression]}"

    @property
    def content_type(self) -> str:
        """Media type of the text or of the compressed file."""
        return _CSV_TYPE[self.compression]

    def open(self, schema: pa.Schema, out: StageWriter) -> CsvFile:
        """Begin a file."""
        return CsvFile(self.compression, schema, out)


class ParquetFile:
    """One Parquet file that is being encoded.

    Batches become row groups, since small ones cost time and readers' patience.
    """

    def __init__(self, encoder: ParquetEncoder, schema: pa.Schema, out: StageWriter) -> None:
        from lakeport.writers.parquet import ParquetOutput

        self._encoder = encoder
        self._schema = schema
        self._out = ParquetOutput(out, schema, encoder.compression)
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = self._groups = 0

    @property
    def bytes_written(self) -> int:
        """Bytes that have left the encoder; what it still collects is not counted."""
        return self._out.size

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's schema."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        full = self._rows >= self._encoder.row_group_rows
        if full or self._bytes >= self._encoder.row_group_bytes:
            self._write_group()

    def close(self) -> FileMetaData:
        """Write what is left and the footer; return its metadata, statistics included."""
        if self._batches or not self._groups:
            self._write_group()
        return self._out.close()

    def abandon(self) -> None:
        """Give the file up: what the encoder still writes is dropped."""
        self._out.abandon()

    def _write_group(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._batches, self._schema)
        rows = max(1, table.num_rows * self._encoder.row_group_bytes // max(1, self._bytes))
        self._out.write(table, min(rows, 4 * self._encoder.row_group_rows))
        self._batches, self._rows, self._bytes = [], 0, 0
        self._groups += 1


class CsvFile:
    """One CSV file that is being encoded: the header at once, and each batch as it comes."""

    def __init__(self, compression: Compression, schema: pa.Schema, out: StageWriter) -> None:
        from lakeport.writers.files.csv import header
        from lakeport.writers.parquet import Stream

        self._raw = Stream(out)
        self._out: Any = self._raw
        if compression == "gzip":
            self._out = _Gzip(self._raw)
        elif compression == "zstd":
            import pyarrow as pa

            self._out = pa.CompressedOutputStream(pa.PythonFile(self._raw, "w"), compression)
        self._out.write(header(schema.names))

    @property
    def bytes_written(self) -> int:
        """Bytes that have left the encoder; what it still collects is not counted."""
        return self._raw.written

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's schema."""
        from lakeport.writers.files.csv import lines

        for text in lines(batch):
            self._out.write(text)

    def abandon(self) -> None:
        """Give the file up: what the encoder still writes is dropped."""
        self._raw.abandon()

    def close(self) -> None:
        """Write what is left; to finish the stage writer is up to the caller."""
        self._out.close()


class _Gzip:
    """Gzip at level 6, since Arrow's stream only knows the slow level 9."""

    def __init__(self, out: Stream) -> None:
        self._out = out
        self._packer = zlib.compressobj(6, wbits=16 + zlib.MAX_WBITS)

    def write(self, data: Any) -> None:
        self._out.write(self._packer.compress(data))

    def close(self) -> None:
        self._out.write(self._packer.flush())


Encoder = ParquetEncoder | CsvEncoder
"""A file format with its options. Pickled into Spark tasks."""


def _one_of(setting: str, value: str, choices: Any) -> Any:
    if value not in get_args(choices):
        raise ConfigError(f"`{setting}` is {value!r}", f"use {', '.join(get_args(choices))}.")
    return value
