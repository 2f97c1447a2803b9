"""How the files of one load are read: what its config and its user's options say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeport.model import UnknownPolicy
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.input.decompression import DEFAULT, UnpackLimits, unpack_limits
from lakeport.sources.json.paths import parse_path

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.sources.options import ReadOptions


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files become rows of one table.

    Attributes:
        csv: how CSV files are written.
        declared: a JSON schema, which declares all columns; or column -> type name, which
            declares those columns and leaves the others to inference.
        columns: column -> type name, beside what is declared so.
        unknown: what to do with columns and fields that are not declared; without a JSON schema,
            for CSV, those that the first file does not have.
        folders: whether folders `name=value` of the files' paths are columns.
        records_path: of JSON, the names of the fields that lead to the records.
        sheet: of Excel workbooks, the sheet's name; the first that shows when empty.
        split_bytes: about how much one task reads.
        max_record_mb: longest JSON record, in MB (2**20 bytes).
        max_columns: most columns of a table.
        limits: what a compressed file may become.
        digest: whether to compute `Batch.digest`.
    """

    csv: CsvOptions = field(default_factory=CsvOptions)
    declared: Mapping[str, Any] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE
    folders: bool = True
    records_path: tuple[str, ...] = ()
    sheet: str = ""
    split_bytes: int = 64 << 20
    max_record_mb: int = 100
    max_columns: int = 5000
    limits: UnpackLimits = DEFAULT
    digest: bool = False

    @classmethod
    def of(cls, config: DestinationConfig, options: ReadOptions) -> FileOptions:
        """What a load's config and options say.

        Raises:
            ConfigError: the path to the records is none.
        """
        return cls(
            csv=options.csv or CsvOptions(),
            declared=options.schema,
            columns=config.columns,
            unknown=config.unknown_fields,
            folders=config.partition_columns == "auto",
            records_path=parse_path(options.records_path),
            sheet=options.sheet,
            max_record_mb=max(1, int(config.max_record_mb)),
            max_columns=config.max_columns,
            limits=unpack_limits(config),
            digest=config.run_id is not None,
        )
