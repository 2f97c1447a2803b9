"""How a Delta table is written: what a destination's configuration says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig


@dataclass(frozen=True)
class DeltaOptions:
    """How a Delta table is written.

    Attributes:
        properties: table properties; of a new table, beside and above the defaults.
        compression: Parquet codec.
        target_file_bytes: a data file is closed when it has reached this size.
        type_widening: the table's columns may get wider types.
        cluster_by: columns by which a new table is clustered.
        once: content that the table has had before is left out.
        roots: prefixes that files of the table may lie in, beside its folder.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    compression: str = "snappy"
    target_file_bytes: int = 256 << 20
    type_widening: bool = False
    cluster_by: tuple[str, ...] = ()
    once: bool = False
    roots: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: DestinationConfig) -> DeltaOptions:
        """What a destination's configuration says."""
        return cls(
            config.table_properties,
            config.compression,
            int(config.target_file_size_mb * 2**20),
            config.type_widening,
            config.cluster_by,
            config.once,
            config.table_roots,
        )
