"""Sidecars: what the driver knows of a spooled file's records, in a file beside it.

A sidecar is a row of pairs of little-endian unsigned 64-bit numbers: a record's ordinal within the
file, from 0, and what holds from that record on.

| suffix | second number |
|---|---|
| `.lines` | the record's line number in the input; those behind it follow |
| `.times` | when records were read, in microseconds since 1970 |
"""

from __future__ import annotations

import struct
from pathlib import Path

from lakeport.errors import SourceError
from lakeport.model import Split

LINES = ".lines"
TIMES = ".times"

_PAIR = struct.Struct("<QQ")

pack_pair = _PAIR.pack
"""A record's ordinal, and what holds from it on -> bytes to append to a sidecar."""


def read_sidecar(split: Split, name: str) -> list[tuple[int, int]]:
    """Read a split's sidecar, `split.lines` or `split.times`, as pairs.

    Raises:
        SourceError: it has gone, or is cut off.
        DestinationError: the store does not give it.
    """
    try:
        data = Path(name).read_bytes() if split.storage is None else split.storage.get(name)
        pairs = [(record, value) for record, value in _PAIR.iter_unpack(data or b"")]
    except (OSError, struct.error):
        pairs = []
    if not pairs:
        raise SourceError(
            f"file {name!r} can't be read",
            "it belongs to the spooled input: leave the spool alone during the load.",
        )
    return pairs
