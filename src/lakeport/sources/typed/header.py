"""What a file with typed columns tells of itself before its rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from lakeport.errors import SourceError
from lakeport.model import Split
from lakeport.sources.input.unpacking import UnpackLimits

Batches = Callable[[Split, UnpackLimits], Iterator[pa.RecordBatch]]
"""Reads a split's rows as the file has them."""


class Header(NamedTuple):
    """What a file tells. Picklable.

    Attributes:
        schema: its columns, with the types that it has them in.
        parts: about how many bytes each part has that can be read by itself.
        rows: how many rows it has; -1 if it does not tell.
    """

    schema: pa.Schema
    parts: tuple[int, ...]
    rows: int = -1


@contextmanager
def reading(uri: str, format_: str) -> Iterator[None]:
    """Say of which file and format an error is.

    Raises:
        SourceError: in place of what a library raises over a file that is not of its format.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SourceError(
            f"file {uri!r} can't be read as {format_}: {reason}",
            f"check that the file is there, whole, and {format_} indeed.",
        ) from error


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name the file in errors that name its column alone."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"file {name!r}: {error.message}", error.hint) from error
