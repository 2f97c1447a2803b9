"""How far compressed input may swell: a bomb ends in an error, and not in a full disk or memory.

What real data reach is allowed by default: gzip makes at most 1030 bytes of one, and CSV files that
hardly change from row to row 200 to 400. So the ratio counts only beyond 1 GiB unpacked, which
every disk has room for. Everything is counted while it is streamed, never taken from a header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeport.errors import SourceError

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig

_FLOOR = 1 << 30


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """What one compressed input may become.

    Attributes:
        ratio: unpacked bytes for each packed one, once the whole is larger than 1 GiB; 0: any.
        size: unpacked bytes; 0: any number.
    """

    ratio: float = 500
    size: int = 1 << 40


DEFAULT = UnpackLimits()
"""The limits of a config that sets none."""


def unpack_limits(config: DestinationConfig) -> UnpackLimits:
    """The limits that a config sets."""
    return UnpackLimits(config.max_unpack_ratio, int(config.max_unpacked_mb * (1 << 20)))


class ExpansionGuard:
    """Counts what goes into a decoder and what comes out.

    Args:
        name: the input, for errors.
        limits: how far it may go.
        packed: bytes that go in, where that is known beforehand.
    """

    def __init__(self, name: str, limits: UnpackLimits, packed: int = 0) -> None:
        self.packed = packed
        self._name = name
        self._limits = limits
        self._unpacked = 0

    def add(self, unpacked: int) -> None:
        """Count bytes that came out; `packed` is counted by the caller.

        Raises:
            SourceError: they are too many.
        """
        self._unpacked += unpacked
        size, ratio = self._limits.size, self._limits.ratio
        if size and self._unpacked > size:
            raise SourceError(
                f"{self._name} unpacks to more than {size / (1 << 20):,.0f} MB",
                "`max_unpacked_mb` is the limit; set it higher, or to 0 for none, if you trust the "
                "file.",
            )
        if ratio and self._unpacked > max(_FLOOR, self.packed * ratio):
            raise SourceError(
                f"{self._name} unpacks to more than {ratio:g} times its size: "
                f"{self.packed:,} bytes have become {self._unpacked:,}",
                "`max_unpack_ratio` is the limit beyond 1 GiB; set it higher, or to 0 for none, if "
                "you trust the file.",
            )
