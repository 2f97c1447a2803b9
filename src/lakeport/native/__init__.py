"""The kernel: parsers of Singer, JSON and CSV, compiled from the Rust in `native/`.

Nothing needs it. Where it can't be loaded (another platform, or `LAKEPORT_NATIVE=off`), Python
gives the same results, slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakeport.native._kernel import CsvParser, Parser


class Kernel(NamedTuple):
    """The compiled module's contents; `_kernel.pyi` describes them."""

    parser: type[Parser]
    run: Callable[[bytes | bytearray, int, int, bytes], tuple[int, int]]
    csv_parser: type[CsvParser]
    csv_end: Callable[[bytes, int, int | None], tuple[int, bool, bool, int]]
    sources: str


def kernel() -> Kernel | None:
    """Return the compiled kernel; None if it can't be loaded, or `LAKEPORT_NATIVE` is `off`."""
    if os.environ.get("LAKEPORT_NATIVE", "").lower() == "off":
        return None
    try:
        from lakeport.native import _kernel
    except ImportError:
        return None
    return Kernel(_kernel.Parser, _kernel.run, _kernel.CsvParser, _kernel.csv_end, _kernel.SOURCES)


def parser() -> str:
    """Return what parses Singer, JSON and CSV here, for reports: `native` or `python`."""
    return "python" if kernel() is None else "native"
