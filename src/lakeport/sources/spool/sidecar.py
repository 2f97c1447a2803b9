"""Sidecars: what the driver knows of a spooled file's records, beside the file."""

from __future__ import annotations

from pathlib import Path

from lakeport.model import Split

__all__ = ["read_sidecar"]


def read_sidecar(split: Split, name: str) -> bytes:
    """Read a split's sidecar, `split.lines` or `split.times`; see `sources.spool.segment`.

    Raises:
        OSError: a local file can't be read.
        DestinationError: the store does not give it.
    """
    if split.storage is not None:
        return split.storage.get(name) or b""
    return Path(name).read_bytes()
