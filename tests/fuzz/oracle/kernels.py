"""Source kernels over bytes in memory."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

from lakeport.model import Split

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where small temporary files cost nothing."""


FAST_PATHS = ("native", "python")


@contextmanager
def fast_path(name: str) -> Iterator[None]:
    """With the native kernel, or without it."""
    with mock.patch.dict(os.environ, LAKEPORT_NATIVE="on" if name == "native" else "off"):
        yield


@dataclass(frozen=True)
class Held:
    """As much of a storage as readers ask for: one object, in memory."""

    data: bytes

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.data)

    def uri(self, key: str = "") -> str:
        return f"held:/{key}"


def split_of(data: bytes) -> Split:
    """All of these bytes, as a task's input."""
    return Split("held", storage=Held(data), key="held")  # type: ignore[arg-type]


def rows_of(reader: Any, split: Split) -> list[dict[str, Any]]:
    """Everything that a reader yields; batches must be valid and of its schema."""
    rows: list[dict[str, Any]] = []
    for batch in reader.read(split):
        batch.validate(full=True)
        assert batch.schema == reader.schema, "a batch of another schema"
        rows += batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows
    return rows
