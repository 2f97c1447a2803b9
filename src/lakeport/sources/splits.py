"""The bytes that a split names, on this machine's disk or in a store."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from lakeport.model import Split

__all__ = ["open_split"]


def open_split(split: Split) -> BinaryIO:
    """Open a split's file, seekable and at its beginning.

    Raises:
        OSError: a local file can't be read.
        DestinationError: the store does not give it.
    """
    if split.storage is not None:
        return split.storage.open(split.key)
    return Path(split.uri).open("rb", buffering=0)
