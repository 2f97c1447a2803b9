"""A folder that a stream reads, and streams of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = "id long, name string"


@dataclass(frozen=True)
class Inbox:
    """A folder of JSON lines, each file a micro-batch of its own."""

    folder: Path

    def add(self, ids: Iterable[int], **more: Any) -> None:
        """Make one file appear whole."""
        self.add_rows({"id": i, "name": f"n{i}", **more} for i in ids)

    def add_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Make one file of these rows appear whole."""
        self.folder.mkdir(exist_ok=True)
        lines = [json.dumps(row) for row in rows]
        number = len(list(self.folder.iterdir()))
        part = self.folder.parent / f"{number:04d}.json"
        part.write_text("".join(line + "\n" for line in lines))
        age = time.time() - 3600 + number  # files are read in the order of their times
        os.utime(part, (age, age))
        part.rename(self.folder / part.name)

    def stream(self, columns: str = COLUMNS, where: str = "true") -> Callable[[Any], Any]:
        """What `land_stream` takes: a function of the session."""

        def frame(spark: Any) -> Any:
            files = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
            return files.json(str(self.folder)).where(where)

        return frame


def until(true: Callable[[], bool], seconds: float = 240) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)
