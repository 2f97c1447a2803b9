"""The bytes that a split names, on this machine's disk or in a store."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from lakeport.model import Split
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
