"""The bytes that a split names, and what the readers share whose input declares its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa

from lakeport.model import Scan, Split
from lakeport.sources.content import hashed


def open_split(split: Split, *, in_order: bool = True) -> BinaryIO:
    """Open a split's file, seekable and at its beginning.

    Args:
        split: names the file.
        in_order: it will be read from one place on; otherwise in any order.

    Raises:
        OSError: a local file can't be read.
        DestinationError: the store does not give it.
    """
    if split.storage is not None:
        return hashed(split.storage.open(split.key), in_order=in_order)
    return hashed(Path(split.uri).open("rb", buffering=0), in_order=in_order)


@dataclass(frozen=True, slots=True)
class DeclaredReader:
    """Base of the readers of inputs that declare all that they hold: no record of theirs is bad.

    Attributes:
        schema: the columns to yield.
    """

    schema: pa.Schema

    def tolerant(self) -> Self:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> Self:
        """See `lakeport.model.Reader.extended`."""
        extra = [pa.field(name, type_) for name, type_ in unknown.items()]
        return replace(self, schema=pa.schema([*self.schema, *extra]))


@dataclass(frozen=True, slots=True)
class HeldReader:
    """Gives rows that are in memory; implements `lakeport.model.Reader`.

    Attributes:
        rows: all of them.
    """

    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """See `lakeport.model.Reader.schema`."""
        return self.rows.schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """See `lakeport.model.Reader.read`."""
        yield from self.rows.to_batches()

    def scan(self, split: Split) -> Scan:
        """See `lakeport.model.Reader.scan`."""
        return Scan(self.rows.num_rows)

    def tolerant(self) -> Self:
        """See `lakeport.model.Reader.tolerant`."""
        return self

    def extended(self, unknown: Mapping[str, pa.DataType]) -> Self:
        """See `lakeport.model.Reader.extended`; there is no more to them."""
        return self
