"""What a config says about records and columns, the same for every destination."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakeport.model import Batch, Mode, UnknownPolicy
from lakeport.shape import ColumnRules, HeaderCase, Shape, header_name, plan_shape
from lakeport.sources.files.declared import column_types

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeport.config.base import DestinationConfig


@dataclass(frozen=True)
class Policies:
    """What the configuration says about records and columns, the same for every destination."""

    mode: Mode = Mode.APPEND
    on_bad_record: str = "fail"
    unknown_fields: UnknownPolicy = UnknownPolicy.EVOLVE
    internal_prefix: str | None = "_mage_"
    header_case: HeaderCase | None = None
    partition_keys: tuple[str, ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    target_file_bytes: int = 256 << 20
    min_file_bytes: int = 32 << 20
    merge_keys: tuple[str, ...] = ()
    max_columns: int = 5000
    rules: ColumnRules = field(default_factory=ColumnRules)

    @classmethod
    def of(cls, config: DestinationConfig) -> Policies:
        """The policies of a destination's config."""
        return cls(
            mode=config.mode,
            on_bad_record=config.on_bad_record,
            unknown_fields=config.unknown_fields,
            internal_prefix=config.internal_columns_prefix if config.internal_columns else None,
            header_case=config.column_header_format,
            partition_keys=config.partition_keys,
            constants=tuple(config.constant_columns.items()),
            target_file_bytes=int(config.target_file_size_mb * 2**20),
            min_file_bytes=int(config.min_file_size_mb * 2**20),
            merge_keys=config.merge_keys,
            max_columns=config.max_columns,
            rules=ColumnRules(column_types(config.columns), config.rename, frozenset(config.drop)),
        )

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
            header_case=self.header_case,
            constants=self.constants,
            rules=self.rules.left(columns.names, source),
            untyped=batch.untyped,
        )

    def keys_of(self, batch: Batch) -> tuple[str, ...]:
        """The columns to partition by, as the table spells them."""
        own = self.rules.keys(batch.partition_keys, "to partition by")
        names = (header_name(name, self.header_case) for name in self.partition_keys + own)
        return tuple(dict.fromkeys(names))

    def renamed(self, batch: Batch) -> Batch:
        """A batch whose own keys, where it is merged by them, go by their names in the table."""
        if self.mode is not Mode.MERGE or self.merge_keys or not self.rules:
            return batch
        keys = self.rules.keys(batch.key_properties, "to merge by")
        return replace(batch, key_properties=keys)
