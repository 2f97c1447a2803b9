"""File formats of plain files: open a Parquet or CSV file that encodes record batches.

Memory per file is bounded by one row group; bytes go to the stage writer once a group is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.model import StageWriter
    from lakeport.writers.parquet import EncodedFile

FileType = Literal["parquet", "csv"]
Compression = Literal["snappy", "zstd", "gzip", "none"]

_CSV_SUFFIX = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_CSV_TYPE = {
    "none": "text/csv; charset=utf-8",
    "gzip": "application/gzip",
    "zstd": "application/zstd",
}


@dataclass(frozen=True)
class Encoder:
    """A file format with its options. Pickled into Spark tasks.

    Parquet is version 2.6: timestamps as INT64 microseconds in UTC, statistics for every column.
    CSV has a header row; `lakeport.writers.files.csv` tells how values are written.

    Attributes:
        file_type: the format.
        compression: Parquet's codec, or how a whole CSV file is compressed.
    """

    file_type: FileType = "parquet"
    compression: Compression = "snappy"

    @property
    def has_types(self) -> bool:
        """Whether the format stores the columns' types."""
        return self.file_type == "parquet"

    @property
    def extension(self) -> str:
        """The ending of an object's name: `parquet`, `csv`, `csv.gz` or `csv.zst`."""
        return "parquet" if self.has_types else f"csv{_CSV_SUFFIX[self.compression]}"

    @property
    def content_type(self) -> str:
        """Media type of the objects."""
        if self.has_types:
            return "application/vnd.apache.parquet"
        return _CSV_TYPE[self.compression]

    def open(self, schema: pa.Schema, out: StageWriter) -> EncodedFile:
        """Open a file of these columns that is encoded onto a stage writer."""
        if self.has_types:
            from lakeport.writers.parquet import EncodedParquet

            return EncodedParquet(out, schema, self.compression)
        from lakeport.writers.files.csv import EncodedCsv

        return EncodedCsv(out, schema, self.compression)


def encoder_for(file_type: str, compression: str | None = None) -> Encoder:
    """Return the encoder for a file type; without a compression, Snappy for Parquet, none for CSV.

    Raises:
        ConfigError: an unknown file type, or a compression that the type does not have.

    >>> encoder_for("csv", "gzip").extension
    'csv.gz'
    """
    kind = _one_of("file_type", file_type, FileType)
    if kind == "csv" and compression == "snappy":
        raise ConfigError(
            "`compression` is 'snappy', which CSV files do not have", "use gzip, zstd or none."
        )
    usual = "snappy" if kind == "parquet" else "none"
    return Encoder(kind, _one_of("compression", compression or usual, Compression))


def _one_of(setting: str, value: str, choices: Any) -> Any:
    """Return the value if it is one of a Literal's choices; else raise ConfigError."""
    if value not in get_args(choices):
        raise ConfigError(f"`{setting}` is {value!r}", f"use {', '.join(get_args(choices))}.")
    return value
