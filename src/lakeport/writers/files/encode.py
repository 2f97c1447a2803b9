"""File formats of plain files: open a Parquet or CSV file that encodes record batches.

Memory per file is bounded by one row group; bytes go to the stage writer once a group is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.model import StageWriter
    from lakeport.writers.parquet import EncodedFile

_CSV_SUFFIX = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_CSV_TYPE = {
    "none": "text/csv; charset=utf-8",
    "gzip": "application/gzip",
    "zstd": "application/zstd",
}


@dataclass(frozen=True)
class Encoder:
    """File format, Parquet or CSV, and compression of a table's files. Picklable.

    Parquet is version 2.6: timestamps as INT64 microseconds in UTC, statistics for every column.
    CSV has a header row; `lakeport.writers.files.csv` tells how values are written.

    Attributes:
        file_type: `parquet` or `csv`.
        compression: Parquet's codec; for a whole CSV file `gzip`, `zstd` or `none`.
    """

    file_type: str = "parquet"
    compression: str = "snappy"

    @property
    def has_types(self) -> bool:
        """Whether the format stores the columns' types."""
        return self.file_type == "parquet"

    @property
    def extension(self) -> str:
        """The end of an object's name: `parquet`, `csv`, `csv.gz` or `csv.zst`."""
        return "parquet" if self.has_types else f"csv{_CSV_SUFFIX[self.compression]}"

    @property
    def content_type(self) -> str:
        """Media type of the files, such as `application/gzip`."""
        if self.has_types:
            return "application/vnd.apache.parquet"
        return _CSV_TYPE[self.compression]

    def open(self, schema: pa.Schema, out: StageWriter) -> EncodedFile:
        """Open a Parquet or CSV file of these columns, whose bytes go to the stage writer `out`."""
        if self.has_types:
            from lakeport.writers.parquet import EncodedParquet

            return EncodedParquet(out, schema, self.compression)
        from lakeport.writers.files.csv import EncodedCsv

        return EncodedCsv(out, schema, self.compression)


def encoder_for(file_type: str, compression: str | None = None) -> Encoder:
    """Return the encoder for a file type; without a compression, Snappy for Parquet, none for CSV.

    Raises:
        ConfigError: Snappy for CSV.

    >>> encoder_for("csv", "gzip").extension
    'csv.gz'
    """
    if file_type == "csv" and compression == "snappy":
        raise ConfigError(
            "`compression` is 'snappy', which CSV files do not have", "use gzip, zstd or none."
        )
    return Encoder(file_type, compression or ("none" if file_type == "csv" else "snappy"))
