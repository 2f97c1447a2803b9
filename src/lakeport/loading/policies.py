"""What a config says about records and columns, the same for every destination."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from lakeport.model import Batch, Mode
from lakeport.shape import ColumnRules, Shape, apply_header_case, plan_shape
from lakeport.sources.files.declared_columns import column_types
from lakeport.writers.files.writer import number_of_files

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig


@dataclass(frozen=True)
class Policies:
    """What a config says about records, columns and files, the same for every destination.

    Attributes:
        config: the destination's.
    """

    config: DestinationConfig

    @cached_property
    def rules(self) -> ColumnRules:
        """Types, names and columns left out, as the keys `columns`, `rename` and `drop` say."""
        keys = self.config
        return ColumnRules(column_types(keys.columns), keys.rename, frozenset(keys.drop))

    @property
    def internal_prefix(self) -> str | None:
        """The prefix of the internal columns; None where there are none."""
        return self.config.internal_columns_prefix if self.config.internal_columns else None

    @property
    def min_file_bytes(self) -> int:
        """Bytes that a file should have at least."""
        return int(self.config.min_file_size_mb * 2**20)

    def number_of_files(self, size: int, cores: int) -> int:
        """Return how many files so many bytes should become; see `number_of_files`."""
        target = int(self.config.target_file_size_mb * 2**20)
        return number_of_files(size, cores, self.min_file_bytes, target)

    def shape(
        self,
        columns: pa.Schema,
        batch: Batch,
        clock: datetime | None = None,
        source: Collection[str] = (),
    ) -> Shape:
        """How a batch's columns become the table's; see `plan_shape` for the errors.

        Args:
            columns: of the rows that land.
            batch: which they are of.
            clock: when they land.
            source: the columns of which a transform has made them; none where there was none.
        """
        return plan_shape(
            columns,
            clock=clock,
            internal_prefix=self.internal_prefix,
            header_case=self.config.column_header_format,
            constants=tuple(self.config.constant_columns.items()),
            rules=self.rules.left(columns.names, source),
            untyped=batch.untyped,
        )

    def keys_of(self, batch: Batch) -> tuple[str, ...]:
        """The columns to partition by, as the table spells them."""
        case = self.config.column_header_format
        own = self.rules.keys(batch.partition_keys, "to partition by")
        names = (apply_header_case(name, case) for name in self.config.partition_keys + own)
        return tuple(dict.fromkeys(names))

    def rename_keys(self, batch: Batch) -> Batch:
        """Return the batch with its own merge keys, if it is merged by them, as spelled there."""
        if self.config.mode is not Mode.MERGE or self.config.merge_keys or not self.rules:
            return batch
        keys = self.rules.keys(batch.key_properties, "to merge by")
        return replace(batch, key_properties=keys)
